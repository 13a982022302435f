/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives of comm.h: each call becomes a request of the engine, which the communication thread
 * carries out. Must not know which transport carries the bytes. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"

typedef struct posted {
    comm_request request; /* first member, since users hold a pointer to it */
    comm *group;
    comm_call call;
} posted;

static clt_status run_kind(const posted *p)
{
    const comm_call *call = &p->call;
    comm *c = p->group;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
        if (call->memory)
            return comm_run_memory_sum(call->memory, call);
        return comm_run_all_reduce(c, call->data, call->count, call->type, call->op);
    case COMM_REDUCE_SCATTER:
        if (call->memory)
            return comm_run_memory_shares(call->memory, call);
        return comm_run_reduce_scatter(c, call->data, call->count, call->grain, call->type);
    case COMM_ALL_GATHER:
        if (call->memory)
            return comm_run_memory_shares(call->memory, call);
        return comm_run_all_gather(c, call->data, call->count, call->grain, call->type);
    case COMM_BROADCAST:
        return comm_run_broadcast(c, call->data, call->count * comm_type_bytes(call->type), call->root);
    case COMM_BARRIER:
        return comm_run_barrier(c);
    }
    CLT_FAIL(CLT_EINTERNAL, "communication request of unknown kind %d", (int)call->kind);
}

static clt_status run_call(void *context)
{
    return run_kind(context);
}

static void call_ended(void *context, bool ok)
{
    const posted *p = context;
    if (p->call.done)
        p->call.done(p->call.context, ok);
}

static clt_status check_call(const comm *c, const comm_call *call)
{
    static const char *const names[] = {"an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast",
                                        "a barrier"};
    bool half = call->type == COMM_F16 || call->type == COMM_BF16;
    bool takes_memory = call->kind != COMM_BROADCAST && call->kind != COMM_BARRIER;
    if (call->memory && (!takes_memory || call->op != COMM_SUM || call->offset < 0 ||
                         call->offset + call->count * comm_type_bytes(call->type) > call->memory->bytes))
        CLT_FAIL(CLT_EINTERNAL, "%s of %lld elements at %lld of shared memory", names[call->kind],
                 (long long)call->count, (long long)call->offset);
    if (call->urgent && !c->parent)
        CLT_FAIL(CLT_EINTERNAL, "%s of the group of all ranks cannot be urgent", names[call->kind]);
    if (call->count < 0 || (call->count > 0 && !call->data && !call->memory))
        CLT_FAIL(CLT_EINTERNAL, "%s was called with %lld elements at %p", names[call->kind],
                 (long long)call->count, call->data);
    if (call->kind == COMM_ALL_REDUCE && half && call->op != COMM_SUM)
        CLT_FAIL(CLT_EINTERNAL, "an all-reduce of a 16-bit type can only compute sums");
    if (call->kind == COMM_REDUCE_SCATTER && !half && call->type != COMM_F32)
        CLT_FAIL(CLT_EINTERNAL, "a reduce-scatter takes f32, f16 and bf16 only");
    if ((call->kind == COMM_REDUCE_SCATTER || call->kind == COMM_ALL_GATHER) && call->grain < 1)
        CLT_FAIL(CLT_EINTERNAL, "%s with grains of %lld elements", names[call->kind], (long long)call->grain);
    if (call->kind == COMM_BROADCAST && (call->root < 0 || call->root >= c->info.ranks))
        CLT_FAIL(CLT_EINTERNAL, "a broadcast from rank %d was requested; there are %d ranks", call->root,
                 c->info.ranks);
    return CLT_OK;
}

static void fill(posted *p, comm *c, const comm_call *call)
{
    *p = (posted){.group = c, .call = *call};
    p->request.body = run_call;
    p->request.context = p;
    p->request.ended = call_ended;
    p->request.what = call->what;
    p->request.urgent = call->urgent;
}

static clt_status run_blocking(comm *c, const comm_call *call)
{
    posted p;
    CLT_TRY(check_call(c, call));
    fill(&p, c, call);
    p.request.ready = p.request.ok = true;
    comm_engine_post(c->engine, &p.request);
    return comm_engine_finish(&p.request);
}

clt_status comm_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    return run_blocking(c, &(comm_call){.kind = COMM_ALL_REDUCE,
                                        .data = data,
                                        .count = count,
                                        .type = type,
                                        .op = op,
                                        .what = "all-reduce"});
}

clt_status comm_broadcast(comm *c, void *data, int64_t bytes, int root)
{
    return run_blocking(c, &(comm_call){.kind = COMM_BROADCAST,
                                        .data = data,
                                        .count = bytes,
                                        .type = COMM_U8,
                                        .root = root,
                                        .what = "broadcast"});
}

clt_status comm_share_text(comm *c, char **text, size_t *length, const char *what)
{
    bool first = comm_describe(c)->rank == 0;
    int64_t bytes = first && *text ? (int64_t)*length : -1;
    CLT_TRY(comm_broadcast(c, &bytes, sizeof bytes, 0));
    if (bytes < 0)
        return CLT_OK;
    if (!first)
        CLT_TRY(clt_alloc(text, (size_t)bytes + 1, 1, what));
    *length = (size_t)bytes;
    return bytes > 0 ? comm_broadcast(c, *text, bytes, 0) : CLT_OK;
}

clt_status comm_barrier(comm *c)
{
    return run_blocking(c, &(comm_call){.kind = COMM_BARRIER, .what = "barrier"});
}

clt_status comm_reduce_scatter(comm *c, void *data, int64_t count, int64_t grain, comm_type type)
{
    return run_blocking(c, &(comm_call){.kind = COMM_REDUCE_SCATTER,
                                        .data = data,
                                        .count = count,
                                        .grain = grain,
                                        .type = type,
                                        .what = "reduce-scatter"});
}

clt_status comm_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type)
{
    return run_blocking(c, &(comm_call){.kind = COMM_ALL_GATHER,
                                        .data = data,
                                        .count = count,
                                        .grain = grain,
                                        .type = type,
                                        .what = "all-gather"});
}

clt_status comm_post(comm *c, const comm_call *call, comm_request **out)
{
    posted *p = NULL;
    *out = NULL;
    CLT_TRY(check_call(c, call));
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "a communication request"));
    fill(p, c, call);
    p->request.on_heap = true;
    comm_engine_post(c->engine, &p->request);
    *out = &p->request;
    return CLT_OK;
}

clt_status comm_all_reduce_post(comm *c, void *data, int64_t count, comm_type type, comm_op op,
                                comm_request **out)
{
    return comm_post(c,
                     &(comm_call){.kind = COMM_ALL_REDUCE,
                                  .data = data,
                                  .count = count,
                                  .type = type,
                                  .op = op,
                                  .what = "all-reduce"},
                     out);
}

clt_status comm_request_wait_timed(comm_request *request, comm_times *times)
{
    clt_status status = comm_engine_finish(request);
    *times = request->times;
    free(request);
    return status;
}

clt_status comm_request_wait(comm_request *request)
{
    comm_times unused;
    return comm_request_wait_timed(request, &unused);
}

/* --- memory --- */

static clt_status make_memory(void *context)
{
    comm_memory *m = context;
    comm *c = m->group;
    CLT_TRY(comm_segment_create(c, m->bytes, &m->segment));
    int64_t shared = m->segment || c->info.local_ranks == 1;
    CLT_TRY(comm_run_all_reduce(c, &shared, 1, COMM_I64, COMM_MIN));
    m->shared = shared != 0;
    return CLT_OK;
}

clt_status comm_memory_create(comm *c, int64_t bytes, comm_memory **out)
{
    CLT_SCOPED(comm_memory) *m = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&m, 1, sizeof *m, "memory for collectives"));
    m->group = c;
    m->bytes = bytes;
    CLT_TRY(comm_engine_run(c->engine, "making shared memory", make_memory, m));
    if (m->segment) {
        m->own = comm_segment_part(m->segment, c->info.local_rank);
    } else if (posix_memalign(&m->own, 4096, (size_t)(bytes > 0 ? bytes : 1)) != 0) {
        m->own = NULL;
        CLT_FAIL(CLT_ENOMEM, "no memory for the %lld bytes of a collective", (long long)bytes);
    }
    *out = CLT_TAKE(m);
    return CLT_OK;
}

void comm_memory_destroy(comm_memory *m)
{
    if (!m)
        return;
    if (m->segment)
        comm_segment_destroy(m->segment);
    else
        free(m->own);
    free(m);
}

void *comm_memory_own(comm_memory *m)
{
    return m->own;
}

/* --- agreement and the end of the job --- */

clt_status comm_check_equal(comm *c, const void *data, int64_t bytes, const char *what)
{
    CLT_TRY(
        check_call(c, &(comm_call){.kind = COMM_BROADCAST, .data = (void *)(uintptr_t)data, .count = bytes}));
    const comm_info *info = &c->info;
    const int64_t mine[2] = {(int64_t)clt_hash64(data, (size_t)bytes), bytes};
    int64_t first[2] = {mine[0], mine[1]};
    CLT_TRY(comm_broadcast(c, first, sizeof first, 0));
    int64_t differs = memcmp(first, mine, sizeof mine) != 0 ? info->rank : info->ranks;
    CLT_TRY(comm_all_reduce(c, &differs, 1, COMM_I64, COMM_MIN));
    if (differs == info->ranks)
        return CLT_OK;
    char host[sizeof info->host];
    memcpy(host, info->host, sizeof host);
    CLT_TRY(comm_broadcast(c, host, sizeof host, (int)differs));
    CLT_FAIL(CLT_ERANKS,
             "the ranks do not agree on %s: rank %lld of %d (on %s) is the first that differs from rank 0; "
             "start every rank with the same program, configuration and data",
             what, (long long)differs, info->ranks, host);
}

#define LINK_BYTES (1 << 20)

static uint8_t pattern(int rank, int64_t i)
{
    return (uint8_t)((i * 131 + rank * 29 + (i >> 9)) & 0xff);
}

static clt_status check_links(void *context)
{
    comm *c = context;
    int n = c->info.ranks, me = c->info.rank, left = (me + n - 1) % n;
    void *scratch;
    CLT_TRY(comm_engine_scratch(c->engine, 2 * LINK_BYTES, &scratch));
    uint8_t *out = scratch, *in = out + LINK_BYTES;
    for (int64_t i = 0; i < LINK_BYTES; i++)
        out[i] = pattern(me, i);
    CLT_TRY(comm_exchange(c, out, LINK_BYTES, (me + 1) % n, in, LINK_BYTES, left));
    for (int64_t i = 0; i < LINK_BYTES; i++)
        if (in[i] != pattern(left, i))
            CLT_FAIL(CLT_ECOMM,
                     "testing the links between ranks: byte %lld of the data from rank %d arrived wrong",
                     (long long)i, left);
    return CLT_OK;
}

clt_status comm_check_links(comm *c)
{
    return c->info.ranks > 1 ? comm_engine_run(c->engine, "testing links", check_links, c) : CLT_OK;
}

bool comm_abort(comm *c, clt_status status)
{
    return !c || comm_engine_ranks(c->engine) < 2 ||
           comm_engine_abort(c->engine, clt_status_exit_code(status != CLT_OK ? status : CLT_EINTERNAL));
}
