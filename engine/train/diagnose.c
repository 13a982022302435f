/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the first bad tensor: parameters first, then the last micro-batch (still in the plan's inputs) is
 * run again command by command and everything each command writes is looked at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/train/run.h"

/* First non-finite element of a tensor, or -1. */
static clt_status first_bad(clt_run *run, int32_t tensor, int64_t *bad)
{
    const clt_tensor *t = clt_graph_tensor(run->train->plan->graph, tensor);
    int64_t n = clt_shape_elements(&t->shape);
    float *values;
    *bad = -1;
    if (t->dtype != CLT_F32)
        return CLT_OK;
    CLT_TRY(clt_alloc(&values, (size_t)n, sizeof *values, "diagnosis"));
    clt_status status = clt_realized_read(run->train, tensor, values);
    for (int64_t i = 0; status == CLT_OK && i < n && *bad < 0; i++)
        if (!isfinite(values[i]))
            *bad = i;
    free(values);
    return status;
}

static clt_status check_command(clt_run *run, const ocl_command *command, char *text, size_t size,
                                bool *found)
{
    for (int a = 0; a < command->n_args && !*found; a++) {
        const ocl_arg *arg = &command->args[a];
        int64_t bad;
        if (arg->kind != OCL_ARG_TENSOR || !(arg->access & OCL_WRITE) || arg->ref.tensor < 0)
            continue;
        CLT_TRY(first_bad(run, arg->ref.tensor, &bad));
        if (bad < 0)
            continue;
        snprintf(text, size, "tensor '%s' (written by %s, element %lld)",
                 clt_graph_tensor(run->train->plan->graph, arg->ref.tensor)->name, command->label,
                 (long long)bad);
        *found = true;
    }
    return CLT_OK;
}

static clt_status check_inputs(clt_run *run, char *text, size_t size, bool *found)
{
    const clt_graph *graph = run->train->plan->graph;
    for (size_t i = 0; i < graph->n_tensors && !*found; i++) {
        const clt_tensor *t = clt_graph_tensor(graph, (int32_t)i);
        int64_t bad;
        if (t->cls != CLT_TC_FIELD && !(t->cls == CLT_TC_PARAM && t->param >= 0))
            continue;
        CLT_TRY(first_bad(run, (int32_t)i, &bad));
        if (bad >= 0)
            snprintf(text, size, "%s '%s' (element %lld)",
                     t->cls == CLT_TC_FIELD ? "batch field" : "parameter", t->name, (long long)bad);
        *found = bad >= 0;
    }
    return CLT_OK;
}

/* Takes away what the failed step has left: a command may write a part of a tensor only, or add to it, and
 * the rest would be taken for its work. */
static clt_status clear_results(clt_run *run)
{
    for (int32_t s = 0; s < run->pool->n_slabs; s++) {
        uint64_t inputs = s == 0 ? run->train->plan->input_bytes : 0, bytes;
        bytes = run->pool->slab[s] ? ocl_buffer_bytes(run->pool->slab[s]) : 0;
        if (bytes > inputs)
            CLT_TRY(ocl_fill_zero(run->pool->slab[s], inputs, bytes - inputs));
    }
    for (int32_t s = 0; s < run->store->layout->n_slabs; s++) {
        ocl_buffer *gradients = run->store->slab[CLT_ARENA_GRAD][s];
        if (gradients)
            CLT_TRY(ocl_fill_zero(gradients, 0, ocl_buffer_bytes(gradients)));
    }
    return CLT_OK;
}

clt_status clt_run_diagnose(clt_run *run, char *text, size_t size)
{
    bool found = false;
    CLT_TRY(clear_results(run));
    CLT_TRY(ocl_finish(run->device, OCL_QUEUE_COMPUTE));
    CLT_TRY(check_inputs(run, text, size, &found));
    for (int p = CLT_PHASE_FORWARD; p <= CLT_PHASE_BACKWARD; p++)
        for (size_t c = run->train->first[p]; c < run->train->last[p] && !found; c++) {
            CLT_TRY(ocl_exec_run_range(run->train->exec, c, c + 1, NULL));
            CLT_TRY(check_command(run, &run->train->all.commands[c], text, size, &found));
        }
    if (!found)
        snprintf(text, size,
                 "none in a repetition of the last micro-batch: the failure came from an earlier one, or "
                 "another rank");
    return CLT_OK;
}
