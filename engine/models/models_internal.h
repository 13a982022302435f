/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the model families share: reading the model section, fields, conversion of integer inputs,
 * positions in messages. */
#ifndef ENGINE_MODELS_MODELS_INTERNAL_H
#define ENGINE_MODELS_MODELS_INTERNAL_H

#include "engine/models/models.h"
#include "engine/ops/op.h"

/* The low-rank adapters of a model under construction (lora.h). */
#define CLT_LORA_SEEN 64
typedef struct clt_lora {
    int64_t rank; /* 0: no adapters */
    double dropout;
    clt_dtype base; /* storage of frozen weights */
    struct {
        const char *name;
        bool used; /* true if the target names a layer */
    } * targets;
    /* for each entry of model.lora_rank_pattern and model.lora_alpha_pattern: it names a layer */
    bool *ranks_used, *alphas_used;
    bool *trained_used; /* for each entry of model.lora_modules_to_save: it names a part */
    int n_targets, n_seen;
    const char *seen[CLT_LORA_SEEN]; /* last parts of linear layers' names */
} clt_lora;

/* The graph under construction. */
typedef struct clt_model_builder {
    const clt_json_doc *doc; /* may be NULL */
    const clt_json *model;   /* the config's model section */
    const clt_model_inputs *inputs;
    clt_graph *graph;
    clt_lora lora;
    struct {
        int32_t from, to;
    } cast[CLT_MODEL_MAX_FIELDS * 4]; /* conversions that were added already */
    int n_casts;
} clt_model_builder;

/* Appends "file:line:column: " for the position of a value; nothing without a document. */
void clt_model_position(const clt_json_doc *doc, const clt_json *value, clt_str *out);
/* Puts the position of `value` before the thread's message, unless the message begins with the file's name
 * already. Returns `status`. */
clt_status clt_model_at(const clt_json_doc *doc, const clt_json *value, clt_status status);
/* If input `index` of `op` needs numbers and *tensor holds integers, *tensor becomes its conversion to
 * f32. */
clt_status clt_model_number(clt_model_builder *b, const struct clt_op *op, int index, bool mixed,
                            int32_t *tensor);

/* Functions that read keys of the model section by type. For an absent or null key *out keeps its default.
 * CLT_ECONFIG: "model.<key>: must be ..." with the position. */
clt_status clt_model_key_fail(const clt_model_builder *b, const char *key, const char *why);
clt_status clt_model_read_int(const clt_model_builder *b, const char *key, int64_t least, int64_t *out);
/* Reads a number in [0, 1). */
clt_status clt_model_read_share(const clt_model_builder *b, const char *key, double *out);
clt_status clt_model_read_number(const clt_model_builder *b, const char *key, double least, double most,
                                 double *out);
/* Reads model.class_weights, one number for each of `classes` classes; if the list is empty, *out keeps its
 * value. `noun`: such as "a resnet". */
clt_status clt_model_read_class_weights(const clt_model_builder *b, const char *noun, int64_t classes,
                                        const double **out);
/* The key model.class_weights of a config; losses: text about the effect of weights on the loss. */
#define CLT_MODEL_CLASS_WEIGHTS(losses)                                                                      \
    CLT_KEY_FLOATS("model.class_weights", 0, false, 1e6, "[]",                                               \
                   "a list, one number for each class: its weight in the loss, for instance more for rare "  \
                   "ones; " losses)
#define CLT_MODEL_ENTROPY_WEIGHTS                                                                            \
    "the cross entropy is divided by the sum of the targets' weights, as PyTorch's is; []: all are 1"
clt_status clt_model_read_bool(const clt_model_builder *b, const char *key, bool *out);
/* Reads one of the words in `choices` ("a|b|c"). */
clt_status clt_model_read_word(const clt_model_builder *b, const char *key, const char *choices,
                               const char **out);

/* The published names of a model section's family; NULL: there are none. */
const clt_model_published *clt_model_published_of(const clt_json *model);

/* Index of a field in inputs->field; -1: there is none. */
int clt_model_find_field(const clt_model_inputs *inputs, const char *name);

/* Finds the inputs that a loss has after predictions and targets if the data mixes samples (data.mixup,
 * data.cutmix): the fields y2 and share, whose indices `field` receives. *count: 2, or 0 if nothing is
 * mixed. CLT_ECONFIG for a loss without these inputs. */
clt_status clt_model_mixed_fields(const clt_model_inputs *inputs, const clt_op *loss, int field[2],
                                  int *count);

/* freeze.c: freezes the parameters that model.freeze names, a pattern or a list of patterns. CLT_ECONFIG
 * when a pattern matches no parameter, or when no trainable parameter is left. */
clt_status clt_model_freeze(const clt_json *model, const clt_json_doc *doc, clt_graph *graph);

#endif
