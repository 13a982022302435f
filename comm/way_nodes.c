/* SPDX-License-Identifier: Apache-2.0
 *
 * An all-reduce in two levels. The ranks of a host write into memory that they share, each adds up one slice of
 * all of them, the ranks of different hosts that own the same slice reduce it among themselves, and every rank
 * reads all slices. So a byte crosses the network once per host, each core adds its part, and inside a host no
 * message is sent. Slots come in pairs: while one piece is read, the next is written. */
#include "comm/comm_internal.h"

#include <string.h>

#define GRAIN 64 /* elements: slices start at multiples of cache lines */

static const char *nodes_misfit(const comm *c, comm_type type, comm_op op)
{
    if (!c->segment)
        return c->info.local_ranks < 2 ? "every rank is on a host of its own"
                                       : "the ranks of a host cannot share memory here";
    if (c->info.local_ranks > COMM_MOST_LOCAL)
        return "a host has more than 256 ranks";
    if (c->info.nodes > 1 && !c->across)
        return "hosts have different numbers of ranks, or ranks of a host are not neighbours";
    return comm_way_slices.misfit(c, type, op);
}

/* The sum of the local parts, and then over hosts. */
static clt_status reduce_across(comm *c, const void *const *part, void *mine, int64_t length, comm_type type)
{
    int locals = c->info.local_ranks;
    if (type == COMM_F32) {
        comm_sum_parts(part, locals, length, type, &mine, 1);
        return comm_run_all_reduce(c->across, mine, length, type, COMM_SUM);
    }
    for (int64_t at = 0; at < length; at += COMM_SLOT_BYTES / 4) { /* what c->wide holds */
        int64_t n = length - at < COMM_SLOT_BYTES / 4 ? length - at : COMM_SLOT_BYTES / 4;
        const void *there[COMM_MOST_LOCAL];
        for (int r = 0; r < locals; r++)
            there[r] = (const char *)part[r] + at * comm_type_bytes(type);
        comm_sum_parts_f32(there, locals, n, type, c->wide);
        CLT_TRY(comm_run_all_reduce(c->across, c->wide, n, COMM_F32, COMM_SUM));
        comm_round(c->wide, n, type, (char *)mine + at * comm_type_bytes(type));
    }
    return CLT_OK;
}

/* The owned slice, over the local ranks, whose parts lie at part[], and then over hosts: into the own part, or into
 * all of them. */
static clt_status reduce_slice(comm *c, void *const *part, int64_t length, comm_type type, bool everywhere)
{
    const void *const *in = (const void *const *)part;
    int n = c->info.local_ranks, me = c->info.local_rank;
    if (length == 0)
        return CLT_OK;
    if (!c->across) {
        comm_sum_parts(in, n, length, type, everywhere ? part : &part[me], everywhere ? n : 1);
        return CLT_OK;
    }
    CLT_TRY(reduce_across(c, in, part[me], length, type));
    for (int r = 0; everywhere && r < n; r++)
        if (r != me)
            memcpy(part[r], part[me], (size_t)(length * comm_type_bytes(type)));
    return CLT_OK;
}

static void *slot(const comm *c, int local_rank, int which)
{
    return (char *)comm_segment_part(c->segment, local_rank) + which * COMM_SLOT_BYTES;
}

static clt_status nodes_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    void *part[COMM_MOST_LOCAL];
    int64_t size = comm_type_bytes(type), most = COMM_SLOT_BYTES / size;
    int n = c->info.local_ranks, me = c->info.local_rank;
    (void)op;
    for (int64_t at = 0; at < count; at += most) {
        int64_t piece = count - at < most ? count - at : most, first, length;
        int which = c->slot;
        char *here = (char *)data + at * size;
        c->slot ^= 1; /* also from one call to the next: others may still read */
        memcpy(slot(c, me, which), here, (size_t)(piece * size));
        CLT_TRY(comm_segment_barrier(c));
        comm_share(piece, GRAIN, n, me, &first, &length);
        for (int r = 0; r < n; r++)
            part[r] = (char *)slot(c, r, which) + first * size;
        CLT_TRY(reduce_slice(c, part, length, type, false));
        CLT_TRY(comm_segment_barrier(c));
        for (int r = 0; r < n; r++) {
            comm_share(piece, GRAIN, n, r, &first, &length);
            memcpy(here + first * size, (char *)slot(c, r, which) + first * size, (size_t)(length * size));
        }
    }
    return CLT_OK;
}

const comm_way comm_way_nodes = {"nodes", nodes_misfit, nodes_all_reduce};

/* --- sums in memory that the local ranks see --- */

static bool is_spread(const comm_memory *m, comm_type type)
{
    return m->segment && !nodes_misfit(m->group, type, COMM_SUM);
}

void comm_memory_slice(const comm_memory *m, int64_t offset, int64_t count, comm_type type, int local_rank,
                       const void **data, int64_t *first, int64_t *length)
{
    int n = m->group->info.local_ranks, me = m->group->info.local_rank;
    if (is_spread(m, type)) {
        comm_share(count, GRAIN, n, local_rank, first, length);
        *data = (char *)comm_segment_part(m->segment, local_rank) + offset + *first * comm_type_bytes(type);
        return;
    }
    *first = 0;
    *length = local_rank == me ? count : 0;
    *data = (char *)m->own + offset;
}

clt_status comm_run_memory_sum(comm_memory *m, const comm_call *call)
{
    comm *c = m->group;
    void *part[COMM_MOST_LOCAL];
    comm_type type = call->type;
    int64_t first, length;
    if (!is_spread(m, type))
        return comm_run_all_reduce(c, (char *)m->own + call->offset, call->count, type, COMM_SUM);
    comm_share(call->count, GRAIN, c->info.local_ranks, c->info.local_rank, &first, &length);
    for (int r = 0; r < c->info.local_ranks; r++)
        part[r] = (char *)comm_segment_part(m->segment, r) + call->offset + first * comm_type_bytes(type);
    CLT_TRY(comm_segment_barrier(c));
    CLT_TRY(reduce_slice(c, part, length, type, call->everywhere));
    return comm_segment_barrier(c);
}
