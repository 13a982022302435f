/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the first bad tensor of a step that was not finite. Parameters are checked first; then all
 * micro-batches of the step are loaded again and run command by command with the loss scale that the step
 * had, and the outputs of each command are checked. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/run/run.h"
#include "engine/graph/step_block.h"

/* In every type an element whose exponent bits are all ones is infinite or NaN. */
static bool is_bad(clt_dtype dtype, const void *values, int64_t i)
{
    if (dtype == CLT_F32)
        return !isfinite(((const float *)values)[i]);
    uint16_t mask = dtype == CLT_F16 ? 0x7c00 : 0x7f80;
    return (((const uint16_t *)values)[i] & mask) == mask;
}

/* Index of the first non-finite element of a tensor, or -1. */
static clt_status first_bad(clt_run *run, int32_t tensor, int64_t *bad)
{
    const clt_tensor *t = clt_graph_tensor(run->train->plan->graph, tensor);
    int64_t n = clt_shape_elements(&t->shape);
    CLT_FREED void *values = NULL;
    *bad = -1;
    if (t->dtype != CLT_F32 && t->dtype != CLT_F16 && t->dtype != CLT_BF16)
        return CLT_OK;
    CLT_TRY(clt_alloc(&values, (size_t)n, clt_dtype_bytes(t->dtype), "diagnosis"));
    CLT_TRY(clt_realized_read(run->train, tensor, values));
    for (int64_t i = 0; i < n && *bad < 0; i++)
        if (is_bad(t->dtype, values, i))
            *bad = i;
    return CLT_OK;
}

static clt_status check_command(clt_run *run, const ocl_command *command, char *text, size_t size,
                                bool *found)
{
    /* host commands of sums over ranks do nothing here: tensors that they would fill hold arbitrary values */
    for (int a = 0; command->kind != OCL_CMD_HOST && a < command->n_args && !*found; a++) {
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

/* Clears what the failed step has left in memory: a command that writes only a part of a tensor, or adds to
 * it, would otherwise be blamed for the rest. */
static clt_status clear_results(clt_run *run)
{
    clt_pool_overwritten(run->pool);
    for (int32_t s = 0; s < run->pool->n_slabs; s++) {
        uint64_t inputs = s == 0 ? run->train->plan->input_bytes : 0, bytes;
        bytes = run->pool->slab[s] ? ocl_buffer_bytes(run->pool->slab[s]) : 0;
        if (bytes > inputs)
            CLT_TRY(ocl_fill_zero(run->pool->slab[s], inputs, bytes - inputs));
    }
    for (int arena = 0; arena < CLT_ARENA_COUNT; arena++) {
        /* gradients, and their sums over several micro-batches */
        bool holds = clt_arenas[arena].cls == CLT_TC_PARAM_GRAD || arena == CLT_ARENA_BUFFERS;
        for (int32_t s = 0; s < run->store->layout->n_slabs && holds; s++) {
            ocl_buffer *slab = run->store->slab[arena][s];
            if (slab)
                CLT_TRY(ocl_fill_zero(slab, 0, ocl_buffer_bytes(slab)));
        }
    }
    return CLT_OK;
}

/* Runs one phase and checks the outputs of each command. */
static clt_status run_looking(clt_run *run, clt_phase phase, char *text, size_t size, bool *found)
{
    for (size_t c = run->train->first[phase]; c < run->train->last[phase] && !*found; c++) {
        const ocl_command *command = &run->train->all.commands[c];
        CLT_TRY(ocl_exec_run_range(run->train->exec, c, c + 1, NULL));
        CLT_TRY(check_command(run, command, text, size, found));
    }
    return CLT_OK;
}

static clt_status look_at_micro_batch(clt_run *run, int32_t micro, char *text, size_t size, bool *found)
{
    char where[400];
    clt_fed fed;
    CLT_TRY(clt_feed_next(run->feed, &fed));
    CLT_TRY(ocl_finish(run->device, OCL_QUEUE_COMPUTE));
    CLT_TRY(check_inputs(run, where, sizeof where, found));
    CLT_TRY(run_looking(run, CLT_PHASE_FORWARD, where, sizeof where, found));
    CLT_TRY(run_looking(run, clt_plan_backward(run->train->plan, micro), where, sizeof where, found));
    CLT_TRY(run_looking(run, CLT_PHASE_ROWS, where, sizeof where, found));
    if (*found && run->micro_batches > 1)
        snprintf(text, size, "%s in micro-batch %d of %d", where, micro + 1, run->micro_batches);
    else if (*found)
        snprintf(text, size, "%s", where);
    return CLT_OK;
}

/* Checks the norm kernels. They read all gradients, and sums of squares can overflow f32, singly or in
 * total, though every gradient is finite. */
static clt_status check_norm(clt_run *run, char *text, size_t size, bool *found)
{
    const ocl_command *all = run->train->all.commands;
    size_t first = run->train->first[CLT_PHASE_UPDATE], last = first;
    while (last < run->train->last[CLT_PHASE_UPDATE] && strcmp(all[last].label, "update.norm") == 0)
        last++;
    int32_t partial = OCL_NO_TENSOR_ID; /* output of the first of them: the sums of squares of all chunks */
    for (int a = 0; first < last && a < all[first].n_args; a++)
        if (all[first].args[a].kind == OCL_ARG_TENSOR && (all[first].args[a].access & OCL_WRITE))
            partial = all[first].args[a].ref.tensor;
    if (partial < 0)
        return CLT_OK;
    const clt_tensor *t = clt_graph_tensor(run->train->plan->graph, partial);
    int64_t n = clt_shape_elements(&t->shape);
    CLT_FREED float *sums = NULL;
    double total = 0;
    CLT_TRY(clt_alloc(&sums, (size_t)n, sizeof *sums, "diagnosis"));
    CLT_TRY(ocl_exec_run_range(run->train->exec, first, last, NULL));
    CLT_TRY(clt_realized_read(run->train, partial, sums));
    for (int64_t i = 0; i < n; i++)
        total += (double)sums[i];
    *found = !(total <= (double)FLT_MAX);
    snprintf(text, size, "none, but the sum of the squares of all gradients is more than f32 holds");
    return CLT_OK;
}

/* Loads the batch of the step again. */
static clt_status rewind_feed(clt_run *run, int64_t step)
{
    clt_feed_options options = clt_run_feed_options(run, step, step + 1);
    clt_feed_destroy(run->feed);
    run->feed = NULL;
    return clt_feed_create(&options, &run->feed);
}

static clt_status set_scale(clt_run *run, float loss_scale)
{
    return ocl_write(run->store->slab[CLT_ARENA_STATE][0], offsetof(clt_state_block, loss_scale), &loss_scale,
                     sizeof loss_scale);
}

clt_status clt_run_diagnose(clt_run *run, int64_t step, float loss_scale, char *text, size_t size,
                            bool *found)
{
    clt_state_block state;
    *found = false;
    CLT_TRY(rewind_feed(run, step));
    CLT_TRY(clear_results(run));
    CLT_TRY(clt_store_get_state(run->store, &state));
    CLT_TRY(set_scale(run, loss_scale));
    for (int32_t micro = 0; micro < run->micro_batches && !*found; micro++)
        CLT_TRY(look_at_micro_batch(run, micro, text, size, found));
    if (!*found && run->ranks.ranks == 1)
        CLT_TRY(check_norm(run, text, size, found));
    if (!*found && run->ranks.ranks > 1 && run->train->plan->options.wire == CLT_F16)
        snprintf(text, size, "none on any rank; f16 (parallel.gradients) cannot hold a sum over the ranks");
    else if (!*found)
        snprintf(text, size, "none when step %lld was repeated%s", (long long)step + 1,
                 run->ranks.ranks > 1 ? " on any rank" : "; a later step has moved the parameters");
    return set_scale(run, state.loss_scale);
}
