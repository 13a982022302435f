/* SPDX-License-Identifier: Apache-2.0
 *
 * clt_plan_compute: runs the passes in order. Pure: nothing here touches a device. */
#include "engine/plan/plan.h"

#include <stdlib.h>

#include "comm/comm.h"

const char *clt_phase_name(clt_phase phase)
{
    static const char *const names[CLT_PHASE_COUNT] = {"forward", "backward", "backward_add", "rows",  "send",
                                                       "sync",    "update",   "take",         "absent"};
    return (unsigned)phase < CLT_PHASE_COUNT ? names[phase] : "?";
}

clt_phase clt_plan_backward(const clt_plan *plan, int32_t micro)
{
    return micro > 0 && !plan->options.tree ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD;
}

clt_status clt_plan_compute(clt_graph *graph, const ocl_device_desc *device, const clt_plan_options *options,
                            clt_plan **out)
{
    static clt_status (*const passes[])(clt_plan *) = {
        clt_pass_fold,     clt_pass_precision, clt_pass_layout,    clt_pass_autodiff, clt_pass_rows,
        clt_pass_store,    clt_pass_fuse,      clt_pass_recompute, clt_pass_share,    clt_pass_select,
        clt_pass_exchange, clt_pass_sync,      clt_pass_memory};
    CLT_SCOPED(clt_graph) *given = graph;
    CLT_SCOPED(clt_plan) *plan = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&plan, 1, sizeof *plan, "plan"));
    plan->graph = CLT_TAKE(given);
    plan->options = *options;
    plan->device = *device;
    plan->losses = plan->state = plan->loss_scale = -1;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        CLT_TRY(passes[i](plan));
    *out = CLT_TAKE(plan);
    return CLT_OK;
}

void clt_plan_destroy(clt_plan *plan)
{
    if (!plan)
        return;
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        ocl_command_list_free(&plan->phase[p]);
        free(plan->time[p]);
    }
    ocl_tuning_log_free(&plan->tuning);
    clt_graph_destroy(plan->graph);
    clt_store_layout_destroy(plan->layout);
    free(plan->work);
    free(plan->gradient);
    free(plan->place);
    free(plan->derived);
    free(plan->buckets);
    free(plan->sums);
    free(plan->gathered);
    free(plan->exchanges);
    free(plan->moments);
    free(plan);
}

/* How often a step runs a phase. */
static size_t runs_of(const clt_plan *plan, clt_phase phase)
{
    size_t micro = plan->options.mode == CLT_PLAN_TRAIN && plan->options.accumulation > 1
                       ? (size_t)plan->options.accumulation
                       : 1;
    bool tree = clt_plan_backward(plan, 1) == CLT_PHASE_BACKWARD;
    switch (phase) {
    case CLT_PHASE_FORWARD:
        return micro;
    case CLT_PHASE_BACKWARD:
        return tree ? micro : 1;
    case CLT_PHASE_BACKWARD_ADD:
    case CLT_PHASE_ROWS:
        return micro - 1;
    default:
        return phase == CLT_PHASE_ABSENT ? 0 : 1;
    }
}

/* How often a step runs a command of a phase. A command of a derived tensor counts once, although not
 * every step runs it. */
static size_t runs_command(const clt_plan *plan, clt_phase phase, const ocl_command *command)
{
    return command->derives ? 1 : runs_of(plan, phase);
}

size_t clt_plan_commands(const clt_plan *plan)
{
    size_t n = 0;
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        for (size_t i = 0; i < plan->phase[p].count; i++)
            n += runs_command(plan, (clt_phase)p, &plan->phase[p].commands[i]);
        n += p == CLT_PHASE_FORWARD ? runs_of(plan, CLT_PHASE_FORWARD) : 0; /* copies of the inputs */
    }
    return n;
}

double clt_plan_sum(const clt_plan *plan, double (*of)(const void *context, const ocl_command *command),
                    const void *context)
{
    double sum = 0;
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t i = 0; i < plan->phase[p].count; i++) {
            const ocl_command *command = &plan->phase[p].commands[i];
            size_t runs = runs_command(plan, (clt_phase)p, command);
            sum += runs > 0 ? (double)runs * of(context, command) : 0;
        }
    return sum;
}

static double flops_of(const void *context, const ocl_command *command)
{
    (void)context;
    return command->flops;
}

double clt_plan_flops(const clt_plan *plan)
{
    return clt_plan_sum(plan, flops_of, NULL);
}

bool clt_sum_arena(const clt_plan *plan, const clt_sum *sum, clt_arena_kind *arena)
{
    const clt_place *place = &plan->place[sum->tensor];
    *arena = place->arena;
    return place->kind == CLT_PLACE_STORE &&
           (sum->kind == CLT_SUM_GRADIENTS || place->arena == CLT_ARENA_PARAM);
}

/* Bytes of the memory through which ranks exchange gradients, rows, tensors that the update gathers, and
 * records. */
static uint64_t sum_bytes(const clt_plan *plan)
{
    uint64_t bytes = 0;
    bool in_place = plan->device.is_cpu && plan->options.shared_memory;
    for (size_t k = 0; k < plan->n_sums; k++) {
        const clt_sum *sum = &plan->sums[k];
        const clt_tensor *t = clt_graph_tensor(plan->graph, sum->tensor);
        clt_arena_kind arena;
        if (!in_place || !clt_sum_arena(plan, sum, &arena))
            bytes += (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
    }
    for (size_t k = 0; k < plan->n_exchanges; k++)
        bytes += plan->exchanges[k].elements * sizeof(float) * (uint64_t)plan->options.ranks;
    return bytes;
}

/* The bytes of a checkpoint that one rank writes: an equal share of the tensors that every rank holds, and
 * its own part of the tensors that are divided among the ranks. */
static uint64_t saved_bytes(const clt_plan *plan)
{
    uint64_t shared = 0, own = 0;
    for (int arena = 0; arena < CLT_ARENA_COUNT; arena++) {
        bool state = arena == CLT_ARENA_OPT1 || arena == CLT_ARENA_OPT2;
        if (arena != CLT_ARENA_PARAM && !clt_arenas[arena].suffix)
            continue;
        *(plan->store->sharded && state ? &own : &shared) +=
            clt_store_arena_bytes(plan->store, (clt_arena_kind)arena);
    }
    shared += 2 * clt_store_arena_bytes(plan->store, CLT_ARENA_BASE); /* 16-bit values are saved as f32 */
    return own + shared / (uint64_t)(plan->options.ranks > 1 ? plan->options.ranks : 1);
}

clt_memory_report clt_plan_memory(const clt_plan *train, const clt_plan *eval)
{
    clt_memory_report r = {0};
    const clt_plan *plans[2] = {train, eval};
    uint64_t slab[CLT_MAX_PLAN_SLABS] = {0}, pool = 0;
    for (int i = 0; i < 2; i++) {
        if (!plans[i])
            continue;
        for (int32_t s = 0; s < plans[i]->n_slabs; s++)
            slab[s] = plans[i]->slab_bytes[s] > slab[s] ? plans[i]->slab_bytes[s] : slab[s];
        r.inputs = plans[i]->input_bytes > r.inputs ? plans[i]->input_bytes : r.inputs;
        /* both plans have a staging ring, and both exist at the same time */
        r.staging += clt_align_up(plans[i]->input_bytes, plans[i]->device.align_bytes) * CLT_STAGING_SLOTS;
    }
    for (int32_t s = 0; s < CLT_MAX_PLAN_SLABS; s++)
        pool += slab[s];
    const clt_plan *any = train ? train : eval;
    if (any && any->store) {
        r.params = clt_store_class_bytes(any->store, CLT_TC_PARAM, !train);
        r.gradients = clt_store_class_bytes(any->store, CLT_TC_PARAM_GRAD, !train);
        r.optimizer = clt_store_class_bytes(any->store, CLT_TC_OPT, !train);
        r.state = clt_store_class_bytes(any->store, CLT_TC_STATE, !train);
        r.saved = train ? saved_bytes(train) : 0;
    }
    if (train && train->device.is_cpu)
        r.staging += sum_bytes(train);
    else if (train)
        r.host = sum_bytes(train);
    if (train && train->options.ranks > 1)
        r.shared = (uint64_t)comm_group_bytes(false);
    if (train && train->n_exchanges > 0) /* exchanges have their own group of ranks */
        r.shared += (uint64_t)comm_group_bytes(true);
    r.activations = pool > r.inputs ? pool - r.inputs : 0;
    r.total = r.params + r.gradients + r.optimizer + r.state + r.inputs + r.activations + r.staging;
    return r;
}
