/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of one op case and the calls of its double-precision reference. Knows graphs and fills; needs no
 * device. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/verify/verify_internal.h"

/* Not a power of two: results change visibly if the factor is missing, doubled or inverted. */
#define LOSS_SCALE 24.0

/* Numbers of the random streams. */
enum { STREAM_STEP = 0, STREAM_IN = 16, STREAM_PARAM = 64, STREAM_DOUT = 128, STREAM_INTEGERS = 256 };

static clt_status new_values(clt_arena *arena, const clt_shape *shape, double **out)
{
    *out = clt_arena_alloc(arena, (size_t)clt_shape_elements(shape) * sizeof **out + 1);
    return *out ? CLT_OK : CLT_ENOMEM;
}

static clt_status fill_tensor(clt_verify_data *data, const clt_graph *graph, int32_t tensor,
                              const clt_case_input *input, clt_verify_stream stream, double **out)
{
    const clt_tensor *t = clt_graph_tensor(graph, tensor);
    clt_verify_filler filler = {
        .dtype = t->dtype, .integers = data->integers, .unrounded = data->unrounded, .equal = data->equal};
    if (input) {
        filler.fill = input->fill;
        filler.max = input->fill_max;
    } else if (t->param >= 0 && graph->params[t->param].buffer) {
        filler.fill = CLT_FILL_POSITIVE; /* it contains variances */
    }
    stream.number += data->integers ? STREAM_INTEGERS : 0;
    CLT_TRY(new_values(data->arena, &t->shape, out));
    clt_verify_fill(*out, (size_t)clt_shape_elements(&t->shape), &filler, &stream);
    return CLT_OK;
}

/* Seeds, positions and normalisers are arbitrary, unless results must be exact. None is zero, so that the
 * check notices if one is ignored. */
static void make_step(clt_verify_data *data, int64_t micro_batch, clt_verify_stream stream, bool part)
{
    uint64_t base = (clt_verify_word(&stream, 0) & 0xfffff) + 1;
    if (part)
        base += UINT64_C(1) << 33; /* as in a large global batch */
    data->step = (clt_step_block){.seed_lo = clt_verify_word(&stream, 1),
                                  .seed_hi = clt_verify_word(&stream, 2),
                                  .step = clt_verify_word(&stream, 3),
                                  .micro = part ? 1 : 0,
                                  .sample_lo = (uint32_t)base,
                                  .sample_hi = (uint32_t)(base >> 32),
                                  .valid = (uint32_t)(part ? micro_batch - micro_batch / 3 : micro_batch)};
    for (int i = 0; i < 16; i++) {
        float real = 0.5f + (float)(clt_verify_word(&stream, (uint64_t)(8 + i)) >> 8) * 0x1p-24f;
        data->step.norm[i] = data->integers ? (i % 2 ? 0.25f : 0.5f) : real;
    }
}

clt_status clt_verify_data_make(clt_verify_data *data, const clt_graph *graph,
                                const clt_verify_subject *subject, const clt_verify_bench *bench,
                                uint64_t seed, bool integers, bool part)
{
    const clt_op_case *c = subject->op_case;
    char key[128];
    snprintf(key, sizeof key, "%s.%s", subject->op->name, c->name);
    data->integers = integers;
    data->equal = c->equal;
    data->loss_scale = bench->plan && bench->plan->loss_scale >= 0 ? LOSS_SCALE : 1.0;
    for (int i = 0; i < c->n_inputs; i++)
        CLT_TRY(fill_tensor(data, graph, bench->in[i], &c->inputs[i],
                            clt_verify_stream_make(seed, key, (uint32_t)(STREAM_IN + i)), &data->in[i]));
    for (int k = 0; k < bench->copies; k++) {
        const clt_node *node = bench->node[k];
        for (int i = 0; i < node->n_param; i++)
            CLT_TRY(fill_tensor(data, graph, graph->params[node->param[i]].tensor, NULL,
                                clt_verify_stream_make(seed, key, (uint32_t)(STREAM_PARAM + 16 * k + i)),
                                &data->param[k][i]));
        for (int i = 0; i < node->n_out; i++)
            if (bench->dout[k][i] >= 0)
                CLT_TRY(fill_tensor(data, graph, bench->dout[k][i], NULL,
                                    clt_verify_stream_make(seed, key, (uint32_t)(STREAM_DOUT + 16 * k + i)),
                                    &data->dout[k][i]));
    }
    make_step(data, graph->micro_batch, clt_verify_stream_make(seed, key, STREAM_STEP), part);
    return CLT_OK;
}

static clt_ref_tensor ref_tensor(const clt_graph *graph, int32_t id, double *values)
{
    const clt_tensor *t = clt_graph_tensor(graph, id);
    return (clt_ref_tensor){t->shape, t->dtype, values};
}

static clt_status ref_new(clt_verify_data *data, const clt_graph *graph, int32_t id, double value,
                          clt_ref_tensor *out)
{
    *out = ref_tensor(graph, id, NULL);
    CLT_TRY(new_values(data->arena, &out->shape, &out->data));
    for (int64_t i = 0; i < clt_shape_elements(&out->shape); i++)
        out->data[i] = value;
    return CLT_OK;
}

/* Allocates an input's gradient and the magnitudes of its terms. */
static clt_status ref_new_gradient(clt_verify_data *data, const clt_graph *graph, int32_t id,
                                   clt_ref_tensor *out, double **terms)
{
    clt_ref_tensor sizes;
    CLT_TRY(ref_new(data, graph, id, 0.0, out));
    CLT_TRY(ref_new(data, graph, id, 0.0, &sizes));
    *terms = sizes.data;
    return CLT_OK;
}

static void ref_step(const clt_verify_data *data, const clt_graph *graph, const clt_node *node,
                     clt_ref_call *call)
{
    const clt_step_block *s = &data->step;
    call->seed = (uint64_t)s->seed_hi << 32 | s->seed_lo;
    call->step = s->step;
    call->op_id = (uint32_t)node->stream;
    call->sample_base = (uint64_t)s->sample_hi << 32 | s->sample_lo;
    call->valid_samples = s->valid;
    call->micro_batch = graph->micro_batch;
    call->loss_norm = node->loss >= 0 ? (double)s->norm[node->loss] : 1.0;
    call->loss_scale = data->loss_scale;
}

clt_status clt_verify_ref_make(clt_verify_data *data, const clt_graph *graph,
                               const clt_verify_subject *subject, const clt_node *node, int copy,
                               bool training, clt_ref_call *call)
{
    memset(call, 0, sizeof *call);
    call->node = node;
    call->training = training;
    clt_verify_set_ranks(subject->op_case, call);
    ref_step(data, graph, node, call);
    call->n_in = node->n_in;
    call->n_out = node->n_out;
    call->n_param = node->n_param;
    call->n_saved = node->n_saved;
    for (int i = 0; i < node->n_in; i++) {
        call->in[i] = ref_tensor(graph, node->in[i], data->in[i]);
        if (clt_verify_takes_gradient(subject, graph, node, i))
            CLT_TRY(ref_new_gradient(data, graph, node->in[i], &call->din[i], &call->din_terms[i]));
    }
    for (int i = 0; i < node->n_out; i++) {
        CLT_TRY(ref_new(data, graph, node->out[i], (double)NAN, &call->out[i]));
        call->dout[i] = ref_tensor(graph, node->out[i], data->dout[copy][i]);
    }
    for (int i = 0; i < node->n_param; i++) {
        int32_t tensor = graph->params[node->param[i]].tensor;
        call->param[i] = ref_tensor(graph, tensor, data->param[copy][i]);
        CLT_TRY(ref_new(data, graph, tensor, 0.0, &call->dparam[i]));
        if (graph->params[node->param[i]].buffer)
            CLT_TRY(ref_new(data, graph, tensor, (double)NAN, &call->buffer[i]));
    }
    for (int i = 0; i < node->n_saved; i++)
        CLT_TRY(ref_new(data, graph, node->saved[i], (double)NAN, &call->saved[i]));
    return CLT_OK;
}

void clt_verify_put_data(clt_verify_bench *b, const clt_verify_data *data, uint32_t pattern)
{
    const clt_graph *graph = b->plan->graph;
    clt_verify_bench_clear(b, pattern);
    for (int i = 0; i < b->node[0]->n_in; i++)
        clt_verify_bench_put(b, b->in[i], data->in[i]);
    for (int k = 0; k < b->copies; k++) {
        for (int i = 0; i < b->node[k]->n_param; i++)
            clt_verify_bench_put(b, graph->params[b->node[k]->param[i]].tensor, data->param[k][i]);
        for (int i = 0; i < b->node[k]->n_out; i++)
            if (b->dout[k][i] >= 0)
                clt_verify_bench_put(b, b->dout[k][i], data->dout[k][i]);
        if (b->node[k]->constant >= 0)
            clt_verify_bench_put_bytes(b, b->node[k]->constant,
                                       clt_graph_tensor(graph, b->node[k]->constant)->values);
    }
    clt_verify_bench_put_bytes(b, graph->step, &data->step);
    if (b->plan->loss_scale >= 0)
        clt_verify_bench_put(b, b->plan->loss_scale, &data->loss_scale);
}
