/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox against the published known answers of Random123, the stream layout, the normals, and the keyed
 * shuffle. Knows only engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/rng.c" /* functions for each instruction set are static */
#include "engine/base/scope.h"

TEST(test_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        clt_philox4x32(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
        /* The output may be the counter. */
        memcpy(out, cases[i].counter, sizeof out);
        clt_philox4x32(out, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

TEST(test_stream_layout)
{
    /* The third known answer, reached through the stream's fields. */
    uint32_t out[4];
    clt_rng_block(UINT64_C(0x299f31d0a4093822), (clt_rng_purpose)0x03, 0x707344, 0x13198a2e,
                  UINT64_C(0x85a308d3243f6a88), out);
    assert_int_equal(out[0], 0xd16cfe09);
    assert_int_equal(out[3], 0x24126ea1);
    for (uint64_t i = 0; i < 40; i++) {
        clt_rng_block(9, CLT_RNG_INIT, 5, 0, i / 4, out);
        assert_int_equal(clt_rng_u32(9, CLT_RNG_INIT, 5, 0, i), out[i % 4]);
    }
    /* Each field matters. */
    uint32_t base = clt_rng_u32(1, CLT_RNG_DROPOUT, 2, 3, 4);
    assert_int_not_equal(base, clt_rng_u32(2, CLT_RNG_DROPOUT, 2, 3, 4));
    assert_int_not_equal(base, clt_rng_u32(1 + (UINT64_C(1) << 32), CLT_RNG_DROPOUT, 2, 3, 4));
    assert_int_not_equal(base, clt_rng_u32(1, CLT_RNG_DATA, 2, 3, 4));
    assert_int_not_equal(base, clt_rng_u32(1, CLT_RNG_DROPOUT, 3, 3, 4));
    assert_int_not_equal(base, clt_rng_u32(1, CLT_RNG_DROPOUT, 2, 4, 4));
    assert_int_not_equal(base, clt_rng_u32(1, CLT_RNG_DROPOUT, 2, 3, 5));
}

TEST(test_uniform)
{
    assert_true(clt_rng_uniform(0) == 0.0f);
    assert_true(clt_rng_uniform(255) == 0.0f);
    assert_true(clt_rng_uniform(256) == 0x1p-24f);
    assert_true(clt_rng_uniform(0x80000000u) == 0.5f);
    assert_true(clt_rng_uniform(0xffffffffu) == 1.0f - 0x1p-24f);
}

TEST(test_normal)
{
    enum { COUNT = 100000 };
    double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, lag = 0, before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = clt_rng_normal(11, CLT_RNG_INIT, 1, 0, i);
        assert_true(isfinite(x));
        sum += x;
        sum2 += x * x;
        sum3 += x * x * x;
        sum4 += x * x * x * x;
        lag += x * before;
        before = x;
    }
    /* Five standard errors: 1/sqrt(n) times 1, sqrt 2, sqrt 15, sqrt 96, 1. */
    double error = 5 / sqrt(COUNT);
    assert_true(fabs(sum / COUNT) < error);
    assert_true(fabs(sum2 / COUNT - 1) < error * sqrt(2));
    assert_true(fabs(sum3 / COUNT) < error * sqrt(15));
    assert_true(fabs(sum4 / COUNT - 3) < error * sqrt(96));
    assert_true(fabs(lag / COUNT) < error);
    /* Words 2k and 2k+1, nothing else. */
    for (uint64_t k = 0; k < COUNT; k++) {
        double u = (clt_rng_u32(7, CLT_RNG_DATA, 3, 2, 2 * k) + 1.0) / 4294967296.0;
        double v = clt_rng_u32(7, CLT_RNG_DATA, 3, 2, 2 * k + 1) / 4294967296.0;
        double expected = sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v);
        assert_true(fabs(clt_rng_normal(7, CLT_RNG_DATA, 3, 2, k) - expected) < 4e-15);
    }
}

/* A range is the same numbers one by one, wherever it begins and ends. */
TEST(test_fill_normal)
{
    static const uint64_t ranges[][2] = {{0, 1},     {1, 2},     {1, 130},     {0, 128},
                                         {127, 129}, {77, 1000}, {1000, 1000}, {1501, 1999}};
    static float out[2001];
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint64_t first = ranges[i][0], last = ranges[i][1];
        memset(out, 0xff, sizeof out);
        clt_rng_fill_normal(5, CLT_RNG_INIT, 9, 4, first, last, 0.02, out);
        for (uint64_t k = 0; k < sizeof out / sizeof out[0]; k++)
            if (k >= first && k < last)
                assert_true(out[k] == (float)(0.02 * clt_rng_normal(5, CLT_RNG_INIT, 9, 4, k)));
            else
                assert_true(isnan(out[k]));
    }
}

TEST(test_normals_of_instruction_sets)
{
    normals_fn made[3] = {normals_any};
    int n = 1;
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("avx2"))
        made[n++] = normals_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        made[n++] = normals_avx512;
#endif
    for (int k = 0; k < n; k++)
        for (uint64_t i = 0; i < 20; i++) {
            normal_stream stream = {{11, 12 + (uint32_t)i}, {3, CLT_RNG_INIT << 24 | 9}, 0.5};
            uint64_t block = i << 29 | (i % 3 ? 0xffffffc1u : 5); /* across the end of the lower half */
            float out[2 * NORMAL_BLOCKS];
            made[k](&stream, block, out);
            for (uint64_t e = 0; e < 2 * NORMAL_BLOCKS; e++)
                assert_true(out[e] == (float)(0.5 * clt_rng_normal(11 | (12 + i) << 32, CLT_RNG_INIT, 9, 3,
                                                                   2 * block + e)));
        }
}

TEST(test_permute_is_bijection)
{
    static const uint64_t more[] = {255, 256, 257, 1000, 1023, 1024, 1025, 4097, 60000, 65535, 65536, 65537};
    uint64_t sizes[80 + sizeof more / sizeof more[0]], count = 0;
    for (uint64_t n = 1; n <= 80; n++)
        sizes[count++] = n;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        sizes[count++] = more[i];
    for (size_t i = 0; i < count; i++) {
        uint64_t n = sizes[i];
        uint64_t seed = i * UINT64_C(0x9e3779b97f4a7c15);
        CLT_FREED bool *seen = calloc(n, sizeof *seen);
        assert_non_null(seen);
        for (uint64_t position = 0; position < n; position++) {
            uint64_t index = clt_permute(position, n, seed, (uint32_t)i);
            assert_true(index < n);
            assert_false(seen[index]);
            seen[index] = true;
        }
    }
    assert_int_equal(clt_permute(0, 0, 1, 1), 0);
}

TEST(test_permute_changes)
{
    enum { N = 1000 };
    /* A random permutation keeps one position on average; another epoch agrees with it in one place on
     * average. */
    int fixed = 0, epoch_same = 0, seed_same = 0, neighbours = 0;
    uint64_t last = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t here = clt_permute(i, N, 42, 0);
        assert_true(here == clt_permute(i, N, 42, 0));
        fixed += here == i;
        epoch_same += here == clt_permute(i, N, 42, 1);
        seed_same += here == clt_permute(i, N, 43, 0);
        neighbours += i > 0 && here == last + 1;
        last = here;
    }
    assert_true(fixed < 10 && epoch_same < 10 && seed_same < 10 && neighbours < 10);
}

/* Where position 0 of a small set goes, over many epochs: every index about as often (chi square, n-1
 * degrees). */
TEST(test_permute_is_even)
{
    static const uint64_t sizes[] = {2, 3, 5, 7, 10, 64, 100};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t n = sizes[s];
        int count[100] = {0};
        int trials = 200 * (int)n;
        for (int epoch = 0; epoch < trials; epoch++)
            count[clt_permute(n / 2, n, 1234, (uint32_t)epoch)]++;
        double chi2 = 0;
        for (uint64_t i = 0; i < n; i++)
            chi2 += (count[i] - 200.0) * (count[i] - 200.0) / 200.0;
        double degrees = (double)n - 1;
        assert_true(chi2 < degrees + 5 * sqrt(2 * degrees) + 5);
    }
    /* All six orders of three. */
    int orders[27] = {0};
    for (uint32_t epoch = 0; epoch < 1200; epoch++)
        orders[clt_permute(0, 3, 5, epoch) * 9 + clt_permute(1, 3, 5, epoch) * 3 +
               clt_permute(2, 3, 5, epoch)]++;
    int kinds = 0;
    for (int i = 0; i < 27; i++)
        if (orders[i]) {
            kinds++;
            assert_in_range(orders[i], 130, 270);
        }
    assert_int_equal(kinds, 6);
}

TEST(test_permute_large)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) + 1, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t seen[64];
        for (uint64_t i = 0; i < 64; i++) {
            seen[i] = clt_permute(i < 32 ? i : sizes[s] - 1 - (i - 32), sizes[s], 8, 2);
            assert_true(seen[i] < sizes[s]);
            for (uint64_t j = 0; j < i; j++)
                assert_true(seen[i] != seen[j]);
        }
    }
}
