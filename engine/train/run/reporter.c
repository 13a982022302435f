/* SPDX-License-Identifier: Apache-2.0
 *
 * The reporter: a ring of pinned entries, which are filled by reads on the compute queue and announced by
 * event callbacks. */
#include "engine/train/run/reporter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"

typedef struct entry {
    clt_reporter *reporter;
    int64_t step;
    bool done, ok;
    double done_at;
    /* number of the last command that was enqueued for the step (cl/command/faults.h) */
    uint64_t last_command;
    clt_state_block *state; /* state block in pinned memory */
    float *losses;
} entry;

struct clt_reporter {
    const clt_realized *realized;
    ocl_buffer *state, *losses;
    uint64_t state_offset, losses_offset, losses_bytes;
    ocl_pinned *pinned;
    entry *ring;
    int depth, head, posted; /* size of the ring, oldest entry, entries in use */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

int clt_reporter_depth(const clt_plan *plan)
{
    size_t commands = clt_plan_commands(plan);
    return commands >= 250 ? 2 : (int)(500 / (commands ? commands : 1));
}

clt_status clt_reporter_create(const clt_realized *realized, int depth, clt_reporter **out)
{
    CLT_SCOPED(clt_reporter) *r = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "reporter"));
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->realized = realized;
    r->depth = depth;
    r->losses_bytes = (uint64_t)realized->plan->graph->n_losses * 4 * sizeof(float);
    uint64_t stride = clt_align_up(sizeof(clt_state_block) + r->losses_bytes, 64);
    CLT_TRY(clt_realized_resolve(realized, realized->plan->state, &r->state, &r->state_offset));
    CLT_TRY(clt_realized_resolve(realized, realized->plan->losses, &r->losses, &r->losses_offset));
    CLT_TRY(clt_alloc(&r->ring, (size_t)depth, sizeof *r->ring, "reporter"));
    CLT_TRY(ocl_pinned_create(realized->device, stride * (uint64_t)depth, "step reports", &r->pinned));
    for (int i = 0; i < depth; i++) {
        char *base = (char *)ocl_pinned_data(r->pinned) + stride * (uint64_t)i;
        r->ring[i].reporter = r;
        r->ring[i].state = (clt_state_block *)(void *)base;
        r->ring[i].losses = (float *)(void *)(base + sizeof(clt_state_block));
    }
    *out = CLT_TAKE(r);
    return CLT_OK;
}

void clt_reporter_destroy(clt_reporter *r)
{
    if (!r)
        return;
    CLT_KEEP_ERROR();
    (void)ocl_finish(r->realized->device, OCL_QUEUE_COMPUTE);
    /* callbacks refer to the ring, and after a failed command they may come at any time or never, so it is
     * not freed */
    if (ocl_commands_failed(r->realized->device))
        return;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->posted; i++)
        while (!r->ring[(r->head + i) % r->depth].done)
            pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    ocl_pinned_destroy(r->pinned);
    free(r->ring);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void report_done(void *context, bool ok)
{
    entry *e = context;
    clt_reporter *r = e->reporter;
    pthread_mutex_lock(&r->lock);
    e->done_at = clt_now();
    e->done = true;
    e->ok = ok;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Waits for the oldest result; the lock must be held. If an earlier command failed, its callback may never
 * come, and this returns an error. */
static clt_status wait_for_oldest(clt_reporter *r)
{
    bool well = true;
    while (well && r->posted > 0 && !r->ring[r->head].done)
        well = ocl_wait_for_callback(r->realized->device, &r->changed, &r->lock);
    if (well || r->ring[r->head].done)
        return CLT_OK;
    clt_status status = ocl_commands_check(r->realized->device, ocl_commands_enqueued(r->realized->device));
    return clt_fail_prefix(
        status, "step %lld, resume from the last checkpoint: ", (long long)r->ring[r->head].step + 1);
}

clt_status clt_reporter_room(clt_reporter *r)
{
    pthread_mutex_lock(&r->lock);
    clt_status status = r->posted == r->depth ? wait_for_oldest(r) : CLT_OK;
    pthread_mutex_unlock(&r->lock);
    return status;
}

clt_status clt_reporter_post(clt_reporter *r, int64_t step)
{
    CLT_SCOPED(ocl_event) *done = NULL;
    if (r->posted == r->depth)
        CLT_FAIL(CLT_EINTERNAL, "reporter: step %lld posted while %d results wait to be taken",
                 (long long)step, r->depth);
    entry *e = &r->ring[(r->head + r->posted) % r->depth];
    e->step = step;
    e->done = e->ok = false;
    double begin = r->realized->spans ? clt_now() : 0;
    CLT_TRY(
        ocl_read_async(OCL_QUEUE_COMPUTE, r->state, r->state_offset, e->state, sizeof *e->state, NULL, NULL));
    CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, r->losses, r->losses_offset, e->losses, r->losses_bytes, NULL,
                           &done));
    e->last_command = ocl_commands_enqueued(r->realized->device);
    CLT_TRY(ocl_event_callback(done, report_done, e));
    pthread_mutex_lock(&r->lock);
    r->posted++;
    pthread_mutex_unlock(&r->lock);
    if (r->realized->spans)
        clt_spans_add(r->realized->spans, CLT_TRACK_HOST, "report", step + 1, begin, clt_now());
    return CLT_OK;
}

clt_status clt_reporter_take(clt_reporter *r, bool wait, clt_step_result *result, bool *have)
{
    pthread_mutex_lock(&r->lock);
    entry *e = &r->ring[r->head];
    clt_status waited = wait ? wait_for_oldest(r) : CLT_OK;
    *have = r->posted > 0 && e->done;
    bool ok = e->ok;
    uint64_t last_command = e->last_command;
    if (*have) {
        result->step = e->step;
        result->done_at = e->done_at;
        result->state = *e->state;
        memcpy(result->loss, e->losses, r->losses_bytes);
        r->head = (r->head + 1) % r->depth;
        r->posted--;
    }
    pthread_mutex_unlock(&r->lock);
    CLT_TRY(waited);
    if (!*have)
        return CLT_OK;
    clt_status status = ocl_commands_check(r->realized->device, last_command);
    if (status == CLT_OK && !ok)
        status = clt_fail(CLT_EDEVLOST, __FILE__, __LINE__, "device '%s' reported a failed command",
                          r->realized->plan->device.name);
    return clt_fail_prefix(status,
                           "step %lld, resume from the last checkpoint: ", (long long)result->step + 1);
}

int clt_reporter_in_flight(clt_reporter *r)
{
    pthread_mutex_lock(&r->lock);
    int count = r->posted;
    pthread_mutex_unlock(&r->lock);
    return count;
}
