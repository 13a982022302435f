/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures one matrix product for the tuner: shrinks the problem, creates operands and a reference result,
 * times and checks candidates. This file must not know which candidate is better. */
#include "cl/gemm/gemm_windows.h"
#include "cl/gemm_bench/gemm_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"

#define MAX_COPIES 128 /* for GPUs; CPUs use fewer */
#define MAX_COPIES_CPU 32
#define MAX_BYTES (256u << 20) /* largest size of all operands of a product */
#define FLOPS_PER_UNIT 2e9     /* flops of the largest problem that is measured, per compute unit */
/* up to this many flops the host computes the whole reference, so that no kernel need be built */
#define HOST_FLOPS 1e8
#define CHECKED 64 /* number of elements that the host checks in a larger reference */

typedef struct tune_bench {
    ocl_gemm_bench *bench;
    ocl_gemm full;
    double scale;           /* work of the full problem divided by the work of the measured one */
    uint8_t *want[2], *got; /* references and results of C and pre */
} tune_bench;

/* The operands that a product writes. */
static const int results[2] = {OCL_GEMM_C, OCL_GEMM_PRE};

/* --- the problem that is measured --- */

/* Whether a size can be halved: a matrix of windows may have fewer rows (pixels), but its columns are
 * fixed. */
static bool can_halve(const ocl_gemm *g, char size)
{
    int64_t value = size == 'm' ? g->m : size == 'n' ? g->n : g->k;
    return value > 1 && !(ocl_is_windows(g, true) && size == 'k') &&
           !(ocl_is_windows(g, false) && size == 'n');
}

/* Adapts the size of the image to the number of rows. */
static void resize_image(ocl_windows *w, int64_t rows)
{
    int64_t places = w->out[0] * w->out[1] * w->out[2], images = (rows + places - 1) / places;
    w->elements = images * w->in[0] * w->in[1] * w->in[2] * w->place;
}

/* Changes the sizes and adapts the strides: dense rows stay dense, stacked batch items stay stacked. */
static void resize(ocl_gemm *g, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const ocl_stored_matrix a = ocl_gemm_stored(g, true), b = ocl_gemm_stored(g, false);
    bool dense_c = g->ldc == g->n, stack_c = g->stride_c == g->m * g->ldc;
    g->m = m;
    g->n = n;
    g->k = k;
    g->batch = batch;
    const ocl_stored_matrix to_a = ocl_gemm_stored(g, true), to_b = ocl_gemm_stored(g, false);
    g->lda = a.ld == a.columns ? to_a.columns : g->lda;
    g->ldb = b.ld == b.columns ? to_b.columns : g->ldb;
    g->ldc = dense_c ? g->n : g->ldc;
    g->stride_a = batch == 1 ? 0 : a.stride == a.rows * a.ld ? to_a.rows * g->lda : g->stride_a;
    g->stride_b = batch == 1 ? 0 : b.stride == b.rows * b.ld ? to_b.rows * g->ldb : g->stride_b;
    g->stride_c = batch == 1 ? 0 : stack_c ? g->m * g->ldc : g->stride_c;
    if (ocl_has_windows(g))
        resize_image(&g->windows, ocl_is_windows(g, true) ? m : k);
}

static double bytes_of(const ocl_gemm *g)
{
    int64_t a, b, c;
    if (!ocl_gemm_spans(g, &a, &b, &c))
        return 1e300;
    return (double)a * (double)clt_dtype_bytes(g->type_a) + (double)b * (double)clt_dtype_bytes(g->type_b) +
           3.0 * (double)c * (double)clt_dtype_bytes(g->type_c);
}

/* Halves the largest size until the problem can be measured. Sizes stay so large that the best blocking does
 * not depend on them. */
static void make_measurable(ocl_gemm *g, const ocl_device_desc *desc)
{
    double room = (double)desc->usable_bytes / 16.0,
           flops = FLOPS_PER_UNIT * (desc->compute_units < 2 ? 2.0 : (double)desc->compute_units);
    room = room > MAX_BYTES ? MAX_BYTES : room;
    while (ocl_gemm_flops(g) > flops || bytes_of(g) > room) {
        int64_t m = can_halve(g, 'm') ? g->m : 0, n = can_halve(g, 'n') ? g->n : 0;
        int64_t k = can_halve(g, 'k') ? g->k : 0;
        if (g->batch > 1)
            resize(g, g->m, g->n, g->k, (g->batch + 1) / 2);
        else if (m == 0 && n == 0 && k == 0)
            return;
        else if (m >= n && m >= k)
            resize(g, (m + 1) / 2, g->n, g->k, 1);
        else if (n >= k)
            resize(g, g->m, (n + 1) / 2, g->k, 1);
        else
            resize(g, g->m, g->n, (k + 1) / 2, 1);
    }
}

/* Bytes of all copies of the operands together. Runs rotate through the copies, so that operands are not in
 * the cache, as in a training step: the copies exceed a GPU's second-level cache (50 MB on an H100, 72 on an
 * RTX 4090). On CPUs arithmetic dominates, and more copies would only take longer. */
static uint64_t cold_bytes(const ocl_device *device)
{
    const ocl_device_desc *desc = ocl_device_describe(device);
    uint64_t least = UINT64_C(32) << 20, most = UINT64_C(256) << 20, caches = 4 * desc->cache_bytes;
    if (desc->is_cpu)
        return least;
    /* drivers of GPUs report the size of first-level caches (NVIDIA 28 to 32 KiB per unit, AMD 16 KiB), not
     * of the second level */
    most = desc->usable_bytes / 8 < most ? desc->usable_bytes / 8 : most;
    least = most > least ? most : least;
    return caches > least ? caches : least;
}

static uint64_t operand_bytes(const ocl_gemm *g)
{
    const ocl_tensor_ref like_c[] = {g->residual, g->pre, g->dact};
    int64_t a, b, c;
    if (!ocl_gemm_spans(g, &a, &b, &c))
        return UINT64_MAX;
    uint64_t bytes = (uint64_t)a * clt_dtype_bytes(g->type_a) + (uint64_t)b * clt_dtype_bytes(g->type_b),
             bytes_c = (uint64_t)c * clt_dtype_bytes(g->type_c);
    for (size_t i = 0; i < sizeof like_c / sizeof like_c[0]; i++)
        bytes += ocl_given(like_c[i]) ? bytes_c : 0;
    return bytes + bytes_c;
}

static int count_copies(const ocl_device *device, const ocl_gemm *g)
{
    uint64_t cold = cold_bytes(device), total = operand_bytes(g);
    uint64_t copies = total > cold ? 1 : cold / (total + 1) + 1;
    uint64_t most = ocl_device_describe(device)->is_cpu ? MAX_COPIES_CPU : MAX_COPIES;
    return (int)(copies < most ? copies : most);
}

/* --- candidates --- */

/* candidate: a variant with tunables, to be emitted exactly. If it is NULL, `force` names a backend; if both
 * are NULL, the family chooses. */
static clt_status make_ready(const tune_bench *t, const ocl_device_desc *desc, const ocl_choice *candidate,
                             const char *force, ocl_choice *asked, ocl_gemm_ready **out)
{
    ocl_emitter how = {.device = desc, .label = "tuning", .record = candidate, .asked = asked};
    CLT_SCOPED(ocl_gemm_ready) *ready = NULL;
    *out = NULL;
    CLT_TRY(ocl_gemm_ready_create(t->bench, &how, force, &ready));
    CLT_TRY(ocl_gemm_ready_build(ready));
    *out = CLT_TAKE(ready);
    return CLT_OK;
}

static clt_status ready(void *bench, const ocl_device_desc *desc, const ocl_choice *candidate,
                        ocl_choice *asked, void **out)
{
    ocl_gemm_ready *made;
    clt_status status = make_ready(bench, desc, candidate, NULL, asked, &made);
    *out = made;
    return status;
}

static void release(void *bench, void *made)
{
    (void)bench;
    ocl_gemm_ready_destroy(made);
}

static clt_status time_one(void *bench, void *made, double *ns)
{
    const tune_bench *t = bench;
    ocl_gemm_ready *r = made;
    CLT_TRY(ocl_time_trial(ocl_gemm_ready_batch, r, 10000, &r->runs, ns));
    *ns *= t->scale / t->bench->copies;
    return CLT_OK;
}

/* --- right or wrong --- */

/* The largest allowed error of a result. */
static double tolerance(const ocl_gemm *g, double value)
{
    double unit = g->type_c == CLT_F32 ? (g->tf32 ? 2e-3 : 1e-5) : g->type_c == CLT_F16 ? 2e-3 : 1.6e-2;
    return unit * (fabs(value) + fabs((double)g->alpha) * sqrt((double)g->k) + 1.0);
}

/* Compares a result with the reference: equal where the arithmetic is exact, else within the tolerance. */
static bool is_right(const tune_bench *t, int result, char *why, size_t size)
{
    const ocl_gemm *g = &t->bench->gemm;
    const ocl_gemm_array *a = &t->bench->array[results[result]];
    const uint8_t *want = t->want[result], *got = t->got;
    size_t unit = clt_dtype_bytes(a->type);
    bool exact = g->activation == OCL_ACT_NONE && fabsf(g->alpha) == 1.0f;
    if (memcmp(want, got, ocl_gemm_array_bytes(a)) == 0)
        return true;
    for (size_t i = 0; i < a->elements; i++) {
        if (memcmp(want + i * unit, got + i * unit, unit) == 0)
            continue;
        double x = clt_dtype_load(a->type, got, i), y = clt_dtype_load(a->type, want, i);
        if (exact ? x == y /* zeros of different sign are equal, too */ : fabs(x - y) <= tolerance(g, y))
            continue;
        snprintf(why, size, "%s[%lld] is %.9g, it should be %.9g", result == 0 ? "C" : "pre",
                 (long long)i - (long long)a->first, x, y);
        return false;
    }
    return true;
}

static clt_status check(void *bench, void *made, bool *right, char *why, size_t size)
{
    tune_bench *t = bench;
    *right = false;
    CLT_TRY(ocl_gemm_ready_run(made));
    for (int i = 0; i < 2 && t->want[i] != NULL; i++) {
        CLT_TRY(ocl_gemm_ready_read(made, results[i], &t->got));
        *right = is_right(t, i, why, size);
        if (!*right)
            break;
    }
    return CLT_OK;
}

/* --- the reference --- */

static clt_status host_reference(tune_bench *t)
{
    const ocl_gemm *g = &t->bench->gemm;
    bool pre = t->bench->array[OCL_GEMM_PRE].elements > 0;
    CLT_FREED ocl_gemm_value *row = NULL;
    CLT_TRY(clt_alloc(&row, (size_t)g->n, sizeof *row, "a tuner's reference"));
    for (int i = 0; i < (pre ? 2 : 1); i++) {
        const ocl_gemm_array *a = &t->bench->array[results[i]];
        CLT_TRY(clt_alloc(&t->want[i], ocl_gemm_array_bytes(a), 1, "a tuner's reference"));
        memcpy(t->want[i], a->image, ocl_gemm_array_bytes(a));
    }
    for (int64_t line = 0; line < g->batch * g->m; line++) {
        int64_t z = line / g->m, i = line % g->m;
        size_t at = (size_t)(z * g->stride_c + i * g->ldc);
        CLT_TRY(ocl_gemm_expect(t->bench, z, i, 0, g->n, row));
        for (int64_t j = 0; j < g->n; j++, at++) {
            clt_dtype_store(g->type_c, t->want[0], t->bench->array[OCL_GEMM_C].first + at, row[j].c);
            if (pre)
                clt_dtype_store(g->type_c, t->want[1], t->bench->array[OCL_GEMM_PRE].first + at, row[j].pre);
        }
    }
    return CLT_OK;
}

static clt_status device_reference(tune_bench *t, const ocl_device_desc *desc)
{
    CLT_SCOPED(ocl_gemm_ready) *made = NULL;
    bool right, pre = t->bench->array[OCL_GEMM_PRE].elements > 0;
    char why[200];
    /* `simple` does not read windows. For products with windows the standard backend computes the reference,
     * and the host checks it in the same way. */
    const char *by = ocl_has_windows(&t->bench->gemm) ? NULL : "simple";
    CLT_TRY(make_ready(t, desc, NULL, by, NULL, &made));
    CLT_TRY(ocl_gemm_ready_run(made));
    for (int i = 0; i < (pre ? 2 : 1); i++)
        CLT_TRY(ocl_gemm_ready_read(made, results[i], &t->want[i]));
    CLT_TRY(ocl_gemm_compare(t->bench, t->want[0], NULL, CHECKED, NULL, &right, why, sizeof why));
    if (!right)
        CLT_FAIL(CLT_ECHECK, "the reference product is wrong on this device: %s; run 'cltrain verify'", why);
    return CLT_OK;
}

/* --- creating --- */

/* Puts every operand at the start of a separate buffer. */
static void place_operands(ocl_gemm *g)
{
    ocl_tensor_ref *extra[] = {&g->bias, &g->residual, &g->pre, &g->dact};
    static const int32_t ids[] = {OCL_GEMM_BIAS, OCL_GEMM_RESIDUAL, OCL_GEMM_PRE, OCL_GEMM_DACT};
    g->a.offset = g->b.offset = g->c.offset = 0;
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++)
        if (ocl_given(*extra[i]))
            *extra[i] = (ocl_tensor_ref){ids[i], 0};
}

static void destroy(void *bench)
{
    tune_bench *t = bench;
    if (t == NULL)
        return;
    ocl_gemm_bench_destroy(t->bench);
    free(t->want[0]);
    free(t->want[1]);
    free(t->got);
    free(t);
}
CLT_SCOPED_POINTER(tune_bench, destroy)

static clt_status create(ocl_device *device, const ocl_device_desc *desc, const void *data, void **out)
{
    CLT_SCOPED(tune_bench) *t = NULL;
    ocl_gemm g = *(const ocl_gemm *)data;
    double full = ocl_gemm_flops(&g);
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tuner's problem"));
    t->full = g;
    place_operands(&g);
    make_measurable(&g, desc);
    t->scale = ocl_gemm_flops(&g) > 0 ? full / ocl_gemm_flops(&g) : 1.0;
    CLT_TRY(ocl_gemm_bench_create(device, &g, &(ocl_gemm_fill){0}, count_copies(device, &g), &t->bench));
    CLT_TRY(ocl_gemm_flops(&t->bench->gemm) <= HOST_FLOPS ? host_reference(t) : device_reference(t, desc));
    *out = CLT_TAKE(t);
    return CLT_OK;
}

static const void *problem(const void *bench, bool measured)
{
    const tune_bench *t = bench;
    return measured ? &t->bench->gemm : &t->full;
}

const ocl_family_bench ocl_gemm_family_bench = {create, destroy, problem, ready, release, time_one, check};

/* --- the problems of `cltrain tune` without a config --- */

static clt_status add_product(ocl_tuning_log *log, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    ocl_gemm g = ocl_gemm_make(m, n, k, ta, tb);
    return ocl_gemm_log(log, &g);
}

/* Adds the products of a linear layer: y = x W^T, dx = dy W, dW = dy^T x. */
static clt_status add_linear(ocl_tuning_log *log, int64_t rows, int64_t in, int64_t out)
{
    CLT_TRY(add_product(log, rows, out, in, false, true));
    CLT_TRY(add_product(log, rows, in, out, false, false));
    return add_product(log, out, in, rows, true, false);
}

clt_status ocl_gemm_log_builtin(ocl_tuning_log *log)
{
    static const int64_t gpt2[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}, {768, 50304}};
    for (int64_t size = 512; size <= 4096; size *= 2) {
        CLT_TRY(add_product(log, size, size, size, false, false));
        CLT_TRY(add_product(log, size, size, size, false, true));
        CLT_TRY(add_product(log, size, size, size, true, false));
    }
    for (int64_t tokens = 256; tokens <= 4096; tokens *= 16)
        for (size_t i = 0; i < sizeof gpt2 / sizeof gpt2[0]; i++)
            CLT_TRY(add_linear(log, tokens, gpt2[i][0], gpt2[i][1]));
    return CLT_OK;
}
