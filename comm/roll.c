/* SPDX-License-Identifier: Apache-2.0
 *
 * The roll call. A receive from every other rank is always open. A rank that gives up a collective tells all
 * others what it is doing; each of them sees the message when it polls next, also while it runs no
 * collective, and does the same. A rank that has sent nothing a while later hangs, is stopped, or is out of
 * reach. The processes of ranks on this host are watched as well, so that a killed one is noticed
 * immediately. */
#include "comm/engine.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/mem.h"

#define ROLL_SECONDS 0.6
/* Time from the end of a process until its rank counts as lost. If a rank ends the job after an error, it
 * prints the reason itself, so the others should not print a message before the job has ended. */
#define GONE_SECONDS 0.5

struct comm_roll {
    const comm_transport *transport;
    int rank, ranks;
    comm_message *receive, *send;
    uint8_t *received, *sent; /* 1: done */
    comm_word *word;          /* by rank */
    struct pollfd *process;   /* for each rank; fd -1: not watched */
    double gone_at;           /* when the end of a process was seen, 0: none has ended */
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
    CLT_TRY(clt_alloc(&roll->process, (size_t)ranks, sizeof *roll->process, "the roll of ranks"));
    for (int r = 0; r < ranks; r++)
        roll->process[r] = (struct pollfd){.fd = -1, .events = POLLIN};
    CLT_TRY(clt_alloc(&roll->receive, (size_t)ranks, sizeof *roll->receive, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->send, (size_t)ranks, sizeof *roll->send, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->received, (size_t)ranks, 1, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->sent, (size_t)ranks, 1, "the roll of ranks"));
    CLT_TRY(clt_alloc(&roll->word, (size_t)ranks, sizeof *roll->word, "the roll of ranks"));
    for (int r = 0; r < ranks; r++)
        roll->received[r] = roll->sent[r] = 1; /* no message is under way yet */
    for (int r = 0; r < ranks; r++)
        if (r != rank) {
            CLT_TRY(
                transport->receive(&roll->word[r], sizeof *roll->word, r, COMM_MAX_TAG, &roll->receive[r]));
            roll->received[r] = 0;
        }
    return CLT_OK;
}

void comm_roll_destroy(comm_roll *roll, bool in_step)
{
    if (!roll)
        return;
    /* A transport that is not finalized keeps its messages, and so the memory that they use. */
    for (int r = 0; in_step && r < roll->ranks; r++) {
        if (!roll->received[r])
            roll->transport->drop(&roll->receive[r]);
        if (!roll->sent[r])
            roll->transport->drop(&roll->send[r]);
    }
    if (in_step) {
        free(roll->word);
        free(roll->receive);
        free(roll->send);
    }
    for (int r = 0; roll->process && r < roll->ranks; r++)
        if (roll->process[r].fd >= 0)
            (void)close(roll->process[r].fd);
    free(roll->process);
    free(roll->received);
    free(roll->sent);
    free(roll);
}

void comm_roll_watch(comm_roll *roll, int rank, int64_t process)
{
#ifdef SYS_pidfd_open /* Linux 5.3; on older systems the deadline or the launcher notices the end */
    if (roll && roll->process[rank].fd < 0)
        roll->process[rank].fd = (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
#else
    (void)roll;
    (void)rank;
    (void)process;
#endif
}

static bool is_gone(const comm_roll *roll, int rank)
{
    return roll->process[rank].fd >= 0 && (roll->process[rank].revents & POLLIN) != 0;
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
    if (poll(roll->process, (nfds_t)roll->ranks, 0) > 0 && roll->gone_at == 0)
        roll->gone_at = clt_now();
}

bool comm_roll_was_heard(comm_roll *roll)
{
    if (roll)
        look(roll);
    return roll && roll->called;
}

bool comm_roll_was_called(comm_roll *roll)
{
    return comm_roll_was_heard(roll) ||
           (roll && roll->gone_at > 0 && clt_now() - roll->gone_at > GONE_SECONDS);
}

void comm_roll_answer(comm_roll *roll, const comm_word *own)
{
    roll->word[roll->rank] = *own;
    for (int r = 0; r < roll->ranks; r++)
        if (r != roll->rank && roll->sent[r] && !is_gone(roll, r) &&
            roll->transport->send(&roll->word[roll->rank], sizeof *own, r, COMM_MAX_TAG, &roll->send[r]) ==
                CLT_OK)
            roll->sent[r] = 0;
}

/* Writes what is wrong with rank r; false: nothing is. */
static bool describe(const comm_roll *roll, int r, char *text, size_t size)
{
    const comm_word *own = &roll->word[roll->rank], *word = &roll->word[r];
    if (is_gone(roll, r))
        (void)snprintf(text, size, "the process of rank %d has ended", r);
    else if (!roll->received[r])
        (void)snprintf(text, size, "no answer from rank %d", r);
    else if (!word->inside || (own->within ? word->urgent < own->urgent : word->number < own->number))
        (void)snprintf(text, size, "rank %d was late: it has been in %.103s for %.1f s", r, word->phase,
                       word->seconds);
    else
        return false;
    return true;
}

static void name_late(const comm_roll *roll, char *late, size_t size)
{
    enum { NAMED = 6 };
    int count = 0;
    size_t at = 0;
    char text[200];
    double longest = 0;
    for (int r = 0; r < roll->ranks; r++) {
        if (r == roll->rank)
            continue;
        longest = roll->word[r].seconds > longest ? roll->word[r].seconds : longest;
        if (describe(roll, r, text, sizeof text) && count++ < NAMED && at < size)
            at += (size_t)snprintf(late + at, size - at, "%s%s", count > 1 ? "; " : "", text);
    }
    if (count > NAMED && at < size)
        (void)snprintf(late + at, size - at, "; and %d more", count - NAMED);
    if (count == 0 && longest > 2 * roll->word[roll->rank].seconds)
        (void)snprintf(late, size, "the other ranks have waited for this one for %.1f s", longest);
    else if (count == 0)
        (void)snprintf(late, size, "no answer from the network, although every rank still answers");
}

void comm_roll_call(comm_roll *roll, const comm_word *own, char *late, size_t size)
{
    (void)snprintf(late, size, "no answer");
    if (!roll)
        return;
    comm_roll_answer(roll, own);
    int missing = roll->ranks;
    for (double until = clt_now() + ROLL_SECONDS; missing > 0 && clt_now() < until;) {
        struct timespec rest = {0, 1000000};
        look(roll);
        missing = 0;
        for (int r = 0; r < roll->ranks; r++)
            missing += r != roll->rank && !roll->received[r] && !is_gone(roll, r);
        (void)nanosleep(&rest, NULL);
    }
    name_late(roll, late, size);
}
