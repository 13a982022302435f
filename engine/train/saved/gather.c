/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings divided optimizer state together: see gather.h. */
#include "engine/train/saved/gather.h"

#include <stdlib.h>

#include "engine/train/run/run.h"

#define PIECE ((int64_t)1 << 22) /* elements of one broadcast */

struct clt_gathered {
    int64_t step; /* -1: none */
    float *slab[CLT_OPTIMIZER_STATES][CLT_MAX_STORE_SLABS];
    float *piece; /* on other ranks than 0 */
};

void clt_gathered_destroy(clt_gathered *g)
{
    if (!g)
        return;
    for (int k = 0; k < CLT_OPTIMIZER_STATES; k++)
        for (int s = 0; s < CLT_MAX_STORE_SLABS; s++)
            free(g->slab[k][s]);
    free(g->piece);
    free(g);
}

const float *clt_gathered_slab(const clt_gathered *g, clt_arena_kind arena, int32_t slab)
{
    int state = (int)arena - (int)CLT_ARENA_OPT1;
    return g && state >= 0 && state < CLT_OPTIMIZER_STATES ? g->slab[state][slab] : NULL;
}

static clt_status make(clt_run *run)
{
    const clt_store_layout *layout = run->store->layout;
    clt_gathered *g;
    CLT_TRY(clt_alloc(&run->gathered, 1, sizeof *run->gathered, "optimizer state of all ranks"));
    g = run->gathered;
    g->step = -1;
    if (run->ranks.rank != 0)
        return clt_alloc(&g->piece, (size_t)PIECE, sizeof(float), "optimizer state of all ranks");
    for (int k = 0; k < layout->opt_states; k++)
        for (int32_t s = 0; s < layout->n_slabs; s++)
            if (layout->trainable_elements[s])
                CLT_TRY(clt_alloc(&g->slab[k][s], layout->trainable_elements[s], sizeof(float),
                                  "optimizer state of all ranks"));
    return CLT_OK;
}

/* The share of one rank, which sends it to all, since groups know no messages from rank to rank. */
static clt_status send_share(clt_run *run, int state, int32_t slab, int rank)
{
    clt_gathered *g = run->gathered;
    ocl_buffer *buffer = run->store->slab[CLT_ARENA_OPT1 + state][slab];
    int64_t first, length, me = run->ranks.rank;
    comm_share((int64_t)run->store->layout->trainable_elements[slab], CLT_STORE_CHUNK, run->ranks.ranks, rank,
               &first, &length);
    for (int64_t at = 0; at < length; at += PIECE) {
        int64_t n = length - at < PIECE ? length - at : PIECE, bytes = n * (int64_t)sizeof(float);
        float *here = me == 0 ? g->slab[state][slab] + first + at : g->piece;
        if (me == rank)
            CLT_TRY(ocl_read(buffer, (uint64_t)at * sizeof(float), here, (uint64_t)bytes));
        CLT_TRY(comm_broadcast(run->options->comm, here, bytes, rank));
    }
    return CLT_OK;
}

clt_status clt_gather_states(clt_run *run, int64_t step)
{
    const clt_store_layout *layout = run->store->layout;
    if (!layout->sharded)
        return CLT_OK;
    if (!run->gathered)
        CLT_TRY(make(run));
    if (run->gathered->step == step)
        return CLT_OK;
    for (int k = 0; k < layout->opt_states; k++)
        for (int32_t s = 0; s < layout->n_slabs; s++)
            for (int rank = 0; rank < run->ranks.ranks; rank++)
                CLT_TRY(send_share(run, k, s, rank));
    run->gathered->step = step;
    return CLT_OK;
}
