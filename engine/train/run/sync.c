/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the ranks: see sync.h. Losses are divided by the number of targets of the whole global batch, so
 * the sum of the gradients is the mean gradient. */
#include "engine/train/run/sync.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/train/run/run.h"

/* One sum of a step under way. */
typedef struct flight {
    clt_sync *sync;
    comm_request *request; /* NULL: not posted, or its times were taken */
    const char *what;
    int64_t step;
    double ready;       /* when its data was */
    ocl_event *summed;  /* completed on the communication thread */
    ocl_event *written; /* NULL: the device already waits for it */
} flight;

/* Bytes of a sum. */
typedef struct part {
    uint64_t at, bytes;
} part;

/* What a sum always has. */
typedef struct sum_place {
    comm_kind kind;
    ocl_buffer *buffer;
    uint64_t offset, bytes;
    int64_t elements;
    comm_type type;
    int64_t grain;     /* of the ranks' shares, in elements */
    part given, taken; /* what this rank gives to it, and gets: its share or everything */
    ocl_buffer *from;  /* where on the device lies what it gives */
    uint64_t from_at;
    comm_memory *memory; /* which the device computes on and ranks share: it happens there; or NULL */
    uint64_t memory_at;  /* and where, in bytes */
    ocl_pinned *staging; /* otherwise */
    uint64_t stride;     /* of its parts for steps under way, in bytes; 0: one serves all */
} sum_place;

struct clt_sync {
    clt_run *run;
    size_t n;
    sum_place *places;
    flight *flights; /* of `steps` steps, n of each */
    int64_t steps;   /* as many as are ever under way */
    int64_t *step;   /* which step each of them is, -1: none */
    int64_t now;     /* the step whose posts hold, -1: none */
    flight **open;   /* of each sum of parameters: it was posted, and nobody has waited for it; else NULL */
    uint64_t bytes;
    float say[CLT_SYNC_WORDS];
    double last_end; /* of a sum; the communication thread's own */
    pthread_mutex_t lock;
    /* a command has failed, so sums may end later than the run and its device; under lock */
    bool gone;
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
    CLT_TRY(comm_memory_create(run->options->comm, bytes, &run->shared));
    bytes = (int64_t)clt_store_over_offset(layout, CLT_ARENA_PARAM, layout->n_slabs);
    return layout->sharded ? comm_memory_create(run->options->comm, bytes, &run->shared_parameters) : CLT_OK;
}

/* The memory that ranks share and the tensor of a sum lies in, or NULL. */
static comm_memory *memory_of(const clt_run *run, const clt_sum *sum, uint64_t *at)
{
    const clt_store_layout *layout = run->job->train->layout;
    const clt_place *place = &run->job->train->place[sum->tensor];
    clt_arena_kind arena;
    if (!clt_sum_arena(run->job->train, sum, &arena))
        return NULL;
    *at = place->offset + clt_store_over_offset(layout, arena, place->slab);
    return arena == CLT_ARENA_PARAM ? run->shared_parameters : run->shared;
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
    if (rows) { /* of any type */
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
    CLT_TRY(clt_alloc(&s->flights, s->n * (size_t)s->steps, sizeof *s->flights, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->open, s->n, sizeof *s->open, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->step, (size_t)s->steps, sizeof *s->step, "sums over ranks"));
    for (int64_t i = 0; i < s->steps; i++)
        s->step[i] = -1;
    for (size_t i = 0; i < s->n * (size_t)s->steps; i++)
        s->flights[i].sync = s;
    CLT_TRY(ocl_device_open_queue(run->device, OCL_QUEUE_OUT));
    CLT_TRY(ocl_device_open_queue(run->device, OCL_QUEUE_IN));
    for (size_t k = 0; k < s->n; k++)
        CLT_TRY(make_place(s, k));
    return CLT_OK;
}

/* All ranks must sum the same things in the same order. */
static clt_status compare_sums(const clt_sync *s)
{
    const clt_plan *plan = s->run->job->train;
    int64_t(*list)[6];
    CLT_TRY(clt_alloc(&list, s->n, sizeof *list, "sums over ranks"));
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
    clt_status status = comm_check_equal(s->run->options->comm, list, (int64_t)(s->n * sizeof *list),
                                         "what they sum in a step");
    free(list);
    return status;
}

clt_status clt_sync_create(clt_run *run, clt_sync **out)
{
    clt_sync *s;
    *out = NULL;
    if (run->ranks.ranks <= 1 || !run->train)
        return CLT_OK;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "sums over ranks"));
    s->run = run;
    pthread_mutex_init(&s->lock, NULL);
    clt_status status = make(s);
    if (status == CLT_OK)
        status = compare_sums(s);
    if (status != CLT_OK)
        clt_sync_destroy(s);
    else
        *out = s;
    return status;
}

/* Waits for the sum, which has ended if its step's results have arrived, and forgets it. */
static clt_status end_flight(flight *f, comm_times *times)
{
    clt_status status = CLT_OK;
    *times = (comm_times){0};
    if (f->request)
        status = comm_request_wait_timed(f->request, times);
    ocl_event_release(f->summed);
    ocl_event_release(f->written);
    f->request = NULL;
    f->summed = f->written = NULL;
    return status;
}

/* The host memory of a sum in a step under way; NULL where it happens in memory that ranks share. */
static char *host_of(const sum_place *p, int64_t slot)
{
    return p->memory ? NULL : (char *)ocl_pinned_data(p->staging) + p->stride * (uint64_t)slot;
}

/* The first sum is that of the losses: behind them come the words. */
static char *words_of(const clt_sync *s, int64_t slot)
{
    return host_of(&s->places[0], slot) + s->places[0].bytes;
}

static flight *flight_of(const clt_sync *s, int64_t step, size_t k)
{
    return &s->flights[(size_t)(step % s->steps) * s->n + k];
}

/* Sums of parameters belong to the step that waits for them. */
static clt_status end_step(clt_sync *s, int64_t slot, clt_sync_result *out)
{
    clt_error first = {.status = CLT_OK};
    int64_t step = s->step[slot];
    *out = (clt_sync_result){0};
    for (size_t k = 0; k < s->n; k++) {
        clt_sum_kind kind = s->run->job->train->sums[k].kind;
        comm_times times = {0};
        flight *f = flight_of(s, kind == CLT_SUM_PARAMETERS ? step + s->steps - 1 : step, k);
        bool ended = kind != CLT_SUM_PARAMETERS || (f->step == step - 1 && f != s->open[k]);
        clt_status status = ended ? end_flight(f, &times) : CLT_OK;
        if (status != CLT_OK && first.status == CLT_OK)
            clt_error_take(status, &first);
        out->inside += times.inside;
        /* the device waits for the last sum, and for each that the update asks for */
        if (times.since_ready > 0 && kind != CLT_SUM_PARAMETERS)
            out->waited = times.since_ready + (kind == CLT_SUM_GATHERED ? out->waited : 0);
    }
    memcpy(out->heard, words_of(s, slot), sizeof out->heard);
    s->step[slot] = -1;
    return clt_error_put(&first);
}

void clt_sync_drain(clt_sync *s)
{
    clt_error kept;
    clt_error_take(CLT_EINTERNAL, &kept);
    for (int q = OCL_QUEUE_COMPUTE; s && q < OCL_QUEUE_COUNT; q++)
        (void)ocl_finish(s->run->device, (ocl_queue)q);
    if (s && ocl_commands_failed(s->run->device)) {
        pthread_mutex_lock(&s->lock);
        s->gone = true;
        pthread_mutex_unlock(&s->lock);
    }
    clt_error_put(&kept);
}

void clt_sync_destroy(clt_sync *s)
{
    clt_error kept;
    clt_sync_result unread;
    if (!s)
        return;
    clt_error_take(CLT_EINTERNAL, &kept);
    clt_sync_drain(s);
    /* after a failed command reads may never end, and with them the sums that wait for these: what refers to
     * them is not freed */
    if (!ocl_commands_failed(s->run->device)) {
        for (int64_t i = 0; i < s->steps && s->step && s->flights; i++)
            if (s->step[i] >= 0)
                (void)end_step(s, i, &unread);
        for (size_t i = 0; s->flights && i < s->n * (size_t)s->steps; i++) {
            comm_times times;
            (void)end_flight(&s->flights[i], &times);
        }
        for (size_t k = 0; k < s->n && s->places; k++)
            ocl_pinned_destroy(s->places[k].staging);
        free(s->places);
        free(s->flights);
        free(s->open);
        free(s->step);
        pthread_mutex_destroy(&s->lock);
        free(s);
    }
    clt_error_put(&kept);
}

/* --- posting and waiting --- */

static void data_ready(void *context, bool ok)
{
    flight *f = context;
    f->ready = clt_now();
    comm_request_ready(f->request, ok);
}

/* On the communication thread. */
static void summed(void *context, bool ok)
{
    flight *f = context;
    clt_sync *s = f->sync;
    double now = clt_now();
    pthread_mutex_lock(&s->lock);
    if (!s->gone && !ok)
        ocl_commands_spoil(s->run->device, CLT_ECOMM, clt_error_text());
    else if (!s->gone)
        clt_spans_add(s->run->train->spans, CLT_TRACK_SUMS, f->what, f->step + 1,
                      f->ready > s->last_end ? f->ready : s->last_end, now);
    s->last_end = now;
    pthread_mutex_unlock(&s->lock);
    ocl_user_event_complete(f->summed);
}

static clt_status hand_out(const sum_place *p, char *host, ocl_event *made, ocl_event **out)
{
    if (p->memory)
        return ocl_map_async(OCL_QUEUE_OUT, p->buffer, p->offset, p->bytes, made, out);
    return ocl_read_async(OCL_QUEUE_OUT, p->from, p->from_at, host + p->given.at, p->given.bytes, made, out);
}

static clt_status take_back(const sum_place *p, const char *host, ocl_event *summed, ocl_event **back)
{
    if (p->memory)
        return ocl_unmap_async(OCL_QUEUE_IN, p->buffer, p->offset, summed, back);
    return ocl_write_async(OCL_QUEUE_IN, p->buffer, p->offset + p->taken.at, host + p->taken.at,
                           p->taken.bytes, summed, back);
}

/* Enqueues the read behind all commands so far, the sum behind it, and the write back behind that. */
static clt_status enqueue(const sum_place *p, flight *f, char *host, bool *announced)
{
    ocl_device *device = f->sync->run->device;
    ocl_event *made = NULL, *read = NULL;
    clt_status status = ocl_marker(device, OCL_QUEUE_COMPUTE, &made);
    if (status == CLT_OK)
        status = hand_out(p, host, made, &read);
    if (status == CLT_OK)
        status = ocl_event_callback(read, data_ready, f);
    *announced = status == CLT_OK;
    if (status == CLT_OK)
        status = take_back(p, host, f->summed, &f->written);
    ocl_event_release(made);
    ocl_event_release(read);
    return status;
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
    flight *f = flight_of(s, s->now, k);
    bool losses = sum->kind == CLT_SUM_LOSSES, parameters = sum->kind == CLT_SUM_PARAMETERS;
    size_t sends = run->train->first[CLT_PHASE_SEND];
    bool announced = false;
    comm_times unread;
    CLT_TRY(parameters ? end_flight(f, &unread) : CLT_OK); /* nobody asked for the results of a step */
    if (f->request || s->open[k])
        CLT_FAIL(CLT_EINTERNAL, "sum %zu is posted twice in a step", k);
    CLT_TRY(ocl_exec_run_range(run->train->exec, sends + sum->send_first, sends + sum->send_last, NULL));
    CLT_TRY(ocl_user_event_create(run->device, &f->summed));
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
                      .op = COMM_SUM,
                      .done = summed,
                      .context = f,
                      .what = f->what};
    clt_status status = comm_post(run->options->comm, &call, &f->request);
    if (status != CLT_OK) {
        ocl_user_event_complete(f->summed);
        return status;
    }
    s->open[k] = parameters ? f : NULL;
    status = enqueue(p, f, call.data, &announced);
    if (!announced) /* the other ranks wait for this sum */
        comm_request_ready(f->request, false);
    return status;
}

static clt_status wait_for(clt_sync *s, flight *f)
{
    if (!f->written)
        CLT_FAIL(CLT_EINTERNAL, "a sum of %s is waited for and was not posted", f->what ? f->what : "?");
    clt_status status = ocl_wait_on_device(s->run->device, OCL_QUEUE_COMPUTE, f->written);
    ocl_event_release(f->written);
    f->written = NULL;
    return status;
}

static clt_status take_parameters(clt_sync *s, size_t k)
{
    const clt_run *run = s->run;
    const clt_sum *sum = &run->job->train->sums[k];
    size_t takes = run->train->first[CLT_PHASE_TAKE];
    flight *f = s->open[k];
    if (!f)
        return CLT_OK;
    s->open[k] = NULL;
    CLT_TRY(wait_for(s, f));
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
    s->now = step;
    return CLT_OK;
}

clt_status clt_sync_host(void *context, const ocl_command *command)
{
    clt_run *run = context;
    clt_sync *s = run->sync;
    size_t k = command->args[1].value.u32;
    if (s && run->job->train->sums[k].kind == CLT_SUM_PARAMETERS && command->host_code == CLT_HOST_WAIT)
        return take_parameters(s, k);
    if (!s || s->now < 0) /* not the last micro-batch, or a step that is looked into */
        return CLT_OK;
    return command->host_code == CLT_HOST_POST ? post(s, k) : wait_for(s, flight_of(s, s->now, k));
}

void clt_sync_end(clt_sync *s)
{
    if (s)
        s->now = -1;
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
    return s ? s->bytes : 0;
}
