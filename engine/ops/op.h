/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of an op. One op = op_<name>.c (attributes, shapes, saved tensors, variants, commands) +
 * op_<name>_ref.c (reference of both directions in double precision, and test cases) + a line in ops.def +
 * its kernels. Configs, plans, the checker, benchmarks and profiles all read this record. An op knows the
 * graph and the emitter; it knows nothing of plans, stores or training. */
#ifndef ENGINE_OPS_OP_H
#define ENGINE_OPS_OP_H

#include "cl/gemm/gemm.h"
#include "cl/tune/family.h"
#include "engine/graph/graph.h"

typedef struct clt_infer clt_infer; /* infer.h */

typedef enum clt_attr_type {
    CLT_ATTR_INT,
    CLT_ATTR_FLOAT,
    CLT_ATTR_BOOL,
    CLT_ATTR_CHOICE, /* one of `choices` ("a|b|c") */
    CLT_ATTR_STRING,
    CLT_ATTR_INTS,  /* list of up to CLT_MAX_DIMS integers */
    CLT_ATTR_FLOATS /* a number, or a list of up to CLT_MAX_LIST; f is the first of them */
} clt_attr_type;

typedef struct clt_attr_spec {
    const char *name;
    clt_attr_type type;
    bool required;
    double default_value, min, max; /* BOOL: 0 or 1; CHOICE: index; INTS, FLOATS: each element */
    const char *choices;            /* CHOICE */
    const char *help;               /* help text, with the unit if there is one */
    bool no_default;                /* not setting it has a meaning, which `help` explains */
} clt_attr_spec;

/* Rows of a table of attributes; kind: INT, FLOAT and so on; more members may follow. Two limits of 0 mean
 * that there is no limit. OPEN: an attribute without a default. */
#define CLT_SPEC(kind, word, text, ...)                                                                      \
    {                                                                                                        \
        .name = word, .type = CLT_ATTR_##kind, .help = text, __VA_ARGS__                                     \
    }
#define CLT_SPEC_IN(kind, word, value, least, most, text)                                                    \
    CLT_SPEC(kind, word, text, .default_value = value, .min = least, .max = most)
#define CLT_SPEC_INT(word, value, least, most, text) CLT_SPEC_IN(INT, word, value, least, most, text)
#define CLT_SPEC_FLOAT(word, value, least, most, text) CLT_SPEC_IN(FLOAT, word, value, least, most, text)
#define CLT_SPEC_FLOATS(word, value, least, most, text) CLT_SPEC_IN(FLOATS, word, value, least, most, text)
#define CLT_SPEC_BOOL(word, value, text) CLT_SPEC_IN(BOOL, word, value, 0, 1, text)
#define CLT_SPEC_CHOICE(word, value, words, text)                                                            \
    CLT_SPEC(CHOICE, word, text, .default_value = value, .choices = words)
#define CLT_SPEC_OPEN(kind, word, least, most, text)                                                         \
    CLT_SPEC(kind, word, text, .min = least, .max = most, .no_default = true)
#define CLT_SPEC_NEEDED(kind, word, least, most, text)                                                       \
    CLT_SPEC(kind, word, text, .min = least, .max = most, .required = true)

/* The data (fields x and y) for which the example of an op is written. */
typedef enum clt_doc_data {
    CLT_DOC_IMAGES,  /* x (28,28) u8, y a class below 10 */
    CLT_DOC_TEXT,    /* x and y (64) i32 below 256 */
    CLT_DOC_WORDS,   /* x (64) i32 below 256, y a class below 10 */
    CLT_DOC_NUMBERS, /* x (8) f32, y (1) f32 */
    CLT_DOC_MASKS,   /* x (1,8,8) f32, y (8,8) u8 below 3 */
    CLT_DOC_DECODE   /* x (1) i32 below 256, position (1) i32, y a class below 10 */
} clt_doc_data;

/* The text that `cltrain ops` prints for an op after its summary and its attributes. */
typedef struct clt_op_doc {
    const char *text;    /* its use, in sentences */
    const char *inputs;  /* a line for each: name, shape, types */
    const char *output;  /* NULL: none (a loss) */
    const char *params;  /* learned parameters with shapes, NULL: none */
    const char *example; /* a layer as in model.layers; NULL: not for configs */
    /* Layers that make a complete model of the example, put before and after it. before NULL: none; after
     * NULL: a linear layer and cross_entropy. */
    const char *before, *after;
    clt_doc_data data;
} clt_op_doc;

/* Work of neighbouring nodes that is fused into this node: into a GEMM (engine/plan/passes/fuse_gemm.c), or
 * a residual sum into other ops (fuse_residual.c). Members are tensor ids; -1: none. */
typedef struct clt_epilogue {
    ocl_activation activation;
    int32_t pre;      /* forward: also store the input of the activation here */
    int32_t residual; /* forward: added to the output of the activation */
    /* backward: the input of the fused `activation`; din[0] is then the gradient of that input */
    int32_t dact;
} clt_epilogue;
#define CLT_NO_EPILOGUE ((clt_epilogue){OCL_ACT_NONE, -1, -1, -1})

/* The arguments for emitting one node's work. Tensors are ids in the plan's table; -1: absent. */
typedef struct clt_call {
    const clt_graph *graph; /* tensors' shapes and dtypes: clt_graph_tensor(graph, id) */
    const clt_node *node;
    const ocl_device_desc *device;
    bool training;
    /* forward also updates the node's buffers; set once for each micro-batch */
    bool update_buffers;
    /* tf32: f32 products may round their operands to 10 bits of mantissa (config key precision.matmul) */
    bool tf32;
    bool again; /* forward is repeated for backward, see CLT_OP_REPEATS_BY_SAVED */
    /* If `ranks` is more than 1, statistics of a micro-batch are taken over the samples of all these ranks
     * (engine/ops/exchange.h). At least `present` of these ranks have a micro-batch. absent: this rank has
     * none; emit only its contribution to the exchange. */
    int32_t ranks, present;
    bool absent;
    int32_t in[CLT_MAX_IN], out[CLT_MAX_OUT], param[CLT_MAX_NODE_PARAMS], saved[CLT_MAX_SAVED];
    /* Forward: if not NULL, a later work normalises output 0 by the moments of its channels, taken over all
     * other dimensions (the rows of a channels-last tensor). A variant that can compute them while it stores
     * the output fills this in; other variants set 0 blocks. */
    ocl_moments *moments;
    /* forward: the moments of input 0 if the work that wrote it computed them, else NULL */
    const ocl_moments *moments_of_input;
    int32_t step;     /* step block (SB_WORDS u32) */
    int32_t constant; /* the node's constant (clt_infer_constant), -1 */
    clt_epilogue epilogue;
    /* backward */
    int32_t dout[CLT_MAX_OUT];           /* gradient of each output; -1: no gradient arrives */
    int32_t din[CLT_MAX_IN];             /* wanted gradient of each input; -1: not wanted */
    bool din_accumulate[CLT_MAX_IN];     /* add instead of write */
    int32_t dparam[CLT_MAX_NODE_PARAMS]; /* wanted gradient of each parameter; -1 */
    bool dparam_accumulate[CLT_MAX_NODE_PARAMS];
    /* Losses: forward adds to the node's record (4 floats, engine/ops/loss/loss.h) in the tensor `losses`. */
    int32_t losses;
    bool record;        /* backward also writes the loss record, since the forward work was dropped */
    int32_t loss_scale; /* backward: tensor whose element 0 is the f32 loss scale; -1: scale 1 */
} clt_call;

/* Double-precision reference. Arrays are dense, row-major; integer inputs are given as doubles. */
typedef struct clt_ref_tensor {
    clt_shape shape;
    clt_dtype dtype;
    double *data;
} clt_ref_tensor;

typedef struct clt_ref_call {
    const clt_node *node; /* attributes; shapes are in the tensors */
    int n_in, n_out, n_param, n_saved;
    clt_ref_tensor in[CLT_MAX_IN], out[CLT_MAX_OUT], param[CLT_MAX_NODE_PARAMS], saved[CLT_MAX_SAVED];
    /* backward: dout is given; din and dparam arrive zeroed and are added to; data NULL: not wanted */
    clt_ref_tensor dout[CLT_MAX_OUT], din[CLT_MAX_IN], dparam[CLT_MAX_NODE_PARAMS];
    /* For parameters that are buffers: when training, forward writes their new values here. */
    clt_ref_tensor buffer[CLT_MAX_NODE_PARAMS];
    /* If din[i] is a difference that can be much smaller than its terms: the magnitude of these terms, to
     * which rounding errors are relative. Same size as din[i]; arrives zeroed and is added to; NULL if
     * din[i].data is NULL. */
    double *din_terms[CLT_MAX_IN];
    bool training;
    uint64_t seed;
    uint32_t step, op_id;
    uint64_t sample_base;
    int64_t valid_samples, micro_batch;
    double loss_norm; /* 1 / normaliser */
    double loss_scale;
    double loss_record[4];
    /* Magnitudes of the terms of loss_record[0] and [1]; forward adds to them. Where terms cancel, rounding
     * errors are relative to these. */
    double loss_terms[2];
    /* Number of ranks that exchange records (1: no exchange); this is rank `rank`. The records of other
     * ranks: clt_op_ref.peer. */
    int ranks, rank;
    /* In the backward pass the output gradients of other ranks are 0. Finite differences need this, because
     * they see only the outputs of this rank. */
    bool peers_quiet;
} clt_ref_call;

/* How the checker and the timing fill an input. */
typedef enum clt_fill {
    CLT_FILL_NORMAL, /* N(0,1) */
    CLT_FILL_INDEX,  /* integers in [0, fill_max) */
    CLT_FILL_BINARY, /* 0 or 1 */
    CLT_FILL_WHOLE,  /* whole numbers from -3 to 3 */
    CLT_FILL_WIDE,   /* N(0,1) times 8 */
    CLT_FILL_STRAY,  /* integers in [0, fill_max), and some out of range: fill_max or, in signed types, -1 */
    /* whole numbers in runs of equal ones, fill_max long on average: each is the index of its run's first
     * element */
    CLT_FILL_RUNS,
    CLT_FILL_NAN,    /* N(0,1), and some NaN */
    CLT_FILL_LOWEST, /* N(0,1), and minus infinity in half of the elements */
    /* N(0,1), with 120 added to one in fill_max elements: exp of the distance to another element overflows */
    CLT_FILL_PEAKS,
    CLT_FILL_SWEEP, /* repeats the numbers from -120 to 120 in steps of 1/4 */
    CLT_FILL_POSITIVE
} clt_fill;

typedef struct clt_case_input {
    clt_dtype dtype;
    clt_fill fill;
    int64_t fill_max;
    int ndim; /* including the leading micro-batch dimension */
    int64_t dim[CLT_MAX_DIMS];
} clt_case_input;

typedef struct clt_op_case {
    const char *name;  /* unique within the op: "odd" -> verify -t 'softmax.odd' */
    const char *attrs; /* JSON object text, as in a config */
    int n_inputs;
    clt_case_input inputs[CLT_MAX_IN];
    double tolerance; /* 0: the op's default. |got - ref| may be up to tolerance * eps32 * magnitude */
    bool exact; /* with inputs that are small integers (-3 to 3) the result is exact: no error is allowed */
    bool small; /* runs in --quick and under the interpreter */
    /* Repeat the case with the micro-batch one, two and three samples later in the global batch: a Philox
     * block has four random numbers, and a sample may start at each of them. Also repeat it just before
     * element 2^34. */
    bool four_starts;
    bool remembers;  /* parts of the output keep old content: no bitwise comparison of two runs */
    double rounding; /* relative rounding error of 16-bit values between the op's products; 0: none */
    int ranks;       /* ranks that exchange records in training (clt_op_ref.peer); 0: as 1 */
    /* All numbers that are not whole (inputs, parameters, gradients) have the same value, so that the
     * rounding errors of a long sum all have the same sign. */
    bool equal;
    int tuned;          /* 1 + the index of each tunable's value; 0: the variant decides */
    bool tuned_forward; /* `tuned` is for forward, not for backward */
    int retyped;        /* 1 + the type of output 0 (CLT_OP_RETYPES); 0: as the op declares it */
} clt_op_case;

typedef struct clt_op_ref {
    void (*forward)(clt_ref_call *call);
    void (*backward)(clt_ref_call *call); /* NULL: not differentiable */
    const clt_op_case *cases;
    int n_cases;
    /* for cases without a tolerance: a multiple of eps32 * max(1, |ref|, scale of the sum) */
    double tolerance;
    /* Sizes at which `cltrain bench ops` times the op; the checker does not run them. Names are unique within
     * the op: "large" -> bench ops 'softmax.large'. */
    const clt_op_case *timed;
    int n_timed;
    /* For cases with ranks: returns element `element` (f32) of the record that rank `rank` gives in that
     * pass. */
    double (*peer)(const clt_ref_call *call, bool backward, int rank, int64_t element);
} clt_op_ref;

enum {
    CLT_OP_LOSS = 1 << 0,          /* adds to the losses; has no output for other nodes */
    CLT_OP_VIEW = 1 << 1,          /* output 0 shares the bytes of input 0; no forward command */
    CLT_OP_RANDOM = 1 << 2,        /* uses the step block's seed */
    CLT_OP_SUM = 1 << 3,           /* y = x0 + x1 + ...: a neighbour may compute it as its residual */
    CLT_OP_CORRECT = 1 << 4,       /* a loss that counts correct predictions, for accuracy */
    CLT_OP_MOVE = 1 << 5,          /* copies elements of any type, including integers, unchanged */
    CLT_OP_EVAL_IDENTITY = 1 << 6, /* y = x when not training */
    CLT_OP_FUSED = 1 << 7,         /* made by the plan's passes, not available in configs */
    CLT_OP_CHEAP = 1 << 8,         /* one pass over its input: cheap to recompute */
    CLT_OP_WIDE = 1 << 9,          /* in half-precision runs its inputs and outputs are f32 */
    CLT_OP_CONVERTS = 1 << 10,     /* its inputs and outputs may have different floating types */
    CLT_OP_GEMM = 1 << 11,         /* output 0 comes from one GEMM, which can have an epilogue */
    CLT_OP_GEMM_DX = 1 << 12,      /* the gradient of input 0 comes from one GEMM with an epilogue too */
    /* elementwise: inputs of one shape and the output may have any layout, if all have the same */
    CLT_OP_ANY_LAYOUT = 1 << 13,
    /* Row p of output 0 is row in[0][p] of parameter 0, whose gradient gets row p of the output's gradient
     * added; any number of positions p. */
    CLT_OP_ROWS = 1 << 14,
    /* Gradients of inputs and gradients of parameters are separate problems, each with its own variant and
     * its own commands. */
    CLT_OP_SPLIT_BACKWARD = 1 << 15,
    /* reads the layout of its tensors: any layout works, if all inputs and the output have the same */
    CLT_OP_ALL_ONE_LAYOUT = 1 << 16,
    /* Forward work that is repeated for the backward pass (clt_call.again) reads the saved tensors of the
     * first run instead of computing them again: statistics, whose passes over the input would cost more
     * than the output. */
    CLT_OP_REPEATS_BY_SAVED = 1 << 17,
    CLT_OP_EXCHANGES = 1 << 18, /* if call.ranks > 1, its work may exchange records with other ranks */
    /* Forward in training needs the moments of each channel of input 0, unless the node's buffers are
     * frozen. If the work that wrote the input has computed them, it uses these
     * (clt_call.moments_of_input). */
    CLT_OP_TAKES_MOMENTS = 1 << 19,
    CLT_OP_REGRESSION = 1 << 20, /* a loss that measures how far predictions and targets are apart */
    /* For half-precision runs with precision.residual f32 (engine/plan/passes/pass_precision.c). FOLLOWS:
     * the op works in f32 if one of its inputs is f32. RETYPES: its input and its output may have different
     * floating types, and the output is f32 where a sum reads it. */
    CLT_OP_FOLLOWS = 1 << 21,
    CLT_OP_RETYPES = 1 << 22
};

typedef struct clt_op {
    const char *name;    /* word in configs: "softmax" */
    const char *summary; /* formula, one line */
    const clt_op_doc *doc;
    const clt_attr_spec *attrs;
    int n_attrs;
    int min_in, max_in;
    uint32_t flags;
    /* Declares outputs, parameters and saved tensors. */
    clt_status (*infer)(clt_infer *ctx);
    /* The kernel families of both directions; problem = const clt_call *. All variants of an op save the same
     * tensors. A VIEW has no forward variants. An op without backward variants is not differentiable: inputs
     * that need a gradient are refused. */
    ocl_family forward, backward;
    /* The layout of the node's inputs and outputs that have three or more dimensions; NULL: row-major. A
     * gradient has the layout of its tensor. Inputs that never carry a gradient are row-major. */
    clt_layout (*layout)(const clt_node *node, const ocl_device_desc *device);
    /* Inputs that never carry a gradient (indices, targets), bit i = input i. */
    uint32_t no_grad_inputs;
    /* Inputs whose gradient equals the output's gradient if they have the same number of elements, bit i =
     * input i. */
    uint32_t same_grad_inputs;
    /* Parameters that are read as 16-bit copies in half-precision runs (operands of products), bit i =
     * parameter i. */
    uint32_t narrow_params;
    /* Ends of the names of tensors that PyTorch's files hold for such a layer and that the op does not use;
     * NULL-terminated. */
    const char *const *unused_in_files;
    /* Inputs that may be overwritten by their gradient, bit i = input i. */
    uint32_t in_place_inputs;
    /* Variants whose names begin with `rounding_variant` (NULL: none) round values between two products to
     * the 16-bit storage type, as matrix units need them. roundings: a limit on the error that this adds to
     * a result, as a multiple of the largest result times that type's rounding error (half an ulp). */
    const char *rounding_variant;
    double roundings;
    /* The variant whose results are rounded even if inputs are small integers, since it multiplies by
     * fractions (NULL: none), and its tolerance, as clt_op_ref.tolerance. */
    const char *inexact_variant;
    double inexact_tolerance;
    /* For the fuse pass: the activation of a GEMM's epilogue that computes this op. OCL_ACT_NONE, or NULL:
     * none does. */
    ocl_activation (*activation)(const clt_node *node);
    /* For the fuse pass: whether the op can add epilogue.residual to its output; NULL: it cannot. */
    bool (*takes_residual)(const clt_node *node);
    /* For the fuse pass: whether the op changes only the type of its input; NULL: never. */
    bool (*only_converts)(const clt_node *node);
    /* For the fold pass (engine/plan/passes/pass_fold.c): lets the node apply the activation to its own
     * result. With `sum` the pass then gives it one more input of the result's shape, which it adds before
     * the activation. False: it cannot, and the node is unchanged. NULL: the op never can. */
    bool (*fold)(clt_node *node, bool sum, ocl_activation activation);
    /* For a loss: the op that computes it together with the GEMM of its first input; NULL: none. */
    const struct clt_op *with_gemm;
    const clt_op_ref *ref;
} clt_op;

/* The records of all ops and of their references. */
#define CLT_OP(op)                                                                                           \
    extern const clt_op clt_op_##op;                                                                         \
    extern const clt_op_ref clt_op_##op##_ref;
#include "engine/ops/ops.def"
#undef CLT_OP

/* Defines the documentation of an op; the rest are members of clt_op_doc. */
#define CLT_OP_DOC(op, ...) static const clt_op_doc op##_doc = {__VA_ARGS__}
/* Layers around an example that many ops share: x as numbers before it, and classes after an image. */
#define CLT_DOC_LINEAR_BEFORE .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, "
#define CLT_DOC_CLASSES_AFTER                                                                                \
    .after = ", {\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}"
/* Defines the record of an op: its formula, the least and the largest number of inputs; the rest are members
 * of clt_op. CLT_OP_DOC comes before it. */
#define CLT_OP_DEFINE(op, formula, least, most, ...)                                                         \
    const clt_op clt_op_##op = {.name = #op,                                                                 \
                                .summary = formula,                                                          \
                                .doc = &op##_doc,                                                            \
                                .min_in = least,                                                             \
                                .max_in = most,                                                              \
                                .ref = &clt_op_##op##_ref,                                                   \
                                __VA_ARGS__}
/* CLT_OP_ATTRS sets a record's table of attributes. CLT_OP_VARIANTS sets both directions of an op that needs
 * only the lists word_forward_variants and word_backward_variants. */
#define CLT_OP_ATTRS(table) .attrs = table, .n_attrs = sizeof table / sizeof table[0]
#define CLT_OP_VARIANTS(word)                                                                                \
    .forward = {.variants = word##_forward_variants}, .backward = {.variants = word##_backward_variants}

/* Defines the variants fn_variant_<first> and fn_variant_<last> of `clt_status fn(ocl_emitter *, const
 * clt_call *, ...)`, whose third argument says which variant to emit. The first is for devices that like
 * work-groups; the last is for devices that like vectors, and any device can run it. */
#define CLT_TWO_VARIANTS(fn, first, first_value, caps, first_tunables, last, last_value, last_tunables)      \
    static clt_status fn##_##first(ocl_emitter *e, const void *call)                                         \
    {                                                                                                        \
        return fn(e, call, first_value);                                                                     \
    }                                                                                                        \
    static clt_status fn##_##last(ocl_emitter *e, const void *call)                                          \
    {                                                                                                        \
        return fn(e, call, last_value);                                                                      \
    }                                                                                                        \
    static const ocl_variant fn##_variant_##first = {.name = #first,                                         \
                                                     .needs = caps,                                          \
                                                     .tunables = first_tunables,                             \
                                                     .emit = fn##_##first,                                   \
                                                     .style = OCL_KERNEL_GROUPS};                            \
    static const ocl_variant fn##_variant_##last = {                                                         \
        .name = #last, .tunables = last_tunables, .emit = fn##_##last, .written_for = OCL_CAP_WIDE_VECTORS};
#define CLT_TWO_LISTED(fn, first, last)                                                                      \
    static const ocl_variant *const fn##_variants[] = {&fn##_variant_##first, &fn##_variant_##last, NULL};
/* fn_variants = {group, row, NULL}: fn gets true: a work-group for each row; false: an item for each row. */
#define CLT_GROUP_ROW_VARIANTS(fn, group_tunables, row_tunables)                                             \
    CLT_TWO_VARIANTS(fn, group, true, OCL_CAP_LOCAL, group_tunables, row, false, row_tunables)               \
    CLT_TWO_LISTED(fn, group, row)
/* fn_variants = {flat, row, NULL}: fn gets false: an item for each element; true: an item for each row. */
#define CLT_FLAT_ROW_VARIANTS(fn)                                                                            \
    CLT_TWO_VARIANTS(fn, flat, false, 0, NULL, row, true, NULL)                                              \
    CLT_TWO_LISTED(fn, flat, row)

const clt_op *clt_op_find(const char *name); /* NULL if there is none */
/* For a name that is not an op. clt_op_near: the op that is probably meant, by its name in other tools or by
 * similar spelling, or NULL. clt_op_hint: text to put after "there is no op 'x'". Ops that only plans make
 * are never suggested. */
const clt_op *clt_op_near(const char *name);
const char *clt_op_hint(const char *name, char *buffer, size_t size);
/* All registered ops in the order of ops.def. */
const clt_op *const *clt_op_list(int *count);
/* The value of an attribute by name; an empty attribute if the op has none of this name. */
const clt_attr *clt_node_attr(const clt_node *node, const char *name);

/* Helpers for emission (engine/ops/elementwise/op_emit.c). */
static inline const clt_tensor *clt_call_tensor(const clt_call *call, int32_t id)
{
    return clt_graph_tensor(call->graph, id);
}
/* Defines `name`, such as DT, as a type of a kernel. */
void clt_define_dtype(ocl_emitter *e, const char *name, clt_dtype dtype);
/* Emits dst = src, elementwise, between storage types. */
void clt_emit_convert(ocl_emitter *e, int32_t dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                      uint64_t elements);
/* Emits dst (+)= src, elementwise; used by views and sums. */
void clt_emit_copy_grad(ocl_emitter *e, int32_t dst, int32_t src, clt_dtype dtype, uint64_t elements,
                        bool accumulate);
/* Zeros elements [first, first + elements) of a gradient by a kernel: some drivers run a fill command on a
 * single compute unit. */
void clt_emit_zero(ocl_emitter *e, int32_t dst, uint64_t first, clt_dtype dtype, uint64_t elements);

#endif
