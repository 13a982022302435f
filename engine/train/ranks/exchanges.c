/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges with other ranks in a micro-batch: a GIVE command posts an urgent all-gather, and at GET the
 * device waits for the records of all ranks. */
#include "engine/train/ranks/exchanges.h"

#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/train/run/run.h"

struct clt_exchanges {
    clt_async_shared *shared;
    clt_run *run;
    comm *group; /* all ranks, in a group for urgent collectives only */
    size_t n;
    ocl_pinned **staging; /* for each exchange: the records of all ranks */
    clt_async *asyncs;    /* collectives; index: step under way, micro-batch, exchange */
    int32_t *used;        /* how often each exchange has run in this step */
    int64_t steps, micro_batches;
    int64_t now; /* the current step; -1: none */
};

/* --- making and freeing --- */

static const clt_exchange *exchange_of(const clt_exchanges *x, size_t k)
{
    return &x->run->job->train->exchanges[k];
}

static uint64_t record_bytes(const clt_exchanges *x, size_t k)
{
    return exchange_of(x, k)->elements * sizeof(float);
}

static size_t asyncs_of(const clt_exchanges *x)
{
    return (size_t)(x->steps * x->micro_batches) * x->n;
}

static clt_async *async_of(const clt_exchanges *x, int64_t step, int64_t micro, size_t k)
{
    return &x->asyncs[(size_t)(step % x->steps * x->micro_batches + micro) * x->n + k];
}

static clt_status make(clt_exchanges *x)
{
    clt_run *run = x->run;
    CLT_TRY(comm_split_small(run->options->comm, 0, run->ranks.rank, &x->group));
    CLT_TRY(clt_alloc(&x->staging, x->n, sizeof *x->staging, "exchanges of ranks"));
    CLT_TRY(clt_alloc(&x->used, x->n, sizeof *x->used, "exchanges of ranks"));
    CLT_TRY(clt_alloc(&x->asyncs, asyncs_of(x), sizeof *x->asyncs, "exchanges of ranks"));
    for (size_t i = 0; i < asyncs_of(x); i++)
        x->asyncs[i].shared = x->shared;
    for (size_t k = 0; k < x->n; k++)
        CLT_TRY(ocl_pinned_create(run->device, record_bytes(x, k) * (uint64_t)run->ranks.ranks,
                                  "records of all ranks", &x->staging[k]));
    return CLT_OK;
}

clt_status clt_exchanges_create(clt_async_shared *shared, int64_t steps, clt_exchanges **out)
{
    CLT_SCOPED(clt_exchanges) *x = NULL;
    const clt_job *job = shared->run->job;
    *out = NULL;
    if (job->train->n_exchanges == 0 && job->train->options.sync_norms && shared->run->ranks.rank == 0)
        CLT_WARN("parallel.sync_batch_norm=true changes nothing: the model has no batch_norm whose "
                 "statistics are trained; remove the key");
    if (job->train->n_exchanges == 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&x, 1, sizeof *x, "exchanges of ranks"));
    x->shared = shared;
    x->run = shared->run;
    x->n = job->train->n_exchanges;
    x->steps = steps;
    x->micro_batches = clt_job_max_micro_batches(job);
    x->now = -1;
    CLT_TRY(make(x));
    *out = CLT_TAKE(x);
    return CLT_OK;
}

void clt_exchanges_destroy(clt_exchanges *x)
{
    if (!x)
        return;
    for (size_t i = 0; x->asyncs && i < asyncs_of(x); i++) {
        comm_times unread;
        (void)clt_async_end(&x->asyncs[i], &unread);
    }
    for (size_t k = 0; x->staging && k < x->n; k++)
        ocl_pinned_destroy(x->staging[k]);
    comm_destroy(x->group);
    free(x->staging);
    free(x->used);
    free(x->asyncs);
    free(x);
}

/* --- in a step --- */

void clt_exchanges_begin(clt_exchanges *x, int64_t step)
{
    for (size_t k = 0; x && k < x->n; k++)
        x->used[k] = 0;
    if (x)
        x->now = step;
}

void clt_exchanges_close(clt_exchanges *x)
{
    if (x)
        x->now = -1;
}

/* One staging memory serves every micro-batch: a record is read into it only after the device has got the
 * previous records from it. The read is on the queue on which gradient buckets are read, after the buckets
 * that were ready before it, but does not wait for their sums. The records of all ranks are written on the
 * compute queue, so they do not wait for writes of other collectives. */
static clt_status route_of(const clt_exchanges *x, size_t k, const ocl_command *command, clt_route *route)
{
    uint64_t bytes = record_bytes(x, k);
    char *host = ocl_pinned_data(x->staging[k]);
    *route = (clt_route){.later = true,
                         .from_bytes = bytes,
                         .to_bytes = bytes * (uint64_t)x->run->ranks.ranks,
                         .from_host = host + (uint64_t)x->run->ranks.rank * bytes,
                         .to_host = host};
    CLT_TRY(clt_realized_resolve(x->run->train, command->args[0].ref.tensor, &route->from, &route->from_at));
    return clt_realized_resolve(x->run->train, command->args[2].ref.tensor, &route->to, &route->to_at);
}

static clt_status give(clt_exchanges *x, size_t k, const clt_route *route)
{
    if (x->used[k] == x->micro_batches)
        CLT_FAIL(CLT_EINTERNAL, "exchange %zu of a step of %lld micro-batches comes once more", k,
                 (long long)x->micro_batches);
    clt_async *f = async_of(x, x->now, x->used[k], k);
    f->what = "statistics of norms";
    f->step = x->now;
    if (f->request)
        CLT_FAIL(CLT_EINTERNAL, "exchange %zu is posted twice in a micro-batch", k);
    return clt_async_start(f, x->group,
                           (comm_call){.kind = COMM_ALL_GATHER,
                                       .grain = (int64_t)route->from_bytes,
                                       .data = ocl_pinned_data(x->staging[k]),
                                       .count = (int64_t)route->to_bytes,
                                       .type = COMM_U8,
                                       .urgent = true},
                           route);
}

/* Outside of steps: the records of all ranks are this rank's own, and zeros for the others. */
static clt_status take_own(clt_exchanges *x, size_t k, const ocl_command *command)
{
    ocl_buffer *own, *all;
    uint64_t own_at, all_at, bytes = record_bytes(x, k);
    CLT_TRY(clt_realized_resolve(x->run->train, command->args[0].ref.tensor, &own, &own_at));
    CLT_TRY(clt_realized_resolve(x->run->train, command->args[2].ref.tensor, &all, &all_at));
    CLT_TRY(ocl_fill_zero(all, all_at, bytes * (uint64_t)x->run->ranks.ranks));
    return ocl_copy_async(OCL_QUEUE_COMPUTE, own, own_at, all, all_at + (uint64_t)x->run->ranks.rank * bytes,
                          bytes, NULL, NULL);
}

clt_status clt_exchanges_host(clt_exchanges *x, const ocl_command *command)
{
    size_t k = command->args[1].value.u32;
    bool gives = command->host_code == CLT_HOST_GIVE;
    if (!x || x->now < 0)
        return x && !gives ? take_own(x, k, command) : CLT_OK;
    clt_route route;
    CLT_TRY(route_of(x, k, command, &route));
    return gives ? give(x, k, &route) : clt_async_take(async_of(x, x->now, x->used[k]++, k), &route);
}

clt_status clt_exchanges_end(clt_exchanges *x, int64_t step, double *inside, double *waited)
{
    clt_error first = {.status = CLT_OK};
    for (int64_t micro = 0; x && micro < x->micro_batches; micro++)
        for (size_t k = 0; k < x->n; k++) {
            comm_times times;
            clt_async *f = async_of(x, step, micro, k);
            clt_status status = clt_async_end(f, &times);
            if (status != CLT_OK && first.status == CLT_OK)
                clt_error_take(status, &first);
            *inside += times.inside;
            *waited += f->waited;
        }
    return clt_error_put(&first);
}

uint64_t clt_exchanges_bytes(const clt_exchanges *x)
{
    uint64_t bytes = 0;
    for (size_t k = 0; x && k < x->n; k++)
        bytes += record_bytes(x, k) * (uint64_t)x->micro_batches;
    return bytes;
}
