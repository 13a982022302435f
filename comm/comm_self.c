/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport of a single process, which sends no messages. With it the rest of the program needs no
 * special case for one rank. It must not know MPI. */
#include "comm/transport.h"

static const comm_host *self_host;

static clt_status self_init(const comm_host *host, int *rank, int *ranks, const char **description)
{
    self_host = host;
    *rank = 0;
    *ranks = 1;
    *description = "one process";
    return CLT_OK;
}

static clt_status alone(void)
{
    return self_host->failed(__FILE__, __LINE__, "a single process has nobody to exchange messages with");
}

static clt_status self_send(const void *data, int64_t bytes, int to, int tag, comm_message *message)
{
    (void)data;
    (void)bytes;
    (void)to;
    (void)tag;
    (void)message;
    return alone();
}

static clt_status self_receive(void *data, int64_t bytes, int from, int tag, comm_message *message)
{
    (void)data;
    (void)bytes;
    (void)from;
    (void)tag;
    (void)message;
    return alone();
}

static clt_status self_test(comm_message *message, bool *done)
{
    (void)message;
    *done = false;
    return alone();
}

static void self_drop(comm_message *message)
{
    (void)message;
}

static void self_abort(int exit_code)
{
    (void)exit_code;
}

static void self_finalize(void)
{
}

const comm_transport comm_transport_self = {
    .abi_version = COMM_ABI_VERSION,
    .name = "self",
    .message_bytes = INT64_MAX,
    .init = self_init,
    .send = self_send,
    .receive = self_receive,
    .test = self_test,
    .drop = self_drop,
    .abort = self_abort,
    .finalize = self_finalize,
};
