/* SPDX-License-Identifier: Apache-2.0
 *
 * One GEMM against a double-precision loop, for the tests of the GEMM layer: random or small-integer operands
 * of any storage type at odd places of their buffers, C full of NaN where it must not be read, and every byte
 * of C's buffer that is not an element of C checked bitwise. It knows the contract of cl/gemm/gemm.h and no
 * backend. */
#ifndef TESTS_UNIT_GEMM_TEST_H
#define TESTS_UNIT_GEMM_TEST_H

#include <math.h>

#include "cl/gemm/gemm.h"
#include "tests/unit/cl/cl_test.h"

enum { GEMM_A, GEMM_B, GEMM_C, GEMM_BIAS, GEMM_RESIDUAL, GEMM_OPERANDS };
#define GEMM_GUARD 64 /* elements kept free on both sides of an operand */

typedef struct gemm_operand {
    clt_dtype type;
    uint64_t elements; /* of the buffer, guards included */
    uint64_t first;    /* element of the buffer where the operand starts */
    double *value;     /* what the storage holds, per element of the buffer */
    void *image;       /* storage bytes before the call */
} gemm_operand;

typedef struct gemm_bench {
    ocl_device *device;
    ocl_device_desc desc; /* what emission sees: tests take capabilities away */
    bool integers; /* small integers instead of random numbers: sums are exact and the error must be 0 */
    uint32_t random;
    double worst; /* largest error over its bound, of the last case */
} gemm_bench;

static inline uint32_t gemm_random(gemm_bench *bench, uint32_t below)
{
    bench->random = bench->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)bench->random * below) >> 32);
}

static inline double gemm_stored(clt_dtype type, void *image, uint64_t index, double value)
{
    float f = (float)value;
    if (type == CLT_F32) {
        ((float *)image)[index] = f;
        return (double)f;
    }
    uint16_t h = type == CLT_F16 ? clt_f32_to_f16(f) : clt_f32_to_bf16(f);
    ((uint16_t *)image)[index] = h;
    return (double)(type == CLT_F16 ? clt_f16_to_f32(h) : clt_bf16_to_f32(h));
}

static inline double gemm_loaded(clt_dtype type, const void *image, uint64_t index)
{
    if (type == CLT_F32)
        return (double)((const float *)image)[index];
    uint16_t h = ((const uint16_t *)image)[index];
    return (double)(type == CLT_F16 ? clt_f16_to_f32(h) : clt_bf16_to_f32(h));
}

/* Every element of the buffer gets a value: a read at a wrong place finds a plausible number, not zeros. */
static inline void gemm_fill(gemm_bench *bench, gemm_operand *o, clt_dtype type, uint64_t first,
                             uint64_t span, bool nan)
{
    o->type = type;
    o->first = GEMM_GUARD + first;
    o->elements = o->first + span + GEMM_GUARD;
    o->value = malloc(o->elements * sizeof *o->value);
    o->image = malloc(o->elements * clt_dtype_bytes(type));
    assert_non_null(o->value);
    assert_non_null(o->image);
    for (uint64_t i = 0; i < o->elements; i++) {
        double v = bench->integers ? (double)gemm_random(bench, 3) - 1.0
                                   : (double)gemm_random(bench, 4001) / 2000.0 - 1.0;
        o->value[i] = gemm_stored(type, o->image, i, nan ? (double)NAN : v);
    }
}

static inline double gemm_activation(ocl_activation activation, double x)
{
    switch (activation) {
    case OCL_ACT_NONE:
        return x;
    case OCL_ACT_RELU:
        return x < 0.0 ? 0.0 : x;
    case OCL_ACT_GELU_ERF:
        return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
    case OCL_ACT_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    }
    return NAN;
}

/* The value of C(i,j) of item z, and what rounding may add: k+8 roundings of f32, the activation's own error,
 * one rounding to storage. */
/* How far storing takes a value. */
static inline double gemm_rounding(clt_dtype type, double v)
{
    return type == CLT_F32 ? 0.0 : type == CLT_F16 ? 0x1p-11 * fabs(v) + 0x1p-25 : 0x1p-8 * fabs(v);
}

static inline double gemm_expect(const gemm_bench *bench, const ocl_gemm *g, const gemm_operand *o, int64_t z,
                                 int64_t i, int64_t j, uint64_t at, double *bound)
{
    const double eps = 0x1p-24;
    const double *a = o[GEMM_A].value + o[GEMM_A].first + z * g->stride_a;
    const double *b = o[GEMM_B].value + o[GEMM_B].first + z * g->stride_b;
    int64_t a_base = g->ta ? i : i * g->lda, a_step = g->ta ? g->lda : 1;
    int64_t b_base = g->tb ? j * g->ldb : j, b_step = g->tb ? 1 : g->ldb;
    double sum = 0.0, size = 0.0;
    for (int64_t p = 0; p < g->k; p++) {
        double product = a[a_base + p * a_step] * b[b_base + p * b_step];
        sum += product;
        size += fabs(product);
    }
    double v = (double)g->alpha * sum;
    size *= fabs((double)g->alpha);
    if (g->beta != 0.0f) {
        double old = (double)g->beta * o[GEMM_C].value[at];
        v += old;
        size += fabs(old);
    }
    if (g->bias.tensor != OCL_NO_TENSOR_ID) {
        double bias = o[GEMM_BIAS].value[o[GEMM_BIAS].first + (uint64_t)j];
        v += bias;
        size += fabs(bias);
    }
    double extra = g->activation > OCL_ACT_RELU ? 16.0 * eps * (fabs(v) + 1e-3) : 0.0;
    if (g->activation != OCL_ACT_NONE) /* starts from the value as it is stored; slopes reach 1.13 */
        extra += 1.13 * gemm_rounding(g->type_c, v);
    v = gemm_activation(g->activation, v);
    if (g->residual.tensor == GEMM_RESIDUAL)
        v += o[GEMM_RESIDUAL].value[o[GEMM_RESIDUAL].first + at - o[GEMM_C].first];
    else if (g->residual.tensor == GEMM_C)
        v += o[GEMM_C].value[at];
    size += fabs(v);
    *bound = bench->integers
                 ? 0.0
                 : 1.25 * (eps * (double)(g->k + 8) * size + extra) + 1.01 * gemm_rounding(g->type_c, v);
    return v;
}

static inline void gemm_describe(const ocl_gemm *g, char *text, size_t size)
{
    char base[OCL_GEMM_TEXT];
    snprintf(text, size,
             "%s ld %lld %lld %lld strides %lld %lld %lld offsets %llu %llu %llu alpha %g beta %g act %d "
             "bias %d residual %d",
             ocl_gemm_text(g, base, sizeof base), (long long)g->lda, (long long)g->ldb, (long long)g->ldc,
             (long long)g->stride_a, (long long)g->stride_b, (long long)g->stride_c,
             (unsigned long long)g->a.offset, (unsigned long long)g->b.offset,
             (unsigned long long)g->c.offset, (double)g->alpha, (double)g->beta, (int)g->activation,
             (int)g->bias.tensor, (int)g->residual.tensor);
}

/* Which elements of C's buffer the call owns. */
static inline uint8_t *gemm_mask(const ocl_gemm *g, const gemm_operand *c)
{
    uint8_t *mask = calloc(c->elements, 1);
    assert_non_null(mask);
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            memset(mask + c->first + (uint64_t)(z * g->stride_c + i * g->ldc), 1, (size_t)g->n);
    return mask;
}

static inline void gemm_compare(gemm_bench *bench, const ocl_gemm *g, const gemm_operand *o,
                                const void *after, const char *who)
{
    const gemm_operand *c = &o[GEMM_C];
    size_t bytes = clt_dtype_bytes(c->type);
    char text[512];
    uint8_t *mask = gemm_mask(g, c);
    gemm_describe(g, text, sizeof text);
    for (uint64_t e = 0; e < c->elements; e++)
        if (!mask[e] &&
            memcmp((const char *)after + e * bytes, (const char *)c->image + e * bytes, bytes) != 0)
            fail_msg("%s, %s: element %lld of C's memory is not C's and was written", text, who,
                     (long long)e - (long long)c->first);
    free(mask);
    bench->worst = 0.0;
    for (int64_t z = 0; z < g->batch; z++) {
        for (int64_t i = 0; i < g->m; i++) {
            for (int64_t j = 0; j < g->n; j++) {
                uint64_t at = c->first + (uint64_t)(z * g->stride_c + i * g->ldc + j);
                double bound, want = gemm_expect(bench, g, o, z, i, j, at, &bound),
                              got = gemm_loaded(c->type, after, at);
                double error = fabs(got - want);
                if (!(error <= bound))
                    fail_msg("%s, %s: C[%lld](%lld,%lld) is %.9g and must be %.9g +- %.3g", text, who,
                             (long long)z, (long long)i, (long long)j, got, want, bound);
                if (bound > 0.0 && error / bound > bench->worst)
                    bench->worst = error / bound;
            }
        }
    }
}

/* Emits and runs `times` times on fresh memory; *commands (may be NULL) receives how many commands were
 * emitted. Returns the status of emission; anything later must succeed. *after, if not NULL, receives C's
 * buffer (free() it). */
static inline clt_status gemm_execute(gemm_bench *bench, const ocl_gemm *g, const gemm_operand *o,
                                      const char *force, size_t *commands, void **after)
{
    test_tensors tensors = {{NULL}, {0}};
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &bench->desc, .label = "case"};
    ocl_exec_options options = {.resolve = test_resolve, .resolve_context = &tensors};
    ocl_exec *exec = NULL;
    assert_ok(clt_arena_create(&list.arena));
    clt_status status = ocl_gemm_emit(&e, g, force);
    *after = NULL;
    if (status == CLT_OK) {
        for (int i = 0; i < GEMM_OPERANDS; i++) {
            uint64_t bytes = o[i].elements * clt_dtype_bytes(o[i].type);
            if (o[i].elements == 0)
                continue;
            assert_ok(ocl_buffer_create(bench->device, bytes, "operand", &tensors.buffer[i]));
            assert_ok(ocl_write(tensors.buffer[i], 0, o[i].image, bytes));
            tensors.offset[i] = GEMM_GUARD * clt_dtype_bytes(o[i].type);
        }
        assert_ok(ocl_exec_create(bench->device, &list, &options, &exec));
        assert_ok(ocl_exec_run(exec, NULL));
        uint64_t bytes = o[GEMM_C].elements * clt_dtype_bytes(o[GEMM_C].type);
        *after = malloc(bytes);
        assert_non_null(*after);
        assert_ok(ocl_read(tensors.buffer[GEMM_C], 0, *after, bytes));
    }
    if (commands != NULL)
        *commands = list.count;
    for (int i = 0; i < GEMM_OPERANDS; i++)
        ocl_buffer_destroy(tensors.buffer[i]);
    ocl_exec_destroy(exec);
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    return status;
}

/* Operands for a problem whose refs hold offsets only; sets the tensor ids. */
static inline void gemm_operands(gemm_bench *bench, ocl_gemm *g, gemm_operand o[GEMM_OPERANDS])
{
    int64_t a, b, c;
    assert_true(ocl_gemm_spans(g, &a, &b, &c));
    memset(o, 0, GEMM_OPERANDS * sizeof *o);
    g->a.tensor = GEMM_A;
    g->b.tensor = GEMM_B;
    g->c.tensor = GEMM_C;
    bool read_c = g->beta != 0.0f || g->residual.tensor == GEMM_C;
    gemm_fill(bench, &o[GEMM_A], g->type_a, g->a.offset / clt_dtype_bytes(g->type_a), (uint64_t)a, false);
    gemm_fill(bench, &o[GEMM_B], g->type_b, g->b.offset / clt_dtype_bytes(g->type_b), (uint64_t)b, false);
    gemm_fill(bench, &o[GEMM_C], g->type_c, g->c.offset / clt_dtype_bytes(g->type_c), (uint64_t)c, !read_c);
    if (g->bias.tensor == GEMM_BIAS)
        gemm_fill(bench, &o[GEMM_BIAS], CLT_F32, g->bias.offset / 4, (uint64_t)g->n, false);
    if (g->residual.tensor == GEMM_RESIDUAL)
        gemm_fill(bench, &o[GEMM_RESIDUAL], g->type_c, g->residual.offset / clt_dtype_bytes(g->type_c),
                  (uint64_t)c, false);
}

static inline void gemm_free(gemm_operand o[GEMM_OPERANDS])
{
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        free(o[i].value);
        free(o[i].image);
    }
}

/* The whole check. Returns the status of emission: CLT_EUNSUPPORTED when the forced backend refuses. */
static inline clt_status gemm_case(gemm_bench *bench, ocl_gemm g, const char *force)
{
    gemm_operand o[GEMM_OPERANDS];
    void *after;
    gemm_operands(bench, &g, o);
    clt_status status = gemm_execute(bench, &g, o, force, NULL, &after);
    if (status == CLT_OK)
        gemm_compare(bench, &g, o, after, force ? force : "chosen");
    free(after);
    gemm_free(o);
    return status;
}

#endif
