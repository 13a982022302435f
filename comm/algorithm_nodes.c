/* SPDX-License-Identifier: Apache-2.0
 *
 * An all-reduce in two levels. The ranks of a host write into memory that they share, and each of them adds
 * up one slice over all ranks of the host. The ranks of different hosts that own the same slice reduce it
 * among themselves; then every rank reads all slices. So a byte crosses the network once per host, every
 * rank does its part of the additions, and inside a host no message is sent. Between hosts, pieces overlap
 * (pieces.c): one crosses the network while the next is added up. If hosts have different numbers of
 * ranks, each host has as many ranks that own a slice as the smallest host has ranks. */
#include "comm/comm_internal.h"

#include <string.h>

#define GRAIN 64 /* elements: slices start at multiples of cache lines */

static const char *nodes_unsuited(const comm *c, comm_type type, comm_op op)
{
    if (c->info.nodes == c->info.ranks)
        return "every rank is on a different host";
    if (c->lanes == 0)
        return "the ranks of a host cannot share memory here";
    return comm_algorithm_slices.unsuited(c, type, op);
}

bool comm_widens(const comm *c, comm_type type)
{
    return type != COMM_F32 && !c->half_between;
}

void comm_set_half_between(comm *c, bool half)
{
    c->half_between = half;
}

/* True if each host adds up a subtree of the tree over all ranks, or if there is only one host. */
static bool nodes_is_tree(const comm *c)
{
    int n = c->info.local_ranks;
    return c->info.nodes == 1 || (c->info.even_nodes && (n & (n - 1)) == 0 && !c->half_between);
}

/* A sum of `count` elements, computed in pieces of at most `max_elements` elements. */
typedef struct node_sum {
    comm *group;
    comm_type type;
    int64_t count, max_elements, size;
    char *data;        /* ordinary memory; NULL: `part` is used */
    void *const *part; /* the memory of each local rank, in which this rank owns one slice */
    bool everywhere;
} node_sum;

static void slice_of(const comm *c, int64_t count, int local_rank, int64_t *first, int64_t *length)
{
    comm_share(count, GRAIN, c->lanes, local_rank, first, length);
    if (local_rank >= c->lanes)
        *length = 0;
}

static clt_status meet(comm *c)
{
    return c->segment ? comm_segment_barrier(c) : CLT_OK; /* a rank alone on its host needs no barrier */
}

/* Adds up a piece over the local ranks: into `own`, or into `wide` if it is sent as f32, and into `out` too
 * if that is not NULL. */
static void add_local(const node_sum *s, const void *const *part, void *own, void *out, float *wide,
                      comm_piece *piece)
{
    int n = s->group->info.local_ranks;
    bool widen = s->group->across && comm_widens(s->group, s->type);
    piece->sum = own;
    piece->part = widen ? wide : own;
    if (widen)
        comm_sum_parts_f32(part, n, piece->count, s->type, wide);
    else if (n > 1)
        comm_sum_parts(part, n, piece->count, s->type, (void *[]){own, out}, out ? 2 : 1);
}

static int64_t pieces_of(const node_sum *s)
{
    return (s->count + s->max_elements - 1) / s->max_elements;
}

static int64_t piece_length(const node_sum *s, int64_t k)
{
    int64_t left = s->count - k * s->max_elements;
    return left < s->max_elements ? left : s->max_elements;
}

static clt_status run_pieces(node_sum *s, clt_status (*begin)(void *, int64_t, float *, comm_piece *),
                             clt_status (*end)(void *, int64_t, const comm_piece *))
{
    comm *c = s->group;
    return comm_run_pieces(c->across ? c->across : c,
                           &(comm_pieces){.type = s->type,
                                          .wide = c->across && comm_widens(c, s->type),
                                          .sends_messages = c->across != NULL,
                                          .others_send = c->info.nodes > 1,
                                          .count = pieces_of(s),
                                          .max_elements = s->max_elements,
                                          .context = s,
                                          .begin = begin,
                                          .end = end});
}

/* --- data in ordinary memory, copied through slots in shared memory --- */

static void *slot(const node_sum *s, int local_rank, int64_t k)
{
    const comm *c = s->group;
    char *all = c->segment ? comm_segment_part(c->segment, local_rank) : NULL;
    return all ? all + (c->slot + k) % COMM_SLOTS * c->slot_bytes : s->data + k * s->max_elements * s->size;
}

/* Copies everything except this rank's slice into shared memory, because others add those slices up. */
static clt_status begin_copied(void *context, int64_t k, float *wide, comm_piece *piece)
{
    const node_sum *s = context;
    comm *c = s->group;
    int me = c->info.local_rank;
    char *here = s->data + k * s->max_elements * s->size;
    int64_t length = piece_length(s, k), first;
    const void *part[COMM_MOST_LOCAL];
    slice_of(c, length, me, &first, &piece->count);
    if (c->segment) {
        char *there = slot(s, me, k);
        int64_t behind = first + piece->count;
        memcpy(there, here, (size_t)(first * s->size));
        memcpy(there + behind * s->size, here + behind * s->size, (size_t)((length - behind) * s->size));
    }
    CLT_TRY(meet(c));
    for (int r = 0; r < c->info.local_ranks; r++)
        part[r] = (r == me ? here : (char *)slot(s, r, k)) + first * s->size;
    bool alone = c->info.nodes == 1;
    add_local(s, part, here + first * s->size, alone ? (char *)slot(s, me, k) + first * s->size : NULL, wide,
              piece);
    return CLT_OK;
}

/* On one host, the barrier in `begin` of piece k + 2 comes after all sums of piece k. Only the last two
 * pieces have no such barrier: both use the one here. */
static clt_status end_copied(void *context, int64_t k, const comm_piece *piece)
{
    const node_sum *s = context;
    comm *c = s->group;
    char *here = s->data + k * s->max_elements * s->size;
    int64_t first, length, pieces = pieces_of(s);
    slice_of(c, piece_length(s, k), c->info.local_rank, &first, &length);
    if (c->segment && c->info.nodes > 1)
        memcpy((char *)slot(s, c->info.local_rank, k) + first * s->size, piece->sum,
               (size_t)(length * s->size));
    if (c->info.nodes > 1 || k == (pieces > 2 ? pieces - 2 : 0))
        CLT_TRY(meet(c));
    for (int r = 0; c->segment && r < c->lanes; r++) {
        slice_of(c, piece_length(s, k), r, &first, &length);
        if (r != c->info.local_rank)
            memcpy(here + first * s->size, (char *)slot(s, r, k) + first * s->size,
                   (size_t)(length * s->size));
    }
    return CLT_OK;
}

static clt_status nodes_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    int64_t size = comm_type_bytes(type);
    node_sum s = {.group = c,
                  .type = type,
                  .count = count,
                  .max_elements = c->slot_bytes / size,
                  .size = size,
                  .data = data};
    (void)op;
    CLT_TRY(run_pieces(&s, begin_copied, end_copied));
    c->slot += pieces_of(&s); /* others may still read the last slots */
    return CLT_OK;
}

const comm_algorithm comm_algorithm_nodes = {"nodes", nodes_unsuited, nodes_is_tree, nodes_all_reduce};

/* --- data in memory that the local ranks share --- */

static bool is_spread(const comm_memory *m, comm_type type)
{
    return m->shared && comm_in_two_levels(m->group, INT64_MAX, type);
}

void comm_memory_slice(const comm_memory *m, int64_t offset, int64_t count, comm_type type, int local_rank,
                       const void **data, int64_t *first, int64_t *length)
{
    *first = 0;
    *length = local_rank == m->group->info.local_rank ? count : 0;
    if (is_spread(m, type) && m->segment)
        slice_of(m->group, count, local_rank, first, length);
    const char *from = m->segment ? comm_segment_part(m->segment, local_rank) : m->own;
    *data = from + offset + *first * comm_type_bytes(type);
}

static clt_status begin_in_place(void *context, int64_t k, float *wide, comm_piece *piece)
{
    const node_sum *s = context;
    const void *part[COMM_MOST_LOCAL];
    for (int r = 0; r < s->group->info.local_ranks; r++)
        part[r] = (char *)s->part[r] + k * s->max_elements * s->size;
    piece->count = piece_length(s, k);
    add_local(s, part, (char *)s->part[s->group->info.local_rank] + k * s->max_elements * s->size, NULL, wide,
              piece);
    return CLT_OK;
}

static clt_status end_in_place(void *context, int64_t k, const comm_piece *piece)
{
    const node_sum *s = context;
    for (int r = 0; s->everywhere && r < s->group->info.local_ranks; r++)
        if (r != s->group->info.local_rank)
            memcpy((char *)s->part[r] + k * s->max_elements * s->size, piece->sum,
                   (size_t)(piece->count * s->size));
    return CLT_OK;
}

/* Sums the slice that this rank owns; on one host the sum is written directly to its destination. */
static clt_status sum_slice(node_sum *s)
{
    comm *c = s->group;
    int n = c->info.local_ranks;
    if (c->info.nodes > 1)
        return run_pieces(s, begin_in_place, end_in_place);
    for (int64_t at = 0; at < s->count; at += s->max_elements) {
        void *here[COMM_MOST_LOCAL];
        for (int r = 0; r < n; r++)
            here[r] = (char *)s->part[r] + at * s->size;
        comm_sum_parts((const void *const *)here, n,
                       s->count - at < s->max_elements ? s->count - at : s->max_elements, s->type,
                       s->everywhere ? here : &here[c->info.local_rank], s->everywhere ? n : 1);
        CLT_TRY(comm_engine_give_way(c->engine));
    }
    return CLT_OK;
}

clt_status comm_run_memory_sum(comm_memory *m, const comm_call *call)
{
    comm *c = m->group;
    void *part[COMM_MOST_LOCAL] = {(char *)m->own + call->offset};
    int64_t first, size = comm_type_bytes(call->type);
    node_sum s = {.group = c, .type = call->type, .size = size, .part = part, .everywhere = call->everywhere};
    if (!is_spread(m, call->type))
        return comm_run_all_reduce(c, part[0], call->count, call->type, COMM_SUM);
    slice_of(c, call->count, c->info.local_rank, &first, &s.count);
    s.max_elements = comm_piece_elements(c->info.nodes, call->type);
    for (int r = 0; m->segment && r < c->info.local_ranks; r++)
        part[r] = (char *)comm_segment_part(m->segment, r) + call->offset + first * size;
    CLT_TRY(meet(c));
    CLT_TRY(sum_slice(&s));
    return meet(c);
}
