/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph: tensors (logical shape, dtype), nodes (an op with attributes), parameters (a record each),
 * batch fields and losses. It describes the forward computation of one micro-batch; plans are made from it.
 * It knows nothing of devices, memory or training. The gradient of x is named dx. */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include "engine/base/dtype.h"
#include "engine/base/mem.h"
#include "engine/base/names.h"
#include "engine/base/scope.h"
#include "engine/json/json.h"

#define CLT_MAX_IN 16 /* most inputs of a node (concat has this many) */
#define CLT_MAX_OUT 4
#define CLT_MAX_NODE_PARAMS 4
#define CLT_MAX_SAVED 4
#define CLT_MAX_NUMBERS 8  /* most channels with their own mean and std (op cast) */
#define CLT_MAX_LIST 65536 /* most numbers in an attribute that is a list */
#define CLT_MAX_ATTRS 12
#define CLT_MAX_LOSSES 16
#define CLT_MAX_FOLDED 2 /* most nodes folded into one: a residual sum and an activation */

struct clt_op;

typedef enum clt_tensor_class {
    CLT_TC_FIELD,      /* batch field: uploaded by the loader */
    CLT_TC_STEP,       /* the step block, SB_WORDS u32 */
    CLT_TC_CONSTANT,   /* numbers that the graph knows, such as class weights: uploaded with each batch */
    CLT_TC_PARAM,      /* store */
    CLT_TC_PARAM_GRAD, /* store */
    CLT_TC_OPT,        /* store: optimizer state */
    CLT_TC_STATE,      /* store: run state, losses, tables */
    CLT_TC_ACTIVATION, /* plan: output of a node */
    /* plan: forward results other than activations that backward needs (statistics, masks) */
    CLT_TC_SAVED,
    CLT_TC_GRADIENT,  /* plan: gradient of an activation */
    CLT_TC_WORKSPACE, /* plan: lives inside one op; moments live until the norm after it */
    CLT_TC_COUNT
} clt_tensor_class;
const char *clt_tensor_class_name(clt_tensor_class c);

/* The order in which a tensor's elements lie in memory. The tensor's shape is the same in every layout. */
typedef enum clt_layout {
    CLT_LAYOUT_ROW_MAJOR,    /* the last dimension varies fastest */
    CLT_LAYOUT_CHANNELS_LAST /* dimension 1 varies fastest: (N,C,H,W) is stored as (N,H,W,C) */
} clt_layout;

typedef struct clt_tensor {
    int32_t id;
    const char *name;
    clt_dtype dtype;
    clt_shape shape;
    /* Set by pass_layout.c. Until then row-major, unless the maker of the graph sets another layout for a
     * field that it writes or an output that it reads. */
    clt_layout layout;
    clt_tensor_class cls;
    int32_t producer;    /* id of the node that computes it; -1: fields, parameters, gradients */
    int32_t param;       /* PARAM, PARAM_GRAD: index of the parameter; else -1 */
    int32_t view_of;     /* tensor whose bytes it shares (reshape); -1: none */
    bool requires_grad;  /* set for parameters, and by the checker for inputs */
    bool persistent;     /* keeps its content between runs of the plan (the key-value cache of generation) */
    bool is_output;      /* kept readable after the step */
    const float *values; /* CONSTANT: its values, f32; else NULL */
} clt_tensor;

typedef enum clt_init_kind {
    CLT_INIT_ZEROS,
    CLT_INIT_ONES,
    CLT_INIT_NORMAL,          /* N(0, scale) */
    CLT_INIT_UNIFORM,         /* U(-scale, scale) */
    CLT_INIT_KAIMING_UNIFORM, /* U(-b, b), b = sqrt(6/((1+a^2) fan_in)), a = scale; torch's Linear default is
                                 a = sqrt(5) */
    CLT_INIT_KAIMING_NORMAL,  /* N(0, sqrt(2/fan_in)) */
    CLT_INIT_XAVIER_UNIFORM   /* U(-b, b), b = sqrt(6/(fan_in+fan_out)) */
} clt_init_kind;

typedef struct clt_init {
    clt_init_kind kind;
    float scale;
    int64_t fan_in, fan_out; /* 0: from the shape, (out, in) */
} clt_init;

/* Weight-decay group of a parameter. By default only tensors of two or more dimensions decay. */
typedef enum clt_param_group { CLT_GROUP_DECAY, CLT_GROUP_NO_DECAY } clt_param_group;

typedef enum clt_file_longer {
    CLT_LONGER_NO,
    CLT_LONGER_PADDED, /* files may have a few more rows, which are padding */
    CLT_LONGER_ANY
} clt_file_longer;

typedef struct clt_param {
    int32_t index;
    const char *name; /* "fc1.weight": unique */
    clt_shape shape;
    clt_init init;
    bool frozen; /* model.freeze, or the base of adapters: training leaves it as it is */
    /* frozen: the type in which its values are kept; f16 and bf16 only if no ops other than products and
     * embeddings read them */
    clt_dtype kept;
    bool adapter; /* weight of a low-rank adapter (engine/models/lora.h); files of the base model lack it */
    /* A buffer: values that the forward pass of training computes itself, such as running statistics. It has
     * no gradient and no optimizer state; it is saved, and kernels read it like a parameter. */
    bool buffer;
    /* for a buffer: whether it becomes the mean of the ranks' buffers after each step; false: ranks share
     * statistics, so that all compute the same values */
    bool averaged;
    clt_param_group group;
    float lr_scale;
    bool elementwise;      /* updated element by element also where the optimizer updates whole matrices */
    const char *file_name; /* name in checkpoint files */
    /* The last dimension is stored this many places earlier in files. 1: the last two are swapped
     * (transformers' Conv1D); 2 and 3: weights of convolutions, whose channels come last here; 0: as
     * here. */
    int file_transposed;
    /* Rows of the first dimension that checkpoint files hold; 0: all. The rows after them are padding:
     * they start at zero and their gradient is zero. */
    int64_t file_rows;
    int64_t zero_row;            /* row zero_row - 1 of the first dimension starts at zero; 0: none does */
    clt_file_longer file_longer; /* whether files may have more rows; the first ones are read */
    int shard_dim;               /* dimension along which a tensor-parallel run would split it; -1: none */
    int32_t tensor;              /* tensor id of the value */
} clt_param;

/* True if the parameter has a gradient and optimizer state. */
static inline bool clt_param_is_trained(const clt_param *param)
{
    return !param->frozen && !param->buffer;
}

/* Attribute values of a node, in the order of the op's attribute list. */
typedef struct clt_attr {
    bool set; /* given by the user (else the default) */
    int64_t i;
    double f;
    bool b;
    int choice; /* index of an enumerated string */
    const char *s;
    int32_t n_list;
    int64_t list[CLT_MAX_DIMS];
    const double *number; /* a list of n_list numbers; lives as long as the graph */
} clt_attr;

typedef struct clt_node {
    int32_t id;
    /* Stream number of this node's random numbers: its id in the model's graph, which no pass changes, so
     * that passes do not change the numbers. */
    int32_t stream;
    const struct clt_op *op;
    const char *name; /* unique: "fc1" */
    clt_attr attr[CLT_MAX_ATTRS];
    int32_t n_in, in[CLT_MAX_IN];
    int32_t n_out, out[CLT_MAX_OUT];
    int32_t n_param, param[CLT_MAX_NODE_PARAMS]; /* parameter indices */
    int32_t n_saved, saved[CLT_MAX_SAVED];
    int32_t loss;     /* index in losses, -1 */
    int32_t constant; /* tensor of class CONSTANT that its kernels read, -1 */
    int32_t share;    /* node whose parameters this node uses too (tied weights), -1: none */
    /* number, from 1, of the repeated block (such as a transformer layer) that it belongs to; 0: none */
    int32_t block;
    /* Nodes whose work is part of this one (engine/plan/passes/pass_fold.c); NULL after the last. */
    const struct clt_node *folded[CLT_MAX_FOLDED];
} clt_node;

typedef struct clt_loss {
    const char *name; /* "loss" */
    int32_t node;
    float weight;
    /* The loss of a step is the sum over all targets divided by their number, the normaliser. The loader
     * counts it: the elements of field `target_field` in the whole global batch, except, when has_ignore is
     * set, elements that equal ignore_index. */
    const char *target_field;
    bool has_ignore;
    int64_t ignore_index;
    int64_t targets_per_sample;
    /* NULL, or for each of n_classes classes the weight with which its targets count in the normaliser
     * (instead of with 1). Lives as long as the graph. */
    const float *class_weights;
    int64_t n_classes;
} clt_loss;

/* A named, typed part of a batch. shape excludes the batch dimension. */
typedef struct clt_field {
    const char *name;
    clt_dtype dtype;
    clt_shape shape;
    int32_t tensor; /* the graph's tensor, (micro_batch, shape...) */
    /* Values must be in [0, bound); the data is checked before step 0. 0: no limit is known. */
    int64_t bound;
    bool bound_ignores;
    int64_t bound_ignore; /* a value outside of [0, bound) that is allowed if bound_ignores is set */
} clt_field;

typedef struct clt_graph {
    clt_arena *arena;
    int64_t micro_batch;  /* N: samples of one micro-batch */
    clt_tensor **tensors; /* addresses stay valid while the graph grows */
    size_t n_tensors, tensors_capacity;
    clt_node **nodes; /* nodes in topological order: inputs come before their readers */
    size_t n_nodes, nodes_capacity;
    clt_param *params; /* parameters in order of creation */
    size_t n_params, params_capacity;
    clt_field *fields;
    size_t n_fields, fields_capacity;
    clt_loss losses[CLT_MAX_LOSSES];
    int32_t n_losses;
    int32_t step;  /* tensor id of the step block */
    int32_t block; /* the value of clt_node.block for nodes that are added next */
    clt_names node_names, param_names;
} clt_graph;

clt_status clt_graph_create(int64_t micro_batch, clt_graph **out);
void clt_graph_destroy(clt_graph *graph);
CLT_SCOPED_POINTER(clt_graph, clt_graph_destroy)

/* Declares a batch field and returns its tensor of shape (micro_batch, shape...). */
clt_status clt_graph_field(clt_graph *graph, const char *name, clt_dtype dtype, const clt_shape *shape,
                           int32_t *tensor);

clt_node *clt_graph_find(const clt_graph *graph, const char *name);
const clt_param *clt_graph_find_param(const clt_graph *graph, const char *name);
int32_t clt_graph_find_field(const clt_graph *graph, const char *name); /* index in fields, -1 */
clt_tensor *clt_graph_tensor(const clt_graph *graph, int32_t id);
/* The dimensions of a tensor in the order in which they lie in memory. */
clt_shape clt_tensor_memory_shape(const clt_tensor *tensor);
/* Adds a tensor to the graph. Plans call this function, too. */
clt_status clt_graph_new_tensor(clt_graph *graph, const char *name, clt_dtype dtype, const clt_shape *shape,
                                clt_tensor_class cls, int32_t *id);
/* Number of elements of all parameters other than buffers; of the frozen parameters among them; of all
 * buffers. */
int64_t clt_graph_param_elements(const clt_graph *graph);
int64_t clt_graph_frozen_elements(const clt_graph *graph);
int64_t clt_graph_buffer_elements(const clt_graph *graph);
int32_t clt_graph_buffers(const clt_graph *graph); /* number of buffers */
/* True if training updates the node's buffers. False when they are frozen, because then the node computes as
 * in evaluation, and for a node without buffers. */
bool clt_node_updates_buffers(const clt_graph *graph, const clt_node *node);
/* Tokens of a sample, for speeds. If the targets of the first loss are a sequence of classes: the tokens of
 * x if x is a row of whole numbers (a masked language model predicts only a few of them), else the targets.
 * 1 if targets are numbers, such as the values of a regression, or the mask of an image or volume. */
int64_t clt_graph_tokens(const clt_graph *graph);

#endif
