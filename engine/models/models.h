/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: graphs built from a config's model section. Each family has one file and is built from ops only;
 * `graph` is the family whose layers the config itself lists. Models know batch fields by name, type and
 * shape, and nothing of data files, devices or training. */
#ifndef ENGINE_MODELS_MODELS_H
#define ENGINE_MODELS_MODELS_H

#include "engine/config/part.h"
#include "engine/graph/graph.h"

#define CLT_MODEL_MAX_FIELDS 8

typedef struct clt_model_field {
    /* "x" for the input, "y" for the target; other fields have the names that the data gives */
    const char *name;
    clt_dtype dtype;
    clt_shape shape;   /* shape of one sample */
    int64_t max_value; /* largest value in an index field, -1 if unknown */
} clt_model_field;

/* The fields that the data offers. An integer field that a layer needs as numbers is converted; x then
 * becomes (x*scale - mean)/std. */
typedef struct clt_model_inputs {
    int n_fields;
    clt_model_field field[CLT_MODEL_MAX_FIELDS];
    double scale, mean, std; /* x becomes (x*scale - mean)/std; the values 1, 0, 1 leave x unchanged */
    /* > 0: each of this many channels of x has its own mean and std */
    int channels;
    double channel_mean[CLT_MAX_NUMBERS], channel_std[CLT_MAX_NUMBERS];
} clt_model_inputs;

/* Declares the fields and adds the layers of `model` (the config's model section) to an empty graph. `doc`
 * (may be NULL) gives positions for messages. CLT_ECONFIG or CLT_ESHAPE: "file:line:column: layer 'fc1'
 * (linear): what is wrong"; all mistakes in names are reported together. After a failure the graph can only
 * be passed to clt_graph_destroy. */
clt_status clt_model_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                           clt_graph *graph);

/* Calls `mark` for the parameters whose names match the pattern (* matches any characters). If none match:
 * CLT_ECONFIG with the name of the key. */
clt_status clt_model_mark(clt_graph *graph, const char *key, const char *pattern,
                          void (*mark)(clt_param *param));

/* Fails because a pattern has no match: CLT_ECONFIG with the names of the key and of the most similar
 * parameter. */
clt_status clt_model_no_parameter(const clt_graph *graph, const char *key, const char *pattern);

/* Properties of a finished graph that training and generation need. */
typedef struct clt_model_info {
    int32_t prediction;       /* tensor: input 0 of the first loss, marked is_output */
    const clt_node *loss;     /* node of the first loss */
    const char *target_field; /* its target */
    int64_t outputs;          /* last dimension of the prediction: classes, or targets */
    int64_t classes;          /* number of classes: the first `classes` outputs; the others are padding */
    int64_t rows_per_sample;  /* predictions per sample: positions of a sequence */
    bool classes_first;       /* the classes are dimension 1 of the prediction, before the positions */
    bool is_classifier;       /* the loss is cross_entropy: correct classes are counted */
} clt_model_info;
clt_status clt_model_describe(const clt_graph *graph, clt_model_info *info);

/* Builds the form of the model for generation, which computes one token per run with the same parameters.
 * Fields, all i32: x (N,1), the newest token; position (N,1), its position; length (N), position + 1.
 * `vocab`: size of the vocabulary. *logits: the tensor (N,1,outputs), which stays readable after the run.
 * *context: length of the longest sequence. CLT_EUNSUPPORTED for families without this form. */
clt_status clt_model_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                  clt_graph *graph, int32_t *logits, int64_t *context);

/* Names of tensors in published weights of a family. */
typedef struct clt_model_published {
    const char *prefix;         /* prefix of the names of all parts except the parts in `outside` */
    const char *const *outside; /* parts without the prefix: the output layer, other heads; ends with NULL */
    /* A tensor that every block has: its name before and after the number of the block. */
    const char *block, *in_block;
    const char *table, *places; /* embeddings of tokens and of positions (NULL: there are none) */
    const char *head;           /* output layer: a copy of `table` in models whose head is tied to it */
    /* names of the output layer's bias, and of the bias's copy in some files; NULL: it has none */
    const char *shift, *shift_copy;
    /* a tensor that exists only if the model has biases; NULL: models always have biases */
    const char *bias;
    const char *bias_keys[2];   /* settings of a model without that tensor, and of a model with it */
    bool transposed;            /* weights of linear layers are (in, out) in files */
    const char *const *adapted; /* linear layers that PEFT adapts by default; ends with NULL */
    /* parts that models with adapters train whole, if they have them; ends with NULL. NULL: none */
    const char *const *trained;
    /* Endings of names, each with its ending in older files; ends with {NULL, NULL}. NULL: all files have the
     * same names. */
    const char *const (*renamed)[2];
    /* endings of the names of tensors that are not needed, since this program computes or ignores them; ends
     * with NULL */
    const char *const *buffers;
} clt_model_published;

/* A model family. Each one has a file that defines this record, and a line in engine/config/families.def. */
typedef struct clt_model_family {
    const clt_config_part *part; /* the family's name, keys and rules in the config */
    const char *noun;            /* for messages: "an mlp" */
    clt_status (*build)(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                        clt_graph *graph);
    /* NULL: the family cannot generate token by token */
    clt_status (*build_decode)(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                               clt_graph *graph, int32_t *logits, int64_t *context);
    /* True if only the training data determines the number of classes or tokens. NULL: never. */
    bool (*width_from_data)(const clt_config *config);
    bool flattens;                        /* x may have any shape: it is used as a flat vector */
    const clt_model_published *published; /* NULL: no published weights are known */
} clt_model_family;

/* lora.c: the size of the low-rank adapter that a model section gives the layer `name`, which must have
 * one. */
typedef struct clt_lora_size {
    int64_t rank;
    double alpha, scale; /* scale: alpha / rank, or alpha / sqrt(rank) with model.lora_rs */
} clt_lora_size;
clt_lora_size clt_lora_size_of(const clt_json *model, const char *name);

/* Endings of the names of adapters' tensors. For linear layers A is (rank, in) and B (out, rank); for an
 * embedding A is (rank, tokens) and B (channels, rank), as in PEFT. */
#define CLT_ADAPTER_A ".lora_A.weight"
#define CLT_ADAPTER_B ".lora_B.weight"
#define CLT_ADAPTER_TABLE_A ".lora_embedding_A"
#define CLT_ADAPTER_TABLE_B ".lora_embedding_B"
/* The length of the layer's name at the beginning of the tensor name `tensor`; 0: it is not an adapter's
 * tensor. *of_a: it is an A. */
size_t clt_adapter_layer(const char *tensor, bool *of_a);
/* True for the tensor of an adapter that starts at zero: B, or A of an embedding. */
bool clt_adapter_starts_zero(const char *tensor);

/* True for a tensor of a part that is trained whole while other layers have adapters: a part in
 * model.lora_modules_to_save, or a new head of the family. `tensor`: its name without the family's prefix. */
bool clt_lora_trains_whole(const clt_json *model, const char *tensor);

const clt_model_family *const *clt_model_families(int *count);
/* The prefix of a layer's or tensor's name in published weights: the family's, or "". */
const char *clt_model_prefix(const clt_model_published *published, const char *name);
/* The family that a config names; the config must have been checked. */
const clt_model_family *clt_model_family_of(const clt_config *config);

#endif
