/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of results that a product may compute besides C: the moments of C's stored columns, and sums of A's
 * lines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/verify/cases/verify_gemm_run.h"

/* --- moments --- */

#define MOST_BLOCK_ROWS 128.0 /* a kernel sums the distances of at most this many rows from one of them */

/* Computes, for column j of C in batch item z, the moments of the stored values c and bounds for the errors
 * of a kernel's moments. Rounding the mean of a block changes it by at most `unit`; that adds at most 2 *
 * unit * sqrt(rows * squares) (Cauchy-Schwarz) to the sum of squared distances from the total mean. A kernel
 * adds up, for a block, the distances from one of its rows, which may be the row farthest from the mean.
 * Each addition rounds the sum so far, which is half the sum on average. If many values are equal (ReLU's
 * zeros, 16 bits), these errors have one sign. They count once in the sum of squares and twice in the square
 * of the sum. The distance between two rows is at most twice the largest distance from the mean. Apart from
 * `unit`, errors must not depend on how far the values are from 0. */
static void expect_moments(const ocl_gemm *g, const double *c, int64_t z, int64_t j, double *mean,
                           double *square, double *bound_mean, double *bound_square)
{
    const double eps = 0x1p-24, *column = c + z * g->m * g->n + j;
    double sum = 0.0, apart = 0.0, far = 0.0, rows = (double)g->m, block = fmin(rows, MOST_BLOCK_ROWS);
    for (int64_t i = 0; i < g->m; i++)
        sum += column[i * g->n];
    for (int64_t i = 0; i < g->m; i++) {
        double d = column[i * g->n] - sum / rows;
        apart += d * d;
        far = fmax(far, d * d);
    }
    double unit = 2.0 * eps * fabs(sum / rows), sums = (1.5 * block + 4.0) * eps;
    *mean = sum / rows;
    *square = apart;
    *bound_mean = 2.0 * unit + sums * sqrt(far) + 1e-30;
    *bound_square = sums * (3.0 * apart + 2.0 * (rows + block) * far) + 2.0 * unit * sqrt(rows * apart) +
                    rows * unit * unit + 1e-30;
}

/* True if the case wants moments and the backend must compute them. A backend with forms must if k is not
 * split and C is stored in vectors; any other must if it promises moments. */
static bool must_make_moments(const clt_gemm_run *r)
{
    bool unsplit = r->choice != NULL && ocl_choice_value(r->choice, "split", 0) == 1;
    return r->problem->moments && ((ocl_gemm_promises(r->backend) & OCL_GEMM_MOMENTS) ||
                                   (unsplit && r->problem->form == FORM_ALIGNED));
}

/* Checks the moments that the run computed; c: the stored values. */
static clt_status judge_moments(clt_gemm_run *r, const double *c)
{
    const ocl_gemm *g = &r->bench->gemm;
    size_t n = (size_t)(g->n * g->batch);
    CLT_FREED double *mean = NULL;
    double rows = 0.0;
    if (r->bench->moments.blocks == 0 && must_make_moments(r))
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "it made no moments");
    if (r->bench->moments.blocks == 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&mean, 6 * n, sizeof *mean, "checker's results"));
    double *square = mean + 3 * n;
    CLT_TRY(ocl_gemm_ready_moments(r->ready, &rows, mean, square));
    for (size_t e = 0; e < n; e++)
        expect_moments(g, c, (int64_t)e / g->n, (int64_t)e % g->n, &mean[n + e], &square[n + e],
                       &mean[2 * n + e], &square[2 * n + e]);
    if (rows != (double)g->m)
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "its moments count %.0f rows, not %lld", rows,
                       (long long)g->m);
    clt_verify_compare_bounds(r->outcome, "means", mean, mean + n, mean + 2 * n, n, CLT_F32, 0.0);
    clt_verify_compare_bounds(r->outcome, "squares", square, square + n, square + 2 * n, n, CLT_F32, 0.0);
    return CLT_OK;
}

/* --- line sums --- */

/* True if the case wants sums of A's lines and the backend must compute them. A matrix unit must if it can
 * compute them and its form leaves local memory for the column of ones. */
static bool must_make_line_sums(const clt_gemm_run *r)
{
    ocl_device_desc desc = clt_gemm_run_desc(r);
    ocl_gemm_form wanted = {0}, form;
    char reason[240];
    const ocl_matrix_unit *unit = ocl_form_unit(r->backend);
    if (unit == NULL || unit->products->makes_line_sums == NULL)
        return false;
    if (r->choice != NULL)
        wanted = ocl_form_wanted(unit->products, r->choice);
    return ocl_form_choose(unit->products, &r->bench->gemm, &desc, &wanted, &form, reason, sizeof reason) &&
           unit->products->makes_line_sums(&r->bench->gemm, &desc, &form);
}

/* Expected sums of A's lines (plus the initial values if `accumulate`); bounds for adding in any order. */
static void expect_line_sums(const clt_gemm_run *r, double *want, double *bound)
{
    const ocl_gemm *g = &r->bench->gemm;
    const ocl_gemm_array *a = &r->bench->array[OCL_GEMM_A], *before = &r->bench->array[OCL_GEMM_LINE_SUMS];
    for (int64_t i = 0; i < g->m; i++) {
        double start = clt_dtype_load(CLT_F32, before->image, before->first + (size_t)i);
        double sum = r->bench->line_sums.accumulate ? start : 0.0, magnitude = fabs(sum);
        for (int64_t k = 0; k < g->k; k++) {
            int64_t at = g->ta ? k * g->lda + i : i * g->lda + k;
            double value = clt_dtype_load(g->type_a, a->image, a->first + (size_t)at);
            sum += value;
            magnitude += fabs(value);
        }
        want[i] = sum;
        bound[i] = 0x1p-24 * sqrt((double)g->k + 4.0) * magnitude;
    }
}

/* Reads the sums of the first copy. */
static clt_status read_line_sums(clt_gemm_run *r, double *out)
{
    const ocl_gemm_array *sums = &r->bench->array[OCL_GEMM_LINE_SUMS];
    CLT_FREED uint8_t *after = NULL;
    CLT_TRY(ocl_gemm_ready_read(r->ready, OCL_GEMM_LINE_SUMS, &after));
    for (int64_t i = 0; i < r->bench->gemm.m; i++)
        out[i] = clt_dtype_load(CLT_F32, after, sums->first + (size_t)i);
    return CLT_OK;
}

static clt_status judge_line_sums(clt_gemm_run *r)
{
    const clt_verify_rule exact = {.exact = true};
    size_t n = (size_t)r->bench->gemm.m;
    CLT_FREED double *got = NULL;
    if (!r->bench->line_sums.made) {
        if (must_make_line_sums(r))
            clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "it made no sums of A's lines");
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&got, 3 * n, sizeof *got, "checker's results"));
    CLT_TRY(read_line_sums(r, got));
    expect_line_sums(r, got + n, got + 2 * n);
    if (r->integers)
        clt_verify_compare(r->outcome, "line sums (integers)", got, got + n, n, &exact);
    else
        clt_verify_compare_bounds(r->outcome, "line sums", got, got + n, got + 2 * n, n, CLT_F32, 0.0);
    return CLT_OK;
}

/* --- both --- */

clt_status clt_gemm_judge_additions(clt_gemm_run *r, const double *c)
{
    CLT_TRY(judge_moments(r, c));
    return r->bench->gemm.line_sums != NULL ? judge_line_sums(r) : CLT_OK;
}

clt_status clt_gemm_read_additions(clt_gemm_run *r, double **out, size_t *bytes)
{
    const ocl_gemm *g = &r->bench->gemm;
    size_t columns = (size_t)(g->n * g->batch), n = 2 * columns + 1 + (size_t)g->m;
    *bytes = n * sizeof **out;
    CLT_TRY(clt_alloc(out, n, sizeof **out, "checker's results"));
    if (r->bench->moments.blocks > 0)
        CLT_TRY(ocl_gemm_ready_moments(r->ready, *out, *out + 1, *out + 1 + columns));
    return r->bench->line_sums.made ? read_line_sums(r, *out + 1 + 2 * columns) : CLT_OK;
}
