/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation from trained models: language models token by token with a key-value cache, window models byte
 * by byte. */
#ifndef ENGINE_TRAIN_GENERATE_H
#define ENGINE_TRAIN_GENERATE_H

#include "engine/train/job/run_options.h"

typedef struct clt_sampling {
    double temperature; /* logits are divided by it; 0: always the most likely token */
    int top_k;          /* draw from the k most likely tokens; 0: from all */
    double top_p;       /* draw from the most likely tokens whose probabilities add up to it; 1: from all */
    uint64_t seed;
} clt_sampling;

/* Draws one of n tokens. A pure function: the random number depends on the seed and on `index`, the number of
 * the draw. */
int clt_sample(const float *logits, int n, const clt_sampling *sampling, uint64_t index, float *scratch);

typedef struct clt_generate_options {
    const char *checkpoint;       /* run, checkpoints or step_N folder */
    const char *tokenizer;        /* folder or file of a vocabulary; NULL: the one of the run */
    const char *const *overrides; /* "section.key=value" for the config */
    int n_overrides;
    const char *prompt;
    int max_new;         /* tokens */
    bool ignore_end;     /* go on after the end-of-text token; without it the text ends there */
    bool special_tokens; /* names of special tokens in the prompt become these tokens */
    clt_sampling sampling;
    const char *device_spec;
    uint32_t caps_mask;
    clt_observer observer; /* progress, message */
    /* Called with each piece of text when it is generated (bytes, not NUL-terminated); may be NULL. */
    void (*text)(void *context, const char *bytes, size_t count);
    /* A gpt: called for each token of the prompt, the last ones that fit into the context, and for each generated one
     * but the last: the logits of the token that follows, `count` of them. May be NULL. */
    clt_status (*logits)(void *context, const float *logits, int count);
    void *context;
} clt_generate_options;

typedef struct clt_generate_result {
    int prompt_tokens, new_tokens; /* new_tokens: with the end-of-text token, which is not printed */
    bool ended;                    /* by the end-of-text token */
    double prompt_seconds, new_seconds;
} clt_generate_result;

/* clt_generate: continues the prompt with the model of a checkpoint. Config and tokenizer are those of the
 * checkpoint (saved_run.h); the training data is not needed. When the context is full, its newer half is fed
 * into the model again and generation goes on. CLT_ECHECKPOINT, CLT_EDATA (tokenizer), CLT_EUNSUPPORTED: the
 * run trained no language model; the message says what to use instead. */
clt_status clt_generate(const clt_generate_options *options, clt_generate_result *result);

/* A decoder generates any number of texts with one model, whose parameters may be changed between texts. It
 * has its own device objects. */
typedef struct clt_decoder clt_decoder;
struct clt_run;
/* options->config: must have model.vocab; options are borrowed. The parameters are not yet set. name: of the
 * run, for messages. CLT_EDATA (tokenizer), CLT_EDEVMEM. */
clt_status clt_decoder_create(const clt_run_options *options, const char *name, clt_decoder **out);
void clt_decoder_destroy(clt_decoder *decoder);        /* NULL is fine */
struct clt_run *clt_decoder_run(clt_decoder *decoder); /* the run whose store holds the parameters */
/* Continues options->prompt. Options that choose a model are ignored. */
clt_status clt_decoder_generate(clt_decoder *decoder, const clt_generate_options *options,
                                clt_generate_result *result);

/* clt_sample_window: continues `prompt` by n bytes with a window model (text data: the last data.window bytes
 * -> next byte). options->saved: holds the parameters; options->source: shapes of the run's data. CLT_ECONFIG
 * when the model is no window model over bytes. */
clt_status clt_sample_window(const clt_run_options *options, const char *prompt, int n,
                             const clt_sampling *sampling, clt_str *out);

/* decode.c, for tests: feeds one token at `position` and reads the logits that follow (as many as the
 * outputs). */
clt_status clt_decode_token(struct clt_run *run, int32_t token, int32_t position, float *logits);

#endif
