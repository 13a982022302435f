/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Requests, groups, ways and deadlines, on a transport whose ranks are threads of this process: every rank has a
 * communicator of its own and runs the same body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_internal.h"
#include "engine/base/dtype.h"
#include "engine/base/thread.h"
#include "engine/config/choices.h"

#define MOST_RANKS 9

/* --- ranks as threads --- */

typedef struct letter {
    int from, to, tag;
    int64_t bytes;
    struct letter *next;
    char data[];
} letter;

typedef struct waiting { /* what a comm_message holds */
    void *data;          /* NULL: a send, which is done at once */
    int64_t bytes;
    int from, to, tag;
} waiting;

static struct {
    pthread_mutex_t mutex;
    letter *first, **last;
    atomic_int next_rank, ranks, finalized, abort_code, sent;
    atomic_int fail_after; /* messages that arrive before the cable is cut; -1: it is not */
    const comm_host *host;
    const char *places; /* the letter of each rank's host; NULL: all on this one */
} wire = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int own_rank;

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
    *done = !w->data;
    if (*done)
        return CLT_OK;
    pthread_mutex_lock(&wire.mutex);
    letter **at = &wire.first;
    while (*at && ((*at)->from != w->from || (*at)->to != w->to || (*at)->tag != w->tag))
        at = &(*at)->next;
    letter *found = *at;
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
    free(found);
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

static const comm_transport threads = {.abi_version = COMM_ABI_VERSION,
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

/* cmocka's assertions are for one thread: bodies count what is wrong here. */
static atomic_int wrong;
#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            atomic_fetch_add(&wrong, 1);                                                                     \
            fprintf(stderr, "%s:%d: rank %d: %s (%s)\n", __FILE__, __LINE__, comm_describe(c)->rank,         \
                    #condition, clt_error_text());                                                           \
        }                                                                                                    \
    } while (0)

/* Returns how many ranks finalized the transport. */
static int run_ranks(int ranks, void (*body)(comm *, void *), void *context)
{
    rank_body b = {body, context};
    clt_thread *thread[MOST_RANKS];
    clear_wire(ranks);
    atomic_store(&wrong, 0);
    for (int r = 0; r < ranks; r++)
        assert_int_equal(clt_thread_start(&thread[r], "rank", rank_thread, &b), CLT_OK);
    for (int r = 0; r < ranks; r++)
        clt_thread_join(thread[r]);
    int finalized = atomic_load(&wire.finalized);
    clear_wire(0);
    assert_int_equal(atomic_load(&wrong), 0);
    return finalized;
}

/* --- ways --- */

/* A value whose sums depend on their order. */
static float value_of(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761U) ^ (uint32_t)(rank + 1) * 40503U;
    x ^= x >> 13;
    x *= 1664525U;
    x ^= x >> 16;
    return (float)(int32_t)x * 0x1p-40f * (float)(1 + x % 7);
}

static void expected(int ranks, int64_t count, comm_type type, void *out)
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

static void fill(int rank, int64_t count, comm_type type, void *data)
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

/* Every way that suits: the bits of the tree, but for the ring, whose sums are of another order; guards around. */
static void check_way(comm *c, const comm_way *way, comm_type type)
{
    const comm_info *info = comm_describe(c);
    int64_t size = comm_type_bytes(type);
    static _Thread_local char data[20000 * 4 + 128], want[20000 * 4];
    bool ring = strcmp(way->name, "ring") == 0;
    for (size_t k = 0; k < COUNTS; k++) {
        int64_t count = counts[k];
        memset(data, 0x5a, sizeof data);
        fill(info->rank, count, type, data + 64);
        expected(info->ranks, count, type, want);
        c->way = way;
        EXPECT(comm_all_reduce(c, data + 64, count, type, COMM_SUM) == CLT_OK);
        if (!ring)
            EXPECT(memcmp(data + 64, want, (size_t)(count * size)) == 0);
        for (int64_t i = 0; ring && i < count; i++) {
            float got = ((float *)(data + 64))[i], sum = ((float *)want)[i];
            EXPECT(got - sum < 1e-7f && sum - got < 1e-7f);
        }
        EXPECT(comm_check_equal(c, data, (int64_t)sizeof data, "the sums and their guards") == CLT_OK);
        for (int i = 0; i < 64; i++)
            EXPECT(data[i] == 0x5a && data[64 + count * size + i] == 0x5a);
    }
    c->way = NULL;
}

static void all_ways(comm *c, void *context)
{
    const comm_type types[] = {COMM_F32, COMM_F16, COMM_BF16};
    int *tried = context;
    for (size_t i = 0; comm_way_at(i); i++)
        for (int t = 0; t < 3; t++)
            if (!comm_way_at(i)->misfit(c, types[t], COMM_SUM)) {
                check_way(c, comm_way_at(i), types[t]);
                if (comm_describe(c)->rank == 0)
                    ++*tried;
            }
}

static void ways_give_the_same_sums(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int tried = 0;
        (void)run_ranks(ranks, all_ways, &tried);
        /* tree, ring and three of slices; halving; nodes needs processes that can open each other's files */
        assert_true(tried >= 5 + !(ranks & (ranks - 1)));
    }
}

static void other_collectives(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    static _Thread_local float data[20000], want[20000];
    (void)context;
    for (size_t k = 0; k < COUNTS; k++)
        for (int64_t grain = 1; grain <= 64; grain *= 8) {
            int64_t first, length, count = counts[k];
            comm_share(count, grain, info->ranks, info->rank, &first, &length);
            fill(info->rank, count, COMM_F32, data);
            expected(info->ranks, count, COMM_F32, want);
            EXPECT(comm_reduce_scatter(c, data, count, grain, COMM_F32) == CLT_OK);
            EXPECT(memcmp(data + first, want + first, (size_t)length * sizeof *data) == 0);
            for (int64_t i = 0; i < count; i++)
                if (i < first || i >= first + length)
                    data[i] = -1;
            EXPECT(comm_all_gather(c, data, count, grain, COMM_F32) == CLT_OK);
            EXPECT(memcmp(data, want, (size_t)count * sizeof *data) == 0);
        }
    for (int root = 0; root < info->ranks; root++) {
        int64_t x[3] = {info->rank, 2 * info->rank, 7};
        EXPECT(comm_broadcast(c, x, sizeof x, root) == CLT_OK);
        EXPECT(x[0] == root && x[1] == 2 * root && x[2] == 7);
    }
    int64_t least = 100 - info->rank;
    double most = info->rank;
    uint8_t byte = (uint8_t)info->rank;
    EXPECT(comm_all_reduce(c, &least, 1, COMM_I64, COMM_MIN) == CLT_OK && least == 101 - info->ranks);
    EXPECT(comm_all_reduce(c, &most, 1, COMM_F64, COMM_MAX) == CLT_OK && most == info->ranks - 1);
    EXPECT(comm_all_reduce(c, &byte, 1, COMM_U8, COMM_MAX) == CLT_OK && byte == info->ranks - 1);
}

static void collectives_on_every_number_of_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        assert_int_equal(run_ranks(ranks, other_collectives, NULL), ranks);
}

static void ways_by_name(comm *c, void *context)
{
    double seconds[16];
    (void)context;
    EXPECT(comm_set_way(c, "ring", COMM_ANY_ORDER) == CLT_OK && strcmp(comm_chosen_way(c), "ring") == 0);
    EXPECT(comm_set_way(c, "halving", COMM_ANY_ORDER) == CLT_ECONFIG); /* three ranks */
    EXPECT(strstr(clt_error_text(), "power of two") && strstr(clt_error_text(), "slices"));
    EXPECT(comm_set_way(c, "telepathy", COMM_ANY_ORDER) == CLT_ECONFIG);
    EXPECT(strcmp(comm_chosen_way(c), "ring") == 0);
    EXPECT(comm_set_way(c, "auto", COMM_ANY_ORDER) == CLT_OK);
    EXPECT(comm_measure_ways(c, 40000, COMM_F32, seconds, 16) == CLT_OK);
    int measured = 0;
    for (size_t i = 0; comm_way_name(i); i++)
        measured += seconds[i] > 0;
    EXPECT(measured >= 3);
    EXPECT(comm_check_equal(c, comm_chosen_way(c), (int64_t)strlen(comm_chosen_way(c)), "the way") == CLT_OK);
}

/* Three ranks: on one host nodes adds up the tree; on two with 2 and 1 it does not. */
static void ways_by_order(comm *c, void *context)
{
    const bool even = !context;
    double seconds[16];
    EXPECT(comm_set_way(c, "native", COMM_ANY_ORDER) == CLT_ECONFIG); /* this transport has none */
    EXPECT(comm_set_way(c, "ring", COMM_REPEATED) == CLT_OK);
    EXPECT(comm_set_way(c, "ring", COMM_TREE) == CLT_ECONFIG && strstr(clt_error_text(), "rank_invariant"));
    EXPECT(strstr(clt_error_text(), "slices") && !strstr(clt_error_text(), ", ring"));
    EXPECT((comm_set_way(c, "nodes", COMM_TREE) == CLT_OK) == even);
    EXPECT(comm_set_way(c, "auto", COMM_TREE) == CLT_OK);
    EXPECT(strcmp(comm_chosen_way(c), even ? "nodes" : "slices") == 0);
    for (int order = COMM_REPEATED; order <= COMM_TREE; order++) {
        EXPECT(comm_set_way(c, "auto", (comm_order)order) == CLT_OK);
        EXPECT(comm_measure_ways(c, 40000, COMM_BF16, seconds, 16) == CLT_OK);
        int measured = 0;
        for (size_t i = 0; comm_way_name(i); i++) {
            EXPECT(seconds[i] == 0 || strcmp(comm_way_name(i), "ring") != 0);
            measured += seconds[i] > 0;
        }
        /* of 16 bits: slices, and nodes where it may */
        EXPECT(measured == (even ? 2 : order == COMM_TREE ? 1 : 0));
    }
    EXPECT(comm_set_way(c, "auto", COMM_REPEATED) == CLT_OK);
    EXPECT(strcmp(comm_chosen_way(c), "nodes") == 0);
}

static void ways_are_asked_for_or_measured(void **state)
{
    (void)state;
    (void)run_ranks(3, ways_by_name, NULL);
    (void)run_ranks(3, ways_by_order, NULL);
    wire.places = "aab";
    (void)run_ranks(3, ways_by_order, (void *)(uintptr_t)wire.places);
    wire.places = NULL;
}

#define CLT_WORD_OF_WAY(id, word) word,
/* parallel.allreduce has a word for each of them, and "auto". */
static void the_config_knows_every_way(void **state)
{
    static const char *const words[] = {CLT_ALLREDUCES(CLT_WORD_OF_WAY)};
    (void)state;
    assert_string_equal(words[0], "auto");
    size_t ways = 0;
    for (; comm_way_name(ways); ways++)
        assert_string_equal(words[1 + ways], comm_way_name(ways));
    assert_int_equal(ways + 1, sizeof words / sizeof words[0]);
}

/* --- sums in memory that ranks share --- */

static void note_end(void *context, bool ok)
{
    atomic_fetch_add((atomic_int *)context, ok ? 1 : 100);
}

/* The sum of a call, slice by slice, or all of it in the own memory. */
static void check_memory_sum(comm *c, const comm_call *call)
{
    static _Thread_local char want[20000 * 4];
    const comm_info *info = comm_describe(c);
    int64_t next = 0, first, length, size = comm_type_bytes(call->type);
    const void *data;
    expected(info->ranks, call->count, call->type, want);
    const char *own = comm_memory_own(call->memory);
    if (call->everywhere) {
        EXPECT(memcmp(own + call->offset, want, (size_t)(call->count * size)) == 0);
        return;
    }
    for (int l = 0; l < info->local_ranks; l++) {
        comm_memory_slice(call->memory, call->offset, call->count, call->type, l, &data, &first, &length);
        EXPECT(length == 0 || first == next);
        EXPECT(memcmp(data, want + first * size, (size_t)(length * size)) == 0);
        next += length;
    }
    EXPECT(next == call->count);
}

/* Every count and type, guards around; two memories in turns. */
static void memory_sums(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    const comm_type types[] = {COMM_F32, COMM_F16, COMM_BF16};
    comm_memory *memory[2] = {NULL, NULL};
    atomic_int ends;
    atomic_init(&ends, 0);
    int calls = 0;
    for (int m = 0; m < 2; m++) {
        EXPECT(comm_memory_create(c, 128 + 20000 * 4, &memory[m]) == CLT_OK);
        memset(comm_memory_own(memory[m]), 0x5a, 128 + 20000 * 4);
    }
    for (size_t k = 0; k < COUNTS; k++)
        for (int t = 0; t < 3; t++, calls++) {
            char *own = comm_memory_own(memory[calls % 2]);
            int64_t end = 64 + counts[k] * comm_type_bytes(types[t]);
            comm_request *r = NULL;
            const comm_call call = {.kind = COMM_ALL_REDUCE,
                                    .memory = memory[calls % 2],
                                    .offset = 64,
                                    .everywhere = context != NULL,
                                    .count = counts[k],
                                    .type = types[t],
                                    .done = note_end,
                                    .context = &ends};
            memset(own + end, 0x5a, 64);
            fill(info->rank, counts[k], types[t], own + 64);
            EXPECT(comm_post(c, &call, &r) == CLT_OK);
            comm_request_ready(r, true);
            EXPECT(comm_request_wait(r) == CLT_OK);
            check_memory_sum(c, &call);
            for (int i = 0; i < 64; i++)
                EXPECT(own[i] == 0x5a && own[end + i] == 0x5a);
        }
    EXPECT(atomic_load(&ends) == calls);
    const comm_call far = {.kind = COMM_ALL_REDUCE, .memory = memory[0], .offset = 129, .count = 20000};
    comm_request *none = NULL;
    EXPECT(comm_post(c, &far, &none) == CLT_EINTERNAL && !none);
    EXPECT(comm_barrier(c) == CLT_OK);
    comm_memory_destroy(memory[0]);
    comm_memory_destroy(memory[1]);
}

static void sums_in_shared_memory(void **state)
{
    int everywhere;
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        (void)run_ranks(ranks, memory_sums, NULL);
        (void)run_ranks(ranks, memory_sums, &everywhere);
    }
}

/* --- several hosts --- */

/* As the sums of the ways' tree, but hosts first, in the order of their first ranks. */
static void expected_of_hosts(const char *places, int64_t count, comm_type type, void *out)
{
    int ranks = (int)strlen(places), hosts = 0;
    float *sum[MOST_RANKS];
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

typedef struct placed_sum {
    int64_t count;
    comm_type type;
    char *own, *want;
} placed_sum;

static void check_placed(comm *c, const placed_sum *s, comm_memory *m, bool everywhere)
{
    const comm_info *info = comm_describe(c);
    int64_t size = comm_type_bytes(s->type), next = 0, first, length;
    comm_request *r = NULL;
    fill(info->rank, s->count, s->type, comm_memory_own(m));
    EXPECT(comm_post(c,
                     &(comm_call){.kind = COMM_ALL_REDUCE,
                                  .memory = m,
                                  .everywhere = everywhere,
                                  .count = s->count,
                                  .type = s->type},
                     &r) == CLT_OK);
    comm_request_ready(r, true);
    EXPECT(comm_request_wait(r) == CLT_OK);
    for (int l = 0; !everywhere && l < info->local_ranks; l++) {
        const void *data;
        comm_memory_slice(m, 0, s->count, s->type, l, &data, &first, &length);
        memcpy(s->own + first * size, data, (size_t)(length * size));
        next += length;
    }
    EXPECT(everywhere || next == s->count);
    const char *got = everywhere ? comm_memory_own(m) : s->own;
    EXPECT(memcmp(got, s->want, (size_t)(s->count * size)) == 0);
}

/* More than two pieces, and few elements; ordinary and shared memory. */
static void sum_over_hosts(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    const int64_t sizes[] = {1, 700, 700001};
    const comm_type types[] = {COMM_F32, COMM_BF16, COMM_F16};
    comm_memory *memory[3] = {NULL, NULL, NULL};
    placed_sum s = {.own = malloc(700001 * 4), .want = malloc(700001 * 4)};
    EXPECT(comm_set_way(c, "nodes", COMM_ANY_ORDER) == CLT_OK);
    for (int i = 0; i < 3; i++)
        EXPECT(comm_memory_create(c, 700001 * 4, &memory[i]) == CLT_OK);
    for (int k = 0; k < 9; k++) {
        s.count = sizes[k % 3];
        s.type = types[k / 3];
        expected_of_hosts(context, s.count, s.type, s.want);
        fill(info->rank, s.count, s.type, s.own);
        EXPECT(comm_all_reduce(c, s.own, s.count, s.type, COMM_SUM) == CLT_OK);
        EXPECT(memcmp(s.own, s.want, (size_t)(s.count * comm_type_bytes(s.type))) == 0);
        check_placed(c, &s, memory[k % 2], false);
        check_placed(c, &s, memory[2], true);
    }
    EXPECT(comm_barrier(c) == CLT_OK);
    for (int i = 0; i < 3; i++)
        comm_memory_destroy(memory[i]);
    free(s.own);
    free(s.want);
}

static void hosts_of_any_shape(void **state)
{
    const char *const places[] = {"aabb", "aaab", "abab", "aabcc", "abbbbcc"};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        wire.places = places[i];
        (void)run_ranks((int)strlen(places[i]), sum_over_hosts, (void *)(uintptr_t)places[i]);
    }
    wire.places = NULL;
}

/* Hosts do not matter to a group whose order is the tree. */
static void tree_over_hosts(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    comm_memory *memory = NULL;
    placed_sum s = {.count = 20000, .type = COMM_F32, .own = malloc(20000 * 4), .want = malloc(20000 * 4)};
    (void)context;
    EXPECT(comm_set_way(c, "auto", COMM_TREE) == CLT_OK);
    EXPECT(comm_memory_create(c, 20000 * 4, &memory) == CLT_OK);
    expected(info->ranks, s.count, s.type, s.want);
    for (int i = 0; i < 2; i++) {
        fill(info->rank, s.count, s.type, s.own);
        EXPECT(comm_all_reduce(c, s.own, s.count, s.type, COMM_SUM) == CLT_OK);
        EXPECT(memcmp(s.own, s.want, 20000 * 4) == 0);
        check_placed(c, &s, memory, i == 1);
        EXPECT(comm_barrier(c) == CLT_OK);
    }
    comm_memory_destroy(memory);
    free(s.own);
    free(s.want);
}

static void the_tree_is_kept(void **state)
{
    const char *const places[] = {"aaaa", "aabb", "aaab", "abab", "abbbbccc", "abcd"};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        wire.places = places[i];
        (void)run_ranks((int)strlen(places[i]), tree_over_hosts, NULL);
    }
    wire.places = NULL;
}

static void far_apart(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    float *data = malloc(700001 * sizeof *data), *want = malloc(700001 * sizeof *want);
    EXPECT(info->nodes == info->ranks && info->local_ranks == 1);
    EXPECT(comm_set_way(c, "nodes", COMM_ANY_ORDER) == CLT_ECONFIG);
    EXPECT(comm_set_way(c, "slices", COMM_ANY_ORDER) == CLT_OK);
    fill(info->rank, 700001, COMM_F32, data);
    expected_of_hosts(context, 700001, COMM_F32, want);
    EXPECT(comm_all_reduce(c, data, 700001, COMM_F32, COMM_SUM) == CLT_OK);
    EXPECT(memcmp(data, want, 700001 * sizeof *data) == 0);
    free(data);
    free(want);
}

static void a_host_for_each_rank(void **state)
{
    (void)state;
    wire.places = "abc";
    (void)run_ranks(3, far_apart, (void *)(uintptr_t)wire.places);
    wire.places = NULL;
}

/* --- groups --- */

static void groups_of_ranks(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    comm *half = NULL, *back = NULL, *none = NULL;
    (void)context;
    /* odd and even ranks; the last one takes no part; numbered backwards */
    int last = info->ranks - 1, colour = info->rank == last ? -1 : info->rank % 2;
    EXPECT(comm_split(c, colour, -info->rank, &half) == CLT_OK && (half != NULL) == (colour >= 0));
    if (half) {
        int members = (last - info->rank % 2 + 1) / 2;
        EXPECT(comm_describe(half)->ranks == members);
        EXPECT(comm_describe(half)->rank == members - 1 - info->rank / 2);
        int64_t sum = info->rank;
        EXPECT(comm_all_reduce(half, &sum, 1, COMM_I64, COMM_SUM) == CLT_OK);
        EXPECT(sum == (int64_t)members * (members - 1) + members * (info->rank % 2));
    }
    /* requests of several groups at once, in one order */
    float x[8], y[8];
    comm_request *r[2] = {NULL, NULL};
    for (int i = 0; i < 8; i++) {
        x[i] = (float)info->rank;
        y[i] = 1;
    }
    EXPECT(comm_all_reduce_post(c, x, 8, COMM_F32, COMM_SUM, &r[0]) == CLT_OK);
    if (half)
        EXPECT(comm_all_reduce_post(half, y, 8, COMM_F32, COMM_SUM, &r[1]) == CLT_OK);
    if (half)
        comm_request_ready(r[1], true);
    comm_request_ready(r[0], true);
    EXPECT(comm_request_wait(r[0]) == CLT_OK && x[7] == (float)(info->ranks * (info->ranks - 1) / 2));
    if (half)
        EXPECT(comm_request_wait(r[1]) == CLT_OK && y[0] == (float)comm_describe(half)->ranks);
    EXPECT(comm_split(c, 3, 0, &back) == CLT_OK && comm_describe(back)->rank == info->rank);
    EXPECT(comm_split(c, -1, 0, &none) == CLT_OK && !none);
    comm_destroy(back);
    comm_destroy(half);
}

static void groups_work_beside_each_other(void **state)
{
    (void)state;
    for (int ranks = 3; ranks <= MOST_RANKS; ranks += 2)
        (void)run_ranks(ranks, groups_of_ranks, NULL);
}

/* --- requests --- */

typedef struct trace {
    int order[8], count;
    int number[8];
} trace;
static trace traced;

static clt_status note(void *context)
{
    traced.order[traced.count++ % 8] = *(int *)context;
    return CLT_OK;
}

static clt_status cut(void *context)
{
    (void)context;
    CLT_FAIL(CLT_ECOMM, "the cable was cut");
}

static comm_engine *new_engine(void)
{
    comm_engine *e = NULL;
    clear_wire(1);
    memset(&traced, 0, sizeof traced);
    assert_int_equal(comm_engine_create(&threads, &e), CLT_OK);
    return e;
}

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

static void requests_run_in_the_order_of_posting(void **state)
{
    (void)state;
    comm_engine *e = new_engine();
    comm_request r[4];
    memset(r, 0, sizeof r);
    for (int i = 0; i < 4; i++) {
        traced.number[i] = i;
        r[i] = (comm_request){.body = note, .context = &traced.number[i]};
        comm_engine_post(e, &r[i]);
    }
    comm_request_ready(&r[3], true);
    comm_request_ready(&r[1], true);
    usleep(20000);
    assert_int_equal(traced.count, 0); /* the first is not ready, so nothing may start */
    comm_request_ready(&r[0], true);
    assert_int_equal(comm_engine_finish(&r[1]), CLT_OK); /* waits may come in any order */
    assert_int_equal(traced.count, 2);
    comm_request_ready(&r[2], true);
    traced.number[4] = 4;
    assert_int_equal(comm_engine_run(e, NULL, note, &traced.number[4]), CLT_OK); /* behind them */
    assert_int_equal(traced.count, 5);
    assert_int_equal(comm_engine_finish(&r[3]), CLT_OK);
    assert_int_equal(comm_engine_finish(&r[0]), CLT_OK);
    assert_int_equal(comm_engine_finish(&r[2]), CLT_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(traced.order[i], i);
    comm_engine_destroy(e);
    assert_int_equal(atomic_load(&wire.finalized), 1);
}

static void failures_end_all_that_follows(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        comm_engine *e = new_engine();
        comm_request r[2] = {{.body = device ? note : cut, .context = &traced.number[0]},
                             {.body = note, .context = &traced.number[1]}};
        comm_engine_post(e, &r[0]);
        comm_engine_post(e, &r[1]);
        comm_request_ready(&r[1], true);
        comm_request_ready(&r[0], !device);
        assert_int_equal(comm_engine_finish(&r[0]), CLT_ECOMM);
        assert_text_has(device ? "device work" : "the cable was cut");
        assert_int_equal(comm_engine_finish(&r[1]), CLT_ECOMM);
        assert_text_has("earlier");
        assert_int_equal(comm_engine_run(e, NULL, note, &traced.number[1]), CLT_ECOMM);
        assert_int_equal(traced.count, 0); /* ranks out of step must not exchange anything */
        comm_engine_destroy(e);
    }
}

static void failed_init_is_reported(void **state)
{
    (void)state;
    comm *c = (comm *)&wire;
    clear_wire(0);
    assert_int_equal(comm_create_with(&threads, &c), CLT_ECOMM);
    assert_null(c);
    assert_text_has("starting the threads transport: no network");
    assert_int_equal(atomic_load(&wire.finalized), 0);
}

static void destroy_drops_requests_that_never_ran(void **state)
{
    (void)state;
    comm *c = NULL;
    comm_request *r[3];
    float x = 0;
    clear_wire(1);
    assert_int_equal(comm_create_with(&threads, &c), CLT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(comm_all_reduce_post(c, &x, 1, COMM_F32, COMM_SUM, &r[i]), CLT_OK);
    comm_request_ready(r[1], true);
    comm_destroy(c); /* must return, and leave nothing behind for the leak checker */
}

/* --- deadlines --- */

static atomic_int ended;

static void one_rank_is_late(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    int late = *(int *)context;
    float x = 1;
    comm_set_deadline(c, 0.3);
    char phase[32];
    (void)snprintf(phase, sizeof phase, "step %d", 17 + info->rank);
    comm_set_phase(c, phase);
    EXPECT(comm_barrier(c) == CLT_OK);
    if (info->rank != late) {
        double begin = clt_now();
        EXPECT(comm_all_reduce(c, &x, 1, COMM_F32, COMM_SUM) == CLT_ECOMM);
        char name[80];
        (void)snprintf(name, sizeof name, "rank %d was late: it has been in step %d for", late, 17 + late);
        EXPECT(strstr(clt_error_text(), name) != NULL);
        EXPECT(strstr(clt_error_text(), "; rank") == NULL && strstr(clt_error_text(), "no answer") == NULL);
        (void)snprintf(name, sizeof name, "during step %d; it may take 0.3 s", 17 + info->rank);
        EXPECT(strstr(clt_error_text(), name) && strstr(clt_error_text(), "all-reduce"));
        EXPECT(clt_now() - begin < 20); /* generous: this machine may be busy */
        EXPECT(comm_barrier(c) == CLT_ECOMM);
    }
    /* nobody leaves before all have seen it: a rank that has gone does not answer either */
    for (atomic_fetch_add(&ended, 1); atomic_load(&ended) < info->ranks;)
        usleep(1000);
}

static void a_late_rank_is_named(void **state)
{
    (void)state;
    for (int late = 0; late < 4; late++) {
        atomic_store(&ended, 0);
        /* Ranks out of step must not wait for each other at the end, and the late one knows that they are. */
        assert_int_equal(run_ranks(4, one_rank_is_late, &late), 0);
    }
}

static void cut_cable(comm *c, void *context)
{
    float x[5000];
    (void)context;
    memset(x, 0, sizeof x);
    comm_set_deadline(c, 0.3);
    EXPECT(comm_set_way(c, "ring", COMM_ANY_ORDER) == CLT_OK);
    atomic_store(&wire.fail_after, 20);
    clt_status status = CLT_OK;
    for (int i = 0; i < 100 && status == CLT_OK; i++)
        status = comm_all_reduce(c, x, 5000, COMM_F32, COMM_SUM);
    EXPECT(status == CLT_ECOMM);
    EXPECT(comm_barrier(c) == CLT_ECOMM);
}

static void failed_messages_end_the_collective(void **state)
{
    (void)state;
    (void)run_ranks(3, cut_cable, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_run_in_the_order_of_posting),
        cmocka_unit_test(failures_end_all_that_follows),
        cmocka_unit_test(failed_init_is_reported),
        cmocka_unit_test(destroy_drops_requests_that_never_ran),
        cmocka_unit_test(ways_give_the_same_sums),
        cmocka_unit_test(collectives_on_every_number_of_ranks),
        cmocka_unit_test(ways_are_asked_for_or_measured),
        cmocka_unit_test(the_config_knows_every_way),
        cmocka_unit_test(sums_in_shared_memory),
        cmocka_unit_test(hosts_of_any_shape),
        cmocka_unit_test(the_tree_is_kept),
        cmocka_unit_test(a_host_for_each_rank),
        cmocka_unit_test(groups_work_beside_each_other),
        cmocka_unit_test(a_late_rank_is_named),
        cmocka_unit_test(failed_messages_end_the_collective),
    };
    return cmocka_run_group_tests_name("comm ways", tests, NULL, NULL);
}
