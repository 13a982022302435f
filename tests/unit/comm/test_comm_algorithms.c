/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Algorithms of all-reduces, and sums in memory that ranks share, on one host and on several. */
#include "tests/unit/comm/thread_ranks.h"

#include "engine/config/choices.h"

/* --- algorithms --- */

/* Every algorithm that can be used gives the bits of the tree, except the ring, which adds in another
 * order; guards around the data stay as they were. */
static void check_algorithm(comm *c, const comm_algorithm *algorithm, comm_type type)
{
    const comm_info *info = comm_describe(c);
    int64_t size = comm_type_bytes(type);
    static _Thread_local char data[20000 * 4 + 128], want[20000 * 4];
    bool ring = strcmp(algorithm->name, "ring") == 0;
    for (size_t k = 0; k < COUNTS; k++) {
        int64_t count = counts[k];
        memset(data, 0x5a, sizeof data);
        fill(info->rank, count, type, data + 64);
        expected(info->ranks, count, type, want);
        c->algorithm = algorithm;
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
    c->algorithm = NULL;
}

static void all_ways(comm *c, void *context)
{
    const comm_type types[] = {COMM_F32, COMM_F16, COMM_BF16};
    int *tried = context;
    for (size_t i = 0; comm_algorithm_at(i); i++)
        for (int t = 0; t < 3; t++)
            if (!comm_algorithm_at(i)->unsuited(c, types[t], COMM_SUM)) {
                check_algorithm(c, comm_algorithm_at(i), types[t]);
                if (comm_describe(c)->rank == 0)
                    ++*tried;
            }
}

TEST(ways_give_the_same_sums)
{
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int tried = 0;
        (void)run_ranks(ranks, all_ways, &tried);
        /* tree, ring and three of slices; halving for powers of two; nodes would need processes that can
         * open each other's files */
        assert_true(tried >= 5 + !(ranks & (ranks - 1)));
    }
}

static void ways_by_name(comm *c, void *context)
{
    double seconds[16];
    (void)context;
    EXPECT(comm_set_algorithm(c, "ring", COMM_ANY_ORDER) == CLT_OK &&
           strcmp(comm_chosen_algorithm(c), "ring") == 0);
    EXPECT(comm_set_algorithm(c, "halving", COMM_ANY_ORDER) == CLT_ECONFIG); /* three ranks */
    EXPECT(strstr(clt_error_text(), "power of two") && strstr(clt_error_text(), "slices"));
    EXPECT(comm_set_algorithm(c, "telepathy", COMM_ANY_ORDER) == CLT_ECONFIG);
    EXPECT(strcmp(comm_chosen_algorithm(c), "ring") == 0);
    EXPECT(comm_set_algorithm(c, "auto", COMM_ANY_ORDER) == CLT_OK);
    EXPECT(comm_measure_algorithms(c, 40000, COMM_F32, seconds, 16) == CLT_OK);
    int measured = 0;
    for (size_t i = 0; comm_algorithm_name(i); i++)
        measured += seconds[i] > 0;
    EXPECT(measured >= 3);
    EXPECT(comm_check_equal(c, comm_chosen_algorithm(c), (int64_t)strlen(comm_chosen_algorithm(c)),
                            "the algorithm") == CLT_OK);
}

/* Three ranks: on one host, nodes adds in the order of the tree; on two hosts with 2 and 1 ranks it does
 * not. */
static void ways_by_order(comm *c, void *context)
{
    const bool even = !context;
    double seconds[16];
    EXPECT(comm_set_algorithm(c, "native", COMM_ANY_ORDER) == CLT_ECONFIG); /* this transport has none */
    EXPECT(comm_set_algorithm(c, "ring", COMM_REPEATED) == CLT_OK);
    EXPECT(comm_set_algorithm(c, "ring", COMM_TREE) == CLT_ECONFIG &&
           strstr(clt_error_text(), "rank_invariant"));
    EXPECT(strstr(clt_error_text(), "slices") && !strstr(clt_error_text(), ", ring"));
    EXPECT((comm_set_algorithm(c, "nodes", COMM_TREE) == CLT_OK) == even);
    EXPECT(comm_set_algorithm(c, "auto", COMM_TREE) == CLT_OK);
    EXPECT(strcmp(comm_chosen_algorithm(c), even ? "nodes" : "slices") == 0);
    for (int order = COMM_REPEATED; order <= COMM_TREE; order++) {
        EXPECT(comm_set_algorithm(c, "auto", (comm_order)order) == CLT_OK);
        EXPECT(comm_measure_algorithms(c, 40000, COMM_BF16, seconds, 16) == CLT_OK);
        int measured = 0;
        for (size_t i = 0; comm_algorithm_name(i); i++) {
            EXPECT(seconds[i] == 0 || strcmp(comm_algorithm_name(i), "ring") != 0);
            measured += seconds[i] > 0;
        }
        /* with 16 bits: slices, and nodes where it is allowed */
        EXPECT(measured == (even ? 2 : order == COMM_TREE ? 1 : 0));
    }
    EXPECT(comm_set_algorithm(c, "auto", COMM_REPEATED) == CLT_OK);
    EXPECT(strcmp(comm_chosen_algorithm(c), "nodes") == 0);
}

TEST(ways_are_asked_for_or_measured)
{
    (void)run_ranks(3, ways_by_name, NULL);
    (void)run_ranks(3, ways_by_order, NULL);
    wire.places = "aab";
    (void)run_ranks(3, ways_by_order, (void *)(uintptr_t)wire.places);
    wire.places = NULL;
}

#define CLT_WORD_OF_WAY(id, word) word,
/* parallel.allreduce has a word for each of them, and "auto". */
TEST(the_config_knows_every_way)
{
    static const char *const words[] = {CLT_ALLREDUCES(CLT_WORD_OF_WAY)};
    assert_string_equal(words[0], "auto");
    size_t algorithms = 0;
    for (; comm_algorithm_name(algorithms); algorithms++)
        assert_string_equal(words[1 + algorithms], comm_algorithm_name(algorithms));
    assert_int_equal(algorithms + 1, sizeof words / sizeof words[0]);
}

/* --- sums in memory that ranks share --- */

static void note_end(void *context, bool ok)
{
    atomic_fetch_add((atomic_int *)context, ok ? 1 : 100);
}

/* Checks the result of a call: the sum, slice by slice, or the whole sum in this rank's own memory. */
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

/* Every count and type, with guards around the data; two memories in turn. */
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

TEST(sums_in_shared_memory)
{
    int everywhere;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        (void)run_ranks(ranks, memory_sums, NULL);
        (void)run_ranks(ranks, memory_sums, &everywhere);
    }
}

/* --- several hosts --- */

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

/* More pieces than slots in shared memory: all ranks of a host must meet in the same order, including ranks
 * that send nothing. */
static void long_sum_over_hosts(comm *c, const void *places)
{
    enum { COUNT = 3700001 }; /* pieces are 2 MiB, and there are six slots */
    float *own = malloc(COUNT * sizeof *own), *want = malloc(COUNT * sizeof *want);
    EXPECT(own && want);
    expected_of_hosts((void *)(uintptr_t)places, COUNT, COMM_F32, want);
    fill(comm_describe(c)->rank, COUNT, COMM_F32, own);
    EXPECT(comm_all_reduce(c, own, COUNT, COMM_F32, COMM_SUM) == CLT_OK);
    EXPECT(memcmp(own, want, COUNT * sizeof *own) == 0);
    free(own);
    free(want);
}

/* Long data of two pieces, and short data; ordinary and shared memory. */
static void sum_over_hosts(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    const int64_t sizes[] = {1, 700, 700001};
    const comm_type types[] = {COMM_F32, COMM_BF16, COMM_F16};
    comm_memory *memory[3] = {NULL, NULL, NULL};
    placed_sum s = {.own = malloc(700001 * 4), .want = malloc(700001 * 4)};
    EXPECT(comm_set_algorithm(c, "nodes", COMM_ANY_ORDER) == CLT_OK);
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
    long_sum_over_hosts(c, context);
    EXPECT(comm_barrier(c) == CLT_OK);
    for (int i = 0; i < 3; i++)
        comm_memory_destroy(memory[i]);
    free(s.own);
    free(s.want);
}

TEST(hosts_of_any_shape)
{
    const char *const places[] = {"aabb", "aaab", "abab", "aabcc", "abbbbcc"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        wire.places = places[i];
        (void)run_ranks((int)strlen(places[i]), sum_over_hosts, (void *)(uintptr_t)places[i]);
    }
    wire.places = NULL;
}

/* A group that must keep the order of the tree ignores hosts. */
static void tree_over_hosts(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    comm_memory *memory = NULL;
    placed_sum s = {.count = 20000, .type = COMM_F32, .own = malloc(20000 * 4), .want = malloc(20000 * 4)};
    (void)context;
    EXPECT(comm_set_algorithm(c, "auto", COMM_TREE) == CLT_OK);
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

TEST(the_tree_is_kept)
{
    const char *const places[] = {"aaaa", "aabb", "aaab", "abab", "abbbbccc", "abcd"};
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
    EXPECT(comm_set_algorithm(c, "nodes", COMM_ANY_ORDER) == CLT_ECONFIG);
    EXPECT(comm_set_algorithm(c, "slices", COMM_ANY_ORDER) == CLT_OK);
    fill(info->rank, 700001, COMM_F32, data);
    expected_of_hosts(context, 700001, COMM_F32, want);
    EXPECT(comm_all_reduce(c, data, 700001, COMM_F32, COMM_SUM) == CLT_OK);
    EXPECT(memcmp(data, want, 700001 * sizeof *data) == 0);
    free(data);
    free(want);
}

TEST(a_host_for_each_rank)
{
    wire.places = "abc";
    (void)run_ranks(3, far_apart, (void *)(uintptr_t)wire.places);
    wire.places = NULL;
}

/* Sums of two hosts with two ranks each, in bf16 between the hosts: rounded once on each host, and once
 * more after that. */
static void rounded_twice(comm *c, void *context)
{
    enum { COUNT = 20000 };
    static _Thread_local uint16_t data[COUNT], want[COUNT];
    const comm_info *info = comm_describe(c);
    int64_t first, length;
    int *differ = context, exact = 0;
    EXPECT(comm_set_algorithm(c, "nodes", COMM_ANY_ORDER) == CLT_OK);
    comm_set_half_between(c, true);
    expected(info->ranks, COUNT, COMM_BF16, data);
    for (int i = 0; i < COUNT; i++) {
        float host[2];
        for (int h = 0; h < 2; h++)
            host[h] =
                clt_bf16_to_f32(clt_f32_to_bf16(clt_bf16_to_f32(clt_f32_to_bf16(value_of(2 * h, i))) +
                                                clt_bf16_to_f32(clt_f32_to_bf16(value_of(2 * h + 1, i)))));
        want[i] = clt_f32_to_bf16(host[0] + host[1]);
        exact += want[i] == data[i];
    }
    fill(info->rank, COUNT, COMM_BF16, data);
    EXPECT(comm_all_reduce(c, data, COUNT, COMM_BF16, COMM_SUM) == CLT_OK);
    EXPECT(memcmp(data, want, sizeof data) == 0);
    comm_share(COUNT, 16, info->ranks, info->rank, &first, &length);
    fill(info->rank, COUNT, COMM_BF16, data);
    EXPECT(comm_reduce_scatter(c, data, COUNT, 16, COMM_BF16) == CLT_OK);
    EXPECT(memcmp(data + first, want + first, (size_t)length * sizeof *data) == 0);
    if (info->rank == 0)
        *differ = COUNT - exact;
}

TEST(half_types_travel_between_hosts)
{
    int differ = 0;
    wire.places = "aabb";
    (void)run_ranks(4, rounded_twice, &differ);
    wire.places = NULL;
    assert_true(differ > 0); /* the sum differs from the one that is rounded once */
}

/* Data longer than a message is sent in several messages; the pieces and turns of other algorithms are
 * never that long. */
static void long_data(comm *c, void *context)
{
    static const char *const names[] = {"tree", "ring", "halving"};
    const comm_info *info = comm_describe(c);
    static _Thread_local float data[20000], want[20000];
    (void)context;
    expected(info->ranks, 20000, COMM_F32, want);
    for (int w = 0; w < 3; w++) {
        fill(info->rank, 20000, COMM_F32, data);
        EXPECT(comm_set_algorithm(c, names[w], COMM_ANY_ORDER) == CLT_OK);
        EXPECT(comm_all_reduce(c, data, 20000, COMM_F32, COMM_SUM) == CLT_OK);
        for (int i = 0; i < 20000; i++)
            EXPECT(data[i] - want[i] < 1e-7f && want[i] - data[i] < 1e-7f);
    }
    fill(info->rank, 20000, COMM_F32, data);
    EXPECT(comm_broadcast(c, data, sizeof data, 1) == CLT_OK);
    fill(1, 20000, COMM_F32, want);
    EXPECT(memcmp(data, want, sizeof data) == 0);
}

TEST(long_data_goes_in_several_messages)
{
    (void)run_ranks(4, long_data, NULL);
    int whole = messages_sent;
    wire_most = 1001; /* not a multiple of the element size */
    (void)run_ranks(4, long_data, NULL);
    wire_most = (int64_t)1 << 30;
    assert_true(messages_sent > 10 * whole);
}
