/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the families of language models share: their keys, the fields x (tokens) and y (the token
 * that follows each; with packed rows also document and position), the token embedding and the output layer
 * with rows that pad the vocabulary. They also share the form for generation, which computes one token per
 * run with cached keys and values. A family adds its blocks. */
#ifndef ENGINE_MODELS_LANGUAGE_H
#define ENGINE_MODELS_LANGUAGE_H

#include "engine/models/lora.h"
#include "engine/ops/node.h"

#define CLT_LANGUAGE_INIT_STD 0.02
#define CLT_LANGUAGE_NAME 96 /* size of a layer's name, in bytes */

typedef struct clt_language {
    clt_model_builder b;
    const char *noun; /* "a gpt" */
    const clt_model_field *x, *y;
    int64_t layers, heads, channels, context, vocab, pad_to;
    int64_t rows;    /* rows of the token embedding: the size of the vocabulary, padded */
    int64_t padding; /* id of the token that pads sequences; -1: none */
    double dropout;
    bool tied;
    bool decode; /* build the form for generation */
    bool packed; /* training: rows hold several documents, which a field of the data distinguishes */
    /* Tensors of fields: position with decode or packed, length with decode, document with packed. */
    int32_t position, length, document;
    int32_t at; /* output of the layer that was added last */
} clt_language;

/* Adds a layer that reads `inputs`; its first output becomes m->at. share: NULL, or the layer whose
 * parameters it uses. */
clt_status clt_language_add(clt_language *m, const char *op, const char *name, const char *share,
                            const int32_t *inputs, int n, const clt_attr_given *attrs, clt_node **node);
/* Adds a layer that reads the output of the layer before it. */
clt_status clt_language_next(clt_language *m, const char *op, const char *name, const clt_attr_given *attrs);
/* Adds a linear layer that reads the output of the layer before it, with its low-rank adapter if it has
 * one. */
clt_status clt_language_linear(clt_language *m, const char *name, const clt_attr_given *attrs,
                               clt_node **node);
/* Adds the tensor `before` to the output of the layer that was added last: the end of a branch. */
clt_status clt_language_residual(clt_language *m, const char *name, int32_t before);
/* Adds a dropout layer if m->dropout is above 0. */
clt_status clt_language_dropout(clt_language *m, const char *name);
/* Appends `tensor`, the keys or values of one token, to the cache of earlier runs, which becomes m->at. */
clt_status clt_language_cache(clt_language *m, const char *name, int32_t tensor);

/* Reads layers, heads, channels, context, vocab, vocab_pad, tied, dropout; sets padding to -1. */
clt_status clt_language_read(clt_language *m);
/* Takes the size of the vocabulary from the data, if the config leaves it open, and sets m->rows. */
clt_status clt_language_count(clt_language *m);
/* Adds the embedding of the tokens, (rows, channels), as layer `name`. */
clt_status clt_language_embed(clt_language *m, const char *name, double init_std);
/* Adds logits over the padded vocabulary as layer `name`. table: the embedding layer, whose parameter a tied
 * head uses. */
clt_status clt_language_logits(clt_language *m, const char *name, const char *table, double init_std);
/* Adds the loss of the logits m->at against the field y, whose negative targets do not count. */
clt_status clt_language_loss(clt_language *m, const char *name);
/* Adds logits and loss; in the form for generation only the logits. */
clt_status clt_language_head(clt_language *m, const char *name, const char *table, double init_std);

/* Builds the form for training: reads the keys with `read`, adds the fields x and y, then the layers with
 * `layers`. */
clt_status clt_language_build(clt_language *m, clt_status (*read)(clt_language *),
                              clt_status (*layers)(clt_language *));
/* Builds the form for generation (clt_model_build_decode). */
clt_status clt_language_build_decode(clt_language *m, clt_status (*read)(clt_language *),
                                     clt_status (*layers)(clt_language *), int64_t vocab, int32_t *logits,
                                     int64_t *context);

/* Declares that the rows of a node's parameter 0 that pad the vocabulary stay zero and are not in files. */
void clt_language_padded(clt_language *m, const clt_node *node);

/* Fails because the data lacks a field or fact that the model needs. */
clt_status clt_language_type_fail(const clt_language *m, const char *what);

/* Adds the rules for the keys below. noun: "a gpt". */
void clt_language_check(clt_config_rules *rules, const char *noun);
/* True if the size of the vocabulary comes from the data: with text and shards the tokenizer decides it. */
bool clt_language_width_from_data(const clt_config *config);

#define CLT_LANGUAGE_KEYS(dropout_help)                                                                      \
    CLT_KEY_BLOCKS, CLT_KEY_INT("model.heads", 0, 65536, "0", "", "attention heads of each block"),          \
        CLT_KEY_INT("model.channels", 0, CLT_KEY_WIDE, "0", "",                                              \
                    "width of the residual stream, a multiple of model.heads"),                              \
        CLT_KEY_INT("model.vocab", 0, CLT_KEY_WIDE, "0", "",                                                 \
                    "number of different tokens; 0: from the data"),                                         \
        CLT_KEY_INT("model.vocab_pad", 1, 65536, "64", "",                                                   \
                    "the rows of the token embedding are rounded up to a multiple of this; the padding is "  \
                    "never used"),                                                                           \
        CLT_KEY_BOOL("model.tied", "true", "the output layer shares the token embedding"),                   \
        CLT_KEY_FLOAT_OPEN("model.dropout", 0, false, 1, true, "0", "", dropout_help),                       \
        CLT_KEY_INTS("model.stop_tokens", 0, CLT_KEY_WIDE, "[]",                                             \
                     "ids of tokens at which generated texts end, besides the tokenizer's end of text"),     \
        CLT_LORA_KEYS

#endif
