/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation from trained models: language models token by token with kept keys and values, window models
 * byte by byte. */
#ifndef ENGINE_TRAIN_GENERATE_H
#define ENGINE_TRAIN_GENERATE_H

#include "engine/train/run/run_options.h"

typedef struct clt_sampling {
    double temperature; /* logits are divided by it; 0: always the most likely token */
    int top_k;          /* only the k most likely tokens; 0: all */
    double top_p;       /* only the most likely tokens that together have this probability; 1: all */
    uint64_t seed;
} clt_sampling;

/* Draws one of n tokens; `index`: number of the draw, keys the random stream with the seed. A pure function.
 */
int clt_sample(const float *logits, int n, const clt_sampling *sampling, uint64_t index, float *scratch);

typedef struct clt_generate_options {
    const char *checkpoint; /* run, checkpoints or step_N folder */
    const char *tokenizer;  /* folder or file of a vocabulary; NULL: the one that the run was trained with */
    const char *const *overrides; /* "section.key=value" for the config */
    int n_overrides;
    const char *prompt;
    int max_new; /* tokens */
    clt_sampling sampling;
    const char *device_spec;
    uint32_t caps_mask;
    clt_observer observer; /* progress, message */
    /* Called with each piece of text as it comes (bytes, not NUL-terminated); may be NULL. */
    void (*text)(void *context, const char *bytes, size_t count);
    void *context;
} clt_generate_options;

typedef struct clt_generate_result {
    int prompt_tokens, new_tokens;
    double prompt_seconds, new_seconds;
} clt_generate_result;

/* clt_generate: continues the prompt with the model of a checkpoint, which brings its config and tokenizer
 * along (saved_run.h); the training data is not needed. When the model's context is full, its second half is
 * read again and generation goes on. CLT_ECHECKPOINT, CLT_EDATA (tokenizer), CLT_EUNSUPPORTED: the run
 * trained no language model, and what to use instead. */
clt_status clt_generate(const clt_generate_options *options, clt_generate_result *result);

/* A decoder: the same again and again with one model, whose parameters may change in between. It has device
 * objects of its own. */
typedef struct clt_decoder clt_decoder;
struct clt_run;
/* options->config: with model.vocab set; borrowed, as all of the options. The parameters are not set yet.
 * name: of the run, for messages. CLT_EDATA (tokenizer), CLT_EDEVMEM. */
clt_status clt_decoder_create(const clt_run_options *options, const char *name, clt_decoder **out);
void clt_decoder_destroy(clt_decoder *decoder);        /* NULL is fine */
struct clt_run *clt_decoder_run(clt_decoder *decoder); /* whose store has the parameters */
/* Continues options->prompt; of the options counts what is about the text. */
clt_status clt_decoder_generate(clt_decoder *decoder, const clt_generate_options *options,
                                clt_generate_result *result);

/* clt_sample_window: continues `prompt` by n bytes with a window model (text data: the last data.window bytes
 * -> next byte). options->saved: its parameters; options->source: shapes of its data. CLT_ECONFIG when the
 * model is no window model over bytes. */
clt_status clt_sample_window(const clt_run_options *options, const char *prompt, int n,
                             const clt_sampling *sampling, clt_str *out);

/* decode.c, for tests: feeds one token at `position` and reads the logits after it (outputs floats). */
clt_status clt_decode_token(struct clt_run *run, int32_t token, int32_t position, float *logits);

#endif
