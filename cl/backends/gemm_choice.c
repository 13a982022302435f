/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products as a family (cl/tune/family.h): the text of a problem in tuning records, and the standard
 * choice of a backend for a kind of device. This file must not know how backends work, only the times that
 * their cost models estimate. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm_forms.h"
#include "cl/gemm_bench/gemm_tune.h"

/* A batch with a shared B, and items of A and C stacked row by row, becomes one taller GEMM. */
static void fold_batch(ocl_gemm *g)
{
    bool stacked = g->stride_a == g->m * g->lda && g->stride_c == g->m * g->ldc;
    if (!ocl_has_windows(g) && g->moments == NULL && g->batch > 1 && !g->ta && g->stride_b == 0 && stacked &&
        g->m * g->batch <= INT32_MAX) {
        g->m *= g->batch;
        g->batch = 1;
    }
    if (g->batch == 1)
        g->stride_a = g->stride_b = g->stride_c = 0;
}

/* Problems */

/* The problem as words (cl/tune/tuning.h compares them): everything that a choice depends on. Layout, sizes,
 * types; words with '+' for epilogue and strides; and, if an operand is a matrix of windows, the window, its
 * stride and, where not 1, its dilation. */
const char *ocl_gemm_problem(const ocl_gemm *g, char *buffer, size_t size)
{
    char windows[160] = "", dilation[48] = "";
    const ocl_windows *w = &g->windows;
    if (ocl_has_windows(g)) {
        if (w->dilation[0] != 1 || w->dilation[1] != 1 || w->dilation[2] != 1)
            snprintf(dilation, sizeof dilation, " dilation:%lld.%lld.%lld", (long long)w->dilation[0],
                     (long long)w->dilation[1], (long long)w->dilation[2]);
        snprintf(windows, sizeof windows, " windows:%s:%lldx%lldx%lld:%lld.%lld.%lld%s c=%lld",
                 ocl_is_windows(g, true) ? "A" : "B", (long long)w->kernel[0], (long long)w->kernel[1],
                 (long long)w->kernel[2], (long long)w->stride[0], (long long)w->stride[1],
                 (long long)w->stride[2], dilation, (long long)w->channels);
    }
    bool dense = g->lda == (g->ta ? g->m : g->k) && g->ldb == (g->tb ? g->k : g->n) && g->ldc == g->n;
    snprintf(buffer, size, "%c%c m=%lld n=%lld k=%lld batch=%lld %s*%s->%s%s%s%s%s%s%s%s%s%s%s",
             g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', (long long)g->m, (long long)g->n, (long long)g->k,
             (long long)g->batch, clt_dtype_name(g->type_a), clt_dtype_name(g->type_b),
             clt_dtype_name(g->type_c), g->beta != 0.0f ? " +add" : "", ocl_given(g->bias) ? " +bias" : "",
             ocl_gemm_activation_text(g), ocl_given(g->pre) ? " +pre" : "",
             ocl_given(g->dact) ? " +dact" : "", ocl_given(g->residual) ? " +residual" : "",
             dense ? "" : " +strided", g->batch > 1 && g->stride_b == 0 ? " +shared" : "",
             g->tf32 ? " +tf32" : "", windows);
    return buffer;
}

static const char *family_problem(const void *problem, char *buffer, size_t size)
{
    return ocl_gemm_problem(problem, buffer, size);
}

static double family_flops(const void *problem)
{
    return ocl_gemm_flops(problem);
}

static clt_status describe(const void *problem, void **data, size_t *size)
{
    *size = sizeof(ocl_gemm);
    CLT_TRY(clt_alloc(data, 1, *size, "a matrix product"));
    memcpy(*data, problem, *size);
    ((ocl_gemm *)*data)->moments = NULL;
    ((ocl_gemm *)*data)->line_sums = NULL;
    return CLT_OK;
}

clt_status ocl_gemm_log(ocl_tuning_log *log, const ocl_gemm *gemm)
{
    ocl_gemm g = *gemm;
    if (g.m == 0 || g.n == 0)
        return CLT_OK;
    fold_batch(&g);
    return ocl_family_log(log, &ocl_gemm_family, &g, NULL);
}

/* --- the standard choice --- */

/* The matrix-unit backend that its cost model expects to be fastest (an older one has smaller tiles for
 * small products); NULL: no such backend accepts the product. */
static const ocl_matrix_unit *fastest_unit(const ocl_gemm *g, const ocl_device_desc *device)
{
    const ocl_matrix_unit *best = NULL;
    double least = INFINITY;
    char reason[160];
    for (const ocl_matrix_unit *const *u = ocl_matrix_units; *u != NULL; u++) {
        bool accepts = ocl_variant_accepts((*u)->products->variant, g, device, reason, sizeof reason);
        double time = accepts ? ocl_form_time((*u)->products, g, device) : (double)INFINITY;
        best = time < least ? *u : best;
        least = time < least ? time : least;
    }
    return best;
}

/* On GPUs CLBlast is chosen only by a tuning record. A call costs the host 10 to 50 us and the device
 * temporary copies; its epilogue is one more pass over C; a batch is one call for each item; below about
 * 1280^3 it uses tiles of 16 x 16 or 32 x 32 on NVIDIA devices; and a device that is not in its database
 * (all of compute capability 9.0) gets tiles of 16 x 32. So `tile` is the safer choice until the tuner has
 * compared them.
 *
 * On CPUs `simple` takes the problems that `lane` refuses: on PoCL it is 3 to 15 times as fast as CLBlast
 * with CLBlast's parameters for CPUs (100 to 290 against 15 to 50 GFLOP/s at 512^3 on 2 cores). */
static const char *standard(const void *problem, const ocl_device_desc *device)
{
    char reason[160];
    const ocl_gemm *g = problem;
    if (!ocl_prefers_lanes(device)) {
        const ocl_matrix_unit *unit = fastest_unit(g, device);
        if (unit != NULL)
            return unit->name;
        if (ocl_variant_accepts(&ocl_gemm_tile, g, device, reason, sizeof reason))
            return "tile";
        return "simple";
    }
    return ocl_variant_accepts(&ocl_gemm_lane, g, device, reason, sizeof reason) ? "lane" : "simple";
}

bool ocl_gemm_is_on_units(const ocl_gemm *g, const ocl_device_desc *device)
{
    const ocl_matrix_unit *unit = ocl_prefers_lanes(device) ? NULL : fastest_unit(g, device);
    return unit != NULL && (ocl_unit_caps(unit, g->type_a) & device->caps) != 0;
}

bool ocl_gemm_is_possible(const ocl_gemm *g, const ocl_device_desc *device, char *reason, size_t size)
{
    /* the backend that accepts most problems on such a device: its reason to refuse this problem is the most
     * useful one */
    const ocl_variant *general = ocl_prefers_lanes(device) ? &ocl_gemm_lane : &ocl_gemm_tile;
    char other[160];
    for (const ocl_variant *const *v = ocl_gemm_variants; *v != NULL; v++)
        if (ocl_variant_accepts(*v, g, device, other, sizeof other))
            return true;
    return ocl_variant_accepts(general, g, device, reason, size);
}

const ocl_family ocl_gemm_family = {.variants = ocl_gemm_variants,
                                    .name = OCL_GEMM_FAMILY,
                                    .sources = "gemm",
                                    .variable = "CLTRAIN_GEMM",
                                    .problem = family_problem,
                                    .flops = family_flops,
                                    .standard = standard,
                                    .describe = describe,
                                    .bench = &ocl_gemm_family_bench};

clt_status ocl_gemm_emit(ocl_emitter *e, const ocl_gemm *gemm, const char *force)
{
    char what[OCL_GEMM_TEXT];
    clt_status status = ocl_emit_status(e);
    if (status != CLT_OK)
        return status;
    if (gemm->moments != NULL)
        gemm->moments->blocks = 0;
    if (gemm->line_sums != NULL)
        gemm->line_sums->made = false;
    status = ocl_gemm_check(gemm);
    if (status == CLT_OK && (gemm->m == 0 || gemm->n == 0))
        return CLT_OK;
    if (status == CLT_OK) {
        ocl_gemm g = *gemm;
        fold_batch(&g);
        g.tf32 = (g.tf32 || e->tf32) && g.type_a == CLT_F32 && g.type_b == CLT_F32;
        ocl_gemm_text(&g, what, sizeof what);
        status = ocl_family_emit(e, &ocl_gemm_family, &g, what, force);
    }
    ocl_emit_fail(e, status);
    return ocl_emit_status(e);
}
