/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over a group by messages. Data is cut into pieces, and several pieces are under way together: while
 * the shares of one piece travel to the ranks that add them, the sums of the piece before it travel back and
 * the next piece is made ready. All ranks start messages in the same order, so the order tells the messages
 * of different pieces apart. Knows neither hosts nor where pieces come from. */
#include "comm/comm_internal.h"

#include <stdlib.h>

#include "engine/base/mem.h"

#define GRAIN 16 /* elements: shares start at multiples of 32 or 64 bytes */
/* A piece is summed LAG turns after its shares were sent, and complete another LAG turns later, so that the
 * network has work while this thread waits for a core on which others compute. AHEAD: pieces that travel in
 * one direction. */
#define LAG 2
#define AHEAD (LAG + 1)
#define ALIVE COMM_PIECES_ALIVE
_Static_assert(ALIVE == 2 * LAG + 1, "a piece is there from its beginning until its sum has arrived");

typedef struct pieces_run {
    const comm_pieces *pieces;
    comm *group;
    int ranks, me;
    comm_type wire; /* type in which the parts are sent */
    int64_t longest, lag;
    comm_piece piece[ALIVE];
    comm_pending out[AHEAD], back[AHEAD];
    char *room[AHEAD]; /* memory for the parts of other ranks */
    float *wide[AHEAD];
    const void **part;
    comm_message *messages;
} pieces_run;

static void share_of(const pieces_run *s, const comm_piece *q, int rank, int64_t *first, int64_t *length)
{
    comm_share(q->count, GRAIN, s->ranks, rank, first, length);
}

static char *room_of(const pieces_run *s, int64_t k, int rank)
{
    int other = rank < s->me ? rank : rank - 1;
    return s->room[k % AHEAD] + other * s->longest * comm_type_bytes(s->wire);
}

/* Sends to every other rank the share of the piece that this other rank adds up. */
static clt_status send_shares(pieces_run *s, int64_t k)
{
    const comm_piece *q = &s->piece[k % ALIVE];
    int64_t size = comm_type_bytes(s->wire), mine, my_length, theirs, length;
    share_of(s, q, s->me, &mine, &my_length);
    for (int d = 1; d < s->ranks; d++) {
        int to = (s->me + d) % s->ranks, from = (s->me - d + s->ranks) % s->ranks;
        share_of(s, q, to, &theirs, &length);
        CLT_TRY(comm_pending_start(s->group, &s->out[k % AHEAD], room_of(s, k, from), my_length * size, from,
                                   true));
        CLT_TRY(comm_pending_start(s->group, &s->out[k % AHEAD], (char *)q->part + theirs * size,
                                   length * size, to, false));
    }
    return CLT_OK;
}

static void add_share(pieces_run *s, int64_t k)
{
    const comm_piece *q = &s->piece[k % ALIVE];
    const comm_pieces *p = s->pieces;
    int64_t first, length;
    share_of(s, q, s->me, &first, &length);
    void *own = (char *)q->part + first * comm_type_bytes(s->wire);
    char *sum = (char *)q->sum + first * comm_type_bytes(p->type);
    for (int r = 0; r < s->ranks; r++)
        s->part[r] = r == s->me ? own : room_of(s, k, r);
    comm_sum_parts(s->part, s->ranks, length, s->wire, p->wide ? &own : (void *[]){sum}, 1);
    if (p->wide)
        comm_round(own, length, p->type, sum);
}

/* Sends to every rank the sum of this rank's share. */
static clt_status send_sums(pieces_run *s, int64_t k)
{
    const comm_piece *q = &s->piece[k % ALIVE];
    int64_t size = comm_type_bytes(s->pieces->type), mine, my_length, theirs, length;
    char *sum = q->sum;
    share_of(s, q, s->me, &mine, &my_length);
    for (int d = 1; d < s->ranks; d++) {
        int to = (s->me + d) % s->ranks, from = (s->me - d + s->ranks) % s->ranks;
        share_of(s, q, from, &theirs, &length);
        CLT_TRY(comm_pending_start(s->group, &s->back[k % AHEAD], sum + theirs * size, length * size, from,
                                   true));
        CLT_TRY(comm_pending_start(s->group, &s->back[k % AHEAD], sum + mine * size, my_length * size, to,
                                   false));
    }
    return CLT_OK;
}

/* Turn i: the shares of piece i are sent, piece i - lag is summed and its sums sent, and piece i - 2 lag is
 * complete. */
static clt_status take_turn(pieces_run *s, int64_t i)
{
    const comm_pieces *p = s->pieces;
    int64_t lag = s->lag;
    if (i < p->count) {
        comm_piece *q = &s->piece[i % ALIVE];
        CLT_TRY(p->begin(p->context, i, s->wide[i % AHEAD], q));
        CLT_TRY(s->ranks > 1 ? send_shares(s, i) : CLT_OK);
    }
    if (i >= lag && i - lag < p->count && s->ranks > 1) {
        CLT_TRY(comm_pending_finish(s->group, &s->out[(i - lag) % AHEAD]));
        add_share(s, i - lag);
        CLT_TRY(send_sums(s, i - lag));
    }
    i -= 2 * lag;
    if (i < 0 || i >= p->count)
        return CLT_OK;
    CLT_TRY(comm_pending_finish(s->group, &s->back[i % AHEAD]));
    return p->end(p->context, i, &s->piece[i % ALIVE]);
}

static clt_status get_memory(pieces_run *s)
{
    const comm_pieces *p = s->pieces;
    int64_t unused, others = s->ranks - 1, wide = p->wide ? p->max_elements : 0;
    void *scratch;
    comm_share(p->max_elements, GRAIN, s->ranks, 0, &unused, &s->longest);
    int64_t room = others * s->longest * comm_type_bytes(s->wire);
    CLT_TRY(comm_engine_scratch(s->group->engine, AHEAD * (room + wide * 4), &scratch));
    for (int i = 0; i < AHEAD; i++) {
        s->wide[i] = (float *)scratch + i * wide;
        s->room[i] = (char *)scratch + AHEAD * wide * 4 + i * room;
    }
    CLT_TRY(clt_alloc(&s->part, (size_t)s->ranks, sizeof *s->part, "sums over ranks"));
    CLT_TRY(clt_alloc(&s->messages, (size_t)(4 * AHEAD * s->ranks), sizeof *s->messages, "sums over ranks"));
    for (int i = 0; i < AHEAD; i++) {
        s->out[i].message = s->messages + (2 * i) * 2 * s->ranks;
        s->back[i].message = s->messages + (2 * i + 1) * 2 * s->ranks;
    }
    return CLT_OK;
}

int64_t comm_piece_elements(int ranks, comm_type type)
{
    const int64_t least = (int64_t)1 << 20, message = (int64_t)128 << 10;
    int64_t bytes = ranks * message;
    return (bytes < least ? least : bytes) / comm_type_bytes(type);
}

clt_status comm_run_pieces(comm *group, const comm_pieces *pieces)
{
    pieces_run s = {.pieces = pieces,
                    .group = group,
                    .ranks = pieces->sends_messages ? group->info.ranks : 1,
                    .me = group->info.rank,
                    .wire = pieces->wide ? COMM_F32 : pieces->type};
    /* without messages, pieces need not wait for the network */
    s.lag = s.ranks > 1 || pieces->others_send ? LAG : 1;
    clt_status status = get_memory(&s);
    for (int64_t i = 0; status == CLT_OK && i < pieces->count + 2 * s.lag; i++) {
        status = take_turn(&s, i);
        if (status == CLT_OK)
            status = comm_engine_give_way(group->engine);
    }
    for (int i = 0; status != CLT_OK && s.messages && i < AHEAD; i++) {
        comm_pending_drop(group, &s.out[i]);
        comm_pending_drop(group, &s.back[i]);
    }
    free(s.part);
    free(s.messages);
    return status;
}
