/* SPDX-License-Identifier: Apache-2.0
 *
 * train.recompute = block: a segment's forward results are kept only if other segments read them. Right
 * before the segment's backward work its forward work is repeated, as far as the backward work needs the
 * results. The last segment is kept as a whole, because its backward work follows immediately. Knows work
 * and which tensors it uses. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/recompute.h"

typedef struct blocks {
    clt_again *again;
    const clt_plan *plan;
    int32_t *of_work; /* by position: segment of a forward work */
    int32_t *of_node; /* by node id: segment of the node */
    int32_t *home;    /* by owning tensor: segment whose forward work writes it, -1 none */
    bool *stays;      /* by owning tensor: it is kept, for another segment or for other reasons */
    bool *needed;     /* by owning tensor: its segment's backward work needs it recomputed */
    bool *repeat;     /* by position: forward work to be repeated */
    bool *done;       /* by segment: its forward work has been repeated */
    int32_t last;     /* the segment that is not repeated */
} blocks;

static bool recomputable(const clt_tensor *t)
{
    return (t->cls == CLT_TC_ACTIVATION || t->cls == CLT_TC_SAVED) && !t->is_output && !t->persistent;
}

/* Nodes without forward work (views, nodes fused into other work) get the latest of the segments of their
 * inputs. */
static void place_nodes(blocks *b)
{
    const clt_graph *graph = b->plan->graph;
    for (size_t k = 0; k < graph->n_nodes; k++)
        b->of_node[k] = -1;
    for (size_t w = 0; w < b->plan->n_forward; w++)
        b->of_node[b->plan->work[w].node->id] = b->of_work[w];
    for (size_t k = 0; k < graph->n_nodes; k++) {
        const clt_node *node = graph->nodes[k];
        int32_t latest = 0;
        for (int i = 0; i < node->n_in; i++) {
            int32_t producer = clt_graph_tensor(graph, node->in[i])->producer;
            if (producer >= 0 && b->of_node[producer] > latest)
                latest = b->of_node[producer];
        }
        if (b->of_node[k] < 0)
            b->of_node[k] = latest;
    }
    for (size_t w = b->plan->n_forward; w < b->plan->n_work; w++)
        b->of_work[w] = b->of_node[b->plan->work[w].node->id];
}

static void find_homes(blocks *b)
{
    for (size_t w = 0; w < b->plan->n_forward; w++) {
        const clt_touched *t = &b->again->touched[w];
        bool loss = (b->plan->work[w].node->op->flags & CLT_OP_LOSS) != 0;
        for (size_t i = 0; i < t->n; i++) {
            int32_t owner = t->tensor[i];
            if (!(t->access[i] & OCL_WRITE) || !recomputable(clt_graph_tensor(b->plan->graph, owner)))
                continue;
            b->home[owner] = b->of_work[w];
            b->stays[owner] |= loss; /* losses are never recomputed */
        }
        const clt_node *node = b->plan->work[w].node;
        for (int i = 0; i < node->n_saved && (node->op->flags & CLT_OP_REPEATS_BY_SAVED); i++)
            b->stays[clt_plan_owner(b->plan, node->saved[i])] = true; /* recomputed work reads them */
    }
    for (size_t w = 0; w < b->plan->n_work; w++)
        for (size_t i = 0; i < b->again->touched[w].n; i++) {
            int32_t owner = b->again->touched[w].tensor[i];
            if ((b->again->touched[w].access[i] & OCL_READ) && b->home[owner] >= 0 &&
                b->home[owner] != b->of_work[w])
                b->stays[owner] = true;
        }
}

static bool inner(const blocks *b, int32_t owner, int32_t segment)
{
    return b->home[owner] == segment && !b->stays[owner];
}

static void need_reads(blocks *b, size_t at, int32_t segment)
{
    const clt_touched *t = &b->again->touched[at];
    for (size_t i = 0; i < t->n; i++)
        if ((t->access[i] & OCL_READ) && inner(b, t->tensor[i], segment))
            b->needed[t->tensor[i]] = true;
}

/* Marks the forward work of a segment whose results its backward work needs. */
static void choose_repeats(blocks *b, int32_t segment)
{
    for (size_t w = b->plan->n_forward; w < b->plan->n_work; w++)
        if (b->of_work[w] == segment)
            need_reads(b, w, segment);
    for (size_t w = b->plan->n_forward; w-- > 0;) {
        const clt_touched *t = &b->again->touched[w];
        if (b->of_work[w] != segment || (b->plan->work[w].node->op->flags & CLT_OP_LOSS))
            continue;
        for (size_t i = 0; i < t->n && !b->repeat[w]; i++)
            b->repeat[w] = (t->access[i] & OCL_WRITE) && b->needed[t->tensor[i]];
        if (b->repeat[w])
            need_reads(b, w, segment);
    }
}

static clt_status repeat_segment(blocks *b, int32_t segment)
{
    clt_again *a = b->again;
    for (size_t w = 0; w < b->plan->n_forward; w++) {
        const clt_touched *t = &a->touched[w];
        if (b->of_work[w] != segment || !b->repeat[w])
            continue;
        for (size_t i = 0; i < t->n; i++)
            if ((t->access[i] & OCL_WRITE) && inner(b, t->tensor[i], segment))
                CLT_TRY(clt_again_tensor(a, t->tensor[i]));
        CLT_TRY(clt_again_push(a, &b->plan->work[w], true));
    }
    return CLT_OK;
}

static clt_status rebuild(blocks *b, int32_t segments)
{
    for (int32_t s = 0; s < segments; s++)
        if (s != b->last)
            choose_repeats(b, s);
    for (size_t w = b->plan->n_forward; w < b->plan->n_work; w++) {
        int32_t segment = b->of_work[w];
        if (segment != b->last && !b->done[segment])
            CLT_TRY(repeat_segment(b, segment));
        b->done[segment] = true;
        CLT_TRY(clt_again_push(b->again, &b->plan->work[w], false));
    }
    return CLT_OK;
}

static clt_status blocks_open(blocks *b, clt_scratch *scratch)
{
    size_t n = b->again->n, works = b->plan->n_work, nodes = b->plan->graph->n_nodes;
    CLT_TRY(clt_scratch_alloc(scratch, &b->of_work, works, sizeof *b->of_work, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->of_node, nodes, sizeof *b->of_node, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->home, n, sizeof *b->home, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->stays, n, sizeof *b->stays, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->needed, n, sizeof *b->needed, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->repeat, works, sizeof *b->repeat, "recomputation"));
    CLT_TRY(clt_scratch_alloc(scratch, &b->done, works, sizeof *b->done, "recomputation"));
    memset(b->home, 0xff, n * sizeof *b->home);
    return CLT_OK;
}

clt_status clt_recompute_blocks(clt_again *again)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    blocks b = {.again = again, .plan = again->plan};
    int32_t segments = 0;
    CLT_TRY(blocks_open(&b, &scratch));
    CLT_TRY(clt_block_cuts(again, b.of_work, &segments));
    place_nodes(&b);
    b.last = b.plan->n_work > b.plan->n_forward ? b.of_work[b.plan->n_forward] : 0;
    find_homes(&b);
    return rebuild(&b, segments);
}
