/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 10, exchange: numbers the exchanges with other ranks that works emit (engine/ops/exchange.h), and
 * gives the device other work to do during the exchanges. In the backward pass this moves commands between
 * the two halves of an exchange, such as the weight gradient of the following layer: commands that precede
 * the making of the record, and that neither depend on it nor are needed by it. Knows reads and writes of
 * commands, no op. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan_internal.h"

static bool is_host(const ocl_command *command, clt_host_code code)
{
    return command->kind == OCL_CMD_HOST && command->host_code == (int32_t)code;
}

/* --- numbers --- */

static clt_status add_exchange(clt_plan *plan, size_t *capacity, const ocl_command *give)
{
    CLT_TRY(clt_grow(&plan->exchanges, capacity, plan->n_exchanges + 1, sizeof *plan->exchanges,
                     "exchanges of ranks"));
    plan->exchanges[plan->n_exchanges++] = (clt_exchange){.elements = give->args[0].bytes / sizeof(float)};
    return CLT_OK;
}

/* Numbers the exchanges of a phase from `first` on; numbers from plan->n_exchanges on are new exchanges. */
static clt_status number_phase(clt_plan *plan, clt_phase phase, size_t first, size_t *capacity)
{
    const ocl_command_list *list = &plan->phase[phase];
    size_t given = first, got = first;
    for (size_t c = 0; c < list->count; c++) {
        ocl_command *command = &list->commands[c];
        bool give = is_host(command, CLT_HOST_GIVE);
        if (!give && !is_host(command, CLT_HOST_GET))
            continue;
        if (give && given == plan->n_exchanges)
            CLT_TRY(add_exchange(plan, capacity, command));
        size_t k = give ? given++ : got++;
        if (got > given || plan->exchanges[k].elements * sizeof(float) != command->args[0].bytes)
            CLT_FAIL(
                CLT_EINTERNAL,
                "planning: phase %s exchanges records in other sizes or another order than the first phase",
                clt_phase_name(phase));
        command->args[1].value.u32 = (uint32_t)k;
    }
    if (given != got || (list->count > 0 && given != plan->n_exchanges))
        CLT_FAIL(CLT_EINTERNAL, "planning: phase %s has %zu of %zu exchanges", clt_phase_name(phase), got,
                 plan->n_exchanges);
    return CLT_OK;
}

/* --- work during exchanges --- */

static const clt_tensor *owner_of(const clt_plan *plan, const ocl_arg *arg)
{
    if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
        return NULL;
    return clt_graph_tensor(plan->graph, clt_plan_owner(plan, arg->ref.tensor));
}

/* True if one command writes a tensor that the other reads or writes. */
static bool depend(const clt_plan *plan, const ocl_command *a, const ocl_command *b)
{
    for (int i = 0; i < a->n_args; i++) {
        const clt_tensor *t = owner_of(plan, &a->args[i]);
        for (int k = 0; t && k < b->n_args; k++)
            if (owner_of(plan, &b->args[k]) == t &&
                ((a->args[i].access | b->args[k].access) & OCL_WRITE) != 0)
                return true;
    }
    return false;
}

/* The first command of the work whose last command is number `give`. */
static size_t work_begin(const ocl_command_list *list, size_t give)
{
    size_t begin = give;
    while (begin > 0 && list->commands[begin - 1].node == list->commands[give].node &&
           list->commands[begin - 1].kind != OCL_CMD_HOST)
        begin--;
    return begin;
}

/* The first command of the longest run right before `begin` whose commands may all run after `give`
 * instead. */
static size_t first_to_move(const clt_plan *plan, const ocl_command_list *list, size_t begin, size_t give)
{
    size_t first = begin;
    for (; first > 0 && list->commands[first - 1].kind != OCL_CMD_HOST; first--)
        for (size_t c = begin; c <= give; c++)
            if (depend(plan, &list->commands[first - 1], &list->commands[c]))
                return first;
    return first;
}

/* Swaps the commands [first, middle) with [middle, end). The times stay at their places in the list, so that
 * they never decrease along it. */
static clt_status swap_parts(ocl_command_list *list, size_t first, size_t middle, size_t end)
{
    CLT_FREED ocl_command *moved = NULL;
    size_t n = middle - first, rest = end - middle;
    CLT_TRY(clt_alloc(&moved, n + 1, sizeof *moved, "commands"));
    memcpy(moved, &list->commands[first], n * sizeof *moved);
    memmove(&list->commands[first], &list->commands[middle], rest * sizeof *moved);
    memcpy(&list->commands[first + rest], moved, n * sizeof *moved);
    return CLT_OK;
}

static clt_status cover(clt_plan *plan, clt_phase phase)
{
    ocl_command_list *list = &plan->phase[phase];
    for (size_t give = 0; give < list->count; give++) {
        if (!is_host(&list->commands[give], CLT_HOST_GIVE))
            continue;
        size_t begin = work_begin(list, give), first = first_to_move(plan, list, begin, give);
        if (first < begin)
            CLT_TRY(swap_parts(list, first, begin, give + 1));
    }
    return CLT_OK;
}

clt_status clt_pass_exchange(clt_plan *plan)
{
    size_t capacity = 0;
    if (plan->options.mode != CLT_PLAN_TRAIN || plan->options.ranks <= 1 || !plan->options.sync_norms)
        return CLT_OK;
    CLT_TRY(number_phase(plan, CLT_PHASE_FORWARD, 0, &capacity));
    plan->exchanges_forward = plan->n_exchanges;
    CLT_TRY(number_phase(plan, CLT_PHASE_BACKWARD, plan->exchanges_forward, &capacity));
    CLT_TRY(number_phase(plan, CLT_PHASE_BACKWARD_ADD, plan->exchanges_forward, &capacity));
    CLT_TRY(number_phase(plan, CLT_PHASE_ABSENT, 0, &capacity));
    CLT_TRY(cover(plan, CLT_PHASE_BACKWARD));
    return cover(plan, CLT_PHASE_BACKWARD_ADD);
}
