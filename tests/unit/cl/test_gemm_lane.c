/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `lane`: how it cuts problems into blocks, and that no cut changes a bit: every tile (those of
 * devices with other registers too), every block of k and every way of packing against the double-precision
 * loop and against each other and `simple`; the short list takes one layout of each cut in bf16.
 * ctest-labels: quick ctest-full: all ctest-cost: 12 ctest-optimise: no */
#include "cl/backends/gemm_lane.h"
#include "cl/tune/tuning.h"
#include "tests/unit/cl/gemm_test.h"

static ocl_device_desc cpu(uint32_t vector_floats, uint32_t units)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    desc.is_cpu = true;
    desc.caps |= OCL_CAP_WIDE_VECTORS;
    desc.vector_floats = vector_floats;
    desc.compute_units = units;
    desc.local_bytes = 1 << 20;
    return desc;
}

static const int64_t shapes[][3] = {{512, 512, 512},   {1024, 1024, 1024}, {4096, 4096, 4096},
                                    {256, 2304, 768},  {256, 50257, 768},  {50257, 768, 256},
                                    {256, 768, 50257}, {3, 4, 1},          {7, 5, 100000},
                                    {128, 10, 784},    {100, 100, 0}};

/* What a block needs, counted independently. */
static void check_blocks(const ocl_gemm *g, const ocl_device_desc *desc, const ocl_lane_blocks *b)
{
    int64_t down = (g->m + b->mr - 1) / b->mr, across = (g->n + b->nv * 16 - 1) / (b->nv * 16);
    int64_t blocks = ((down + b->mt - 1) / b->mt) * ((across + b->nt - 1) / b->nt) * g->batch;
    assert_int_equal(b->blocks, blocks);
    assert_true(b->parts >= 1 && b->parts <= b->mt && b->cut <= b->blocks && (b->cut > 0) == (b->parts > 1));
    assert_true(b->kc >= 1 && (b->kc <= 520 || b->kc >= g->k));
    assert_true(ocl_lane_local_bytes(g, b) <= desc->local_bytes);
    bool far_apart = g->ta && g->lda % 1024 == 0; /* columns of A, in whole pages */
    assert_true(b->pack_a || (!far_apart && g->type_a == CLT_F32 && g->m >= b->mr));
    /* sums live across blocks of k */
    assert_true(g->k <= b->kc || ocl_lane_local_bytes(g, b) >= (uint64_t)b->mt * b->nt * b->mr * b->nv * 64);
}

TEST(test_blocks)
{
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            for (int wide = 0; wide < 2; wide++) {
                ocl_device_desc desc = cpu(wide ? 16 : 8, wide ? 64 : 2);
                ocl_gemm g = ocl_gemm_make(shapes[s][0], shapes[s][1], shapes[s][2], layout >> 1, layout & 1);
                ocl_lane_blocks b;
                assert_true(ocl_lane_choose(&g, &desc, NULL, &b));
                check_blocks(&g, &desc, &b);
                assert_int_equal(b.mr, wide ? 8 : 6);
            }
        }
    }
}

/* When the last of `units` cores has finished, in rows of tiles, if each free core takes the next piece. */
static int64_t finish(const ocl_lane_blocks *b, uint32_t units)
{
    int64_t busy[64] = {0}, last = 0;
    uint64_t whole = b->blocks - b->cut, tiles = whole + b->cut * (uint64_t)b->parts;
    for (uint64_t tile = 0; tile < tiles; tile++) {
        uint32_t first = 0;
        for (uint32_t unit = 1; unit < units; unit++)
            first = busy[unit] < busy[first] ? unit : first;
        busy[first] += tile < whole ? b->mt : (b->mt + b->parts - 1) / b->parts;
        last = busy[first] > last ? busy[first] : last;
    }
    return last;
}

/* Large problems keep every core busy until nearly the end. */
TEST(test_shares)
{
    for (uint32_t units = 1; units <= 64; units *= 2) {
        ocl_device_desc desc = cpu(8, units);
        ocl_gemm g = ocl_gemm_make(2048, 2048, 2048, false, true);
        ocl_lane_blocks b;
        assert_true(ocl_lane_choose(&g, &desc, NULL, &b));
        double even = (double)b.blocks * b.mt / units;
        assert_true(b.blocks * (uint64_t)b.parts >= units);
        assert_true((double)finish(&b, units) < 1.15 * even);
    }
}

/* The blocks after the last whole round are cut into pieces, so that they do not keep a single core busy. */
TEST(test_pieces)
{
    ocl_device_desc desc = cpu(8, 2);
    ocl_gemm g = ocl_gemm_make(1200, 768, 3072, true, false);
    ocl_lane_blocks wanted = {.mt = 40, .nt = 16}, b;
    assert_true(ocl_lane_choose(&g, &desc, &wanted, &b));
    assert_int_equal(b.blocks, 15);
    assert_int_equal(b.cut, 2);
    assert_int_equal(b.parts, 2);
    assert_int_equal(finish(&b, 2), 15 * 40 / 2);
}

TEST(test_small_local_memory)
{
    ocl_device_desc desc = cpu(8, 2);
    ocl_gemm g = ocl_gemm_make(512, 512, 4096, true, false);
    ocl_lane_blocks b;
    desc.local_bytes = 128 << 10;
    assert_true(ocl_lane_choose(&g, &desc, NULL, &b));
    check_blocks(&g, &desc, &b);
    desc.local_bytes = 16 << 10;
    assert_false(ocl_lane_choose(&g, &desc, NULL, &b));
    char reason[160] = "";
    assert_false(ocl_gemm_lane.accepts(&g, &desc, reason, sizeof reason));
    assert_non_null(strstr(reason, "local memory"));
}

TEST(test_wanted)
{
    ocl_device_desc desc = cpu(8, 2);
    ocl_gemm g = ocl_gemm_make(512, 512, 700, false, false);
    ocl_lane_blocks wanted = {.mr = 8, .nv = 3, .kc = 192, .mt = 8, .nt = 4, .pack_a = true}, b;
    assert_true(ocl_lane_choose(&g, &desc, &wanted, &b));
    assert_int_equal(b.mr, 8);
    assert_int_equal(b.nv, 3);
    assert_int_equal(b.kc, 176); /* k = 700: 4 blocks of at most 192, in multiples of 8 */
    assert_int_equal(b.mt, 8);
    assert_int_equal(b.nt, 4);
    assert_true(b.pack_a);
}

/* C's buffer after one run with the values of `wanted` (NULL: the backend's own), checked; free() it. */
static void *run(gemm_test *test, ocl_gemm_bench *bench, const char *backend, const ocl_lane_blocks *wanted)
{
    ocl_choice record = {.family = OCL_GEMM_FAMILY};
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    assert_ok(ocl_tuning_create(&test->desc, &tuning));
    if (wanted != NULL) {
        const struct {
            const char *name;
            int value;
        } values[] = {{"mr", wanted->mr}, {"nv", wanted->nv}, {"kc", wanted->kc},
                      {"mt", wanted->mt}, {"nt", wanted->nt}, {"pack_a", wanted->pack_a}};
        snprintf(record.variant, sizeof record.variant, "lane");
        ocl_gemm_problem(&bench->gemm, record.problem, sizeof record.problem);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
            if (values[i].value != 0)
                assert_ok(ocl_choice_set(&record, values[i].name, values[i].value));
        assert_ok(ocl_tuning_set(tuning, &record));
    }
    test->desc.tuning = tuning;
    void *c = gemm_result(test, bench, backend);
    test->desc.tuning = NULL;
    return c;
}

static int begin(void **state)
{
    gemm_test_begin(state);
    gemm_test *test = *state;
    test->desc.caps |= OCL_CAP_WIDE_VECTORS;
    test->desc.tuning = NULL;
    return 0;
}

static const ocl_lane_blocks cuts[] = {
    {.mr = 6, .nv = 1, .kc = 192, .mt = 8, .nt = 4, .pack_a = true}, /* */
    {.mr = 8, .nv = 3, .kc = 192, .mt = 8, .nt = 4},
    {.mr = 14, .nv = 2, .kc = 256},
    {.mr = 12, .nv = 2, .kc = 512, .mt = 64, .nt = 24},
    {.mr = 6, .nv = 1, .mt = 16, .nt = 10}, /* the second piece of the last block has no rows */
};

TEST_BETWEEN(test_cuts_change_no_bit, begin, gemm_test_end)
{
    gemm_test *test = *state;
    if (test->desc.local_bytes < 512 << 10)
        skip();
    for (int layout = 0; layout < 4; layout++) {
        for (int type = 0; type < 2; type++) {
            /* one layout with k beyond a single chain of sums (long_sum.clh) */
            ocl_gemm g = ocl_gemm_make(131, 157, layout == 2 ? 2200 : 403, layout >> 1, layout & 1);
            g.lda += 3;
            g.ldb += 1;
            g.ldc += 2;
            g.beta = 0.5f;
            g.type_a = g.type_c = type ? CLT_BF16 : CLT_F32;
            ocl_gemm_bench *bench = gemm_operands(test, &g);
            void *first = run(test, bench, "lane", NULL);
            size_t bytes = ocl_gemm_array_bytes(&bench->array[OCL_GEMM_C]);
            for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
                if (type && !run_everything && (int)i % 4 != layout)
                    continue;
                CLT_FREED void *other = run(test, bench, "lane", &cuts[i]);
                assert_memory_equal(first, other, bytes);
            }
            if (layout != 1) { /* NT: there `simple` adds partial sums */
                void *other = run(test, bench, "simple", NULL);
                assert_memory_equal(first, other, bytes);
                free(other);
            }
            free(first);
            ocl_gemm_bench_destroy(bench);
        }
    }
}

/* More blocks than tiles: a group takes two at a time, and the last tile may be half full. With beta, a
 * block that is computed twice or never becomes visible. */
TEST_BETWEEN(test_many_blocks, begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm g = ocl_gemm_make(3, 4, 1, false, false);
    g.batch = (1 << 20) + 3;
    g.beta = 0.5f;
    ocl_gemm_bench *bench = gemm_operands(test, &g);
    for (int i = 0; i < 2; i++) /* the counters have their initial values again */
        free(run(test, bench, "lane", NULL));
    ocl_gemm_bench_destroy(bench);
}
