/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as two families of kernels (cl/tune/family.h), forward and backward: the text of a problem, its
 * number of operations, and the description from which the tuner builds the call again. Knows no variant. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/attention/attention.h"
#include "engine/ops/op_problem.h"

static const char *words(const clt_call *call, char *buffer, size_t size)
{
    clt_attention s = clt_attention_measure(call->graph, call->node);
    char window[32] = "";
    if (s.window > 0)
        snprintf(window, sizeof window, " window:%lld", (long long)s.window);
    snprintf(buffer, size, "n=%lld heads=%lld kv_heads=%lld queries=%lld keys=%lld dim=%lld %s%s%s%s%s%s%s",
             (long long)s.batch, (long long)s.heads, (long long)s.kv_heads, (long long)s.tq, (long long)s.tk,
             (long long)s.dim, clt_dtype_name(clt_call_dtype(call, call->in[0])), s.packed ? " +packed" : "",
             clt_node_attr(call->node, "causal")->b ? " +causal" : "", s.length >= 0 ? " +lengths" : "",
             window, s.documents >= 0 ? " +documents" : "", clt_attention_drops(call) ? " +dropout" : "");
    return buffer;
}

const char *clt_attention_fwd_problem(const void *problem, char *buffer, size_t size)
{
    return words(problem, buffer, size);
}

/* The problem's text also says which gradients are wanted and what type dy has. */
const char *clt_attention_bwd_problem(const void *problem, char *buffer, size_t size)
{
    static const char *const names[3] = {"q", "k", "v"};
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    words(call, buffer, size);
    size_t length = strlen(buffer);
    if (call->dout[0] >= 0)
        snprintf(buffer + length, size - length, " dy:%s",
                 clt_dtype_name(clt_call_dtype(call, call->dout[0])));
    for (int i = 0; i < 3; i++) {
        length = strlen(buffer);
        if (call->din[s.input[i]] >= 0)
            snprintf(buffer + length, size - length, " +d%s", names[i]);
    }
    return buffer;
}

double clt_attention_fwd_flops(const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    return clt_attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0);
}

double clt_attention_bwd_flops(const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    return clt_attention_pairs(call, &s) * (10.0 * (double)s.dim + 5.0);
}

/* Describes the inputs of masks: random lengths, and on average four documents in a row. */
static void describe_masks(const clt_call *call, clt_op_problem *p)
{
    clt_attention s = clt_attention_measure(call->graph, call->node);
    if (s.length >= 0)
        p->in[s.length].fill_max = s.tk + 1;
    if (s.documents >= 0) {
        p->in[s.documents].fill = CLT_FILL_RUNS;
        p->in[s.documents].fill_max = (s.tk + 3) / 4;
    }
}

clt_status clt_attention_fwd_describe(const void *problem, void **data, size_t *size)
{
    CLT_TRY(clt_op_fwd_describe(problem, data, size));
    describe_masks(problem, *data);
    return CLT_OK;
}

clt_status clt_attention_bwd_describe(const void *problem, void **data, size_t *size)
{
    CLT_TRY(clt_op_bwd_describe(problem, data, size));
    describe_masks(problem, *data);
    return CLT_OK;
}
