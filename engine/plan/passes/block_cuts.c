/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts the forward work into segments for train.recompute = block. The cuts are at the blocks that the model
 * family marked. Without marks, dynamic programming finds the cuts that need the least memory: tensors that
 * cross a cut are kept, and the largest segment is in memory as a whole while its backward work runs. Knows
 * sizes, no op. */
#include <stdlib.h>

#include "engine/plan/passes/recompute.h"

typedef struct cuts {
    const clt_again *again;
    size_t n;         /* forward works */
    double *crossing; /* by position p: bytes written before p and read by forward work at or after p */
    double *weight;   /* by position p: bytes written before p that backward reads */
    double *best;     /* by position p: fewest bytes that cross the cuts before p */
    size_t *from;     /* by position p: start of the segment that ends at p in that solution */
} cuts;

static double bytes_of(const clt_graph *graph, int32_t owner)
{
    const clt_tensor *t = clt_graph_tensor(graph, owner);
    if (t->cls != CLT_TC_ACTIVATION && t->cls != CLT_TC_SAVED)
        return 0;
    return (double)clt_shape_elements(&t->shape) * (double)clt_dtype_bytes(t->dtype);
}

/* Finds the first write and the last forward read of every tensor, and whether backward reads it. */
static clt_status measure(cuts *c)
{
    const clt_again *a = c->again;
    CLT_FREED size_t *made = NULL;
    CLT_FREED size_t *last = NULL;
    CLT_FREED bool *kept = NULL;
    CLT_TRY(clt_alloc(&made, a->n, sizeof *made, "recomputation"));
    CLT_TRY(clt_alloc(&last, a->n, sizeof *last, "recomputation"));
    CLT_TRY(clt_alloc(&kept, a->n, sizeof *kept, "recomputation"));
    for (size_t w = a->plan->n_work; w-- > 0;)
        for (size_t i = 0; i < a->touched[w].n; i++) {
            int32_t owner = a->touched[w].tensor[i];
            bool reads = (a->touched[w].access[i] & OCL_READ) != 0;
            if (w >= c->n) {
                kept[owner] |= reads;
            } else {
                made[owner] = (a->touched[w].access[i] & OCL_WRITE) ? w + 1 : made[owner];
                last[owner] = reads && last[owner] == 0 ? w + 1 : last[owner];
            }
        }
    for (size_t t = 0; t < a->n; t++) {
        double bytes = bytes_of(a->plan->graph, (int32_t)t);
        for (size_t p = made[t]; made[t] && p < last[t]; p++)
            c->crossing[p] += bytes;
        for (size_t p = made[t]; made[t] && kept[t] && p <= c->n; p++)
            c->weight[p] += bytes;
    }
    return CLT_OK;
}

/* The fewest bytes that cross cuts if no segment has more than `limit` bytes (a single work may exceed
 * it). */
static double fill(cuts *c, double limit)
{
    c->best[0] = 0;
    for (size_t p = 1; p <= c->n; p++) {
        c->best[p] = -1;
        for (size_t q = p; q-- > 0;) {
            if (q + 1 < p && c->weight[p] - c->weight[q] > limit)
                break;
            double sum = c->best[q] + (p < c->n ? c->crossing[p] : 0);
            if (c->best[p] < 0 || sum < c->best[p]) {
                c->best[p] = sum;
                c->from[p] = q;
            }
        }
    }
    return c->best[c->n];
}

static double heaviest(const cuts *c)
{
    double most = 0;
    for (size_t p = c->n; p > 0; p = c->from[p]) {
        double weight = c->weight[p] - c->weight[c->from[p]];
        most = weight > most ? weight : most;
    }
    return most;
}

/* Tries limits from the total size down to a 64th of it and keeps the cuts of the best one. */
static void choose(cuts *c)
{
    double total = c->weight[c->n], least = -1, limit = total;
    for (int parts = 1; parts <= 64; parts++) {
        double bytes = fill(c, total / parts);
        bytes += heaviest(c);
        if (least < 0 || bytes < least) {
            least = bytes;
            limit = total / parts;
        }
    }
    fill(c, limit);
}

static clt_status cut_by_weight(const clt_again *again, int32_t *segment, int32_t *count)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    cuts c = {.again = again, .n = again->plan->n_forward};
    CLT_TRY(clt_scratch_alloc(&scratch, &c.crossing, c.n + 1, sizeof *c.crossing, "recomputation"));
    CLT_TRY(clt_scratch_alloc(&scratch, &c.weight, c.n + 1, sizeof *c.weight, "recomputation"));
    CLT_TRY(clt_scratch_alloc(&scratch, &c.best, c.n + 1, sizeof *c.best, "recomputation"));
    CLT_TRY(clt_scratch_alloc(&scratch, &c.from, c.n + 1, sizeof *c.from, "recomputation"));
    CLT_TRY(measure(&c));
    choose(&c);
    *count = 0;
    for (size_t p = c.n; p > 0; p = c.from[p])
        ++*count;
    int32_t s = *count;
    for (size_t p = c.n; p > 0; p = c.from[p]) {
        s--;
        for (size_t w = c.from[p]; w < p; w++)
            segment[w] = s;
    }
    return CLT_OK;
}

clt_status clt_block_cuts(const clt_again *again, int32_t *segment, int32_t *count)
{
    const clt_plan *plan = again->plan;
    bool marked = false;
    for (size_t w = 0; w < plan->n_forward; w++)
        marked |= plan->work[w].node->block > 0;
    if (!marked)
        return cut_by_weight(again, segment, count);
    *count = 0;
    for (size_t w = 0; w < plan->n_forward; w++) {
        *count += w > 0 && plan->work[w].node->block != plan->work[w - 1].node->block;
        segment[w] = *count;
    }
    ++*count;
    return CLT_OK;
}
