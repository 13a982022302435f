/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick ctest-optimise: no
 *
 * Reduce-scatter and all-gather, of ordinary memory and of memory that ranks share, on one host and on
 * several: the shares that result have the bits of an all-reduce. */
#include "tests/unit/comm/thread_ranks.h"

/* --- shares --- */

TEST(shares_cover_everything_once)
{
    for (int64_t count = 0; count < 200; count += 7)
        for (int64_t grain = 1; grain <= 16; grain *= 4)
            for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
                int64_t next = 0, first, length, longest = 0, grains = (count + grain - 1) / grain;
                for (int r = 0; r < ranks; r++) {
                    comm_share(count, grain, ranks, r, &first, &length);
                    assert_int_equal(first, next);
                    assert_true(length >= 0 && (first % grain == 0 || length == 0));
                    longest = r == 0 ? length : longest;
                    assert_true(length <= longest);
                    /* no share is more than a grain smaller than an equal share */
                    assert_true((length + grain - 1) / grain >= grains / ranks);
                    next = first + length;
                }
                assert_int_equal(next, count);
            }
}

/* --- ordinary memory --- */

static const comm_type types[] = {COMM_F32, COMM_F16, COMM_BF16};
static const int64_t lengths[] = {0, 1, 17, 4099, 20000, 1100001};
static const int64_t grains[] = {1, 64, 16384};
#define LONGEST 1100001
#define CASES (3 * 6 * 3)

typedef struct share_case {
    comm_type type;
    int64_t count, grain, size, first, length;
} share_case;

/* Case number k, with this rank's share. */
static share_case case_of(const comm *c, int k)
{
    const comm_info *info = comm_describe(c);
    share_case s = {.type = types[k % 3], .count = lengths[k / 3 % 6], .grain = grains[k / 18]};
    s.size = comm_type_bytes(s.type);
    comm_share(s.count, s.grain, info->ranks, info->rank, &s.first, &s.length);
    return s;
}

static void ordinary(comm *c, void *context)
{
    char *data = malloc(LONGEST * 4 + 64), *want = malloc(LONGEST * 4);
    (void)context;
    for (int k = 0; k < CASES; k++) {
        share_case s = case_of(c, k);
        size_t bytes = (size_t)(s.count * s.size), first = (size_t)(s.first * s.size);
        size_t own = (size_t)(s.length * s.size);
        fill(comm_describe(c)->rank, s.count, s.type, want);
        memcpy(data, want, bytes);
        memset(data + bytes, 0x5a, 64);
        EXPECT(comm_all_reduce(c, want, s.count, s.type, COMM_SUM) == CLT_OK);
        EXPECT(comm_reduce_scatter(c, data, s.count, s.grain, s.type) == CLT_OK);
        EXPECT(memcmp(data + first, want + first, own) == 0);
        memset(data, 0xff, first);
        memset(data + first + own, 0xff, bytes - first - own);
        EXPECT(comm_all_gather(c, data, s.count, s.grain, s.type) == CLT_OK);
        EXPECT(memcmp(data, want, bytes) == 0);
        for (int i = 0; i < 64; i++)
            EXPECT(data[bytes + (size_t)i] == 0x5a);
    }
    free(data);
    free(want);
}

/* --- memory that ranks share --- */

static clt_status run_memory(comm *c, comm_kind kind, comm_memory *m, const share_case *s)
{
    comm_request *r = NULL;
    CLT_TRY(comm_post(c,
                      &(comm_call){.kind = kind,
                                   .memory = m,
                                   .offset = 64,
                                   .everywhere = true,
                                   .count = s->count,
                                   .grain = s->grain,
                                   .type = s->type},
                      &r));
    comm_request_ready(r, true);
    return comm_request_wait(r);
}

/* A reduce-scatter may change nothing but the rank's own share. */
static void shared(comm *c, void *context)
{
    comm_memory *m = NULL;
    char *given = malloc(LONGEST * 4), *want = malloc(LONGEST * 4);
    (void)context;
    EXPECT(comm_memory_create(c, 128 + LONGEST * 4, &m) == CLT_OK);
    char *own = (char *)comm_memory_own(m) + 64;
    memset(own - 64, 0x5a, 64);
    for (int k = 0; k < CASES; k++) {
        share_case s = case_of(c, k);
        size_t bytes = (size_t)(s.count * s.size), first = (size_t)(s.first * s.size);
        size_t mine = (size_t)(s.length * s.size), behind = first + mine;
        fill(comm_describe(c)->rank, s.count, s.type, given);
        memcpy(own, given, bytes);
        EXPECT(run_memory(c, COMM_ALL_REDUCE, m, &s) == CLT_OK);
        memcpy(want, own, bytes);
        memcpy(own, given, bytes);
        memset(own + bytes, 0x5a, 64);
        EXPECT(run_memory(c, COMM_REDUCE_SCATTER, m, &s) == CLT_OK);
        EXPECT(memcmp(own + first, want + first, mine) == 0);
        EXPECT(memcmp(own, given, first) == 0);
        EXPECT(memcmp(own + behind, given + behind, bytes - behind) == 0);
        EXPECT(run_memory(c, COMM_ALL_GATHER, m, &s) == CLT_OK);
        EXPECT(memcmp(own, want, bytes) == 0);
        for (int i = 0; i < 64; i++)
            EXPECT(own[i - 64] == 0x5a && own[bytes + (size_t)i] == 0x5a);
    }
    comm_request *none = NULL;
    const comm_call far = {.kind = COMM_ALL_GATHER, .memory = m, .offset = 129, .count = LONGEST, .grain = 1};
    EXPECT(comm_post(c, &far, &none) == CLT_EINTERNAL && !none);
    EXPECT(comm_barrier(c) == CLT_OK);
    comm_memory_destroy(m);
    free(given);
    free(want);
}

TEST(on_one_host)
{
    for (int ranks = 1; ranks <= MOST_RANKS; ranks += ranks < 5 ? 1 : 2) {
        (void)run_ranks(ranks, ordinary, NULL);
        (void)run_ranks(ranks, shared, NULL);
    }
}

/* Sums in the order of the tree over the ranks, which hosts of unequal size would not keep. */
static void in_the_order_of_ranks(comm *c, void *context)
{
    EXPECT(comm_set_algorithm(c, "auto", COMM_TREE) == CLT_OK);
    ordinary(c, context);
    shared(c, context);
}

TEST(on_several_hosts)
{
    const char *const places[] = {"aabb", "aaab", "abab", "abbbcc", "abc"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        wire.places = places[i];
        (void)run_ranks((int)strlen(places[i]), ordinary, NULL);
        (void)run_ranks((int)strlen(places[i]), shared, NULL);
        (void)run_ranks((int)strlen(places[i]), in_the_order_of_ranks, NULL);
    }
    wire.places = NULL;
}

/* --- messages --- */

/* context: number of repetitions */
static void both_kinds(comm *c, void *context)
{
    CLT_FREED float *data = calloc(20000, sizeof *data);
    for (int i = 0; i < *(const int *)context; i++) {
        EXPECT(comm_reduce_scatter(c, data, 20000, 1, COMM_F32) == CLT_OK);
        EXPECT(comm_all_gather(c, data, 20000, 1, COMM_F32) == CLT_OK);
    }
}

static int messages_of_both(const char *places)
{
    int sent[2];
    wire.places = places;
    for (int times = 0; times < 2; times++) {
        (void)run_ranks((int)strlen(places), both_kinds, &times);
        sent[times] = messages_sent;
    }
    wire.places = NULL;
    return sent[1] - sent[0];
}

/* Inside a host no message is sent, and between two hosts every share travels once. */
TEST(few_messages_are_sent)
{
    assert_int_equal(messages_of_both("aaaa"), 0);
    assert_int_equal(messages_of_both("aabb"), 2 * 4);
    assert_int_equal(messages_of_both("aaab"), 2 * 4);
    assert_int_equal(messages_of_both("abc"), 2 * 3 * 2);
}

/* --- other collectives --- */

static void other_collectives(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    (void)context;
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

TEST(collectives_on_every_number_of_ranks)
{
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        assert_int_equal(run_ranks(ranks, other_collectives, NULL), ranks);
}
