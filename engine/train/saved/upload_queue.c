/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of uploads: a list of steps in ascending order, with what has happened to each. */
#include "engine/train/saved/upload_queue.h"

#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"

bool clt_upload_stays(const clt_upload_queue *q, int64_t step)
{
    const clt_retention kept = {.major = q->major, .best = q->best};
    return clt_retention_keeps(&kept, step);
}

static int compare_steps(const void *a, const void *b)
{
    const clt_due_upload *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

clt_status clt_upload_queue_add(clt_upload_queue *q, const clt_due_upload *due)
{
    size_t n = 0, all = q->count;
    bool there = false;
    CLT_TRY(clt_grow(&q->due, &q->capacity, all + 1, sizeof *q->due, "uploads that wait"));
    for (size_t i = 0; i < q->count; i++)
        there = there || q->due[i].step == due->step;
    if (!there)
        q->due[all++] = *due;
    qsort(q->due, all, sizeof *q->due, compare_steps);
    for (size_t i = 0; i < all; i++)
        if (i + 1 == all || clt_upload_stays(q, q->due[i].step))
            q->due[n++] = q->due[i];
    q->count = n;
    return CLT_OK;
}

const clt_due_upload *clt_upload_queue_next(const clt_upload_queue *q)
{
    const clt_due_upload *next = NULL;
    for (size_t i = q->count; i-- > 0;) {
        const clt_due_upload *due = &q->due[i];
        if (due->tried)
            continue;
        if (i + 1 == q->count && due->step > q->newest)
            return due;
        if (!next || next->step != q->best)
            next = due;
    }
    return next;
}

bool clt_upload_queue_take(clt_upload_queue *q, clt_due_upload *out)
{
    const clt_due_upload *next = clt_upload_queue_next(q);
    if (!next)
        return false;
    const size_t at = (size_t)(next - q->due);
    *out = *next;
    q->count--;
    memmove(q->due + at, q->due + at + 1, (q->count - at) * sizeof *q->due);
    return true;
}

void clt_upload_queue_arrived(clt_upload_queue *q, int64_t step)
{
    q->newest = step > q->newest ? step : q->newest;
    clt_upload_queue_again(q);
}

void clt_upload_queue_again(clt_upload_queue *q)
{
    for (size_t i = 0; i < q->count; i++)
        q->due[i].tried = false;
}

bool clt_upload_queue_told(const clt_upload_queue *q)
{
    for (size_t i = 0; i < q->count; i++)
        if (q->due[i].told)
            return true;
    return false;
}

void clt_upload_queue_free(clt_upload_queue *q)
{
    free(q->due);
    *q = (clt_upload_queue)CLT_UPLOAD_QUEUE_EMPTY;
}
