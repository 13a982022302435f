/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the ranks of a group, within the deadline: one exchange of any length, or several
 * messages under way. Also the collectives that need no arithmetic: barrier and broadcast. */
#include "comm/comm_internal.h"

clt_status comm_wait_message(comm *c, comm_message *message, int *turns)
{
    const comm_transport *transport = comm_engine_transport(c->engine);
    for (bool done = false;;) {
        CLT_TRY(transport->test(message, &done));
        if (done)
            return CLT_OK;
        CLT_TRY(comm_engine_wait_turn(c->engine, turns));
    }
}

static int64_t piece_of(const comm_transport *transport, int64_t bytes)
{
    return bytes < 0 ? 0 : bytes > transport->message_bytes ? transport->message_bytes : bytes;
}

clt_status comm_exchange(comm *c, const void *send, int64_t send_bytes, int to, void *receive,
                         int64_t receive_bytes, int from)
{
    const comm_transport *transport = comm_engine_transport(c->engine);
    const char *out = send;
    char *in = receive;
    int turns = 0;
    do {
        comm_message coming, going;
        int64_t sent = piece_of(transport, send_bytes), received = piece_of(transport, receive_bytes);
        if (from >= 0)
            CLT_TRY(transport->receive(in, received, c->member[from], c->tag, &coming));
        if (to >= 0)
            CLT_TRY(transport->send(out, sent, c->member[to], c->tag, &going));
        if (from >= 0)
            CLT_TRY(comm_wait_message(c, &coming, &turns));
        if (to >= 0)
            CLT_TRY(comm_wait_message(c, &going, &turns));
        send_bytes -= sent;
        receive_bytes -= received;
        out += sent;
        in += received;
        to = send_bytes > 0 ? to : -1;
        from = receive_bytes > 0 ? from : -1;
    } while (to >= 0 || from >= 0);
    return CLT_OK;
}

clt_status comm_pending_start(comm *c, comm_pending *f, void *data, int64_t bytes, int rank, bool receive)
{
    const comm_transport *transport = comm_engine_transport(c->engine);
    comm_message *message = &f->message[f->started];
    if (bytes == 0)
        return CLT_OK;
    if (bytes > transport->message_bytes)
        CLT_FAIL(CLT_EINTERNAL, "a message of %lld bytes", (long long)bytes);
    CLT_TRY(receive ? transport->receive(data, bytes, c->member[rank], c->tag, message)
                    : transport->send(data, bytes, c->member[rank], c->tag, message));
    f->started++;
    return CLT_OK;
}

clt_status comm_pending_finish(comm *c, comm_pending *f)
{
    int turns = 0;
    for (; f->ended < f->started; f->ended++)
        CLT_TRY(comm_wait_message(c, &f->message[f->ended], &turns));
    f->started = f->ended = 0;
    return CLT_OK;
}

void comm_pending_drop(comm *c, comm_pending *f)
{
    for (; f->ended < f->started; f->ended++)
        comm_engine_transport(c->engine)->drop(&f->message[f->ended]);
}

/* Dissemination barrier: after round k every rank has heard, directly or through others, from 2^(k+1)
 * ranks. */
clt_status comm_run_barrier(comm *c)
{
    int n = c->info.ranks, me = c->info.rank;
    char in = 0, out = 0;
    for (int distance = 1; distance < n; distance *= 2)
        CLT_TRY(comm_exchange(c, &out, 1, (me + distance) % n, &in, 1, (me - distance % n + n) % n));
    return CLT_OK;
}

/* A binomial tree over the ranks, numbered from the root. */
clt_status comm_run_broadcast(comm *c, void *data, int64_t bytes, int root)
{
    int n = c->info.ranks, me = (c->info.rank - root + n) % n, distance = 1;
    for (; distance < n; distance *= 2)
        if (me & distance) {
            CLT_TRY(comm_exchange(c, NULL, 0, -1, data, bytes, (me - distance + root) % n));
            break;
        }
    for (distance /= 2; distance > 0; distance /= 2)
        if (me + distance < n)
            CLT_TRY(comm_exchange(c, data, bytes, (me + distance + root) % n, NULL, 0, -1));
    return CLT_OK;
}
