/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter and all-gather: every rank owns a share of the data; it gets the sum of its share, or gives
 * its share to all. Where the ranks of a host share memory, this goes in two levels: inside a host no
 * message is sent, and between two hosts every share travels once. For each share one rank of each host, the
 * carrier, adds up the share over the host's ranks, or passes it on to them. Where ranks share no memory,
 * each is treated as a host of its own.
 *
 * The work is cut into turns. Each turn moves some elements of every share, so that all ranks have work in
 * it; while the messages of one turn cross the network, the next turn is made ready. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

#define AHEAD 2 /* turns under way */
#define LINE 64 /* elements: a turn moves whole cache lines of a share */

typedef struct share {
    int64_t first, length;
} share;

typedef struct shares_run {
    comm *group;
    comm_type type, wire; /* wire: the type of data between hosts */
    int64_t size, wire_size;
    int ranks, me;
    /* number of hosts, and this host; number of ranks on this host, and this rank */
    int nodes, node, seats, seat;
    share *share;                /* share of each rank */
    int *carrier;                /* the local rank that carries each rank's share on this host */
    int *partner;                /* the rank of each host that carries this rank's share */
    char *data;                  /* this rank's data */
    void *const *part;           /* the local ranks' data; NULL: copied through slots of c->segment */
    int64_t max_elements, turns; /* max_elements: elements of a share in a turn */
    comm_pending async[AHEAD];
    char *arrived[AHEAD]; /* this rank's share, summed on each other host */
    char *made[AHEAD];    /* this host's sums of the shares that this rank carries */
    int *made_number;     /* for each rank: index in `made`; -1: none */
    const void **addend;  /* the inputs of a sum */
} shares_run;

/* --- who carries what --- */

static int node_of(const shares_run *s, int rank)
{
    return s->nodes == s->ranks ? rank : s->group->node[rank];
}

static int seat_of(const shares_run *s, int rank)
{
    return s->nodes == s->ranks ? 0 : s->group->seat[rank];
}

static void find_carriers(shares_run *s)
{
    int here = 0;
    for (int r = 0; r < s->ranks; r++)
        s->seats += node_of(s, r) == s->node;
    for (int r = 0; r < s->ranks; r++) {
        s->carrier[r] = seat_of(s, r) % s->seats;
        s->made_number[r] = s->carrier[r] == s->seat ? here++ : -1;
    }
    for (int n = 0; n < s->nodes; n++) {
        int seats = 0;
        for (int r = 0; r < s->ranks; r++)
            seats += node_of(s, r) == n;
        for (int r = 0; r < s->ranks; r++)
            if (node_of(s, r) == n && seat_of(s, r) == s->seat % seats)
                s->partner[n] = r;
    }
}

/* --- turns --- */

/* Returns the number of elements of a rank's share that turn k moves; *at: index of the first one in the
 * data. */
static int64_t find_turn(const shares_run *s, int rank, int64_t k, int64_t *at)
{
    int64_t left = s->share[rank].length - k * s->max_elements;
    *at = s->share[rank].first + k * s->max_elements;
    return left < 0 ? 0 : left < s->max_elements ? left : s->max_elements;
}

static char *slot(const shares_run *s, int local_rank, int rank, int64_t k)
{
    const comm *c = s->group;
    char *all = comm_segment_part(c->segment, local_rank);
    return all + (c->slot + k) % COMM_SLOTS * c->slot_bytes + rank * s->max_elements * s->size;
}

/* The memory in which local ranks read what `local_rank` has for the share of `rank` in turn k. */
static char *shown(const shares_run *s, int local_rank, int rank, int64_t k)
{
    int64_t at;
    (void)find_turn(s, rank, k, &at);
    if (local_rank == s->seat)
        return s->data + at * s->size;
    return s->part ? (char *)s->part[local_rank] + at * s->size : slot(s, local_rank, rank, k);
}

/* Makes this rank's values of a share visible to the other local ranks. */
static void show(const shares_run *s, int rank, int64_t k)
{
    int64_t at, length = find_turn(s, rank, k, &at);
    if (s->seats > 1 && !s->part)
        memcpy(slot(s, s->seat, rank, k), s->data + at * s->size, (size_t)(length * s->size));
}

static clt_status meet(const shares_run *s)
{
    return s->seats > 1 ? comm_segment_barrier(s->group) : CLT_OK;
}

/* --- reduce-scatter --- */

/* Where the sum over the local ranks is written: into a buffer that is sent, or where the result belongs. */
static char *sum_place(const shares_run *s, int rank, int64_t k)
{
    int64_t at;
    (void)find_turn(s, rank, k, &at);
    if (s->made[0] && (rank != s->me || s->wire != s->type))
        return s->made[k % AHEAD] + s->made_number[rank] * s->max_elements * s->wire_size;
    return s->data + at * s->size;
}

/* Adds up a share over the local ranks. */
static void add_local(shares_run *s, int rank, int64_t k)
{
    int64_t at, length = find_turn(s, rank, k, &at);
    char *sum = sum_place(s, rank, k);
    for (int l = 0; l < s->seats; l++)
        s->addend[l] = shown(s, l, rank, k);
    if (s->wire != s->type)
        comm_sum_parts_f32(s->addend, s->seats, length, s->type, (float *)(void *)sum);
    else if (s->seats > 1)
        comm_sum_parts(s->addend, s->seats, length, s->type, (void *[]){sum}, 1);
}

static clt_status begin_sum(shares_run *s, int64_t k)
{
    comm_pending *async = &s->async[k % AHEAD];
    int64_t at, mine = find_turn(s, s->me, k, &at);
    for (int n = 0, other = 0; n < s->nodes; n++)
        if (n != s->node)
            CLT_TRY(comm_pending_start(s->group, async,
                                       s->arrived[k % AHEAD] + other++ * s->max_elements * s->wire_size,
                                       mine * s->wire_size, s->partner[n], true));
    for (int r = 0; r < s->ranks; r++)
        if (s->carrier[r] != s->seat)
            show(s, r, k);
    if (!s->part || k == 0)
        CLT_TRY(meet(s));
    for (int d = 0; d < s->ranks; d++) {
        int r = (s->me + d) % s->ranks;
        if (s->carrier[r] != s->seat)
            continue;
        add_local(s, r, k);
        if (r != s->me)
            CLT_TRY(comm_pending_start(s->group, async, sum_place(s, r, k),
                                       find_turn(s, r, k, &at) * s->wire_size, r, false));
    }
    return CLT_OK;
}

/* Adds the sums of all hosts, in the order of the hosts. */
static clt_status end_sum(shares_run *s, int64_t k)
{
    int64_t at, mine = find_turn(s, s->me, k, &at);
    char *own = sum_place(s, s->me, k);
    if (s->nodes == 1)
        return CLT_OK;
    CLT_TRY(comm_pending_finish(s->group, &s->async[k % AHEAD]));
    for (int n = 0, other = 0; n < s->nodes; n++)
        s->addend[n] = n == s->node ? own : s->arrived[k % AHEAD] + other++ * s->max_elements * s->wire_size;
    comm_sum_parts(s->addend, s->nodes, mine, s->wire, (void *[]){own}, 1);
    if (s->wire != s->type)
        comm_round((const float *)(const void *)own, mine, s->type, s->data + at * s->size);
    return CLT_OK;
}

/* --- all-gather --- */

static clt_status begin_gather(shares_run *s, int64_t k)
{
    comm_pending *async = &s->async[k % AHEAD];
    int64_t at, length;
    for (int d = 1; d < s->ranks; d++) {
        int r = (s->me + s->ranks - d) % s->ranks;
        length = find_turn(s, r, k, &at);
        if (s->carrier[r] == s->seat)
            CLT_TRY(comm_pending_start(s->group, async, s->data + at * s->size, length * s->size, r, true));
    }
    length = find_turn(s, s->me, k, &at);
    for (int d = 1; d < s->nodes; d++)
        CLT_TRY(comm_pending_start(s->group, async, s->data + at * s->size, length * s->size,
                                   s->partner[(s->node + d) % s->nodes], false));
    return CLT_OK;
}

static clt_status end_gather(shares_run *s, int64_t k)
{
    CLT_TRY(comm_pending_finish(s->group, &s->async[k % AHEAD]));
    for (int r = 0; r < s->ranks; r++)
        if (s->carrier[r] == s->seat)
            show(s, r, k);
    CLT_TRY(meet(s));
    for (int r = 0; r < s->ranks; r++) {
        int64_t at, length = find_turn(s, r, k, &at);
        if (s->carrier[r] != s->seat)
            memcpy(s->data + at * s->size, shown(s, s->carrier[r], r, k), (size_t)(length * s->size));
    }
    return CLT_OK;
}

/* --- both --- */

/* Elements of a share in a turn: few enough that a slot holds a turn of all shares, many enough that
 * messages are not small. */
static int64_t find_most(const shares_run *s, int64_t longest)
{
    int64_t most = s->nodes > 1 ? comm_piece_elements(s->ranks, s->type) / s->ranks : longest;
    int64_t room = s->group->slot_bytes / (s->size * s->ranks);
    if (s->nodes < s->ranks && !s->part && room < most) /* the same decision on all ranks */
        most = room;
    most = most < LINE ? most : most / LINE * LINE;
    return most < 1 ? 1 : most;
}

static clt_status get_room(shares_run *s, bool sums)
{
    int64_t bytes = s->max_elements * s->wire_size, carried = 0;
    void *scratch = NULL;
    for (int r = 0; r < s->ranks; r++)
        carried += s->made_number[r] >= 0;
    /* data that is sent from its own place needs no room */
    bool makes = s->nodes > 1 && (s->seats > 1 || s->wire != s->type);
    int64_t arrived = (s->nodes - 1) * bytes, made = makes ? carried * bytes : 0;
    if (!sums || arrived + made == 0)
        return CLT_OK;
    CLT_TRY(comm_engine_scratch(s->group->engine, AHEAD * (arrived + made), &scratch));
    for (int i = 0; i < AHEAD; i++) {
        s->arrived[i] = (char *)scratch + i * (arrived + made);
        s->made[i] = makes ? s->arrived[i] + arrived : NULL;
    }
    return CLT_OK;
}

static clt_status prepare(shares_run *s, const comm_shares *what)
{
    size_t n = (size_t)s->ranks;
    comm_message *messages;
    int64_t longest = 0;
    CLT_TRY(clt_alloc(&s->share, n, sizeof *s->share, "shares of ranks"));
    CLT_TRY(clt_alloc(&s->carrier, 3 * n, sizeof *s->carrier, "shares of ranks"));
    CLT_TRY(clt_alloc(&s->addend, n, sizeof *s->addend, "shares of ranks"));
    s->partner = s->carrier + n;
    s->made_number = s->partner + n;
    CLT_TRY(clt_alloc(&messages, 2 * AHEAD * n, sizeof *messages, "messages"));
    for (size_t i = 0; i < AHEAD; i++)
        s->async[i].message = messages + i * 2 * n;
    for (int r = 0; r < s->ranks; r++) {
        comm_share(what->count, what->grain, s->ranks, r, &s->share[r].first, &s->share[r].length);
        longest = s->share[r].length > longest ? s->share[r].length : longest;
    }
    find_carriers(s);
    s->max_elements = find_most(s, longest);
    s->turns = (longest + s->max_elements - 1) / s->max_elements;
    return get_room(s, what->sums);
}

static clt_status take_turns(shares_run *s, bool sums)
{
    for (int64_t k = 0; k <= s->turns; k++) {
        if (k < s->turns)
            CLT_TRY(sums ? begin_sum(s, k) : begin_gather(s, k));
        if (k > 0)
            CLT_TRY(sums ? end_sum(s, k - 1) : end_gather(s, k - 1));
        CLT_TRY(comm_engine_give_way(s->group->engine));
    }
    return s->part ? meet(s) : CLT_OK; /* so that no rank changes data that others still read */
}

clt_status comm_run_shares(comm *c, const comm_shares *what)
{
    bool apart = !what->two_levels;
    bool wide = what->sums && !apart && c->info.nodes > 1 && comm_widens(c, what->type);
    shares_run s = {.group = c,
                    .type = what->type,
                    .wire = wide ? COMM_F32 : what->type,
                    .size = comm_type_bytes(what->type),
                    .wire_size = comm_type_bytes(wide ? COMM_F32 : what->type),
                    .ranks = c->info.ranks,
                    .me = c->info.rank,
                    .nodes = apart ? c->info.ranks : c->info.nodes,
                    .data = what->data,
                    .part = apart ? NULL : what->part};
    if (s.ranks == 1 || what->count == 0)
        return CLT_OK;
    s.node = node_of(&s, s.me);
    s.seat = seat_of(&s, s.me);
    clt_status status = prepare(&s, what);
    if (status == CLT_OK)
        status = take_turns(&s, what->sums);
    for (int i = 0; status != CLT_OK && s.async[0].message && i < AHEAD; i++)
        comm_pending_drop(c, &s.async[i]);
    if (s.seats > 1 && !s.part)
        c->slot += s.turns; /* others may still read the last slots */
    free(s.share);
    free(s.carrier);
    free(s.addend);
    free(s.async[0].message);
    return status;
}

clt_status comm_run_reduce_scatter(comm *c, void *data, int64_t count, int64_t grain, comm_type type)
{
    return comm_run_shares(
        c, &(comm_shares){.sums = true,
                          .two_levels = comm_in_two_levels(c, count * comm_type_bytes(type), type),
                          .data = data,
                          .count = count,
                          .grain = grain,
                          .type = type});
}

clt_status comm_run_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type)
{
    return comm_run_shares(
        c, &(comm_shares){
               .two_levels = c->lanes > 0, .data = data, .count = count, .grain = grain, .type = type});
}

clt_status comm_run_memory_shares(comm_memory *m, const comm_call *call)
{
    comm *c = m->group;
    void *part[COMM_MOST_LOCAL];
    bool sums = call->kind == COMM_REDUCE_SCATTER;
    char *own = (char *)m->own + call->offset;
    bool seen = m->shared && (sums ? comm_in_two_levels(c, INT64_MAX, call->type) : c->lanes > 0);
    for (int l = 0; seen && l < c->info.local_ranks; l++)
        part[l] = m->segment ? (char *)comm_segment_part(m->segment, l) + call->offset : own;
    return comm_run_shares(c, &(comm_shares){.sums = sums,
                                             .two_levels = seen,
                                             .data = own,
                                             .part = seen ? part : NULL,
                                             .count = call->count,
                                             .grain = call->grain,
                                             .type = call->type});
}
