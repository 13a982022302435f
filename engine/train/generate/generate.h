/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation from trained models: language models token by token with a key-value cache, window models byte
 * by byte. */
#ifndef ENGINE_TRAIN_GENERATE_GENERATE_H
#define ENGINE_TRAIN_GENERATE_GENERATE_H

#include "engine/train/job/run_options.h"

typedef struct clt_sampling {
    double temperature; /* logits are divided by it; 0: always the most likely token */
    int top_k;          /* draw from the k most likely tokens; 0: from all */
    double top_p;       /* draw from the most likely tokens with probabilities that sum to top_p; 1: all */
    uint64_t seed;
    uint32_t sample; /* number of the text, from 0: texts with the same seed have different draws */
} clt_sampling;

/* Draws one of n tokens. A pure function: the random number depends only on the seed, the number of the text
 * and `index`, the number of the draw. scratch: n floats. */
int clt_sample(const float *logits, int n, const clt_sampling *sampling, uint64_t index, float *scratch);

typedef struct clt_generate_result {
    int prompt_tokens, new_tokens; /* new_tokens includes the end-of-text token, which is not printed */
    bool ended;                    /* the end-of-text token, or the answer's end marker, ended the text */
    double prompt_seconds, new_seconds;
} clt_generate_result;

typedef struct clt_generate_options {
    const char *checkpoint;       /* folder: a run, checkpoints, step_N, or written by save_pretrained */
    const char *tokenizer;        /* folder or file of a vocabulary; NULL: the one of the run */
    const char *adapter;          /* folder of PEFT with adapters for the run's model; NULL: none */
    const char *const *overrides; /* "section.key=value" for the config */
    int n_overrides;
    const char *prompt;
    /* The prompt is the user's turn of a chat in the run's chat template, and the generated text is the
     * answer, which ends at the template's end marker. */
    bool chat;
    /* The name of that template, for a decoder; clt_generate takes it from the run. */
    const char *chat_template;
    int max_new;         /* tokens */
    int samples;         /* texts that continue the prompt, from sampling.sample on; 0: one */
    bool ignore_end;     /* continue after the end-of-text token instead of stopping there */
    bool special_tokens; /* names of special tokens in the prompt are encoded as these tokens */
    clt_sampling sampling;
    const char *device_spec;
    uint32_t caps_mask;
    clt_observer observer; /* progress, message */
    /* Called with each piece of text when it is generated (bytes, not NUL-terminated); may be NULL. */
    void (*text)(void *context, const char *bytes, size_t count);
    /* Called when a text is complete, with its own numbers; may be NULL. */
    void (*done)(void *context, const clt_generate_result *sample);
    /* Only for a language model: called with the `count` logits of the token that follows each token of the
     * prompt (of its last tokens, if it does not fit into the context) and each generated token but the last.
     * May be NULL. */
    clt_status (*logits)(void *context, const float *logits, int count);
    void *context;
} clt_generate_options;

/* Continues the prompt with the model of a checkpoint or of a folder of transformers. Config and tokenizer
 * come from there (saved_run.h, start.h); the training data is not needed. When the context is full, its
 * newer half is fed into the model again and generation continues. *result describes the last text.
 * CLT_ECHECKPOINT; CLT_EDATA (tokenizer); CLT_EUNSUPPORTED if the run trained no language model: the message
 * says what to use instead. */
clt_status clt_generate(const clt_generate_options *options, clt_generate_result *result);

/* A decoder generates any number of texts with one model, whose parameters may be changed between texts. It
 * has its own device objects. */
typedef struct clt_decoder clt_decoder;
struct clt_run;
struct clt_saved_run;
/* Sets model.vocab of a saved language model's config from its embedding table, because the training data may
 * no longer exist. CLT_ECHECKPOINT: it has no such table. */
clt_status clt_decoder_find_vocab(struct clt_saved_run *saved);
/* options: borrowed; their config must have model.vocab. The caller sets the parameters afterwards. name:
 * the run's name, for messages. CLT_EDATA (tokenizer), CLT_EDEVMEM. */
clt_status clt_decoder_create(const clt_run_options *options, const char *name, clt_decoder **out);
void clt_decoder_destroy(clt_decoder *decoder);
CLT_SCOPED_POINTER(clt_decoder, clt_decoder_destroy)   /* NULL is fine */
struct clt_run *clt_decoder_run(clt_decoder *decoder); /* the run whose store holds the parameters */
/* Continues options->prompt. Options that choose a model are ignored. */
clt_status clt_decoder_generate(clt_decoder *decoder, const clt_generate_options *options,
                                clt_generate_result *result);

/* Continues `prompt` `samples` times by n bytes with a window model, which predicts the next byte from the
 * last data.window bytes. out: one text after the other. options->saved: holds the parameters;
 * options->source: shapes of the run's data. CLT_ECONFIG if the model is not a window model over bytes. */
clt_status clt_sample_window(const clt_run_options *options, const char *prompt, int samples, int n,
                             const clt_sampling *sampling, clt_str *out);

/* decode.c, for tests: feeds one token at `position` and reads the logits of the next one (one for each
 * output of the model). */
clt_status clt_decode_token(struct clt_run *run, int32_t token, int32_t position, float *logits);

#endif
