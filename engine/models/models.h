/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: graphs built from a config's model section. One file per family, built only from ops; `graph` is
 * the family whose layers the config lists itself. It knows batch fields by name, type and shape; it knows
 * nothing of data files, devices or training. */
#ifndef ENGINE_MODELS_MODELS_H
#define ENGINE_MODELS_MODELS_H

#include "engine/config/part.h"
#include "engine/graph/graph.h"

#define CLT_MODEL_MAX_FIELDS 8

typedef struct clt_model_field {
    const char *name; /* "x": input, "y": target; others by the data's own names */
    clt_dtype dtype;
    clt_shape shape;   /* of one sample */
    int64_t max_value; /* largest value of an index field, -1 unknown */
} clt_model_field;

/* What the data offers. Integer fields that a layer needs as numbers are converted: x becomes (x*scale -
 * mean)/std. */
typedef struct clt_model_inputs {
    int n_fields;
    clt_model_field field[CLT_MODEL_MAX_FIELDS];
    float scale, mean, std; /* of x; 1, 0, 1 leave it as it is */
} clt_model_inputs;

/* clt_model_build: declares the fields and adds the layers of `model` (the config's model section) to an
 * empty graph. `doc` (may be NULL) gives positions. CLT_ECONFIG or CLT_ESHAPE: "file:line:column: layer 'fc1'
 * (linear): what is wrong"; mistakes in names are reported all at once. On failure the graph is only good for
 * clt_graph_destroy. */
clt_status clt_model_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                           clt_graph *graph);

/* What training and generation want to know of a finished graph. */
typedef struct clt_model_info {
    int32_t prediction;       /* tensor: input 0 of the first loss, marked is_output */
    const clt_node *loss;     /* node of the first loss */
    const char *target_field; /* its target */
    int64_t outputs;          /* last dimension of the prediction: classes, or targets */
    int64_t classes;          /* classes without padding: the first `classes` of the outputs */
    int64_t rows_per_sample;  /* predictions per sample */
    bool is_classifier;       /* cross_entropy: counts correct classes */
} clt_model_info;
clt_status clt_model_describe(const clt_graph *graph, clt_model_info *info);

/* clt_model_build_decode: the form that generates one token a run, over the same parameters. Fields: x (N,1),
 * position (N,1) and length (N), all i32: the newest token, its place, and place + 1. *logits: (N,1,outputs),
 * kept after the run; *context: most places; vocab: tokens the model knows. CLT_EUNSUPPORTED for families
 * that have no such form. */
clt_status clt_model_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                  clt_graph *graph, int32_t *logits, int64_t *context);

/* Names in the weights that others publish for a family. */
typedef struct clt_model_published {
    const char *prefix; /* before every name in some of the files */
    const char *block,
        *in_block; /* around the number of a block, in the name of a tensor that each of them has */
    const char *table, *places; /* embeddings of tokens and of positions */
    const char *head;           /* the table's copy in models whose head is tied */
    const char *bias;           /* there if the model has biases */
    const char *const *buffers; /* endings of what the model makes itself, ends with NULL */
} clt_model_published;

/* A family: one file, and a line in engine/config/families.def. */
typedef struct clt_model_family {
    const clt_config_part *part; /* what the config knows of it: name, keys, rules */
    const char *noun;            /* "an mlp" */
    clt_status (*build)(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                        clt_graph *graph);
    /* NULL: the family does not generate token by token */
    clt_status (*build_decode)(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                               clt_graph *graph, int32_t *logits, int64_t *context);
    /* Whether only the training data says how many classes or tokens there are. NULL: it never decides. */
    bool (*width_from_data)(const clt_config *config);
    bool flattens;                        /* x may have any shape with as many elements */
    const clt_model_published *published; /* NULL: nobody publishes any */
} clt_model_family;

const clt_model_family *const *clt_model_families(int *count);
/* The family that a checked config chose. */
const clt_model_family *clt_model_family_of(const clt_config *config);

#endif
