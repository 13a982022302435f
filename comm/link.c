/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the ranks of a group, of any length and within the deadline; and the collectives that are
 * nothing but messages: barrier, broadcast, all-gather. It knows nothing of sums. */
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

static int64_t piece_of(int64_t bytes)
{
    return bytes < 0 ? 0 : bytes > COMM_MESSAGE_BYTES ? COMM_MESSAGE_BYTES : bytes;
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
        int64_t sent = piece_of(send_bytes), received = piece_of(receive_bytes);
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

/* Dissemination: after turn k every rank has heard, by others, of 2^(k+1) ranks. */
clt_status comm_run_barrier(comm *c)
{
    int n = c->info.ranks, me = c->info.rank;
    char in = 0, out = 0;
    for (int distance = 1; distance < n; distance *= 2)
        CLT_TRY(comm_exchange(c, &out, 1, (me + distance) % n, &in, 1, (me - distance % n + n) % n));
    return CLT_OK;
}

/* A binomial tree over the ranks counted from the root. */
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

/* Every pair of ranks exchanges its shares; in turn s with the ranks s away. */
clt_status comm_run_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type)
{
    int n = c->info.ranks, me = c->info.rank;
    int64_t size = comm_type_bytes(type), mine, my_length, theirs, length;
    char *bytes = data;
    comm_share(count, grain, n, me, &mine, &my_length);
    for (int s = 1; s < n; s++) {
        int to = (me + s) % n, from = (me - s + n) % n;
        comm_share(count, grain, n, from, &theirs, &length);
        CLT_TRY(comm_exchange(c, bytes + mine * size, my_length * size, my_length ? to : -1,
                              bytes + theirs * size, length * size, length ? from : -1));
    }
    return CLT_OK;
}
