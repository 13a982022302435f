/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the references: compares their gradients with central differences of their own forward pass, in
 * double precision, for a few single elements and for random directions over all elements. Needs no
 * device. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/verify/verify_internal.h"

#define ELEMENTS 16  /* elements of each tensor that are varied one at a time */
#define DIRECTIONS 2 /* random directions over all elements of each tensor */
#define ABSOLUTE 1e-6
#define RELATIVE 1e-4
#define ROUNDING (64 * 0x1p-52) /* relative rounding error of the sums in the objective */
enum { STREAM_PICK = 400, STREAM_DIRECTION = 500 };

typedef struct grad_check {
    const clt_op_ref *ref;
    clt_ref_call *call;
    clt_arena *arena;
    uint64_t seed;
    const char *key;
    clt_verify_outcome *outcome;
} grad_check;

/* The differentiated function: the weighted sum of the outputs, or the loss. */
static double objective(const grad_check *g)
{
    clt_ref_call *call = g->call;
    memset(call->loss_record, 0, sizeof call->loss_record);
    g->ref->forward(call);
    if (call->node->loss >= 0)
        return call->loss_record[0] * call->loss_scale;
    double sum = 0.0;
    for (int o = 0; o < call->n_out; o++)
        for (int64_t i = 0; call->dout[o].data && i < clt_shape_elements(&call->out[o].shape); i++)
            sum += call->dout[o].data[i] * call->out[o].data[i];
    return sum;
}

/* The slope along `direction` (NULL: of element `at` alone). *noise: a bound of the slope's rounding
 * error. */
static double slope(const grad_check *g, clt_ref_tensor *x, const double *direction, int64_t at, double h,
                    double *noise)
{
    int64_t n = clt_shape_elements(&x->shape);
    double *kept = clt_arena_alloc(g->arena, (size_t)n * sizeof *kept), value[2];
    if (!kept)
        return NAN;
    memcpy(kept, x->data, (size_t)n * sizeof *kept);
    for (int side = 0; side < 2; side++) {
        double step = side ? -h : h;
        for (int64_t i = 0; i < n; i++)
            x->data[i] = kept[i] + (direction ? step * direction[i] : i == at ? step : 0.0);
        value[side] = objective(g);
    }
    memcpy(x->data, kept, (size_t)n * sizeof *kept);
    *noise = ROUNDING * (fabs(value[0]) + fabs(value[1])) / (2.0 * h);
    return (value[0] - value[1]) / (2.0 * h);
}

/* Tries several step sizes, because a kink within the step (relu, max, l1) spoils the result for some
 * sizes. */
static void check_slope(const grad_check *g, const char *name, clt_ref_tensor *x, const double *direction,
                        int64_t at, double want)
{
    static const double steps[] = {1e-6, 1e-5, 1e-7, 1e-8};
    double got = 0.0, used = INFINITY; /* used: error as a fraction of its limit */
    for (size_t s = 0; s < sizeof steps / sizeof steps[0] && !(used <= 1.0); s++) {
        double noise = 0.0, value = slope(g, x, direction, at, steps[s], &noise);
        double share = fabs(value - want) / (ABSOLUTE + RELATIVE * fabs(want) + noise);
        if (s == 0 || share < used) {
            got = value;
            used = share;
        }
    }
    if (!(used <= g->outcome->error))
        g->outcome->error = used;
    g->outcome->limit = 1.0;
    if (used <= 1.0)
        return;
    char where[48];
    snprintf(where, sizeof where, direction ? "along a direction" : "at element %lld", (long long)at);
    clt_verify_set(g->outcome, CLT_VERIFY_FAIL,
                   "the reference's gradient of %s %s is %.9g, finite differences give %.9g", name, where,
                   want, got);
}

static clt_status check_tensor(const grad_check *g, const char *name, clt_ref_tensor *x,
                               const double *gradient, uint32_t number)
{
    int64_t n = clt_shape_elements(&x->shape);
    clt_verify_stream pick = clt_verify_stream_make(g->seed, g->key, STREAM_PICK + number);
    for (int64_t k = 0; k < (n < ELEMENTS ? n : ELEMENTS); k++) {
        int64_t at = n <= ELEMENTS
                         ? k
                         : (int64_t)(((uint64_t)clt_verify_word(&pick, (uint64_t)k) * (uint64_t)n) >> 32);
        check_slope(g, name, x, NULL, at, gradient[at]);
    }
    double *direction = clt_arena_alloc(g->arena, (size_t)n * sizeof *direction);
    if (!direction)
        return CLT_ENOMEM;
    for (uint32_t d = 0; d < DIRECTIONS && n > 1; d++) {
        clt_verify_stream stream =
            clt_verify_stream_make(g->seed, g->key, STREAM_DIRECTION + number * DIRECTIONS + d);
        clt_verify_filler filler = {.fill = CLT_FILL_NORMAL, .dtype = CLT_F32};
        double want = 0.0;
        clt_verify_fill(direction, (size_t)n, &filler, &stream);
        for (int64_t i = 0; i < n; i++)
            want += direction[i] * gradient[i];
        check_slope(g, name, x, direction, 0, want);
    }
    return CLT_OK;
}

static clt_status copy_of(const grad_check *g, const clt_ref_tensor *t, double **out)
{
    size_t bytes = (size_t)clt_shape_elements(&t->shape) * sizeof **out;
    *out = clt_arena_alloc(g->arena, bytes);
    if (!*out)
        return CLT_ENOMEM;
    memcpy(*out, t->data, bytes);
    return CLT_OK;
}

/* Makes the reference store all values as doubles: if it rounded saved values to 16 bits, as kernels do, the
 * function would have steps instead of slopes. */
static void store_exactly(clt_ref_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (clt_dtype_is_float(call->in[i].dtype))
            call->in[i].dtype = CLT_F32;
    for (int i = 0; i < call->n_param; i++)
        call->param[i].dtype = CLT_F32;
    for (int i = 0; i < call->n_out; i++)
        call->out[i].dtype = CLT_F32;
}

static clt_status check_all(const grad_check *g)
{
    clt_ref_call *call = g->call;
    char name[32];
    store_exactly(call);
    (void)objective(g); /* computes outputs and saved values that backward may read */
    g->ref->backward(call);
    for (int i = 0; i < call->n_in; i++) {
        double *gradient;
        if (!call->din[i].data)
            continue;
        CLT_TRY(copy_of(g, &call->din[i], &gradient));
        snprintf(name, sizeof name, "input %d", i);
        CLT_TRY(check_tensor(g, name, &call->in[i], gradient, (uint32_t)i));
    }
    for (int i = 0; i < call->n_param; i++) {
        double *gradient;
        CLT_TRY(copy_of(g, &call->dparam[i], &gradient));
        snprintf(name, sizeof name, "parameter %d", i);
        CLT_TRY(check_tensor(g, name, &call->param[i], gradient, (uint32_t)(CLT_MAX_IN + i)));
    }
    return CLT_OK;
}

clt_status clt_verify_grad(clt_verify_session *session, const clt_verify_subject *subject,
                           clt_verify_outcome *outcome)
{
    clt_verify_bench bench = {0}; /* without a device: only the ids of the graph are used */
    clt_verify_setup setup = CLT_VERIFY_SINGLE;
    /* unrounded, so that no two numbers are equal: the maximum of equal numbers has no derivative */
    clt_verify_data data = {.unrounded = true};
    clt_ref_call call;
    CLT_SCOPED(clt_graph) *graph = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    char key[128];
    snprintf(key, sizeof key, "%s.%s", subject->op->name, subject->op_case->name);
    CLT_TRY(clt_verify_graph(subject, &setup, &bench, &graph));
    CLT_TRY(clt_arena_create(&arena));
    data.arena = arena;
    CLT_TRY(clt_verify_data_make(&data, graph, subject, &bench, session->seed, false, false));
    CLT_TRY(clt_verify_ref_make(&data, graph, subject, bench.node[0], 0, true, &call));
    call.peers_quiet = true;
    grad_check g = {subject->op->ref, &call, arena, session->seed, key, outcome};
    return check_all(&g);
}
