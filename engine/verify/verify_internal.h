/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checker's files share: the session (device, seed, filters), the outcome of one check, random
 * fills, comparison, and the bench on which one op case runs. Nobody but engine/verify and its tests includes
 * it. */
#ifndef ENGINE_VERIFY_VERIFY_INTERNAL_H
#define ENGINE_VERIFY_VERIFY_INTERNAL_H

#include "engine/ops/op.h"
#include "engine/plan/realize.h"
#include "engine/graph/step_block.h"
#include "engine/verify/verify.h"

/* --- session: verify.c --- */

typedef struct clt_verify_session {
    const clt_verify_options *options;
    clt_verify_summary *summary;
    ocl_device *device;   /* NULL while listing */
    ocl_device_desc desc; /* after the capability mask */
    uint64_t seed;
    unsigned modes;
    const char *until; /* the check after which nothing runs any more, or NULL */
    bool ended;        /* it has come */
    uint64_t ran;      /* checks that ran in this process's run so far, this one included */
    uint64_t matched;  /* names that the filters let through, before sharding */
    uint64_t index;    /* of the check that runs now */
    int pass;          /* over the list of checks, from 0 */
    char name[256];    /* of the check that runs now */
    double started;    /* seconds */
} clt_verify_session;

/* What one check found. The first failure stays; error and limit belong to the worst comparison. */
typedef struct clt_verify_outcome {
    clt_verify_state state;
    double error, limit, ms;
    char reason[1024];
} clt_verify_outcome;

/* Which check: "subject.name[variant]/mode"; no brackets without a variant. */
typedef struct clt_verify_item {
    const char *subject, *name, *variant;
    unsigned mode; /* one CLT_VERIFY_* bit */
    bool small;
} clt_verify_item;

/* True when the check must run now: it passes all filters and nothing is only being listed. Sets
 * session->name. */
bool clt_verify_wants(clt_verify_session *session, const clt_verify_item *item, clt_verify_outcome *outcome);
/* Reports the check that clt_verify_wants let through. A failure of the check becomes its outcome; only what
 * must end the whole run is returned. */
clt_status clt_verify_finish(clt_verify_session *session, clt_verify_outcome *outcome, clt_status status);
/* False, and the outcome is SKIP, when the driver lost one of the capabilities (bits) that a form is written
 * for: it would crash, hang or be wrong as it was when the device was asked, and the engine takes
 * another one. With `small` also where a CPU device answered that it has not got one. On devices without
 * local memory there is no other form. `what` names the form: "variant lane". */
bool clt_verify_offers(const clt_verify_session *session, const char *what, uint32_t caps,
                       clt_verify_outcome *outcome);
/* The description with which a form is planned: forms made for other kinds of devices accept it, too, unless
 * only the device's own forms are wanted. */
ocl_device_desc clt_verify_desc(const clt_verify_session *session);
/* Sets the outcome unless it has failed already. */
void clt_verify_set(clt_verify_outcome *outcome, clt_verify_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool clt_verify_bad(const clt_verify_outcome *outcome); /* state is not PASS */
/* Does the pattern (glob, with '[' and '\' as themselves) match the name, or the name without mode, or
 * without mode and variant, or the subject alone? */
bool clt_verify_match(const char *pattern, const char *name);

/* The command that repeats a check. after: other checks ran before it, which are repeated, too, if it does
 * not fail alone. */
void clt_verify_repeat(const clt_verify_options *options, const char *name, uint64_t seed, const char *spec,
                       bool after, char *out, size_t size);
clt_status clt_verify_check_options(const clt_verify_options *options);
uint64_t clt_verify_fresh_seed(void);
/* CLT_ECHECK when anything failed, CLT_EUSAGE when nothing matched. */
clt_status clt_verify_verdict(const clt_verify_options *options, const clt_verify_summary *summary,
                              uint64_t matched, const char *spec, const char *device);

/* Checks of one kind each. */
clt_status clt_verify_ops(clt_verify_session *session, const clt_op *const *ops, int count);
clt_status clt_verify_gemm(clt_verify_session *session);
clt_status clt_verify_known(clt_verify_session *session);
clt_status clt_verify_updates(clt_verify_session *session);
/* clt_verify_run with ops of the caller's choice and nothing else, for tests of the checker itself. */
clt_status clt_verify_run_ops(const clt_verify_options *options, const clt_op *const *ops, int count,
                              clt_verify_summary *summary);

/* The checks that options name, with its modes and seed, on a device that is open already. */
clt_status clt_verify_on(ocl_device *device, const clt_verify_options *options, clt_verify_summary *summary);

/* --- fills: verify_fill.c --- */

/* A stream of random numbers: the same for the same seed, text and number, whatever ran before. */
typedef struct clt_verify_stream {
    uint64_t seed;
    uint32_t key, number;
    uint64_t first; /* of the numbers that clt_verify_fill takes */
} clt_verify_stream;
clt_verify_stream clt_verify_stream_make(uint64_t seed, const char *text, uint32_t number);
uint32_t clt_verify_word(const clt_verify_stream *stream, uint64_t index);

typedef struct clt_verify_filler {
    clt_fill fill;
    int64_t max;     /* CLT_FILL_INDEX */
    clt_dtype dtype; /* values are what this type can store */
    bool integers;   /* small integers, -3 to 3, instead of reals */
} clt_verify_filler;
void clt_verify_fill(double *out, size_t n, const clt_verify_filler *filler, const clt_verify_stream *stream);

/* --- comparison: verify_compare.c --- */

#define CLT_VERIFY_EPS 0x1p-23 /* eps32 */

typedef struct clt_verify_rule {
    double tolerance;    /* multiple of eps32 * max(1, largest |reference| of the tensor) */
    clt_dtype dtype;     /* as stored: 16-bit types may add their rounding */
    bool exact;          /* the error must be zero */
    const double *terms; /* of each element: size of the terms whose difference it is; NULL: its own */
} clt_verify_rule;

/* Elements may be off by the rule's bound; one in a hundred of 100 or more may use more than half of it. A
 * NaN or infinity must be one in both. */
void clt_verify_compare(clt_verify_outcome *outcome, const char *what, const double *got,
                        const double *reference, size_t n, const clt_verify_rule *rule);
/* The same where results are made of values that were rounded on the way: each may be off by `relative` times
 * the same magnitude besides, and their mean square by its square. */
void clt_verify_compare_rounded(clt_verify_outcome *outcome, const char *what, const double *got,
                                const double *reference, size_t n, const clt_verify_rule *rule,
                                double relative);
/* The same with a bound for each element: the error is reported in units of it. `relative` is the bound of the
 * mean square. */
void clt_verify_compare_bounds(clt_verify_outcome *outcome, const char *what, const double *got,
                               const double *reference, const double *bound, size_t n, clt_dtype dtype,
                               double relative);
/* MISTRUST when at least 16 elements are there and fewer than `share` of them (and at least one) are not
 * zero. */
void clt_verify_trust(clt_verify_outcome *outcome, const char *what, const double *got, size_t n,
                      double share);
/* Finds the first byte that differs where writable[i] is 0; writable NULL: anywhere. */
bool clt_verify_changed(const uint8_t *before, const uint8_t *after, const uint8_t *writable, size_t n,
                        size_t *where);

/* --- one op case on the device: verify_bench.c --- */

#define CLT_VERIFY_COPIES 2

/* `NaN` in f32, f16 and bf16, and a bit pattern that no kernel writes by itself. */
#define CLT_VERIFY_NAN_PATTERN 0x7ff1fff3u
/* Another garbage, all finite: results must not depend on what memory held. */
#define CLT_VERIFY_FINITE_PATTERN 0x3f9d2f1bu

typedef struct clt_verify_subject {
    const clt_op *op;
    const clt_op_case *op_case;
    const char *variant; /* NULL: the one the device would take */
} clt_verify_subject;

typedef struct clt_verify_setup {
    clt_plan_mode mode; /* CHECK, or EVAL */
    int copies;         /* nodes that all read the same inputs: gradients of the second accumulate */
    uint32_t want_in;   /* inputs that want a gradient, if they can have one */
    bool want_params;
    bool frozen_buffers; /* the node computes as in evaluation, with the values that its buffers have */
    bool scaled;         /* losses are multiplied by a loss scale */
    bool narrow; /* gradients of 16-bit tensors have their type, as in half-precision runs; else f32 */
    const ocl_choice *candidate; /* as in clt_plan_options */
    ocl_choice *asked;
} clt_verify_setup;

typedef struct clt_verify_bench {
    ocl_device *device;
    clt_plan *plan;
    clt_slab_pool *pool;
    clt_realized *realized;
    int copies;
    clt_node *node[CLT_VERIFY_COPIES];
    int32_t in[CLT_MAX_IN];
    int32_t dout[CLT_VERIFY_COPIES][CLT_MAX_OUT]; /* -1: none */
    uint8_t *before[CLT_MAX_PLAN_SLABS], *after[CLT_MAX_PLAN_SLABS], *writable[CLT_MAX_PLAN_SLABS];
} clt_verify_bench;

/* Fills in nodes, inputs and plan of a bench for a device of that description. */
clt_status clt_verify_plan(const ocl_device_desc *desc, const clt_verify_subject *subject,
                           const clt_verify_setup *setup, clt_verify_bench *bench);
/* Plans and realises. A variant that refuses makes *outcome SKIP with its reason and leaves *out NULL, with
 * CLT_OK. */
clt_status clt_verify_bench_create(clt_verify_session *session, const clt_verify_subject *subject,
                                   const clt_verify_setup *setup, clt_verify_outcome *outcome,
                                   clt_verify_bench **out);
void clt_verify_bench_destroy(clt_verify_bench *bench);
/* `before` becomes the pattern everywhere. */
void clt_verify_bench_clear(clt_verify_bench *bench, uint32_t pattern);
/* Puts values into `before`; gets them from `after`. */
void clt_verify_bench_put(clt_verify_bench *bench, int32_t tensor, const double *values);
void clt_verify_bench_put_bytes(clt_verify_bench *bench, int32_t tensor, const void *bytes);
void clt_verify_bench_get(const clt_verify_bench *bench, int32_t tensor, double *out);
/* Uploads `before`, runs the phase, reads `after`, and fails the outcome when a byte changed that is not of a
 * tensor which the phase may write. */
clt_status clt_verify_bench_run(clt_verify_bench *bench, clt_phase phase, clt_verify_outcome *outcome);
/* verify_perf.c: times both directions of the bench and tells them in the outcome. */
clt_status clt_verify_time(clt_verify_bench *bench, clt_verify_outcome *outcome);
/* `before` becomes `after`. */
void clt_verify_bench_keep(clt_verify_bench *bench);
size_t clt_verify_elements(const clt_verify_bench *bench, int32_t tensor);
const clt_tensor *clt_verify_tensor(const clt_verify_bench *bench, int32_t tensor);

/* Shape, type and class of a case's graph, without a device. */
clt_status clt_verify_graph(const clt_verify_subject *subject, const clt_verify_setup *setup,
                            clt_verify_bench *bench, clt_graph **out);

/* --- data and reference of one op case: verify_ref.c --- */

typedef struct clt_verify_data {
    clt_arena *arena;
    bool integers;
    double *in[CLT_MAX_IN];
    double *param[CLT_VERIFY_COPIES][CLT_MAX_NODE_PARAMS];
    double *dout[CLT_VERIFY_COPIES][CLT_MAX_OUT];
    double loss_scale;
    clt_step_block step;
} clt_verify_data;

/* Values for every input, parameter and output gradient of the graph's nodes; key: "softmax.odd". `part` of
 * the samples of a batch is padding when it is set, and the micro-batch is not the first. */
clt_status clt_verify_data_make(clt_verify_data *data, const clt_graph *graph,
                                const clt_verify_subject *subject, const clt_verify_bench *bench,
                                uint64_t seed, bool integers, bool part);
/* A reference call of copy `copy` with everything allocated in data->arena; outputs are NaN, gradients zero.
 */
clt_status clt_verify_ref_make(clt_verify_data *data, const clt_graph *graph,
                               const clt_verify_subject *subject, const clt_node *node, int copy,
                               bool training, clt_ref_call *call);
/* Can input `index` have a gradient? */
bool clt_verify_takes_gradient(const clt_verify_subject *subject, const clt_graph *graph,
                               const clt_node *node, int index);

/* verify_grad.c: the reference's gradients against finite differences of the reference. */
clt_status clt_verify_grad(clt_verify_session *session, const clt_verify_subject *subject,
                           clt_verify_outcome *outcome);

#endif
