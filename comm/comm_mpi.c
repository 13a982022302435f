/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI transport, a module that is loaded only under a launcher; the only file that calls MPI. It is
 * linked without the library and reports failures through the host table that init receives. All calls come
 * from the thread that initialises MPI. It knows nothing of what the data means.
 */
#include "comm/transport.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI counts are int, and algorithms of Open MPI 4 compute the size in bytes in an int too. */
#define MESSAGE_BYTES ((int64_t)1 << 30)
_Static_assert(MESSAGE_BYTES <= INT_MAX && COMM_REDUCED_COUNT * 8 <= INT_MAX, "MPI's counts");

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

/* "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4"; "MPICH Version:      5.0.2\n..." -> "MPICH 5.0.2" */
static void describe_library(void)
{
    int length = 0;
    if (MPI_Get_library_version(mpi.description, &length) != MPI_SUCCESS)
        (void)snprintf(mpi.description, sizeof mpi.description, "MPI");
    mpi.description[strcspn(mpi.description, ",\n")] = '\0';
    char *version = strstr(mpi.description, " Version:");
    if (version) {
        const char *number = version + strlen(" Version:");
        number += strspn(number, " \t");
        memmove(version + 1, number, strlen(number) + 1);
    }
}

/* Under MPI, a plug-in of hwloc would load every OpenCL driver. PoCL must not be loaded before the ranks
 * have divided the CPU's cores, because it reads its cores only while it is being loaded. */
static void keep_drivers_unloaded(void)
{
    (void)setenv("HWLOC_COMPONENTS", "-opencl", 0);
}

static clt_status transport_init(const comm_host *host, int *rank, int *ranks, const char **description)
{
    mpi.host = host;
    int initialised = 0, provided = MPI_THREAD_SINGLE;
    CHECK(MPI_Initialized(&initialised), "asking whether MPI is initialised");
    if (initialised)
        return fail_text(__LINE__, "initialising",
                         "MPI was initialised before in this process; MPI can be initialised only once");
    keep_drivers_unloaded();
    CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "initialising");
    if (provided < MPI_THREAD_FUNNELED)
        return fail_text(__LINE__, "initialising",
                         "the MPI library was built without thread support; use one that provides at least "
                         "MPI_THREAD_FUNNELED");
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "setting the error handler");
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world), "making a communicator");
    CHECK(MPI_Comm_rank(mpi.world, rank), "asking for the rank");
    CHECK(MPI_Comm_size(mpi.world, ranks), "asking for the number of ranks");
    describe_library();
    *description = mpi.description;
    return CLT_OK;
}

/* --- messages --- */

_Static_assert(sizeof(MPI_Request) <= sizeof(comm_message), "a message holds MPI's request");

static clt_status transport_send(const void *data, int64_t bytes, int to, int tag, comm_message *message)
{
    return check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, mpi.world, (MPI_Request *)message->space),
                 __LINE__, "sending a message");
}

static clt_status transport_receive(void *data, int64_t bytes, int from, int tag, comm_message *message)
{
    return check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, mpi.world, (MPI_Request *)message->space),
                 __LINE__, "receiving a message");
}

static clt_status transport_test(comm_message *message, bool *done)
{
    int flag = 0;
    CHECK(MPI_Test((MPI_Request *)message->space, &flag, MPI_STATUS_IGNORE), "waiting for a message");
    *done = flag != 0;
    return CLT_OK;
}

static void transport_drop(comm_message *message)
{
    MPI_Request *request = (MPI_Request *)message->space;
    (void)MPI_Cancel(request);
    (void)MPI_Request_free(request);
}

/* --- the library's all-reduce --- */

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
    case COMM_F16: /* never reaches MPI: sums.c adds 16-bit types */
    case COMM_BF16:
        break;
    }
    return MPI_DATATYPE_NULL;
}

static MPI_Op mpi_op(comm_op op)
{
    return op == COMM_SUM ? MPI_SUM : op == COMM_MAX ? MPI_MAX : MPI_MIN;
}

static clt_status transport_all_reduce(void *data, int64_t count, comm_type type, comm_op op,
                                       comm_message *message)
{
    if (!message)
        return check(MPI_Allreduce(MPI_IN_PLACE, data, (int)count, mpi_type(type), mpi_op(op), mpi.world),
                     __LINE__, "reducing over all ranks");
    return check(MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, mpi_type(type), mpi_op(op), mpi.world,
                                (MPI_Request *)message->space),
                 __LINE__, "reducing over all ranks");
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
    .message_bytes = MESSAGE_BYTES,
    .init = transport_init,
    .all_reduce = transport_all_reduce,
    .send = transport_send,
    .receive = transport_receive,
    .test = transport_test,
    .drop = transport_drop,
    .abort = transport_abort,
    .finalize = transport_finalize,
};
