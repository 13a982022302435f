/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport of a single process: every collective over one rank leaves its data as it is. It exists so
 * that the rest of the program has one path for one rank and for many. It must not know MPI. */
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static clt_status self_init(const comm_host *host, comm_info *info)
{
    (void)host;
    info->rank = 0;
    info->ranks = 1;
    info->local_rank = 0;
    info->local_ranks = 1;
    if (gethostname(info->host, sizeof info->host) != 0)
        (void)snprintf(info->host, sizeof info->host, "localhost");
    info->host[sizeof info->host - 1] = '\0';
    info->description = "one process";
    return CLT_OK;
}

static clt_status self_all_reduce(void *data, int64_t count, comm_type type, comm_op op)
{
    (void)data;
    (void)count;
    (void)type;
    (void)op;
    return CLT_OK;
}

static clt_status self_all_to_all(const void *send, void *recv, int64_t bytes)
{
    memcpy(recv, send, (size_t)bytes);
    return CLT_OK;
}

static clt_status self_all_gather(void *data, int64_t bytes)
{
    (void)data;
    (void)bytes;
    return CLT_OK;
}

static clt_status self_broadcast(void *data, int64_t bytes, int root)
{
    (void)data;
    (void)bytes;
    (void)root;
    return CLT_OK;
}

static clt_status self_barrier(void)
{
    return CLT_OK;
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
    .init = self_init,
    .all_reduce = self_all_reduce,
    .all_to_all = self_all_to_all,
    .all_gather = self_all_gather,
    .broadcast = self_broadcast,
    .barrier = self_barrier,
    .abort = self_abort,
    .finalize = self_finalize,
};
