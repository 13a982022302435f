/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the results of ops on the device: gradients written and accumulated, each gradient alone, integers
 * that must be exact. verify_bits.c checks equal bits and speed. Knows benches and references; knows no op
 * by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/verify/verify_internal.h"

/* One run: a bench, with data and references of all copies. */
typedef struct op_run {
    const clt_verify_subject *subject;
    clt_verify_bench *bench;
    clt_verify_outcome *outcome;
    clt_verify_data data;
    clt_ref_call call[CLT_VERIFY_COPIES];
    const char *what; /* precedes the names of tensors in messages: "written", "accumulated" ... */
} op_run;

static bool is_inexact(const clt_verify_subject *subject)
{
    const char *name = subject->op->inexact_variant;
    return name && subject->variant && strcmp(subject->variant, name) == 0;
}

static double tolerance_of(const op_run *r)
{
    if (is_inexact(r->subject))
        return r->subject->op->inexact_tolerance;
    double own = r->subject->op_case->tolerance;
    return own > 0.0 ? own : r->subject->op->ref->tolerance;
}

static clt_status new_doubles(const op_run *r, size_t n, double **out)
{
    *out = clt_arena_alloc(r->data.arena, n * sizeof **out + 1);
    return *out ? CLT_OK : CLT_ENOMEM;
}

/* The value that element e of a gradient has before a node adds to it. */
static double earlier_value(size_t e)
{
    return (double)(e % 5) - 1.5;
}

/* Sets initial values of the gradients of inputs to which the nodes add. */
static clt_status put_earlier(op_run *r)
{
    for (int i = 0; i < r->call[0].n_in; i++) {
        int32_t gradient = r->bench->earlier[i];
        double *values;
        if (gradient < 0)
            continue;
        size_t n = clt_verify_elements(r->bench, gradient);
        CLT_TRY(new_doubles(r, n, &values));
        for (size_t e = 0; e < n; e++)
            values[e] = earlier_value(e);
        clt_verify_bench_put(r->bench, gradient, values);
    }
    return CLT_OK;
}

/* Sets initial values of the loss records if the micro-batch is not the first of its step: it adds to them,
 * unless it keeps its sums apart (SB_FLAG_APART). */
static void put_losses(op_run *r)
{
    double record[CLT_MAX_LOSSES * 4];
    const clt_graph *graph = r->bench->plan->graph;
    if (r->data.step.micro == 0 || graph->n_losses == 0)
        return;
    for (size_t i = 0; i < 4 * (size_t)graph->n_losses; i++)
        record[i] = (double)(i + 2);
    clt_verify_bench_put(r->bench, r->bench->plan->losses, record);
    for (int k = 0; k < r->bench->copies && !(r->data.step.flags & SB_FLAG_APART); k++)
        memcpy(r->call[k].loss_record, record + 4 * r->call[k].node->loss, sizeof r->call[k].loss_record);
}

/* The largest relative error of a value that is rounded to a 16-bit type; 0 for other types. */
static double narrow_rounding(clt_dtype dtype)
{
    return dtype == CLT_F16 ? 0x1p-11 : dtype == CLT_BF16 ? 0x1p-8 : 0.0;
}

/* The relative error that a variant may add by rounding values between its products to the case's 16-bit
 * type. Saved values are not affected. */
static double rounded_by(const op_run *r, const clt_tensor *t)
{
    const clt_op *op = r->subject->op;
    if (r->subject->op_case->rounding > 0.0)
        return r->subject->op_case->rounding;
    clt_dtype dtype = r->subject->op_case->n_inputs > 0 ? r->subject->op_case->inputs[0].dtype : CLT_F32;
    if (!op->rounding_variant || !r->subject->variant || t->cls == CLT_TC_SAVED ||
        strncmp(op->rounding_variant, r->subject->variant, strlen(op->rounding_variant)) != 0)
        return 0.0;
    return op->roundings * narrow_rounding(dtype);
}

/* Compares tensor `id` with a reference. */
typedef struct tensor_check {
    const double *reference, *terms; /* terms: as in clt_verify_rule */
    double factor;                   /* number of results that were added up */
    double extra;                    /* additional f32 roundings, beyond the op's own */
    double share;                    /* fraction of elements that must not be zero */
    /* How many times a sum was rounded to the tensor's 16-bit type before the last store. Each time adds
     * twice the rounding error to the limit, since only few elements may use more than half of a limit. */
    int stores;
} tensor_check;

static clt_status check_tensor(op_run *r, int32_t id, const tensor_check *check)
{
    const clt_tensor *t = clt_verify_tensor(r->bench, id);
    size_t n = clt_verify_elements(r->bench, id);
    bool whole = r->data.integers || !clt_dtype_is_float(t->dtype);
    clt_verify_rule rule = {tolerance_of(r) * check->factor + check->extra, t->dtype, whole, check->terms};
    char what[256];
    double *got;
    CLT_TRY(new_doubles(r, n, &got));
    clt_verify_bench_get(r->bench, id, got);
    clt_verify_from(r->outcome, clt_verify_bench_source(r->bench, id));
    snprintf(what, sizeof what, "%s '%s'", r->what, t->name);
    clt_verify_compare_rounded(r->outcome, what, got, check->reference, n, &rule,
                               r->data.integers ? 0.0
                                                : check->factor * rounded_by(r, t) +
                                                      2.0 * check->stores * narrow_rounding(t->dtype));
    if (!r->data.integers)
        clt_verify_trust(r->outcome, what, got, n, check->share);
    return CLT_OK;
}

/* Checks values that the op stores without adding anything up. */
static clt_status check_values(op_run *r, int32_t id, const double *reference, double share)
{
    return check_tensor(r, id, &(tensor_check){.reference = reference, .factor = 1.0, .share = share});
}

static const clt_verify_rule exact = {.dtype = CLT_F32, .exact = true};

/* Checks a sum of terms of both signs: rounding errors are relative to the terms' magnitudes. */
static void check_sum(op_run *r, const char *what, double got, double want, double terms)
{
    double bound = (tolerance_of(r) + 1.0) * CLT_VERIFY_EPS * fmax(1.0, fmax(fabs(want), fabs(terms)));
    if (r->data.integers)
        clt_verify_compare(r->outcome, what, &got, &want, 1, &exact);
    else
        clt_verify_compare_bounds(r->outcome, what, &got, &want, &bound, 1, CLT_F32, 0.0);
}

/* Checks a record {scaled loss, loss, counted, correct}, whose counts are integers. */
static void check_record(op_run *r, int copy)
{
    double all[CLT_MAX_LOSSES * 4];
    const clt_ref_call *call = &r->call[copy];
    char what[128];
    if (call->node->loss < 0)
        return;
    clt_verify_bench_get(r->bench, r->bench->plan->losses, all);
    const double *got = all + 4 * call->node->loss;
    clt_verify_source source = clt_verify_bench_source(r->bench, r->bench->plan->losses);
    source.offset += (uint64_t)(4 * call->node->loss) * clt_dtype_bytes(source.dtype);
    snprintf(what, sizeof what, "%s loss record of '%s'", r->what, call->node->name);
    for (int i = 0; i < 2; i++, source.offset += clt_dtype_bytes(source.dtype)) {
        clt_verify_from(r->outcome, source);
        check_sum(r, what, got[i], call->loss_record[i], call->loss_terms[i]);
    }
    clt_verify_from(r->outcome, source);
    clt_verify_compare(r->outcome, what, got + 2, call->loss_record + 2, 2, &exact);
}

static bool is_told(const clt_ref_tensor *t)
{
    for (int64_t i = 0; i < clt_shape_elements(&t->shape); i++)
        if (!isnan(t->data[i]))
            return true;
    return false;
}

static clt_status check_forward(op_run *r)
{
    CLT_TRY(clt_verify_bench_run(r->bench, CLT_PHASE_FORWARD, r->outcome));
    for (int k = 0; k < r->bench->copies; k++) {
        clt_ref_call *call = &r->call[k];
        r->subject->op->ref->forward(call);
        for (int i = 0; i < call->n_out; i++)
            CLT_TRY(check_values(r, call->node->out[i], call->out[i].data, 0.02));
        for (int i = 0; i < call->n_saved; i++)
            if (is_told(&call->saved[i])) /* only values that the reference defines can be compared */
                CLT_TRY(check_values(r, call->node->saved[i], call->saved[i].data, 0.0));
        for (int i = 0; i < call->n_param; i++)
            if (call->buffer[i].data && clt_node_updates_buffers(r->bench->plan->graph, call->node))
                CLT_TRY(check_values(r, r->bench->plan->graph->params[call->node->param[i]].tensor,
                                     call->buffer[i].data, 0.0));
        check_record(r, k);
        /* backward starts from the stored outputs, so that their rounding does not count as its error */
        for (int i = 0; i < call->n_out; i++)
            if (call->out[i].dtype == CLT_F16 || call->out[i].dtype == CLT_BF16)
                clt_verify_bench_get(r->bench, call->node->out[i], call->out[i].data);
    }
    return CLT_OK;
}

static clt_status check_gradients(op_run *r, double *const prefill[CLT_VERIFY_COPIES][CLT_MAX_NODE_PARAMS])
{
    const clt_plan *plan = r->bench->plan;
    const clt_ref_call *first = &r->call[0];
    double factor = r->bench->copies > 1 ? 2.0 : 1.0;
    for (int i = 0; i < first->n_in; i++) {
        int32_t gradient = plan->gradient[first->node->in[i]];
        if (gradient < 0)
            continue;
        double *sum, *terms;
        size_t n = clt_verify_elements(r->bench, gradient);
        CLT_TRY(new_doubles(r, n, &sum));
        CLT_TRY(new_doubles(r, n, &terms));
        for (size_t e = 0; e < n && r->bench->earlier[i] >= 0; e++) {
            sum[e] = earlier_value(e);
            terms[e] = fabs(sum[e]);
        }
        for (int k = 0; k < r->bench->copies; k++)
            for (size_t e = 0; e < n; e++) {
                sum[e] += r->call[k].din[i].data[e];
                terms[e] += r->call[k].din_terms[i][e];
            }
        tensor_check check = {sum, terms, factor, 2.0 * (factor - 1.0), 0.0, r->bench->copies - 1};
        CLT_TRY(check_tensor(r, gradient, &check));
    }
    for (int k = 0; k < r->bench->copies; k++) {
        for (int i = 0; i < r->call[k].n_param; i++) {
            int32_t gradient = plan->gradient[plan->graph->params[r->call[k].node->param[i]].tensor];
            if (gradient < 0)
                continue;
            double *sum;
            size_t n = clt_verify_elements(r->bench, gradient);
            CLT_TRY(new_doubles(r, n, &sum));
            for (size_t e = 0; e < n; e++)
                sum[e] = r->call[k].dparam[i].data[e] + (prefill ? prefill[k][i][e] : 0.0);
            tensor_check check = {sum, NULL, 1.0, prefill ? 1.0 : 0.0, 0.0, 0};
            CLT_TRY(check_tensor(r, gradient, &check));
        }
    }
    return CLT_OK;
}

/* Checks BACKWARD_ADD: it adds to the initial parameter gradients, and treats input gradients as BACKWARD
 * does. */
static clt_status check_add(op_run *r)
{
    const clt_graph *graph = r->bench->plan->graph;
    double *prefill[CLT_VERIFY_COPIES][CLT_MAX_NODE_PARAMS] = {{NULL}};
    if (r->bench->plan->phase[CLT_PHASE_BACKWARD_ADD].count == 0)
        return CLT_OK;
    clt_verify_bench_keep(r->bench);
    for (int i = 0; i < r->call[0].n_param; i++) {
        int32_t gradient = r->bench->plan->gradient[graph->params[r->call[0].node->param[i]].tensor];
        if (gradient < 0)
            continue;
        size_t n = clt_verify_elements(r->bench, gradient);
        CLT_TRY(new_doubles(r, n, &prefill[0][i]));
        for (size_t e = 0; e < n; e++)
            prefill[0][i][e] = earlier_value(e);
        clt_verify_bench_put(r->bench, gradient, prefill[0][i]);
    }
    CLT_TRY(put_earlier(r));
    CLT_TRY(clt_verify_bench_run(r->bench, CLT_PHASE_BACKWARD_ADD, r->outcome));
    r->what = "added";
    return check_gradients(r, prefill);
}

static clt_status check_run(op_run *r, const clt_verify_setup *setup)
{
    for (int k = 0; k < r->bench->copies; k++)
        CLT_TRY(clt_verify_ref_make(&r->data, r->bench->plan->graph, r->subject, r->bench->node[k], k,
                                    setup->mode == CLT_PLAN_CHECK && !setup->frozen_buffers, &r->call[k]));
    clt_verify_put_data(r->bench, &r->data, CLT_VERIFY_NAN_PATTERN);
    put_losses(r);
    CLT_TRY(check_forward(r));
    if (clt_verify_bad(r->outcome) || r->bench->plan->n_work == r->bench->plan->n_forward)
        return CLT_OK;
    for (int k = 0; k < r->bench->copies; k++)
        r->subject->op->ref->backward(&r->call[k]);
    clt_verify_bench_keep(r->bench);
    CLT_TRY(put_earlier(r));
    CLT_TRY(clt_verify_bench_run(r->bench, CLT_PHASE_BACKWARD, r->outcome));
    CLT_TRY(check_gradients(r, NULL));
    return check_add(r);
}

/* Properties of the data of a run. */
typedef struct data_kind {
    bool integers;
    uint32_t samples_on; /* how many samples later in the global batch the micro-batch begins */
    bool far;   /* the micro-batch begins just before element 2^34, where the number of a Philox block
                 * exceeds 32 bits */
    bool apart; /* SB_FLAG_APART */
} data_kind;

static clt_status run_data(clt_verify_session *session, const clt_verify_subject *subject,
                           const clt_verify_setup *setup, clt_verify_bench *bench, data_kind kind,
                           const char *what, clt_verify_outcome *outcome)
{
    op_run r = {.subject = subject, .bench = bench, .outcome = outcome, .what = what};
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_TRY(clt_arena_create(&arena));
    r.data.arena = arena;
    CLT_TRY(clt_verify_data_make(&r.data, bench->plan->graph, subject, bench, session->seed, kind.integers,
                                 setup->copies > 1));
    r.data.step.sample_lo += kind.samples_on;
    r.data.step.flags = kind.apart ? SB_FLAG_APART : 0;
    if (kind.far) {
        uint64_t rows = (uint64_t)bench->plan->graph->micro_batch;
        uint64_t sample = ((UINT64_C(1) << 34) - 1) / (clt_verify_elements(bench, bench->in[0]) / rows) - 1;
        r.data.step.sample_lo = (uint32_t)sample;
        r.data.step.sample_hi = (uint32_t)(sample >> 32);
    }
    return check_run(&r, setup);
}

static clt_status check_setup(clt_verify_session *session, const clt_verify_subject *subject,
                              const clt_verify_setup *setup, bool integers_too, const char *what,
                              clt_verify_outcome *outcome)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    if (clt_verify_bad(outcome))
        return CLT_OK;
    CLT_TRY(clt_verify_bench_create(session, subject, setup, outcome, &bench));
    if (!bench)
        return CLT_OK; /* the check is skipped */
    CLT_TRY(run_data(session, subject, setup, bench, (data_kind){0}, what, outcome));
    if (integers_too && !clt_verify_bad(outcome))
        CLT_TRY(run_data(session, subject, setup, bench, (data_kind){.integers = true}, what, outcome));
    uint32_t starts = subject->op_case->four_starts ? 4 : 1;
    for (uint32_t on = 1; on < starts && !clt_verify_bad(outcome); on++)
        CLT_TRY(run_data(session, subject, setup, bench, (data_kind){.samples_on = on}, what, outcome));
    if (starts > 1 && !clt_verify_bad(outcome))
        CLT_TRY(run_data(session, subject, setup, bench, (data_kind){.far = true}, what, outcome));
    if (bench->plan->graph->n_losses > 0 && setup->copies > 1 && !clt_verify_bad(outcome))
        CLT_TRY(run_data(session, subject, setup, bench, (data_kind){.apart = true}, what, outcome));
    return CLT_OK;
}

/* Finds the inputs that can have a gradient, the number of parameters, and whether some are buffers. */
static clt_status look(const clt_verify_subject *subject, uint32_t *inputs, int *params, bool *buffers)
{
    clt_verify_bench scratch = {0};
    CLT_SCOPED(clt_graph) *graph = NULL;
    CLT_TRY(clt_verify_graph(subject, &CLT_VERIFY_SINGLE, &scratch, &graph));
    *inputs = 0;
    *params = subject->op->backward.variants ? scratch.node[0]->n_param : 0;
    for (int i = 0; i < scratch.node[0]->n_in; i++)
        if (clt_verify_takes_gradient(subject, graph, scratch.node[0], i))
            *inputs |= 1u << i;
    *buffers = clt_node_updates_buffers(graph, scratch.node[0]);
    return CLT_OK;
}

/* Checks each gradient without the others: in training, the first layer needs no gradient of its input, and
 * a frozen layer none of its weights. */
static clt_status check_alone(clt_verify_session *session, const clt_verify_subject *subject, uint32_t inputs,
                              int params, clt_verify_outcome *outcome)
{
    clt_verify_setup setup = clt_verify_single(session, subject->op_case);
    setup.want_in = 0;
    if (params > 0 && inputs != 0)
        CLT_TRY(check_setup(session, subject, &setup, false, "(parameters alone)", outcome));
    setup.want_params = false;
    setup.want_in = UINT32_MAX;
    if (params > 0 && inputs != 0)
        CLT_TRY(check_setup(session, subject, &setup, false, "(frozen parameters)", outcome));
    for (int i = 0; i < 3 && (inputs & (inputs - 1)) != 0; i++) {
        char what[48];
        setup.want_in = 1u << i;
        snprintf(what, sizeof what, "(input %d alone)", i);
        if (inputs & setup.want_in)
            CLT_TRY(check_setup(session, subject, &setup, false, what, outcome));
    }
    return CLT_OK;
}

static clt_status check_correct(clt_verify_session *session, const clt_verify_subject *subject,
                                clt_verify_outcome *outcome)
{
    const clt_verify_setup single = clt_verify_single(session, subject->op_case);
    clt_verify_setup twin = single, scaled = single, narrow = single, fixed = single;
    const clt_verify_setup eval = {.mode = CLT_PLAN_EVAL, .copies = 1};
    twin.copies = 2;
    scaled.scaled = true;
    narrow.narrow = true;
    fixed.frozen_buffers = true;
    bool whole = subject->op_case->exact && !is_inexact(subject), buffers;
    uint32_t inputs;
    int params;
    CLT_TRY(look(subject, &inputs, &params, &buffers));
    CLT_TRY(check_setup(session, subject, &single, whole, "written", outcome));
    CLT_TRY(check_setup(session, subject, &twin, whole, "accumulated", outcome));
    if (buffers)
        CLT_TRY(check_setup(session, subject, &fixed, whole, "frozen buffers", outcome));
    if (subject->op->flags & CLT_OP_LOSS)
        CLT_TRY(check_setup(session, subject, &scaled, whole, "scaled", outcome));
    if (subject->op->backward.variants && !single.narrow && clt_verify_is_16_bit(subject->op_case))
        CLT_TRY(check_setup(session, subject, &narrow, false, "16-bit gradients", outcome));
    if (subject->op_case->small && subject->op->backward.variants)
        CLT_TRY(check_alone(session, subject, inputs, params, outcome));
    if ((subject->op->flags & CLT_OP_RANDOM) && params == 0)
        CLT_TRY(check_setup(session, subject, &eval, whole, "evaluated", outcome));
    return CLT_OK;
}

/* --- all ops --- */

static clt_status check_one(clt_verify_session *session, const clt_verify_subject *subject, unsigned mode)
{
    const clt_op_case *c = subject->op_case;
    clt_verify_item item = {
        subject->op->name, c->name, subject->variant, mode, c->small, clt_verify_has_type(c, CLT_BF16)};
    clt_verify_outcome outcome;
    if (!clt_verify_wants(session, &item, &outcome))
        return CLT_OK;
    clt_op_case altered = *c;
    const clt_verify_subject run = {subject->op, &altered, subject->variant};
    clt_status status = clt_verify_alter(session, CLT_VERIFY_OP_CASE, &altered);
    if (status != CLT_OK)
        return clt_verify_finish(session, &outcome, status);
    subject = &run;
    if (subject->op->backward.variants && !subject->op->ref->backward)
        clt_verify_set(&outcome, CLT_VERIFY_UNIMPL, "the op has a gradient and its reference has none");
    else if (mode == CLT_VERIFY_CORRECT)
        status = check_correct(session, subject, &outcome);
    else if (mode == CLT_VERIFY_GRAD)
        status = clt_verify_grad(session, subject, &outcome);
    else
        status = clt_verify_bits(session, subject, &outcome);
    return clt_verify_finish(session, &outcome, status);
}

/* Lists the names of the variants of both directions, each once. */
static int variant_names(const clt_op *op, const char *names[], int max)
{
    const ocl_variant *const *forward = op->forward.variants, *const *backward = op->backward.variants;
    int count = 0;
    for (size_t i = 0; forward && forward[i] && count < max; i++)
        names[count++] = forward[i]->name;
    for (size_t i = 0; backward && backward[i] && count < max; i++)
        if (!ocl_variant_named(forward, backward[i]->name))
            names[count++] = backward[i]->name;
    return count;
}

static bool is_finite(const clt_op_case *c)
{
    for (int i = 0; i < c->n_inputs; i++)
        if (c->inputs[i].fill == CLT_FILL_STRAY || c->inputs[i].fill == CLT_FILL_NAN ||
            c->inputs[i].fill == CLT_FILL_LOWEST || c->inputs[i].fill == CLT_FILL_PEAKS ||
            c->inputs[i].fill == CLT_FILL_SWEEP) /* an argument may lie at the kink of relu */
            return false;
    return true;
}

static clt_status check_case(clt_verify_session *session, const clt_op *op, const clt_op_case *c)
{
    const char *names[32];
    int count = variant_names(op, names, 32);
    if (op->backward.variants && is_finite(c))
        CLT_TRY(check_one(session, &(clt_verify_subject){op, c, NULL}, CLT_VERIFY_GRAD));
    for (int v = 0; v < (count ? count : 1); v++) {
        clt_verify_subject subject = {op, c, count ? names[v] : NULL};
        CLT_TRY(check_one(session, &subject, CLT_VERIFY_CORRECT));
        if (!c->remembers)
            CLT_TRY(check_one(session, &subject, CLT_VERIFY_BITWISE));
    }
    return CLT_OK;
}

clt_status clt_verify_ops(clt_verify_session *session, const clt_op *const *ops, int count)
{
    for (int i = 0; i < count; i++) {
        const clt_op_ref *ref = ops[i]->ref;
        if (!ref || !ref->forward || ref->n_cases == 0) {
            clt_verify_item item = {ops[i]->name, "reference", NULL, CLT_VERIFY_CORRECT, true, false};
            clt_verify_outcome outcome;
            if (clt_verify_wants(session, &item, &outcome)) {
                clt_verify_set(&outcome, CLT_VERIFY_UNIMPL, "the op has no reference or no test case");
                CLT_TRY(clt_verify_finish(session, &outcome, CLT_OK));
            }
            continue;
        }
        for (int c = 0; c < ref->n_cases; c++)
            CLT_TRY(check_case(session, ops[i], &ref->cases[c]));
    }
    return CLT_OK;
}
