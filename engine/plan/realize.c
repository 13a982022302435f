/* SPDX-License-Identifier: Apache-2.0
 *
 * Realising plans: the only file of this room that needs a device. */
#include "engine/plan/realize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/state/store.h"

clt_status clt_pool_create(ocl_device *device, const clt_plan *const *plans, int n_plans, clt_slab_pool **out)
{
    CLT_SCOPED(clt_slab_pool) *pool = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&pool, 1, sizeof *pool, "slab pool"));
    for (int32_t s = 0; s < CLT_MAX_PLAN_SLABS; s++) {
        uint64_t bytes = 0;
        char what[64];
        for (int i = 0; i < n_plans; i++)
            if (plans[i] && s < plans[i]->n_slabs && plans[i]->slab_bytes[s] > bytes)
                bytes = plans[i]->slab_bytes[s];
        if (!bytes)
            continue;
        snprintf(what, sizeof what, "activations, slab %d", s);
        CLT_TRY(ocl_buffer_create_zeroed(device, bytes, what, &pool->slab[s]));
        pool->n_slabs = s + 1;
    }
    *out = CLT_TAKE(pool);
    return CLT_OK;
}

void clt_pool_destroy(clt_slab_pool *pool)
{
    if (!pool)
        return;
    for (int32_t s = 0; s < CLT_MAX_PLAN_SLABS; s++)
        ocl_buffer_destroy(pool->slab[s]);
    free(pool);
}

void clt_pool_overwritten(clt_slab_pool *pool)
{
    pool->user = NULL;
}

/* Records that the slabs hold this plan's values from now on. */
static void take_slabs(const clt_realized *r)
{
    if (r->pool->user != r)
        r->pool->turns++;
    r->pool->user = r;
}

clt_status clt_realized_resolve(const clt_realized *r, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    const clt_tensor *t = clt_graph_tensor(r->plan->graph, tensor);
    const clt_place *place = t && (size_t)tensor < r->plan->n_place ? &r->plan->place[tensor] : NULL;
    *buffer = NULL;
    if (place && place->kind == CLT_PLACE_PLAN)
        *buffer = r->pool->slab[place->slab];
    else if (place && place->kind == CLT_PLACE_STORE)
        *buffer = r->store->slab[place->arena][place->slab];
    if (!*buffer)
        CLT_FAIL(CLT_EINTERNAL, "binding: tensor %d '%s' has no place in memory", tensor, t ? t->name : "?");
    *offset = place->offset;
    return CLT_OK;
}

static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    return clt_realized_resolve(context, tensor, buffer, offset);
}

static clt_status join_phases(clt_realized *r, uint32_t phases)
{
    ocl_command_list *all = &r->all;
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        const ocl_command_list *phase = &r->plan->phase[p];
        r->first[p] = r->last[p] = all->count;
        if (phases && !(phases & (1u << p)))
            continue;
        CLT_TRY(clt_grow(&all->commands, &all->capacity, all->count + phase->count + 1, sizeof *all->commands,
                         "commands"));
        for (size_t c = 0; c < phase->count; c++)
            all->commands[all->count++] = phase->commands[c];
        r->last[p] = all->count;
    }
    return CLT_OK;
}

/* Makes *out without its executor. */
static clt_status prepare(const clt_plan *plan, ocl_device *device, const clt_realize_options *options,
                          clt_realized **out)
{
    CLT_SCOPED(clt_realized) *r = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "realised plan"));
    r->plan = plan;
    r->device = device;
    r->store = options->store;
    r->pool = options->pool;
    CLT_TRY(join_phases(r, options->phases));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

static clt_status make_executor(clt_realized *r, const clt_realize_options *options,
                                const ocl_exec_ahead ahead[OCL_AHEAD_MAX])
{
    ocl_exec_options exec = {.resolve = resolve,
                             .resolve_context = r,
                             .host = options->host,
                             .host_context = options->host_context,
                             .progress = options->progress,
                             .progress_context = options->progress_context,
                             .refusal = options->refusal};
    memcpy(exec.ahead, ahead, sizeof exec.ahead);
    return ocl_exec_create(r->device, &r->all, &exec, &r->exec);
}

clt_status clt_plans_realize(const clt_plan *const plans[2], ocl_device *device,
                             const clt_realize_options *options, clt_realized *out[2])
{
    CLT_SCOPED(clt_realized) *first = NULL;
    CLT_SCOPED(clt_realized) *second = NULL;
    out[0] = out[1] = NULL;
    if (plans[0] != NULL)
        CLT_TRY(prepare(plans[0], device, options, &first));
    if (plans[1] != NULL)
        CLT_TRY(prepare(plans[1], device, options, &second));
    ocl_exec_ahead ahead[OCL_AHEAD_MAX] = {options->ahead};
    if (first != NULL) {
        if (second != NULL)
            ahead[1] = (ocl_exec_ahead){&second->all, resolve, second};
        CLT_TRY(make_executor(first, options, ahead));
        memset(ahead, 0, sizeof ahead);
    }
    if (second != NULL)
        CLT_TRY(make_executor(second, options, ahead));
    out[0] = CLT_TAKE(first);
    out[1] = CLT_TAKE(second);
    return CLT_OK;
}

clt_status clt_plan_realize(const clt_plan *plan, ocl_device *device, const clt_realize_options *options,
                            clt_realized **out)
{
    const clt_plan *plans[2] = {plan, NULL};
    clt_realized *made[2];
    clt_status status = clt_plans_realize(plans, device, options, made);
    *out = made[0];
    return status;
}

void clt_realized_destroy(clt_realized *r)
{
    if (!r)
        return;
    ocl_exec_destroy(r->exec);
    free(r->all.commands);
    free(r);
}

/* Bits of clt_derives: the kinds of derived tensors of a phase that are still valid. */
static uint32_t valid(const clt_derived_at *was, const clt_derived_at *now)
{
    if (was->turn != now->turn || was->writes != now->writes)
        return 0;
    return CLT_DERIVES_FROZEN | (was->updates == now->updates ? CLT_DERIVES_TRAINED : 0);
}

clt_status clt_realized_run(clt_realized *r, clt_phase phase)
{
    if (r->first[phase] == r->last[phase])
        return CLT_OK;
    double begin = r->spans ? clt_now() : 0;
    take_slabs(r);
    clt_derived_at now = {.turn = r->pool->turns};
    if (r->store && phase == CLT_PHASE_UPDATE)
        r->store->updates++;
    if (r->store)
        now.writes = r->store->writes, now.updates = r->store->updates;
    clt_status status = ocl_exec_run_without(r->exec, r->first[phase], r->last[phase],
                                             valid(&r->derived_at[phase], &now), NULL);
    if (status == CLT_OK)
        r->derived_at[phase] = now;
    if (r->spans)
        clt_spans_add(r->spans, CLT_TRACK_HOST, clt_phase_name(phase), 0, begin, clt_now());
    return status;
}

/* Runs one command and waits for it: only then is it known that a launch was refused or that a kernel
 * failed. */
static clt_status prime_one(clt_realized *r, size_t c)
{
    CLT_SCOPED(ocl_event) *done = NULL;
    CLT_TRY(ocl_exec_run_range(r->exec, c, c + 1, NULL));
    CLT_TRY(ocl_marker(r->device, OCL_QUEUE_COMPUTE, &done));
    return ocl_event_wait(done);
}

/* True if a command with the same kernel was primed before. Then it is not primed again, because a training
 * plan runs a few dozen kernels many times, and priming each command would take as long as two steps. `seen`
 * has room for all commands. */
static bool primed_before(const ocl_command **seen, size_t *count, const ocl_command *command)
{
    for (size_t i = 0; i < *count; i++)
        if (ocl_same_code(seen[i], command))
            return true;
    if (command->kind == OCL_CMD_KERNEL)
        seen[(*count)++] = command;
    return false;
}

/* Reports which command the driver refused. */
static void note_refusal(const clt_realized *r, const ocl_command *command, clt_status status,
                         ocl_refusal *refusal)
{
    clt_fail_prefix(status, "running %s of '%s' for the first time: ",
                    command->kernel ? command->kernel : ocl_command_kind_name(command->kind), command->label);
    CLT_KEEP_ERROR();
    ocl_refusal_of(command, refusal);
    refusal->lost = ocl_finish(r->device, OCL_QUEUE_COMPUTE) != CLT_OK;
}

static clt_status prime_all(clt_realized *r, ocl_progress_fn progress, void *progress_context,
                            ocl_refusal *refusal)
{
    CLT_FREED const ocl_command **seen = NULL;
    size_t n_seen = 0;
    CLT_TRY(clt_alloc(&seen, r->all.count, sizeof *seen, "the list of kernels"));
    for (size_t c = 0; c < r->all.count; c++) {
        const ocl_command *command = &r->all.commands[c];
        if (command->kind == OCL_CMD_HOST || primed_before(seen, &n_seen, command))
            continue;
        if (progress != NULL)
            progress(progress_context, (int)c, (int)r->all.count, command->label);
        clt_status status = prime_one(r, c);
        if (status != CLT_OK && status != CLT_ENOMEM && refusal != NULL)
            note_refusal(r, command, status, refusal);
        CLT_TRY(status);
    }
    return CLT_OK;
}

/* Host commands, which need the other ranks, are skipped. */
clt_status clt_realized_prime(clt_realized *r, ocl_progress_fn progress, void *progress_context,
                              ocl_refusal *refusal)
{
    ocl_builders_dismiss(r->device); /* all programs are built */
    clt_pages_prefault_finish();
    clt_status status = prime_all(r, progress, progress_context, refusal);
    clt_pool_overwritten(r->pool);
    CLT_TRY(status);
    return ocl_finish(r->device, OCL_QUEUE_COMPUTE);
}

static uint64_t bytes_of(const clt_realized *r, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(r->plan->graph, tensor);
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

clt_status clt_realized_read(const clt_realized *r, int32_t tensor, void *out)
{
    ocl_buffer *buffer;
    uint64_t offset = 0;
    CLT_TRY(clt_realized_resolve(r, tensor, &buffer, &offset));
    return ocl_read(buffer, offset, out, bytes_of(r, tensor));
}

clt_status clt_realized_read_f32(const clt_realized *r, int32_t tensor, float *out)
{
    const clt_tensor *t = clt_graph_tensor(r->plan->graph, tensor);
    size_t n = (size_t)clt_shape_elements(&t->shape);
    if (t->dtype == CLT_F32)
        return clt_realized_read(r, tensor, out);
    if (t->dtype != CLT_F16 && t->dtype != CLT_BF16)
        CLT_FAIL(CLT_EINTERNAL, "reading tensor '%s' as f32: it is stored as %s", t->name,
                 clt_dtype_name(t->dtype));
    /* Read the 16-bit values into the upper half of `out`. Converting them from the first to the last never
     * overwrites a value that is still to be read. */
    char *narrow = (char *)out + n * sizeof(uint16_t);
    CLT_TRY(clt_realized_read(r, tensor, narrow));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, narrow + i * sizeof bits, sizeof bits);
        float value = t->dtype == CLT_BF16 ? clt_bf16_to_f32(bits) : clt_f16_to_f32(bits);
        memcpy(out + i, &value, sizeof value);
    }
    return CLT_OK;
}

clt_status clt_realized_write(const clt_realized *r, int32_t tensor, const void *data)
{
    ocl_buffer *buffer;
    uint64_t offset = 0;
    CLT_TRY(clt_realized_resolve(r, tensor, &buffer, &offset));
    take_slabs(r);
    return ocl_write(buffer, offset, data, bytes_of(r, tensor));
}
