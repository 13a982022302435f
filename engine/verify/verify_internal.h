/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the checker's files: the session (device, seed, filters), the outcome of one check, random data,
 * comparison, and the bench on which one op case runs. Only engine/verify and its tests include it. */
#ifndef ENGINE_VERIFY_VERIFY_INTERNAL_H
#define ENGINE_VERIFY_VERIFY_INTERNAL_H

#include "engine/ops/op.h"
#include "engine/plan/realize.h"
#include "engine/graph/step_block.h"
#include "engine/state/store.h"
#include "engine/verify/verify.h"

/* --- session: verify.c --- */

typedef struct clt_verify_session {
    const clt_verify_options *options;
    clt_verify_summary *summary;
    ocl_device *device;   /* NULL while listing */
    ocl_device_desc desc; /* with the capability mask applied */
    uint64_t seed, round; /* seed and round of the current case; rounds count from 1 */
    unsigned modes;
    const char *until; /* name of the last check to run, or NULL */
    bool ended;        /* that check has run */
    uint64_t ran;      /* checks run so far in this process, including the current one */
    uint64_t matched;  /* names that pass the filters, counted before sharding */
    uint64_t index;    /* index of the current check */
    int pass;          /* number of the pass over the list of checks, from 0 */
    char name[256];    /* name of the current check */
    double started;    /* time when it began, in seconds */
} clt_verify_session;

/* The place of compared values in the device's memory: value i is element index(context, i) of `dtype`,
 * counted from byte `offset` of the buffer. */
typedef struct clt_verify_source {
    const ocl_buffer *buffer; /* NULL: the buffer that the last run bound to `tensor` */
    int32_t tensor;
    clt_dtype dtype;
    uint64_t offset;
    size_t (*index)(const void *context, size_t i); /* NULL: element i */
    const void *context;
} clt_verify_source;

/* The result of one check. The first failure is kept; error and limit belong to the worst comparison. */
typedef struct clt_verify_outcome {
    clt_verify_state state;
    double error, limit, ms;
    uint64_t bits; /* as in clt_verify_result */
    char reason[1024];
    clt_verify_speed speeds[CLT_VERIFY_SPEEDS];
    int n_speeds;
    /* for verify_wrong.c */
    const clt_verify_reducer *reducer; /* NULL: wrong values are not reported */
    clt_verify_source source;          /* place of the values that are compared next */
    bool located, reported;            /* `source` is set; the wrong values have been reported */
} clt_verify_outcome;

/* Identifies a check: "subject.name[variant]/mode", without brackets if there is no variant. */
typedef struct clt_verify_item {
    const char *subject, *name, *variant;
    unsigned mode; /* one CLT_VERIFY_* bit */
    bool small;
    bool bf16; /* it has tensors of type bf16 */
} clt_verify_item;

/* True if the check must be run now: it passes all filters, and names are not only being listed. Sets
 * session->name. A check that only a full run includes is reported as SKIP in a quick run. */
bool clt_verify_wants(clt_verify_session *session, const clt_verify_item *item, clt_verify_outcome *outcome);
/* Reports the check that clt_verify_wants allowed. A failure of the check becomes its outcome; only errors
 * that must end the whole run are returned. */
clt_status clt_verify_finish(clt_verify_session *session, clt_verify_outcome *outcome, clt_status status);
/* False, with outcome SKIP, if the device lost one of the capabilities `caps` that a variant is written for:
 * the driver gave wrong results, crashed or hung in the probe, and would do so again. The engine then uses
 * another variant. With `small`, also false if a CPU device lacks the capability. Always true on devices
 * without local memory, because they have no other variant. `what` names the variant: "variant lane". */
bool clt_verify_offers(const clt_verify_session *session, const char *what, uint32_t caps,
                       clt_verify_outcome *outcome);
/* The device description with which a variant is planned. Variants for other kinds of devices accept it,
 * too, unless only the device's own variants must be checked. */
ocl_device_desc clt_verify_desc(const clt_verify_session *session);
/* Sets the outcome, unless the check has failed already. */
void clt_verify_set(clt_verify_outcome *outcome, clt_verify_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool clt_verify_bad(const clt_verify_outcome *outcome); /* state is not PASS */
/* The command that repeats a check. after: other checks ran before it; the command repeats them as well if
 * the check does not fail alone. */
void clt_verify_repeat(const clt_verify_options *options, const char *name, uint64_t seed, const char *spec,
                       bool after, char *out, size_t size);
clt_status clt_verify_check_options(const clt_verify_options *options);
uint64_t clt_verify_fresh_seed(void);
/* CLT_ECHECK if anything failed, CLT_EUSAGE if nothing matched. */
clt_status clt_verify_verdict(const clt_verify_options *options, const clt_verify_summary *summary,
                              uint64_t matched, const char *spec, const char *device);

/* The checks of each kind. */
clt_status clt_verify_ops(clt_verify_session *session, const clt_op *const *ops, int count);
clt_status clt_verify_gemm(clt_verify_session *session);
clt_status clt_verify_moments(clt_verify_session *session);  /* of a convolution, for the norm after it */
clt_status clt_verify_residual(clt_verify_session *session); /* dropout that adds the residual after it */
clt_status clt_verify_known(clt_verify_session *session);
clt_status clt_verify_reals(clt_verify_session *session);    /* built-ins on numbers of f32 */
clt_status clt_verify_integers(clt_verify_session *session); /* built-ins on integers, and conversions */
clt_status clt_verify_groups(clt_verify_session *session);   /* work-groups, barriers, local memory */
clt_status clt_verify_memory(clt_verify_session *session);   /* atomics, large buffers */
clt_status clt_verify_updates(clt_verify_session *session);
clt_status clt_verify_speeds(clt_verify_session *session); /* mode perf: speed/speed_check.c */
/* clt_verify_run with only the ops that the caller lists, for tests of the checker itself. */
clt_status clt_verify_run_ops(const clt_verify_options *options, const clt_op *const *ops, int count,
                              clt_verify_summary *summary);

/* Opens the device that the options name, as for checks. */
clt_status clt_verify_open(const clt_verify_options *options, ocl_device **out);
/* Runs the checks that `options` select, with their modes and seed, on an open device. */
clt_status clt_verify_on(ocl_device *device, const clt_verify_options *options, clt_verify_summary *summary);

/* --- failures as data: verify_wrong.c --- */

/* The kinds of cases that can be altered, with the types of `copy` in clt_verify_reducer.alter. */
typedef enum clt_verify_case_kind {
    CLT_VERIFY_OP_CASE,    /* clt_op_case */
    CLT_VERIFY_GEMM_CASE,  /* clt_gemm_case */
    CLT_VERIFY_UPDATE_CASE /* clt_update_case */
} clt_verify_case_kind;

/* n compared values of which at least one is wrong, or which are wrong only when judged together. Value i is
 * right if it is within bound[i] of want[i], after subtracting storage[i], the rounding to its storage
 * type. */
typedef struct clt_verify_wrong {
    clt_verify_source source;
    const char *what; /* "written 'd x0'" */
    size_t n, at;     /* at: the worst value */
    const double *got, *want, *bound, *storage;
    bool together; /* two rules for all values together apply: */
    /* at most n / 100 of 100 or more values use more than half of their bound, and */
    double mean_limit, left; /* of 16 or more, sum of squared errors <= mean_limit * sum want^2 + left */
} clt_verify_wrong;

struct clt_verify_reducer {
    /* Changes a copy of the case before it runs. If this fails, the check fails. */
    clt_status (*alter)(void *context, clt_verify_case_kind kind, void *copy);
    /* Called once for a check that fails by values whose place is known; everything is borrowed. */
    void (*wrong)(void *context, const clt_verify_wrong *wrong);
    void *context;
};

clt_status clt_verify_alter(const clt_verify_session *session, clt_verify_case_kind kind, void *copy);
/* Sets the place of the values that are compared next. */
void clt_verify_from(clt_verify_outcome *outcome, clt_verify_source source);
/* Reports wrong values to the reducer, with their place in outcome->source. */
void clt_verify_report_wrong(clt_verify_outcome *outcome, clt_verify_wrong *wrong);
/* Reports a single wrong value, element `at` of outcome->source, whose error may be `bound`. */
void clt_verify_report_wrong_value(clt_verify_outcome *outcome, size_t at, double got, double want,
                                   double bound);

/* --- fills: verify_fill.c --- */

/* A stream of random numbers that depends only on seed, text and number. */
typedef struct clt_verify_stream {
    uint64_t seed;
    uint32_t key, number;
    uint64_t first; /* position of the first number that clt_verify_fill uses */
} clt_verify_stream;
clt_verify_stream clt_verify_stream_make(uint64_t seed, const char *text, uint32_t number);
uint32_t clt_verify_word(const clt_verify_stream *stream, uint64_t index);

typedef struct clt_verify_filler {
    clt_fill fill;
    int64_t max;     /* CLT_FILL_INDEX */
    clt_dtype dtype; /* values are representable in this type */
    bool integers;   /* small integers, from -3 to 3, instead of real numbers */
    bool unrounded;  /* real numbers keep all bits of a double, so that no two are equal */
    bool equal;      /* all numbers that would be random are CLT_VERIFY_EQUAL, or 1 */
} clt_verify_filler;
#define CLT_VERIFY_EQUAL 0.5772156649015329 /* sums of it, or of its square, all round one way */
void clt_verify_fill(double *out, size_t n, const clt_verify_filler *filler, const clt_verify_stream *stream);

/* --- comparison: verify_compare.c --- */

#define CLT_VERIFY_EPS 0x1p-23 /* eps32 */

typedef struct clt_verify_rule {
    double tolerance;    /* in units of eps32 * max(1, largest |reference| of the tensor) */
    clt_dtype dtype;     /* storage type: with 16 bits, its rounding is allowed in addition */
    bool exact;          /* no error except one rounding to nearest to a 16-bit storage type */
    const double *terms; /* size of the terms whose difference an element is; NULL: use its own size */
} clt_verify_rule;

/* Each error must be within the rule's bound. Of 100 or more elements, at most one in a hundred may exceed
 * half of it. NaN and infinity must be equal in both. */
void clt_verify_compare(clt_verify_outcome *outcome, const char *what, const double *got,
                        const double *reference, size_t n, const clt_verify_rule *rule);
/* Compares results that were computed from rounded intermediate values: each error may be larger by
 * `relative` times the same magnitude, and the mean squared error accordingly. */
void clt_verify_compare_rounded(clt_verify_outcome *outcome, const char *what, const double *got,
                                const double *reference, size_t n, const clt_verify_rule *rule,
                                double relative);
/* Compares with a bound for each element, which is the unit of the reported error. `relative` bounds the
 * root mean squared error. */
void clt_verify_compare_bounds(clt_verify_outcome *outcome, const char *what, const double *got,
                               const double *reference, const double *bound, size_t n, clt_dtype dtype,
                               double relative);
/* MISTRUST if there are 16 or more elements and less than the fraction `share` of them, or none, is
 * nonzero. */
void clt_verify_trust(clt_verify_outcome *outcome, const char *what, const double *got, size_t n,
                      double share);
/* Finds the first byte i that differs although writable[i] is 0; writable NULL: no byte is writable. */
bool clt_verify_changed(const uint8_t *before, const uint8_t *after, const uint8_t *writable, size_t n,
                        size_t *where);

/* Adds compared values to the hash of all values that the check has compared. */
void clt_verify_add_bits(clt_verify_outcome *outcome, const void *got, size_t bytes);

/* --- one kernel alone: verify_command.c --- */

/* Starts an emitter for a list of one command; the two functions below free both. */
clt_status clt_verify_command_begin(const clt_verify_session *session, const char *label,
                                    ocl_command_list *list, ocl_emitter *e);
/* Runs the command once; buffers: by tensor number. */
clt_status clt_verify_command_run(clt_verify_session *session, ocl_emitter *e, ocl_buffer **buffers);
/* Runs the command with buffers of its own: y (tensor 0), which has initial values, is computed from x
 * (tensor 1). Sizes are in bytes. */
clt_status clt_verify_command_answer(clt_verify_session *session, ocl_emitter *e, const void *x,
                                     size_t x_bytes, void *y, size_t y_bytes);

/* --- one op case on the device: verify_bench.c --- */

#define CLT_VERIFY_COPIES 2

/* A NaN in f32, f16 and bf16, with a bit pattern that no kernel produces. */
#define CLT_VERIFY_NAN_PATTERN 0x7ff1fff3u
/* A second pattern, a finite number: results must not depend on what memory held before. */
#define CLT_VERIFY_FINITE_PATTERN 0x3f9d2f1bu

typedef struct clt_verify_subject {
    const clt_op *op;
    const clt_op_case *op_case;
    const char *variant; /* NULL: the variant that the device would use */
} clt_verify_subject;

typedef struct clt_verify_setup {
    clt_plan_mode mode; /* CHECK, or EVAL */
    int copies;         /* nodes that read the same inputs; 2: they add to gradients that have a value */
    uint32_t want_in;   /* mask of the inputs that want a gradient, if they can have one */
    bool want_params;
    bool frozen_buffers; /* the node computes as in evaluation, with the current values of its buffers */
    bool scaled;         /* losses are multiplied by a loss scale */
    /* gradients have the types of their 16-bit tensors, as in half-precision runs; else f32 */
    bool narrow;
    bool tf32;                   /* products of f32 may round their operands to 10 bits of mantissa */
    const ocl_choice *candidate; /* as in clt_plan_options */
    ocl_choice *asked;
} clt_verify_setup;
/* One node that wants every gradient. */
#define CLT_VERIFY_SINGLE                                                                                    \
    (clt_verify_setup)                                                                                       \
    {                                                                                                        \
        .mode = CLT_PLAN_CHECK, .copies = 1, .want_in = UINT32_MAX, .want_params = true                      \
    }

/* True if an input or the output of the case has the type. */
bool clt_verify_has_type(const clt_op_case *c, clt_dtype type);
bool clt_verify_is_16_bit(const clt_op_case *c); /* one has a 16-bit type of float */
/* One node that wants every gradient. With own_forms, gradients of a 16-bit case are stored in 16 bits, as in
 * every training that stores such tensors; without, in f32. */
clt_verify_setup clt_verify_single(const clt_verify_session *session, const clt_op_case *c);

/* A buffer of the device, and its content before and after a run. */
typedef struct clt_verify_image {
    ocl_buffer *buffer;
    size_t bytes; /* 0: there is no such buffer, and nothing is uploaded or read */
    uint8_t *before, *after;
} clt_verify_image;

/* A plan on the device. The first members serve every plan, the others one op case. */
typedef struct clt_verify_bench {
    ocl_device *device;
    clt_plan *plan;
    clt_store *store; /* NULL: the plan has none */
    clt_slab_pool *pool;
    clt_realized *realized;
    clt_arena *arena;   /* for the images */
    clt_phase phase;    /* the running phase */
    clt_ref_call peers; /* context of the records of other ranks: node, shapes of inputs, ranks */
    ocl_choice tuned;   /* tunables that the case asks for */
    int copies;
    clt_node *node[CLT_VERIFY_COPIES];
    int32_t in[CLT_MAX_IN];
    int32_t dout[CLT_VERIFY_COPIES][CLT_MAX_OUT]; /* -1: none */
    int32_t earlier[CLT_MAX_IN]; /* gradients of the inputs that have a value before backward; -1: none */
    clt_verify_image image[CLT_MAX_PLAN_SLABS];
    uint8_t *writable[CLT_MAX_PLAN_SLABS];
} clt_verify_bench;

/* verify_device.c: plans a training of the graph, which it owns from here on, with options->force_variant.
 * If the variant refuses, *outcome is SKIP with its reason, and the result is CLT_OK. */
clt_status clt_verify_plan_graph(const clt_verify_session *session, clt_graph *graph,
                                 const clt_plan_options *options, clt_verify_bench *bench,
                                 clt_verify_outcome *outcome);
/* verify_device.c: makes the store, the slabs and the commands of bench->plan. phases: as in
 * clt_realize_options. */
clt_status clt_verify_realise(clt_verify_bench *bench, uint32_t phases);
void clt_verify_bench_destroy(clt_verify_bench *bench); /* NULL is fine */
CLT_SCOPED_POINTER(clt_verify_bench, clt_verify_bench_destroy)
/* Makes an image of a buffer of `bytes` bytes, with memory for `room` bytes, which are 0. */
clt_status clt_verify_image_make(clt_arena *arena, ocl_buffer *buffer, size_t bytes, size_t room,
                                 clt_verify_image *out);
clt_status clt_verify_images_write(const clt_verify_image *images, size_t n); /* `before` to the device */
clt_status clt_verify_images_read(const clt_verify_image *images, size_t n);  /* from the device to `after` */
void clt_verify_images_keep(const clt_verify_image *images, size_t n);        /* copies `after` to `before` */

/* For cases with ranks: sets the number of ranks and the computed rank. */
void clt_verify_set_ranks(const clt_op_case *c, clt_ref_call *call);
/* A plan's host function that gives the records of other ranks; its context is a bench. */
clt_status clt_verify_host(void *bench, const ocl_command *command);
/* Sets nodes, inputs and plan of a bench for a device with the description `desc`. */
clt_status clt_verify_plan(const ocl_device_desc *desc, const clt_verify_subject *subject,
                           const clt_verify_setup *setup, clt_verify_bench *bench);
/* Plans and realises. If the variant refuses, *outcome is SKIP with its reason, *out is NULL and the result
 * is CLT_OK. */
clt_status clt_verify_bench_create(clt_verify_session *session, const clt_verify_subject *subject,
                                   const clt_verify_setup *setup, clt_verify_outcome *outcome,
                                   clt_verify_bench **out);
/* Fills `before` with the pattern. */
void clt_verify_bench_clear(clt_verify_bench *bench, uint32_t pattern);
/* Put: writes values of a tensor into `before`. Get: reads them from `after`. Values are in row-major order,
 * whatever the tensor's layout. */
void clt_verify_bench_put(clt_verify_bench *bench, int32_t tensor, const double *values);
void clt_verify_bench_put_bytes(clt_verify_bench *bench, int32_t tensor, const void *bytes);
void clt_verify_bench_get(const clt_verify_bench *bench, int32_t tensor, double *out);
/* The place of the values that clt_verify_bench_get reads. */
clt_verify_source clt_verify_bench_source(const clt_verify_bench *bench, int32_t tensor);
/* Uploads `before`, runs the phase, reads `after`. The check fails if a byte changed outside of the tensors
 * that the phase may write. */
clt_status clt_verify_bench_run(clt_verify_bench *bench, clt_phase phase, clt_verify_outcome *outcome);
/* Copies `after` to `before`. */
void clt_verify_bench_keep(clt_verify_bench *bench);
size_t clt_verify_elements(const clt_verify_bench *bench, int32_t tensor);
const clt_tensor *clt_verify_tensor(const clt_verify_bench *bench, int32_t tensor);

/* Makes the graph of a case, with shapes, types and classes, without a device. */
clt_status clt_verify_graph(const clt_verify_subject *subject, const clt_verify_setup *setup,
                            clt_verify_bench *bench, clt_graph **out);

/* --- data and reference of one op case: verify_ref.c --- */

typedef struct clt_verify_data {
    clt_arena *arena;
    bool integers;
    bool unrounded, equal; /* as in clt_verify_filler */
    double *in[CLT_MAX_IN];
    double *param[CLT_VERIFY_COPIES][CLT_MAX_NODE_PARAMS];
    double *dout[CLT_VERIFY_COPIES][CLT_MAX_OUT];
    double loss_scale;
    clt_step_block step;
} clt_verify_data;

/* Makes values for every input, parameter and output gradient of the graph's nodes; key: "softmax.odd". With
 * `part`, some samples of the batch are padding, and the micro-batch is not the first of the step. */
clt_status clt_verify_data_make(clt_verify_data *data, const clt_graph *graph,
                                const clt_verify_subject *subject, const clt_verify_bench *bench,
                                uint64_t seed, bool integers, bool part);
/* Fills the bench's `before` with the pattern and puts the data into it: everything that a run reads. */
void clt_verify_put_data(clt_verify_bench *bench, const clt_verify_data *data, uint32_t pattern);
/* Makes the reference call of copy number `copy`, with all memory in data->arena; outputs are NaN, gradients
 * zero. */
clt_status clt_verify_ref_make(clt_verify_data *data, const clt_graph *graph,
                               const clt_verify_subject *subject, const clt_node *node, int copy,
                               bool training, clt_ref_call *call);
/* True if input `index` can have a gradient. */
bool clt_verify_takes_gradient(const clt_verify_subject *subject, const clt_graph *graph,
                               const clt_node *node, int index);

/* verify_bits.c: checks that two runs give equal bits, whatever memory held before. Nothing is run if the
 * variant refuses. */
clt_status clt_verify_bits(clt_verify_session *session, const clt_verify_subject *subject,
                           clt_verify_outcome *outcome);

/* verify_grad.c: compares the reference's gradients with finite differences of the reference. */
clt_status clt_verify_grad(clt_verify_session *session, const clt_verify_subject *subject,
                           clt_verify_outcome *outcome);

#endif
