/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix product in double precision, with a bound for the rounding errors of each of its elements. This
 * file must not know how devices compute. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm_windows.h"
#include "cl/gemm_bench/gemm_bench.h"

#define EPS32 0x1p-23
#define STEEPEST 1.13 /* largest slope of an activation */

double ocl_activation_value(ocl_activation activation, double x)
{
    switch (activation) {
    case OCL_ACT_RELU:
        return x < 0.0 ? 0.0 : x;
    case OCL_ACT_GELU_ERF:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case OCL_ACT_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}

double ocl_activation_slope(ocl_activation activation, double x)
{
    double c = sqrt(2.0 / 3.14159265358979323846), t;
    switch (activation) {
    case OCL_ACT_RELU:
        return x > 0.0 ? 1.0 : 0.0;
    case OCL_ACT_GELU_ERF:
        return 0.5 * erfc(-x * sqrt(0.5)) + 0.5 * c * x * exp(-0.5 * x * x);
    case OCL_ACT_GELU_TANH:
        t = tanh(c * (x + 0.044715 * x * x * x));
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x);
    default:
        return 1.0;
    }
}

/* --- sums of products --- */

typedef struct sums {
    double sum, size, squares; /* sums of the products, of their magnitudes and of their squares */
} sums;

static void add_product(sums *s, double product)
{
    s->sum += product;
    s->size += fabs(product);
    s->squares += product * product;
}

static void load_many(const ocl_gemm_array *a, int64_t at, int64_t step, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = clt_dtype_load(a->type, a->image, a->first + (size_t)(at + i * step));
}

/* Element (row, column) of a matrix of windows, computed from the definition; 0 outside the image. */
static double window_element(const ocl_gemm_array *a, const ocl_windows *w, int64_t start, int64_t row,
                             int64_t column)
{
    int64_t channel = column % w->channels, tap = column / w->channels, at = 0, step = 1;
    for (int i = 2; i >= 0; i--) {
        int64_t x = row % w->out[i] * w->stride[i] - w->padding[i] + tap % w->kernel[i] * w->dilation[i];
        if (x < 0 || x >= w->in[i])
            return 0.0;
        at += x * step;
        step *= w->in[i];
        row /= w->out[i];
        tap /= w->kernel[i];
    }
    at += row * step;
    return clt_dtype_load(a->type, a->image, a->first + (size_t)(start + at * w->place + channel));
}

static void load_windows(const ocl_gemm_bench *b, bool of_a, int64_t z, int64_t row, int64_t column,
                         int64_t n, double *out)
{
    const ocl_gemm *g = &b->gemm;
    const ocl_gemm_array *a = &b->array[of_a ? OCL_GEMM_A : OCL_GEMM_B];
    for (int64_t i = 0; i < n; i++)
        out[i] = window_element(a, &g->windows, z * (of_a ? g->stride_a : g->stride_b), row, column + i);
}

/* Adds up row i of op(A) times columns j to j + n - 1 of op(B). scratch: 2 k + n values. */
static void add_products(const ocl_gemm_bench *b, int64_t z, int64_t i, int64_t j, int64_t n, double *scratch,
                         sums *out)
{
    const ocl_gemm *g = &b->gemm;
    double *row = scratch, *other = scratch + g->k;
    memset(out, 0, (size_t)n * sizeof *out);
    if (ocl_is_windows(g, true))
        load_windows(b, true, z, i, 0, g->k, row);
    else
        load_many(&b->array[OCL_GEMM_A], z * g->stride_a + (g->ta ? i : i * g->lda), g->ta ? g->lda : 1, g->k,
                  row);
    if (g->tb) {
        for (int64_t e = 0; e < n; e++) {
            load_many(&b->array[OCL_GEMM_B], z * g->stride_b + (j + e) * g->ldb, 1, g->k, other);
            for (int64_t p = 0; p < g->k; p++)
                add_product(&out[e], row[p] * other[p]);
        }
        return;
    }
    for (int64_t p = 0; p < g->k; p++) {
        if (ocl_is_windows(g, false))
            load_windows(b, false, z, p, j, n, other);
        else
            load_many(&b->array[OCL_GEMM_B], z * g->stride_b + p * g->ldb + j, 1, n, other);
        for (int64_t e = 0; e < n; e++)
            add_product(&out[e], row[p] * other[e]);
    }
}

/* --- one element --- */

static double as_stored(clt_dtype type, double value)
{
    float cell;
    clt_dtype_store(type, &cell, 0, value);
    return clt_dtype_load(type, &cell, 0);
}

/* Element `at` of an operand with C's shape. */
static double like_c(const ocl_gemm_bench *b, ocl_tensor_ref ref, int64_t at)
{
    const ocl_gemm_array *a = &b->array[ref.tensor];
    return clt_dtype_load(a->type, a->image, a->first + (size_t)at);
}

/* Error bound for rounding both operands to 10 bits of mantissa in a sum of products p. Each rounding
 * changes a product by at most a factor of 2^-11, so the sum changes by at most 2^-10 * sum |p|. As the
 * errors are random, a few standard deviations are enough as a bound; 2^-10 * sqrt(sum p^2) is more than one
 * standard deviation. Rounding does not change integers up to 2^11. */
static double tf32_bound(const ocl_gemm_bench *b, const sums *s)
{
    double walk = 4.0 * sqrt(s->squares);
    return !b->gemm.tf32 || b->whole ? 0.0 : 0x1p-10 * (walk < s->size ? walk : s->size);
}

/* The activation's input: the pre-activation rounded to C's type, even where it is not stored. If the error
 * bound allows rounding up and down, *unsure gets the difference of the two results. */
static double activation_input(const ocl_gemm_bench *b, double pre, double bound, double *unsure)
{
    clt_dtype type = b->gemm.type_c;
    double low = as_stored(type, pre - bound), high = as_stored(type, pre + bound);
    *unsure = type == CLT_F32 ? 0.0 : high - low;
    if (type == CLT_F32 || (low != high && !b->whole))
        return pre;
    return as_stored(type, pre);
}

/* The value and error bounds of an element. The rounding errors of a sum of K products are assumed to grow
 * like a random walk. */
static ocl_gemm_value finish(const ocl_gemm_bench *b, const sums *s, int64_t j, int64_t at)
{
    const ocl_gemm *g = &b->gemm;
    double units = 2.0 * sqrt((double)g->k) + 4.0, alpha = (double)g->alpha, v = alpha * s->sum;
    double size = fabs(alpha) * s->size, narrowed = STEEPEST * fabs(alpha) * tf32_bound(b, s);
    bool has_dact = ocl_given(g->dact);
    double old = g->beta != 0.0f ? (double)g->beta * like_c(b, g->c, at) : 0.0;
    double bias = ocl_given(g->bias) ? like_c(b, g->bias, j) : 0.0;
    ocl_gemm_value e;
    if (has_dact) {
        /* the error of the derivative itself is relative to 1, not to the derivative */
        double slope = ocl_activation_slope(g->activation, like_c(b, g->dact, at));
        size = STEEPEST * size + (g->activation > OCL_ACT_RELU ? 16.0 / units * fabs(v) : 0.0);
        v *= slope;
    }
    size += fabs(old) + fabs(bias);
    e.pre = v += old + bias;
    e.bound_pre = units * EPS32 * (size + fabs(v)) + narrowed;
    if (g->activation != OCL_ACT_NONE && !has_dact) {
        double unsure;
        v = ocl_activation_value(g->activation, activation_input(b, e.pre, e.bound_pre, &unsure));
        narrowed += STEEPEST * unsure;
    }
    size += fabs(v);
    if (ocl_given(g->residual))
        v += like_c(b, g->residual, at);
    units += g->activation > OCL_ACT_RELU ? 16.0 : 0.0;
    e.bound_c = units * EPS32 * (size + fabs(v)) + narrowed;
    e.c = v;
    if (b->whole) {
        e.c = as_stored(g->type_c, e.c);
        e.pre = as_stored(g->type_c, e.pre);
    }
    return e;
}

clt_status ocl_gemm_expect(const ocl_gemm_bench *b, int64_t z, int64_t i, int64_t j, int64_t n,
                           ocl_gemm_value *out)
{
    const ocl_gemm *g = &b->gemm;
    CLT_FREED double *scratch = NULL;
    CLT_FREED sums *s = NULL;
    CLT_TRY(clt_alloc(&scratch, (size_t)(2 * g->k + n), sizeof *scratch, "a product's reference"));
    CLT_TRY(clt_alloc(&s, (size_t)n, sizeof *s, "a product's reference"));
    add_products(b, z, i, j, n, scratch, s);
    for (int64_t e = 0; e < n; e++)
        out[e] = finish(b, &s[e], j + e, z * g->stride_c + i * g->ldc + j + e);
    return CLT_OK;
}

/* --- comparison --- */

bool ocl_gemm_exact(const ocl_gemm_bench *b)
{
    return b->whole && b->gemm.activation <= OCL_ACT_RELU && fmod(8.0 * (double)b->gemm.alpha, 1.0) == 0.0 &&
           fmod(8.0 * (double)b->gemm.beta, 1.0) == 0.0;
}

typedef struct comparison {
    const ocl_gemm_bench *bench;
    double *worst;
    bool *right;
    char *why;
    size_t size;
} comparison;

static void compare_one(const comparison *cmp, const char *name, const ocl_gemm_array *a, const void *after,
                        const int64_t place[3], double want, double bound)
{
    const ocl_gemm *g = &cmp->bench->gemm;
    size_t at = a->first + (size_t)(place[0] * g->stride_c + place[1] * g->ldc + place[2]);
    double got = clt_dtype_load(a->type, after, at), error = fabs(got - want);
    double limit = ocl_gemm_exact(cmp->bench) ? 0.0 : bound + 1.01 * clt_dtype_rounding(a->type, want);
    if (cmp->worst != NULL && limit > 0.0 && error / limit > *cmp->worst)
        *cmp->worst = error / limit;
    if (error <= limit || !*cmp->right)
        return;
    *cmp->right = false;
    snprintf(cmp->why, cmp->size, "%s[%lld](%lld,%lld) is %.9g, it should be %.9g +- %.3g", name,
             (long long)place[0], (long long)place[1], (long long)place[2], got, want, limit);
}

clt_status ocl_gemm_compare(const ocl_gemm_bench *b, const void *c, const void *pre, int64_t sample,
                            double *worst, bool *right, char *why, size_t size)
{
    const ocl_gemm *g = &b->gemm;
    comparison cmp = {b, worst, right, why, size};
    CLT_FREED ocl_gemm_value *want = NULL;
    int64_t total = g->m * g->n * g->batch, step = 1, run;
    *right = true;
    if (worst != NULL)
        *worst = 0.0;
    bool some = sample > 1 && total > sample;
    if (some)
        step = (total - 1) / (sample - 1);
    run = some || g->n == 0 ? 1 : g->n;
    CLT_TRY(clt_alloc(&want, (size_t)run, sizeof *want, "a product's reference"));
    for (int64_t e = 0; e < total; e += some ? step : run) {
        int64_t place[3] = {e / (g->m * g->n), e / g->n % g->m, e % g->n}, j = place[2];
        CLT_TRY(ocl_gemm_expect(b, place[0], place[1], j, run, want));
        for (int64_t i = 0; i < run; i++) {
            place[2] = j + i;
            compare_one(&cmp, "C", &b->array[OCL_GEMM_C], c, place, want[i].c, want[i].bound_c);
            if (pre != NULL)
                compare_one(&cmp, "pre", &b->array[OCL_GEMM_PRE], pre, place, want[i].pre, want[i].bound_pre);
        }
    }
    return CLT_OK;
}
