/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of ops on a device for timing, and the bench with which the tuner measures the families of ops. It
 * compares a candidate's results with the results of the list's last variant, the simplest one, which accepts
 * everything. Knows plans and no op. */
#include "engine/verify/speed/op_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"
#include "engine/base/thread.h"
#include "engine/ops/op_problem.h"

#define MAX_RUNS 10000

/* --- operands --- */

clt_status clt_bench_write(ocl_buffer *buffer, uint64_t offset, uint64_t elements, const clt_bench_fill *fill)
{
    static const char what[] = "operands of a measurement";
    size_t width = clt_dtype_bytes(fill->dtype), n = elements < CLT_BENCH_BLOCK ? elements : CLT_BENCH_BLOCK;
    clt_verify_stream stream = clt_verify_stream_make(1, "bench", fill->stream);
    clt_verify_filler filler = {.fill = fill->fill, .max = fill->max, .dtype = fill->dtype};
    double *values = NULL;
    uint8_t *block = NULL;
    clt_status status;
    CLT_TRY_GOTO(clt_alloc(&values, n, sizeof *values, what), done);
    CLT_TRY_GOTO(clt_alloc(&block, n, width, what), done);
    clt_verify_fill(values, n, &filler, &stream);
    for (size_t i = 0; i < n; i++)
        clt_dtype_store(fill->dtype, block, i, fill->scale > 0.0 ? fill->scale * values[i] : values[i]);
    for (uint64_t at = 0; at < elements; at += n) {
        uint64_t part = elements - at < n ? elements - at : n;
        CLT_TRY_GOTO(ocl_write(buffer, offset + at * width, block, part * width), done);
    }
done:
    free(values);
    free(block);
    return status;
}

static clt_status write_tensor(const clt_realized *r, int32_t tensor, const clt_case_input *input,
                               uint32_t stream)
{
    const clt_tensor *t = clt_graph_tensor(r->plan->graph, tensor);
    clt_bench_fill fill = {.dtype = t->dtype, .stream = stream};
    ocl_buffer *buffer;
    uint64_t offset;
    if (input) {
        fill.fill = input->fill;
        fill.max = input->fill_max;
    } else if (t->param >= 0 && r->plan->graph->params[t->param].buffer) {
        fill.fill = CLT_FILL_POSITIVE;
    }
    CLT_TRY(clt_realized_resolve(r, tensor, &buffer, &offset));
    return clt_bench_write(buffer, offset, (uint64_t)clt_shape_elements(&t->shape), &fill);
}

static clt_status write_all(const clt_realized *r, const clt_verify_bench *b, const clt_op_case *c)
{
    const clt_graph *graph = r->plan->graph;
    const clt_node *node = b->node[0];
    clt_step_block step = {.seed_lo = 1, .seed_hi = 2, .step = 3, .valid = (uint32_t)graph->micro_batch};
    for (int i = 0; i < 16; i++)
        step.norm[i] = 1.0f;
    for (int i = 0; i < c->n_inputs; i++)
        CLT_TRY(write_tensor(r, b->in[i], &c->inputs[i], (uint32_t)i));
    for (int i = 0; i < node->n_param; i++)
        CLT_TRY(write_tensor(r, graph->params[node->param[i]].tensor, NULL, (uint32_t)(64 + i)));
    for (int i = 0; i < node->n_out; i++)
        if (b->dout[0][i] >= 0)
            CLT_TRY(write_tensor(r, b->dout[0][i], NULL, (uint32_t)(128 + i)));
    if (node->constant >= 0)
        CLT_TRY(clt_realized_write(r, node->constant, clt_graph_tensor(graph, node->constant)->values));
    return clt_realized_write(r, graph->step, &step);
}

clt_status clt_op_bench_create(ocl_device *device, const ocl_device_desc *desc,
                               const clt_verify_subject *subject, const clt_verify_setup *setup,
                               uint32_t phases, clt_verify_bench **out)
{
    clt_verify_bench *bench;
    clt_status status;
    *out = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "an op's bench"));
    bench->device = device;
    CLT_TRY_GOTO(clt_verify_plan(desc, subject, setup, bench), fail);
    const clt_plan *plans[1] = {bench->plan};
    CLT_TRY_GOTO(clt_pool_create(device, plans, 1, &bench->pool), fail);
    clt_realize_options realize = {
        .pool = bench->pool, .phases = phases, .host = clt_verify_host, .host_context = bench};
    CLT_TRY_GOTO(clt_plan_realize(bench->plan, device, &realize, &bench->realized), fail);
    CLT_TRY_GOTO(write_all(bench->realized, bench, subject->op_case), fail);
    *out = bench;
    return CLT_OK;
fail:;
    clt_error error;
    clt_error_take(status, &error);
    clt_verify_bench_destroy(bench);
    return clt_error_put(&error);
}

/* --- what the tuner's benches share --- */

clt_status clt_phase_trial_run(const clt_phase_trial *trial, int runs)
{
    for (int i = 0; i < runs; i++)
        CLT_TRY(clt_realized_run(trial->realized, trial->phase));
    return ocl_finish(trial->realized->device, OCL_QUEUE_COMPUTE);
}

static clt_status batch(void *trial, int runs, double *seconds)
{
    double start = clt_now();
    CLT_TRY(clt_phase_trial_run(trial, runs));
    *seconds = clt_now() - start;
    return CLT_OK;
}

clt_status clt_phase_trial_time(clt_phase_trial *trial, double *ns)
{
    return ocl_time_trial(batch, trial, MAX_RUNS, &trial->runs, ns);
}

/* --- the bench for the tuner --- */

#define MAX_RESULTS (CLT_MAX_IN + CLT_MAX_OUT + CLT_MAX_SAVED + CLT_MAX_NODE_PARAMS)

typedef struct op_trial {
    clt_verify_bench *bench;
    clt_phase_trial direction;
} op_trial;

typedef struct op_tuning {
    clt_op_problem problem;
    clt_op_case op_case; /* its inputs and attributes come from `problem` */
    ocl_device *device;
    op_trial *reference;
    clt_call call;
    float *want[MAX_RESULTS];
} op_tuning;

/* The tensors that the direction computes: gradients, or outputs and saved tensors; returns their number. */
static int results(const op_tuning *t, const clt_verify_bench *b, int32_t tensor[MAX_RESULTS])
{
    const clt_node *node = b->node[0];
    int n = 0;
    for (int i = 0; t->problem.backward && i < node->n_in; i++)
        if (b->plan->gradient[node->in[i]] >= 0)
            tensor[n++] = b->plan->gradient[node->in[i]];
    for (int i = 0; t->problem.backward && (node->op->flags & CLT_OP_SPLIT_BACKWARD) && i < node->n_param;
         i++) {
        int32_t value = b->plan->graph->params[node->param[i]].tensor;
        if (b->plan->gradient[value] >= 0)
            tensor[n++] = b->plan->gradient[value];
    }
    for (int i = 0; !t->problem.backward && i < node->n_out; i++)
        tensor[n++] = node->out[i];
    for (int i = 0; !t->problem.backward && i < node->n_saved; i++)
        tensor[n++] = node->saved[i];
    return n;
}

static void release(void *tuning, void *trial)
{
    op_trial *t = trial;
    (void)tuning;
    if (t != NULL)
        clt_verify_bench_destroy(t->bench);
    free(t);
}

/* variant: a name, or NULL if there is a candidate. Runs forward first if the direction is backward. */
static clt_status make_trial(op_tuning *t, const ocl_device_desc *desc, const char *variant,
                             const ocl_choice *candidate, ocl_choice *asked, op_trial **out)
{
    const clt_op_problem *p = &t->problem;
    clt_verify_subject subject = {p->op, &t->op_case, variant};
    clt_verify_setup setup = {.mode = CLT_PLAN_CHECK,
                              .copies = 1,
                              .want_in = p->backward ? p->wanted : UINT32_MAX,
                              .want_params = !p->no_params,
                              .narrow = p->narrow,
                              .tf32 = p->tf32,
                              .candidate = candidate,
                              .asked = asked};
    uint32_t phases = 1u << CLT_PHASE_FORWARD | (p->backward ? 1u << CLT_PHASE_BACKWARD : 0);
    op_trial *trial;
    *out = NULL;
    CLT_TRY(clt_alloc(&trial, 1, sizeof *trial, "a candidate of the tuner"));
    clt_status status = clt_op_bench_create(t->device, desc, &subject, &setup, phases, &trial->bench);
    if (status == CLT_OK)
        status = clt_realized_run(trial->bench->realized, CLT_PHASE_FORWARD);
    if (status != CLT_OK) {
        clt_error error;
        clt_error_take(status, &error);
        release(t, trial);
        return clt_error_put(&error);
    }
    trial->direction = (clt_phase_trial){.realized = trial->bench->realized,
                                         .phase = p->backward ? CLT_PHASE_BACKWARD : CLT_PHASE_FORWARD};
    *out = trial;
    return CLT_OK;
}

static clt_status read_result(const op_trial *t, int32_t tensor, float **out, size_t *n)
{
    static const char what[] = "a result of the tuner";
    clt_dtype dtype = clt_verify_tensor(t->bench, tensor)->dtype;
    void *raw = NULL;
    clt_status status;
    *n = clt_verify_elements(t->bench, tensor);
    CLT_TRY(clt_alloc(out, *n + 1, sizeof **out, what));
    CLT_TRY_GOTO(clt_alloc(&raw, *n + 1, clt_dtype_bytes(dtype), what), fail);
    CLT_TRY_GOTO(clt_realized_read(t->bench->realized, tensor, raw), fail);
    for (size_t i = 0; i < *n; i++)
        (*out)[i] = (float)clt_dtype_load(dtype, raw, i);
    free(raw);
    return CLT_OK;
fail:
    free(raw);
    free(*out);
    *out = NULL;
    return status;
}

static double largest(const float *values, size_t n)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++)
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : INFINITY;
    return most;
}

/* Runs the reference. Fails if all its values are zero or one is infinite, because then every candidate
 * would seem right. */
static clt_status make_reference(op_tuning *t, const ocl_device_desc *desc)
{
    const ocl_variant *const *list =
        (t->problem.backward ? &t->problem.op->backward : &t->problem.op->forward)->variants;
    const clt_verify_bench *b;
    int32_t tensor[MAX_RESULTS];
    size_t last = 0, n;
    while (list[last + 1] != NULL)
        last++;
    CLT_TRY(make_trial(t, desc, list[last]->name, NULL, NULL, &t->reference));
    b = t->reference->bench;
    CLT_TRY(clt_phase_trial_run(&t->reference->direction, 1));
    int count = results(t, b, tensor);
    for (int i = 0; i < count; i++) {
        CLT_TRY(read_result(t->reference, tensor[i], &t->want[i], &n));
        double most = largest(t->want[i], n);
        if (!(most > 0.0 && most < INFINITY))
            CLT_FAIL(CLT_ECHECK,
                     "the reference of %s is wrong on this device: the largest of '%s' is %g; run "
                     "'cltrain verify'",
                     t->problem.op->name, clt_verify_tensor(b, tensor[i])->name, most);
    }
    if (count == 0 || !clt_plan_call(b->plan, t->problem.op, t->problem.backward, &t->call))
        CLT_FAIL(CLT_EUNSUPPORTED, "%s computes nothing that could be compared", t->problem.op->name);
    return CLT_OK;
}

static void destroy(void *tuning)
{
    op_tuning *t = tuning;
    if (t == NULL)
        return;
    release(t, t->reference);
    for (int i = 0; i < MAX_RESULTS; i++)
        free(t->want[i]);
    free(t);
}

static clt_status create(ocl_device *device, const ocl_device_desc *desc, const void *data, void **out)
{
    op_tuning *t;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tuner's problem"));
    t->device = device;
    t->problem = *(const clt_op_problem *)data;
    t->op_case = (clt_op_case){.name = "tuning", .attrs = t->problem.attrs, .n_inputs = t->problem.n_in};
    memcpy(t->op_case.inputs, t->problem.in, sizeof t->op_case.inputs);
    clt_status status = make_reference(t, desc);
    if (status != CLT_OK) {
        clt_error error;
        clt_error_take(status, &error);
        destroy(t);
        return clt_error_put(&error);
    }
    *out = t;
    return CLT_OK;
}

static const void *problem(const void *tuning, bool measured)
{
    (void)measured;
    return &((const op_tuning *)tuning)->call;
}

static clt_status ready(void *tuning, const ocl_device_desc *desc, const ocl_choice *candidate,
                        ocl_choice *asked, void **out)
{
    op_trial *trial;
    clt_status status = make_trial(tuning, desc, NULL, candidate, asked, &trial);
    *out = trial;
    return status;
}

static clt_status time_one(void *tuning, void *trial, double *ns)
{
    (void)tuning;
    return clt_phase_trial_time(&((op_trial *)trial)->direction, ns);
}

/* How much results of variants may differ, relative to the largest value of a tensor: sums have another
 * order, and values may be rounded to the storage type between two products. tf32 has the same mantissa as
 * f16. */
static double tolerance(const op_tuning *t)
{
    clt_dtype storage = t->problem.in[0].dtype;
    return storage == CLT_F32 && !t->problem.tf32 ? 1e-4 : storage != CLT_BF16 ? 1e-2 : 8e-2;
}

bool clt_bench_equal(const float *got, const float *want, size_t n, double tolerance, const char *what,
                     char *why, size_t size)
{
    double limit = tolerance * largest(want, n);
    for (size_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - (double)want[i]) <= limit)
            continue;
        snprintf(why, size, "element %zu of '%s' is %.9g, it should be %.9g", i, what, (double)got[i],
                 (double)want[i]);
        return false;
    }
    return true;
}

static clt_status check(void *tuning, void *trial, bool *right, char *why, size_t size)
{
    op_tuning *t = tuning;
    const op_trial *made = trial;
    int32_t tensor[MAX_RESULTS];
    size_t n;
    *right = true;
    CLT_TRY(clt_phase_trial_run(&made->direction, 1));
    int count = results(t, made->bench, tensor);
    for (int i = 0; i < count && *right; i++) {
        float *got;
        CLT_TRY(read_result(made, tensor[i], &got, &n));
        *right = clt_bench_equal(got, t->want[i], n, tolerance(t),
                                 clt_verify_tensor(made->bench, tensor[i])->name, why, size);
        free(got);
    }
    return CLT_OK;
}

const ocl_family_bench clt_op_family_bench = {.create = create,
                                              .destroy = destroy,
                                              .problem = problem,
                                              .ready = ready,
                                              .release = release,
                                              .time = time_one,
                                              .check = check};
