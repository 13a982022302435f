/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the ranks: their memory, posts, waits and times. Losses are divided by the number of targets of
 * the whole global batch, so the sum of the gradients is the mean gradient. */
#include "engine/train/ranks/sync.h"

#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/train/ranks/exchanges.h"
#include "engine/train/run/run.h"

/* A range of the bytes of a sum. */
typedef struct part {
    uint64_t at, bytes;
} part;

/* The part of a sum's description that is the same in all steps. */
typedef struct sum_place {
    comm_kind kind;
    ocl_buffer *buffer;
    uint64_t offset, bytes;
    int64_t elements;
    comm_type type;
    int64_t grain;     /* shares are multiples of it, in elements */
    part given, taken; /* bytes that this rank gives and receives: its share or everything */
    ocl_buffer *from;  /* buffer on the device with the bytes that this rank gives */
    uint64_t from_at;
    comm_memory *memory; /* memory of ranks and device, in which the sum happens; or NULL */
    uint64_t memory_at;  /* offset in `memory`, in bytes */
    ocl_pinned *staging; /* host memory of the sum if `memory` is NULL */
    uint64_t stride;     /* bytes of staging for each step under way; 0: all steps use the same */
} sum_place;

struct clt_sync {
    clt_async_shared shared;
    clt_run *run;
    clt_exchanges *exchanges; /* NULL: there are none */
    size_t n;
    sum_place *places;
    clt_async *asyncs; /* n for each of `steps` steps */
    int64_t steps;     /* most steps under way at the same time */
    int64_t *step;     /* number of each of these steps; -1: none */
    int64_t now;       /* the step whose sums are carried out; -1: none */
    clt_async *
        *open; /* for each sum of parameters: its collective, posted and not waited for yet; else NULL */
    uint64_t bytes;
    float say[CLT_SYNC_WORDS];
};

static comm_type type_of(clt_dtype dtype)
{
    return dtype == CLT_F16 ? COMM_F16 : dtype == CLT_BF16 ? COMM_BF16 : COMM_F32;
}

/* --- making and freeing --- */

clt_arena_kind clt_sync_arena(const clt_store_layout *layout)
{
    return layout->wire == CLT_F32 ? CLT_ARENA_GRAD : CLT_ARENA_WIRE;
}

clt_status clt_sync_share(clt_run *run)
{
    if (run->ranks.ranks <= 1 || !run->job->train)
        return CLT_OK;
    const clt_store_layout *layout = run->job->train->layout;
    int64_t bytes = (int64_t)clt_store_over_offset(layout, clt_sync_arena(layout), layout->n_slabs);
    bool wanted = clt_config_bool(run->options->config, "parallel.shared_memory");
    int64_t told[3] = {wanted && ocl_computes_on_host(run->device), bytes, -bytes};
    CLT_TRY(comm_all_reduce(run->options->comm, told, 3, COMM_I64, COMM_MIN));
    if (!told[0] || told[1] != -told[2])
        return CLT_OK;
    CLT_TRY(comm_memory_create(run->options->comm, bytes, &run->shared_gradients));
    bytes = (int64_t)clt_store_over_offset(layout, CLT_ARENA_PARAM, layout->n_slabs);
    return layout->sharded ? comm_memory_create(run->options->comm, bytes, &run->shared_parameters) : CLT_OK;
}

/* The memory shared by ranks that holds the tensor of a sum, at *at; or NULL. */
static comm_memory *memory_of(const clt_run *run, const clt_sum *sum, uint64_t *at)
{
    const clt_store_layout *layout = run->job->train->layout;
    const clt_place *place = &run->job->train->place[sum->tensor];
    clt_arena_kind arena;
    if (!clt_sum_arena(run->job->train, sum, &arena))
        return NULL;
    *at = place->offset + clt_store_over_offset(layout, arena, place->slab);
    return arena == CLT_ARENA_PARAM ? run->shared_parameters : run->shared_gradients;
}

static part share_of(const clt_sync *s, const sum_place *p)
{
    int64_t first, length, size = comm_type_bytes(p->type);
    comm_share(p->elements, p->grain, s->run->ranks.ranks, s->run->ranks.rank, &first, &length);
    return (part){(uint64_t)(first * size), (uint64_t)(length * size)};
}

static clt_status make_place(clt_sync *s, size_t k)
{
    const clt_plan *plan = s->run->job->train;
    const clt_sum *sum = &plan->sums[k];
    const clt_tensor *t = clt_graph_tensor(plan->graph, sum->tensor);
    sum_place *p = &s->places[k];
    bool rows = clt_sum_of_rows(sum), gathers = sum->kind != CLT_SUM_GRADIENTS;
    p->elements = clt_shape_elements(&t->shape);
    p->bytes = (uint64_t)p->elements * clt_dtype_bytes(t->dtype);
    p->type = type_of(t->dtype);
    CLT_TRY(clt_realized_resolve(s->run->train, t->id, &p->buffer, &p->offset));
    p->given = p->taken = (part){0, p->bytes};
    p->grain = sum->grain;
    if (rows) { /* the rows may have any type, so they are gathered as bytes */
        p->type = COMM_U8;
        p->elements = (int64_t)p->bytes;
        p->grain = p->elements / s->run->ranks.ranks;
    }
    if (p->grain) {
        p->kind = gathers ? COMM_ALL_GATHER : COMM_REDUCE_SCATTER;
        *(gathers ? &p->given : &p->taken) = share_of(s, p);
    }
    s->bytes += p->given.bytes;
    p->from = p->buffer;
    p->from_at = p->offset + p->given.at;
    if (rows)
        CLT_TRY(clt_realized_resolve(s->run->train, sum->own, &p->from, &p->from_at));
    p->memory = memory_of(s->run, sum, &p->memory_at);
    if (p->memory)
        return CLT_OK;
    /* the host writes words of later steps before the sums of earlier ones have run */
    if (sum->kind == CLT_SUM_LOSSES)
        p->stride = clt_align_up(p->bytes + sizeof s->say, 64);
    return ocl_pinned_create(s->run->device, p->stride ? p->stride * (uint64_t)s->steps : p->bytes,
                             "gradient staging", &p->staging);
}

static clt_status make(clt_sync *s)
{
    clt_run *run = s->run;
    s->n = run->job->train->n_sums;
    s->steps = clt_reporter_depth(run->job->train) + 1;
    s->now = -1;
    CLT_TRY(clt_alloc(&s->places, s->n, sizeof *s->places, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->asyncs, s->n * (size_t)s->steps, sizeof *s->asyncs, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->open, s->n, sizeof *s->open, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->step, (size_t)s->steps, sizeof *s->step, "sums over ranks"));
    for (int64_t i = 0; i < s->steps; i++)
        s->step[i] = -1;
    for (size_t i = 0; i < s->n * (size_t)s->steps; i++)
        s->asyncs[i].shared = &s->shared;
    CLT_TRY(ocl_device_open_queue(run->device, OCL_QUEUE_OUT));
    CLT_TRY(ocl_device_open_queue(run->device, OCL_QUEUE_IN));
    for (size_t k = 0; k < s->n; k++)
        CLT_TRY(make_place(s, k));
    return CLT_OK;
}

/* All ranks must sum and exchange the same things in the same order. */
static clt_status compare_sums(const clt_sync *s)
{
    const clt_plan *plan = s->run->job->train;
    size_t rows = s->n + plan->n_exchanges + 1;
    CLT_FREED int64_t(*list)[6] = NULL;
    CLT_TRY(clt_alloc(&list, rows, sizeof *list, "sums over ranks"));
    for (size_t k = 0; k < s->n; k++) {
        const clt_sum *sum = &plan->sums[k];
        const clt_place *place = &plan->place[sum->tensor];
        bool stored = place->kind == CLT_PLACE_STORE;
        list[k][0] = (int64_t)sum->kind;
        list[k][1] = s->places[k].elements;
        list[k][2] = (int64_t)s->places[k].type;
        list[k][3] = stored ? place->slab : -1;
        list[k][4] = stored ? (int64_t)place->offset : -1;
        list[k][5] = sum->grain;
    }
    for (size_t k = 0; k < plan->n_exchanges; k++)
        list[s->n + k][0] = (int64_t)plan->exchanges[k].elements;
    list[rows - 1][0] = (int64_t)plan->n_exchanges;
    list[rows - 1][1] = plan->n_exchanges ? clt_job_max_micro_batches(s->run->job) : 0;
    return comm_check_equal(s->run->options->comm, list, (int64_t)(rows * sizeof *list),
                            "what they sum in a step");
}

clt_status clt_sync_create(clt_run *run, clt_sync **out)
{
    CLT_SCOPED(clt_sync) *s = NULL;
    *out = NULL;
    if (run->ranks.ranks <= 1 || !run->train)
        return CLT_OK;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "sums over ranks"));
    s->run = run;
    clt_async_shared_init(&s->shared, run);
    CLT_TRY(make(s));
    CLT_TRY(compare_sums(s));
    CLT_TRY(clt_exchanges_create(&s->shared, s->steps, &s->exchanges));
    *out = CLT_TAKE(s);
    return CLT_OK;
}

/* The host memory of a sum in a step under way; NULL where it happens in memory that ranks share. */
static char *host_of(const sum_place *p, int64_t slot)
{
    return p->memory ? NULL : (char *)ocl_pinned_data(p->staging) + p->stride * (uint64_t)slot;
}

/* The first sum is of the losses; the words come after them. */
static char *words_of(const clt_sync *s, int64_t slot)
{
    return host_of(&s->places[0], slot) + s->places[0].bytes;
}

static clt_async *async_of(const clt_sync *s, int64_t step, size_t k)
{
    return &s->asyncs[(size_t)(step % s->steps) * s->n + k];
}

/* Ends the sums of a step. Gathers of parameters belong to the next step, which waits for them. */
static clt_status end_step(clt_sync *s, int64_t slot, clt_sync_result *out)
{
    clt_error first = {.status = CLT_OK};
    int64_t step = s->step[slot];
    *out = (clt_sync_result){0};
    for (size_t k = 0; k < s->n; k++) {
        clt_sum_kind kind = s->run->job->train->sums[k].kind;
        comm_times times = {0};
        clt_async *f = async_of(s, kind == CLT_SUM_PARAMETERS ? step + s->steps - 1 : step, k);
        bool ended = kind != CLT_SUM_PARAMETERS || (f->step == step - 1 && f != s->open[k]);
        clt_status status = ended ? clt_async_end(f, &times) : CLT_OK;
        if (status != CLT_OK && first.status == CLT_OK)
            clt_error_take(status, &first);
        out->inside += times.inside;
        /* the device waits for the last sum, and for each that the update asks for */
        if (times.since_ready > 0 && kind != CLT_SUM_PARAMETERS)
            out->waited = times.since_ready + (kind == CLT_SUM_GATHERED ? out->waited : 0);
    }
    clt_status status = clt_exchanges_end(s->exchanges, step, &out->inside, &out->waited);
    if (status != CLT_OK && first.status == CLT_OK)
        clt_error_take(status, &first);
    memcpy(out->heard, words_of(s, slot), sizeof out->heard);
    s->step[slot] = -1;
    return clt_error_put(&first);
}

void clt_sync_drain(clt_sync *s)
{
    if (s)
        clt_async_drain(&s->shared);
}

void clt_sync_destroy(clt_sync *s)
{
    clt_sync_result unread;
    if (!s)
        return;
    CLT_KEEP_ERROR();
    clt_sync_drain(s);
    /* after a failed command, reads and the sums that wait for them may never end, so their memory is not
     * freed */
    if (ocl_commands_failed(s->run->device))
        return;
    for (int64_t i = 0; i < s->steps && s->step && s->asyncs; i++)
        if (s->step[i] >= 0)
            (void)end_step(s, i, &unread);
    for (size_t i = 0; s->asyncs && i < s->n * (size_t)s->steps; i++) {
        comm_times times;
        (void)clt_async_end(&s->asyncs[i], &times);
    }
    clt_exchanges_destroy(s->exchanges);
    for (size_t k = 0; k < s->n && s->places; k++)
        ocl_pinned_destroy(s->places[k].staging);
    free(s->places);
    free(s->asyncs);
    free(s->open);
    free(s->step);
    clt_async_shared_free(&s->shared);
    free(s);
}

/* --- posting and waiting --- */

static clt_route route_of(const sum_place *p, char *host)
{
    if (p->memory)
        return (clt_route){.mapped = true, .from = p->buffer, .from_at = p->offset, .from_bytes = p->bytes};
    return (clt_route){.from = p->from,
                       .from_at = p->from_at,
                       .from_bytes = p->given.bytes,
                       .from_host = host + p->given.at,
                       .to = p->buffer,
                       .to_at = p->offset + p->taken.at,
                       .to_bytes = p->taken.bytes,
                       .to_host = host + p->taken.at};
}

static clt_status post(clt_sync *s, size_t k)
{
    static const char *const what[] = {
        [CLT_SUM_LOSSES] = "losses",           [CLT_SUM_INDICES] = "indices of rows",
        [CLT_SUM_ROWS] = "rows of embeddings", [CLT_SUM_GRADIENTS] = "gradients",
        [CLT_SUM_BUFFERS] = "buffers",         [CLT_SUM_GATHERED] = "shares of the update",
        [CLT_SUM_PARAMETERS] = "parameters"};
    const clt_run *run = s->run;
    const clt_sum *sum = &run->job->train->sums[k];
    const sum_place *p = &s->places[k];
    int64_t slot = s->now % s->steps;
    clt_async *f = async_of(s, s->now, k);
    bool losses = sum->kind == CLT_SUM_LOSSES, parameters = sum->kind == CLT_SUM_PARAMETERS;
    size_t sends = run->train->first[CLT_PHASE_SEND];
    comm_times unread;
    CLT_TRY(parameters ? clt_async_end(f, &unread) : CLT_OK); /* earlier results were not taken */
    if (f->request || s->open[k])
        CLT_FAIL(CLT_EINTERNAL, "sum %zu is posted twice in a step", k);
    CLT_TRY(ocl_exec_run_range(run->train->exec, sends + sum->send_first, sends + sum->send_last, NULL));
    f->what = what[sum->kind];
    f->step = s->now;
    if (losses)
        memcpy(words_of(s, slot), s->say, sizeof s->say);
    comm_call call = {.kind = p->kind,
                      .grain = p->grain,
                      .data = host_of(p, slot),
                      .memory = p->memory,
                      .offset = (int64_t)p->memory_at,
                      .everywhere = true,
                      .count = p->elements + (losses ? CLT_SYNC_WORDS : 0),
                      .type = p->type,
                      .op = COMM_SUM};
    clt_route route = route_of(p, call.data);
    clt_status status = clt_async_start(f, run->options->comm, call, &route);
    s->open[k] = parameters && f->request ? f : NULL;
    return status;
}

static clt_status take_parameters(clt_sync *s, size_t k)
{
    const clt_run *run = s->run;
    const clt_sum *sum = &run->job->train->sums[k];
    size_t takes = run->train->first[CLT_PHASE_TAKE];
    clt_async *f = s->open[k];
    if (!f)
        return CLT_OK;
    s->open[k] = NULL;
    CLT_TRY(clt_async_wait(f));
    return ocl_exec_run_range(run->train->exec, takes + sum->take_first, takes + sum->take_last, NULL);
}

clt_status clt_sync_settle(clt_sync *s)
{
    for (size_t k = 0; s && k < s->n; k++)
        CLT_TRY(take_parameters(s, k));
    return CLT_OK;
}

clt_status clt_sync_begin(clt_sync *s, int64_t step)
{
    clt_sync_result unread;
    if (!s)
        return CLT_OK;
    int64_t slot = step % s->steps;
    if (s->step[slot] >= 0)
        CLT_TRY(end_step(s, slot, &unread));
    s->step[slot] = step;
    clt_exchanges_begin(s->exchanges, step);
    return CLT_OK;
}

void clt_sync_last(clt_sync *s, int64_t step)
{
    if (s)
        s->now = step;
}

clt_status clt_sync_host(void *context, const ocl_command *command)
{
    clt_run *run = context;
    clt_sync *s = run->sync;
    size_t k = command->args[1].value.u32;
    if (command->host_code == CLT_HOST_GIVE || command->host_code == CLT_HOST_GET)
        return clt_exchanges_host(s ? s->exchanges : NULL, command);
    if (s && run->job->train->sums[k].kind == CLT_SUM_PARAMETERS && command->host_code == CLT_HOST_WAIT)
        return take_parameters(s, k);
    if (!s || s->now < 0) /* not the last micro-batch, or a step that is diagnosed */
        return CLT_OK;
    return command->host_code == CLT_HOST_POST ? post(s, k) : clt_async_wait(async_of(s, s->now, k));
}

void clt_sync_end(clt_sync *s)
{
    if (!s)
        return;
    s->now = -1;
    clt_exchanges_close(s->exchanges);
}

void clt_sync_say(clt_sync *s, const float words[CLT_SYNC_WORDS])
{
    if (s)
        memcpy(s->say, words, sizeof s->say);
}

clt_status clt_sync_take(clt_sync *s, int64_t step, clt_sync_result *result)
{
    *result = (clt_sync_result){0};
    return s && s->step[step % s->steps] == step ? end_step(s, step % s->steps, result) : CLT_OK;
}

uint64_t clt_sync_bytes(const clt_sync *s)
{
    return s ? s->bytes + clt_exchanges_bytes(s->exchanges) : 0;
}
