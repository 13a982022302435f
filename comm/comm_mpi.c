/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI transport, a module of its own that is loaded only under a launcher; the only file that calls MPI.
 * It is linked without the library and reports failures through the host table that init receives. All calls
 * come from one thread, which is also the one that initialises MPI. It knows nothing of what the data means.
 */
#include "comm/comm.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Elements per MPI call. MPI counts are int, and algorithms of Open MPI 4 compute the size in bytes in an int
 * too. */
#define CHUNK ((int64_t)1 << 24)

static struct {
    const comm_host *host;
    MPI_Comm world;
    char description[MPI_MAX_LIBRARY_VERSION_STRING];
} mpi = {.world = MPI_COMM_NULL};

static clt_status fail_text(int line, const char *doing, const char *why)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "MPI failed while %s: %s", doing, why);
    return mpi.host->failed(__FILE__, line, text);
}

/* Turns the return code of an MPI call into a status with a message. */
static clt_status check(int code, int line, const char *doing)
{
    if (code == MPI_SUCCESS)
        return CLT_OK;
    char why[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, why, &length) != MPI_SUCCESS)
        (void)snprintf(why, sizeof why, "error code %d", code);
    return fail_text(line, doing, why);
}
#define CHECK(call, doing) CLT_TRY(check((call), __LINE__, (doing)))

/* Ranks of one host: those that can share memory and report the same host name. Name spaces can make ranks of
 * different (virtual) hosts share memory, and a cluster can give two hosts the same name, so both must hold.
 */
static clt_status find_local_ranks(comm_info *info)
{
    MPI_Comm node = MPI_COMM_NULL;
    CHECK(MPI_Comm_split_type(mpi.world, MPI_COMM_TYPE_SHARED, info->rank, MPI_INFO_NULL, &node),
          "finding the ranks that share memory");
    int size = 0, me = 0;
    CHECK(MPI_Comm_size(node, &size), "counting the ranks that share memory");
    CHECK(MPI_Comm_rank(node, &me), "numbering the ranks that share memory");
    const size_t name_size = sizeof info->host;
    char *names = calloc((size_t)size, name_size);
    if (!names)
        return fail_text(__LINE__, "finding the ranks of this host", "out of host memory");
    clt_status status =
        check(MPI_Allgather(info->host, (int)name_size, MPI_CHAR, names, (int)name_size, MPI_CHAR, node),
              __LINE__, "exchanging host names");
    info->local_rank = 0;
    info->local_ranks = 0;
    for (int i = 0; status == CLT_OK && i < size; i++) {
        if (memcmp(names + (size_t)i * name_size, info->host, name_size) != 0)
            continue;
        info->local_ranks++;
        if (i < me)
            info->local_rank++;
    }
    free(names);
    CLT_TRY(status);
    CHECK(MPI_Comm_free(&node), "freeing a communicator");
    return CLT_OK;
}

/* "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4" */
static void describe_library(void)
{
    int length = 0;
    if (MPI_Get_library_version(mpi.description, &length) != MPI_SUCCESS)
        (void)snprintf(mpi.description, sizeof mpi.description, "MPI");
    mpi.description[strcspn(mpi.description, ",\n")] = '\0';
}

static clt_status transport_init(const comm_host *host, comm_info *info)
{
    mpi.host = host;
    int initialised = 0, provided = MPI_THREAD_SINGLE;
    CHECK(MPI_Initialized(&initialised), "asking whether MPI is initialised");
    if (initialised)
        return fail_text(__LINE__, "initialising",
                         "MPI was initialised before in this process; it can be only once");
    CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "initialising");
    if (provided < MPI_THREAD_FUNNELED)
        return fail_text(__LINE__, "initialising",
                         "the MPI library was built without thread support; use one that provides at least "
                         "MPI_THREAD_FUNNELED");
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "setting the error handler");
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world), "making a communicator");
    CHECK(MPI_Comm_rank(mpi.world, &info->rank), "asking for the rank");
    CHECK(MPI_Comm_size(mpi.world, &info->ranks), "asking for the number of ranks");
    /* The whole array is compared between ranks, so nothing may follow the name's end. */
    memset(info->host, 0, sizeof info->host);
    if (gethostname(info->host, sizeof info->host - 1) != 0)
        (void)snprintf(info->host, sizeof info->host, "localhost");
    CLT_TRY(find_local_ranks(info));
    describe_library();
    info->description = mpi.description;
    return CLT_OK;
}

static MPI_Datatype mpi_type(comm_type type)
{
    switch (type) {
    case COMM_F32:
        return MPI_FLOAT;
    case COMM_F64:
        return MPI_DOUBLE;
    case COMM_I64:
        return MPI_INT64_T;
    case COMM_U8:
        return MPI_UINT8_T;
    case COMM_F16: /* never reaches MPI: comm_half.c exchanges them as bytes */
    case COMM_BF16:
        break;
    }
    return MPI_DATATYPE_NULL;
}

static size_t type_bytes(comm_type type)
{
    return type == COMM_F32 ? 4 : type == COMM_U8 ? 1 : 8;
}

static MPI_Op mpi_op(comm_op op)
{
    return op == COMM_SUM ? MPI_SUM : op == COMM_MAX ? MPI_MAX : MPI_MIN;
}

static clt_status transport_all_reduce(void *data, int64_t count, comm_type type, comm_op op)
{
    char *at = data;
    for (int64_t done = 0; done < count; done += CHUNK) {
        int part = (int)(count - done < CHUNK ? count - done : CHUNK);
        CHECK(MPI_Allreduce(MPI_IN_PLACE, at, part, mpi_type(type), mpi_op(op), mpi.world),
              "reducing over all ranks");
        at += (size_t)part * type_bytes(type);
    }
    return CLT_OK;
}

static clt_status too_large(int64_t bytes)
{
    char why[96];
    (void)snprintf(why, sizeof why, "%lld bytes for each rank are more than a call takes", (long long)bytes);
    return fail_text(__LINE__, "exchanging between all ranks", why);
}

static clt_status transport_all_to_all(const void *send, void *recv, int64_t bytes)
{
    if (bytes > CHUNK)
        return too_large(bytes);
    return check(MPI_Alltoall(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, mpi.world), __LINE__,
                 "exchanging between all ranks");
}

static clt_status transport_all_gather(void *data, int64_t bytes)
{
    if (bytes > CHUNK)
        return too_large(bytes);
    return check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, (int)bytes, MPI_BYTE, mpi.world),
                 __LINE__, "gathering from all ranks");
}

static clt_status transport_broadcast(void *data, int64_t bytes, int root)
{
    char *at = data;
    for (int64_t done = 0; done < bytes; done += CHUNK) {
        int part = (int)(bytes - done < CHUNK ? bytes - done : CHUNK);
        CHECK(MPI_Bcast(at, part, MPI_BYTE, root, mpi.world), "broadcasting to all ranks");
        at += part;
    }
    return CLT_OK;
}

static clt_status transport_barrier(void)
{
    return check(MPI_Barrier(mpi.world), __LINE__, "waiting for all ranks");
}

static void transport_abort(int exit_code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void transport_finalize(void)
{
    if (mpi.world != MPI_COMM_NULL)
        (void)MPI_Comm_free(&mpi.world);
    (void)MPI_Finalize();
}

extern const comm_transport comm_transport_entry;
__attribute__((visibility("default"))) const comm_transport comm_transport_entry = {
    .abi_version = COMM_ABI_VERSION,
    .name = "mpi",
    .init = transport_init,
    .all_reduce = transport_all_reduce,
    .all_to_all = transport_all_to_all,
    .all_gather = transport_all_gather,
    .broadcast = transport_broadcast,
    .barrier = transport_barrier,
    .abort = transport_abort,
    .finalize = transport_finalize,
};
