/* SPDX-License-Identifier: Apache-2.0
 *
 * The bench of a matrix product (cl/gemm_bench/gemm_bench.h) for unit tests: a device whose description a test may
 * change, random numbers, and a check that fails the test when a product is wrong. Knows no backend. */
#ifndef TESTS_UNIT_GEMM_TEST_H
#define TESTS_UNIT_GEMM_TEST_H

#include <math.h>

#include "cl/gemm_bench/gemm_bench.h"
#include "tests/unit/cl/cl_test.h"

typedef struct gemm_test {
    ocl_device *device;
    ocl_device_desc desc; /* used for emitting: tests may remove capabilities */
    bool integers; /* small integers instead of random numbers: sums are exact, so the error must be 0 */
    uint32_t random;
} gemm_test;

static inline int gemm_test_begin(void **state)
{
    gemm_test *test = calloc(1, sizeof *test);
    assert_non_null(test);
    test->device = test_open(false);
    test->desc = *ocl_device_describe(test->device);
    test->random = 2024;
    *state = test;
    return 0;
}

static inline int gemm_test_end(void **state)
{
    CLT_FREED gemm_test *test = *state;
    ocl_device_close(test->device);
    return 0;
}

static inline uint32_t gemm_random(gemm_test *test, uint32_t below)
{
    test->random = test->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)test->random * below) >> 32);
}

/* Numbers in [-1, 1) that depend only on the operand and the position. */
static inline void gemm_values(void *context, int operand, clt_dtype type, size_t first, double *out,
                               size_t n)
{
    const uint32_t *seed = context;
    (void)type;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = ((uint64_t)*seed << 32) + (uint64_t)operand * 0x51ed27 + first + i;
        x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
        out[i] = (double)(x >> 40) * 0x1p-23 - 1.0;
    }
}

/* Creates the operands of a product. In *g references contain only offsets; an optional operand is present if
 * its tensor is set. */
static inline ocl_gemm_bench *gemm_operands(gemm_test *test, const ocl_gemm *g)
{
    ocl_gemm_fill fill = {.values = test->integers ? NULL : gemm_values, .context = &test->random};
    ocl_gemm_bench *bench;
    assert_ok(ocl_gemm_bench_create(test->device, g, &fill, 1, &bench));
    return bench;
}

/* Emits the product's commands; record: a tuning record that must be used, or NULL. */
static inline clt_status gemm_emit(gemm_test *test, ocl_gemm_bench *bench, const char *force,
                                   const ocl_choice *record, ocl_gemm_ready **ready)
{
    ocl_emitter how = {.device = &test->desc, .label = "case", .record = record};
    return ocl_gemm_ready_create(bench, &how, force, ready);
}

/* Reads the buffer of an operand; the caller frees the result. */
static inline void *gemm_read(ocl_gemm_ready *ready, int operand)
{
    uint8_t *out = NULL;
    assert_ok(ocl_gemm_ready_read(ready, operand, &out));
    return out;
}

/* Builds the product if necessary, runs it, checks the guard zones, and compares with the reference. */
static inline void gemm_check(ocl_gemm_ready *ready, const char *who)
{
    char why[300], text[OCL_GEMM_TEXT];
    const ocl_gemm *g = &ready->bench->gemm;
    bool right;
    if (ready->exec == NULL)
        assert_ok(ocl_gemm_ready_build(ready));
    assert_ok(ocl_gemm_ready_check(ready, 0, &right, why, sizeof why));
    if (!right)
        fail_msg("%s ld %lld %lld %lld alpha %g beta %g, %s: %s", ocl_gemm_text(g, text, sizeof text),
                 (long long)g->lda, (long long)g->ldb, (long long)g->ldc, (double)g->alpha, (double)g->beta,
                 who, why);
}

/* C's buffer after a run that was checked; the caller frees it. */
static inline void *gemm_result(gemm_test *test, ocl_gemm_bench *bench, const char *force)
{
    ocl_gemm_ready *ready;
    assert_ok(gemm_emit(test, bench, force, NULL, &ready));
    gemm_check(ready, force ? force : "chosen");
    void *c = gemm_read(ready, OCL_GEMM_C);
    ocl_gemm_ready_destroy(ready);
    return c;
}

/* Checks one product from creation to result. */
static inline void gemm_case(gemm_test *test, ocl_gemm g, const char *force)
{
    ocl_gemm_bench *bench = gemm_operands(test, &g);
    free(gemm_result(test, bench, force));
    ocl_gemm_bench_destroy(bench);
}

#endif
