/* SPDX-License-Identifier: Apache-2.0
 *
 * The roll call. A receive from every other rank is always open; a rank that gives up a collective sends to all,
 * each of which sees it at its next look and does the same. Who has sent nothing a while later does not look:
 * it hangs, is stopped, or works on something else. */
#include "comm/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/mem.h"

#define ROLL_SECONDS 0.6

struct comm_roll {
    const comm_transport *transport;
    int rank, ranks;
    comm_message *receive, *send;
    uint8_t *received, *sent; /* 1: done */
    uint8_t *answer;          /* a byte of each rank */
    bool called;
};

clt_status comm_roll_create(const comm_transport *transport, int rank, int ranks, comm_roll **out)
{
    *out = NULL;
    if (ranks < 2)
        return CLT_OK;
    comm_roll *roll = NULL;
    CLT_TRY(clt_alloc(&roll, 1, sizeof *roll, "the roll of ranks"));
    *out = roll; /* the caller destroys it on failure */
    roll->transport = transport;
    roll->rank = rank;
    roll->ranks = ranks;
    CLT_TRY(clt_alloc(&roll->receive, (size_t)ranks, sizeof *roll->receive, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->send, (size_t)ranks, sizeof *roll->send, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->received, (size_t)ranks, 1, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->sent, (size_t)ranks, 1, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->answer, (size_t)ranks, 1, "the roll of ranks"));
    for (int r = 0; r < ranks; r++)
        roll->received[r] = roll->sent[r] = 1; /* nothing is under way yet */
    for (int r = 0; r < ranks; r++)
        if (r != rank) {
            CLT_TRY(transport->receive(&roll->answer[r], 1, r, COMM_MAX_TAG, &roll->receive[r]));
            roll->received[r] = 0;
        }
    return CLT_OK;
}

void comm_roll_destroy(comm_roll *roll, bool in_step)
{
    if (!roll)
        return;
    /* A transport that is not finalized is left alone with its messages. */
    for (int r = 0; in_step && r < roll->ranks; r++) {
        if (!roll->received[r])
            roll->transport->drop(&roll->receive[r]);
        if (!roll->sent[r])
            roll->transport->drop(&roll->send[r]);
    }
    if (in_step) {
        free(roll->answer);
        free(roll->receive);
        free(roll->send);
    }
    free(roll->received);
    free(roll->sent);
    free(roll);
}

static void look(comm_roll *roll)
{
    for (int r = 0; r < roll->ranks; r++) {
        bool done = false;
        if (!roll->received[r] && roll->transport->test(&roll->receive[r], &done) == CLT_OK && done) {
            roll->received[r] = 1;
            roll->called = true;
        }
        if (!roll->sent[r] && roll->transport->test(&roll->send[r], &done) == CLT_OK && done)
            roll->sent[r] = 1;
    }
}

bool comm_roll_was_called(comm_roll *roll)
{
    if (!roll)
        return false;
    look(roll);
    return roll->called;
}

static void name_late(const comm_roll *roll, char *late, size_t size)
{
    enum { NAMED = 8 };
    int count = 0, named = 0;
    size_t at = 0;
    for (int r = 0; r < roll->ranks; r++)
        count += !roll->received[r];
    if (count == 0) {
        (void)snprintf(late, size, "the network, although every rank still answers");
        return;
    }
    at += (size_t)snprintf(late, size, count == 1 ? "rank" : "ranks");
    for (int r = 0; r < roll->ranks && named < NAMED && at < size; r++)
        if (!roll->received[r])
            at += (size_t)snprintf(late + at, size - at, "%s %d", named++ ? "," : "", r);
    if (count > named && at < size)
        (void)snprintf(late + at, size - at, " and %d more", count - named);
}

void comm_roll_call(comm_roll *roll, char *late, size_t size)
{
    (void)snprintf(late, size, "the other ranks");
    if (!roll)
        return;
    for (int r = 0; r < roll->ranks; r++) {
        roll->received[r] |= r == roll->rank;
        if (r == roll->rank || !roll->sent[r])
            continue;
        roll->answer[roll->rank] = 1;
        if (roll->transport->send(&roll->answer[roll->rank], 1, r, COMM_MAX_TAG, &roll->send[r]) == CLT_OK)
            roll->sent[r] = 0;
    }
    int missing = roll->ranks;
    for (double until = clt_now() + ROLL_SECONDS; missing > 0 && clt_now() < until;) {
        struct timespec rest = {0, 1000000};
        look(roll);
        missing = 0;
        for (int r = 0; r < roll->ranks; r++)
            missing += !roll->received[r];
        (void)nanosleep(&rest, NULL);
    }
    name_late(roll, late, size);
}
