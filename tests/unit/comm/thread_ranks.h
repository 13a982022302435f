/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of comm/: a transport whose ranks are threads of this process, each with a communicator of its
 * own, that all run the same body; values whose sums depend on their order, and the expected sums. */
#ifndef THREAD_RANKS_H
#define THREAD_RANKS_H

#include "tests/unit/test.h"

#include <stdatomic.h>

#include "comm/comm_internal.h"
#include "engine/base/dtype.h"
#include "engine/base/scope.h"
#include "engine/base/thread.h"

#define MOST_RANKS 9

/* --- ranks as threads --- */

typedef struct letter {
    int from, to, tag;
    int64_t bytes;
    struct letter *next;
    char data[];
} letter;

typedef struct waiting { /* the state of a comm_message */
    void *data;          /* NULL: a send, which is complete immediately */
    int64_t bytes;
    int from, to, tag;
} waiting;

static struct {
    pthread_mutex_t mutex;
    letter *first, **last;
    atomic_int next_rank, ranks, finalized, abort_code, sent;
    atomic_int fail_after;        /* messages that arrive before the cable is cut; -1: it is not */
    atomic_int looks[MOST_RANKS]; /* each rank's polls for messages of collectives (not the roll call's) */
    const comm_host *host;
    const char *places; /* the letter of each rank's host; NULL: all on this one */
} wire = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int own_rank;
static int64_t wire_most = (int64_t)1 << 30; /* largest message in bytes */

static clt_status wire_init(const comm_host *host, int *rank, int *ranks, const char **description)
{
    wire.host = host;
    own_rank = *rank = atomic_fetch_add(&wire.next_rank, 1);
    *ranks = atomic_load(&wire.ranks);
    *description = "threads 1.0";
    return *ranks > 0 ? CLT_OK : host->failed(__FILE__, __LINE__, "no network");
}

static const char *wire_host(void)
{
    static _Thread_local char name[2];
    name[0] = wire.places ? wire.places[own_rank] : '-';
    return name;
}

static clt_status wire_send(const void *data, int64_t bytes, int to, int tag, comm_message *message)
{
    waiting *w = (waiting *)message->space;
    int left = atomic_load(&wire.fail_after);
    if (bytes > wire_most)
        return wire.host->failed(__FILE__, __LINE__, "the message is too long");
    if (left >= 0 && atomic_fetch_sub(&wire.fail_after, 1) <= 0)
        return wire.host->failed(__FILE__, __LINE__, "the cable was cut");
    letter *l = malloc(sizeof *l + (size_t)bytes);
    if (!l)
        return wire.host->failed(__FILE__, __LINE__, "no memory");
    *l = (letter){.from = own_rank, .to = to, .tag = tag, .bytes = bytes};
    if (bytes > 0)
        memcpy(l->data, data, (size_t)bytes);
    *w = (waiting){0};
    pthread_mutex_lock(&wire.mutex);
    *wire.last = l;
    wire.last = &l->next;
    pthread_mutex_unlock(&wire.mutex);
    atomic_fetch_add(&wire.sent, 1);
    return CLT_OK;
}

static char nothing;

static clt_status wire_receive(void *data, int64_t bytes, int from, int tag, comm_message *message)
{
    waiting *w = (waiting *)message->space;
    *w = (waiting){.data = data ? data : &nothing, .bytes = bytes, .from = from, .to = own_rank, .tag = tag};
    return CLT_OK;
}

static clt_status wire_test(comm_message *message, bool *done)
{
    waiting *w = (waiting *)message->space;
    if (w->tag != COMM_MAX_TAG)
        atomic_fetch_add(&wire.looks[own_rank], 1);
    *done = !w->data;
    if (*done)
        return CLT_OK;
    pthread_mutex_lock(&wire.mutex);
    letter **at = &wire.first;
    while (*at && ((*at)->from != w->from || (*at)->to != w->to || (*at)->tag != w->tag))
        at = &(*at)->next;
    CLT_FREED letter *found = *at;
    if (found) {
        *at = found->next;
        if (!found->next)
            wire.last = at;
    }
    pthread_mutex_unlock(&wire.mutex);
    if (!found)
        return CLT_OK;
    *done = true;
    bool fits = found->bytes == w->bytes;
    if (fits && w->bytes > 0)
        memcpy(w->data, found->data, (size_t)w->bytes);
    return fits ? CLT_OK : wire.host->failed(__FILE__, __LINE__, "a message of another length arrived");
}

static void wire_drop(comm_message *message)
{
    (void)message;
}

static void wire_abort(int exit_code)
{
    atomic_store(&wire.abort_code, exit_code);
}

static void wire_finalize(void)
{
    atomic_fetch_add(&wire.finalized, 1);
}

static comm_transport threads = {.abi_version = COMM_ABI_VERSION,
                                 .name = "threads",
                                 .init = wire_init,
                                 .host = wire_host,
                                 .send = wire_send,
                                 .receive = wire_receive,
                                 .test = wire_test,
                                 .drop = wire_drop,
                                 .abort = wire_abort,
                                 .finalize = wire_finalize};

static void clear_wire(int ranks)
{
    while (wire.first) {
        letter *next = wire.first->next;
        free(wire.first);
        wire.first = next;
    }
    wire.last = &wire.first;
    atomic_store(&wire.next_rank, 0);
    atomic_store(&wire.ranks, ranks);
    atomic_store(&wire.finalized, 0);
    atomic_store(&wire.abort_code, 0);
    atomic_store(&wire.sent, 0);
    atomic_store(&wire.fail_after, -1);
}

typedef struct rank_body {
    void (*body)(comm *c, void *context);
    void *context;
} rank_body;

static void *rank_thread(void *context)
{
    const rank_body *b = context;
    comm *c = NULL;
    if (comm_create_with(&threads, &c) != CLT_OK) {
        fprintf(stderr, "%s\n", clt_error_text());
        abort();
    }
    b->body(c, b->context);
    comm_destroy(c);
    return NULL;
}

/* cmocka's assertions work in one thread alone: bodies count failures here. */
static atomic_int wrong;
#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            atomic_fetch_add(&wrong, 1);                                                                     \
            fprintf(stderr, "%s:%d: rank %d: %s (%s)\n", __FILE__, __LINE__, comm_describe(c)->rank,         \
                    #condition, clt_error_text());                                                           \
        }                                                                                                    \
    } while (0)

static int messages_sent; /* sent by all ranks of the last run_ranks */

/* Returns how many ranks finalized the transport. */
static inline int run_ranks(int ranks, void (*body)(comm *, void *), void *context)
{
    rank_body b = {body, context};
    threads.message_bytes = wire_most;
    clt_thread *thread[MOST_RANKS];
    clear_wire(ranks);
    atomic_store(&wrong, 0);
    for (int r = 0; r < ranks; r++)
        assert_ok(clt_thread_start(&thread[r], "rank", rank_thread, &b));
    for (int r = 0; r < ranks; r++)
        clt_thread_join(thread[r]);
    int finalized = atomic_load(&wire.finalized);
    messages_sent = atomic_load(&wire.sent);
    clear_wire(0);
    assert_int_equal(atomic_load(&wrong), 0);
    return finalized;
}

/* --- values, and what their sums must be --- */

/* A value whose sums depend on their order. */
static inline float value_of(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761U) ^ (uint32_t)(rank + 1) * 40503U;
    x ^= x >> 13;
    x *= 1664525U;
    x ^= x >> 16;
    return (float)(int32_t)x * 0x1p-40f * (float)(1 + x % 7);
}

static inline void expected(int ranks, int64_t count, comm_type type, void *out)
{
    static _Thread_local float part[MOST_RANKS][20000];
    static _Thread_local uint16_t half[MOST_RANKS][20000];
    const void *parts[MOST_RANKS];
    for (int r = 0; r < ranks; r++) {
        parts[r] = type == COMM_F32 ? (const void *)part[r] : half[r];
        for (int64_t i = 0; i < count; i++) {
            part[r][i] = value_of(r, i);
            half[r][i] = type == COMM_BF16 ? clt_f32_to_bf16(part[r][i]) : clt_f32_to_f16(part[r][i]);
        }
    }
    comm_sum_parts(parts, ranks, count, type, &out, 1);
}

static inline void fill(int rank, int64_t count, comm_type type, void *data)
{
    for (int64_t i = 0; i < count; i++) {
        float v = value_of(rank, i);
        if (type == COMM_F32)
            ((float *)data)[i] = v;
        else
            ((uint16_t *)data)[i] = type == COMM_BF16 ? clt_f32_to_bf16(v) : clt_f32_to_f16(v);
    }
}

static const int64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 1000, 4099, 20000};
#define COUNTS (sizeof counts / sizeof counts[0])

/* The sums that the algorithm tree gives if it adds the ranks of each host first; hosts follow in the order
 * of their first ranks. */
static inline void expected_of_hosts(const char *places, int64_t count, comm_type type, void *out)
{
    int ranks = (int)strlen(places), hosts = 0;
    float *sum[MOST_RANKS] = {0};
    uint16_t *half[MOST_RANKS];
    for (int first = 0; first < ranks; first++) {
        const void *part[MOST_RANKS];
        int here = 0;
        if (strchr(places, places[first]) != &places[first])
            continue;
        for (int r = first; r < ranks; r++) {
            if (places[r] != places[first])
                continue;
            half[here] = malloc((size_t)count * 4 + 1);
            fill(r, count, type, half[here]);
            part[here] = half[here];
            here++;
        }
        sum[hosts] = malloc((size_t)count * sizeof(float) + 1);
        comm_sum_parts_f32(part, here, count, type, sum[hosts]);
        for (hosts++; here > 0; here--)
            free(half[here - 1]);
    }
    comm_sum_parts((const void *const *)sum, hosts, count, COMM_F32, (void *[]){sum[0]}, 1);
    comm_round(sum[0], count, type, out);
    for (int h = 0; h < hosts; h++)
        free(sum[h]);
}

#endif
