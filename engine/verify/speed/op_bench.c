/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of ops on a device for timing, and the bench with which the tuner measures the families of ops. Knows
 * plans and no op. */
#include "engine/verify/speed/op_bench.h"

#include <math.h>
#include <string.h>

#include "engine/ops/op_problem.h"
#include "engine/verify/speed/phase_tuning.h"

/* --- operands --- */

clt_status clt_bench_write(ocl_buffer *buffer, uint64_t offset, uint64_t elements, const clt_bench_fill *fill)
{
    static const char what[] = "operands of a measurement";
    size_t width = clt_dtype_bytes(fill->dtype), n = elements < CLT_BENCH_BLOCK ? elements : CLT_BENCH_BLOCK;
    clt_verify_stream stream = clt_verify_stream_make(1, "bench", fill->stream);
    clt_verify_filler filler = {.fill = fill->fill, .max = fill->max, .dtype = fill->dtype};
    CLT_FREED double *values = NULL;
    CLT_FREED uint8_t *block = NULL;
    CLT_TRY(clt_alloc(&values, n, sizeof *values, what));
    CLT_TRY(clt_alloc(&block, n, width, what));
    clt_verify_fill(values, n, &filler, &stream);
    for (size_t i = 0; i < n; i++)
        clt_dtype_store(fill->dtype, block, i, fill->scale > 0.0 ? fill->scale * values[i] : values[i]);
    for (uint64_t at = 0; at < elements; at += n) {
        uint64_t part = elements - at < n ? elements - at : n;
        CLT_TRY(ocl_write(buffer, offset + at * width, block, part * width));
    }
    return CLT_OK;
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
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "an op's bench"));
    bench->device = device;
    CLT_TRY(clt_verify_plan(desc, subject, setup, bench));
    CLT_TRY(clt_verify_realise(bench, phases));
    CLT_TRY(write_all(bench->realized, bench, subject->op_case));
    *out = CLT_TAKE(bench);
    return CLT_OK;
}

/* --- the bench for the tuner --- */

typedef struct op_tuning {
    clt_phase_tuning tuning; /* first member: the tuner's functions cast its address to op_tuning */
    clt_op_problem problem;
    clt_op_case op_case; /* its inputs and attributes come from `problem` */
    clt_call call;
} op_tuning;

/* Adds the tensors that the direction computes: gradients, or outputs and saved tensors. */
static int computed(const clt_op_problem *p, const clt_verify_bench *b, int32_t tensor[CLT_TUNING_RESULTS])
{
    const clt_node *node = b->node[0];
    int n = 0;
    for (int i = 0; p->backward && i < node->n_in; i++)
        if (b->plan->gradient[node->in[i]] >= 0)
            tensor[n++] = b->plan->gradient[node->in[i]];
    for (int i = 0; p->backward && (node->op->flags & CLT_OP_SPLIT_BACKWARD) && i < node->n_param; i++) {
        int32_t value = b->plan->graph->params[node->param[i]].tensor;
        if (b->plan->gradient[value] >= 0)
            tensor[n++] = b->plan->gradient[value];
    }
    for (int i = 0; !p->backward && i < node->n_out; i++)
        tensor[n++] = node->out[i];
    for (int i = 0; !p->backward && i < node->n_saved; i++)
        tensor[n++] = node->saved[i];
    return n;
}

/* Runs the forward pass first if the direction is backward. */
static clt_status make(const clt_phase_tuning *tuning, const ocl_device_desc *desc, const char *variant,
                       const ocl_choice *candidate, ocl_choice *asked, clt_verify_bench **out)
{
    const op_tuning *t = (const op_tuning *)tuning;
    const clt_op_problem *p = &t->problem;
    clt_verify_subject subject = {p->op, &t->op_case, variant};
    clt_verify_setup setup = CLT_VERIFY_SINGLE;
    uint32_t phases = 1u << CLT_PHASE_FORWARD | (p->backward ? 1u << CLT_PHASE_BACKWARD : 0);
    setup.want_in = p->backward ? p->wanted : UINT32_MAX;
    setup.want_params = !p->no_params;
    setup.narrow = p->narrow;
    setup.tf32 = p->tf32;
    setup.candidate = candidate;
    setup.asked = asked;
    CLT_TRY(clt_op_bench_create(tuning->device, desc, &subject, &setup, phases, out));
    return clt_realized_run((*out)->realized, CLT_PHASE_FORWARD);
}

static clt_status read_results(const clt_phase_tuning *tuning, const clt_verify_bench *b,
                               clt_tuning_results *out)
{
    int32_t id[CLT_TUNING_RESULTS];
    int count = computed(&((const op_tuning *)tuning)->problem, b, id);
    for (int i = 0; i < count; i++) {
        const clt_tensor *tensor = clt_verify_tensor(b, id[i]);
        size_t n = clt_verify_elements(b, id[i]);
        CLT_FREED void *raw = NULL;
        float *values;
        CLT_TRY(clt_alloc(&raw, n + 1, clt_dtype_bytes(tensor->dtype), "a result of the tuner"));
        CLT_TRY(clt_realized_read(b->realized, id[i], raw));
        CLT_TRY(clt_tuning_add(out, tensor->name, n, &values));
        for (size_t e = 0; e < n; e++)
            values[e] = (float)clt_dtype_load(tensor->dtype, raw, e);
    }
    return CLT_OK;
}

/* Fails if all values of a result of the reference are zero or one is infinite, because then every candidate
 * would seem right. */
static clt_status judge_reference(const op_tuning *t)
{
    const clt_tuning_results *want = &t->tuning.want;
    for (int i = 0; i < want->count; i++) {
        double most = clt_tuning_largest(want->at[i].values, want->at[i].n);
        if (!(most > 0.0 && most < INFINITY))
            CLT_FAIL(CLT_ECHECK,
                     "the reference of %s is wrong on this device: the largest of '%s' is %g; run "
                     "'cltrain verify'",
                     t->problem.op->name, want->at[i].name, most);
    }
    return CLT_OK;
}

/* How much the results of variants may differ: they add in different orders, and may round values to the
 * storage type between two products. tf32 has the same mantissa as f16. */
static double tolerance(const clt_op_problem *p)
{
    clt_dtype storage = p->in[0].dtype;
    return storage == CLT_F32 && !p->tf32 ? 1e-4 : storage != CLT_BF16 ? 1e-2 : 8e-2;
}

static clt_status create(ocl_device *device, const ocl_device_desc *desc, const void *data, void **out)
{
    static const clt_phase_family family = {.make = make, .read = read_results};
    const clt_op_problem *p = data;
    op_tuning *t;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tuner's problem"));
    CLT_SCOPED(clt_phase_tuning) *tuning = &t->tuning;
    t->problem = *p;
    t->op_case = (clt_op_case){.name = "tuning", .attrs = t->problem.attrs, .n_inputs = p->n_in};
    memcpy(t->op_case.inputs, p->in, sizeof t->op_case.inputs);
    *tuning = (clt_phase_tuning){.family = &family,
                                 .variants = (p->backward ? &p->op->backward : &p->op->forward)->variants,
                                 .device = device,
                                 .phase = p->backward ? CLT_PHASE_BACKWARD : CLT_PHASE_FORWARD,
                                 .factor = 1.0,
                                 .tolerance = tolerance(p),
                                 .problem = &t->call};
    CLT_TRY(clt_phase_tuning_begin(tuning, desc));
    CLT_TRY(judge_reference(t));
    if (tuning->want.count == 0 ||
        !clt_plan_call(tuning->reference->bench->plan, p->op, p->backward, &t->call))
        CLT_FAIL(CLT_EUNSUPPORTED, "%s computes nothing that could be compared", p->op->name);
    *out = CLT_TAKE(tuning);
    return CLT_OK;
}

const ocl_family_bench clt_op_family_bench = CLT_PHASE_BENCH(create);
