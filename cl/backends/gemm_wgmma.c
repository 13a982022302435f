/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `wgmma` on the host, for compute capability 9.0: which problems it accepts, what its forms
 * need and cost (cl/gemm/gemm_forms.c chooses), the kernel command (cl/backends/gemm_wgmma.cl, which also
 * gives the reasons for the forms). The driver builds its programs in a second step (cl/program/retarget.c),
 * which may fail like any build; `mma` then computes the products (cl/command/fallback.c). This file must
 * not know what the matrices mean. */
#include "cl/backends/gemm_wgmma.h"

#include <stddef.h>
#include <stdio.h>

#include "cl/backends/gemm_mma.h"
#include "cl/gemm/gemm_windows.h"
#include "cl/program/retarget.h"

#define WARPGROUP 128 /* items of a warpgroup: four warps that multiply together */
#define BK 64         /* steps of k in local memory: rows of 128 bytes */
#define CHUNK 8       /* elements of one copy */

/* Of forms with equal cost in the model the first one is chosen. Forms with two stages are for devices on
 * which no probe showed more local memory than NVIDIA's driver reports. */
#define FORM(m, n, slots)                                                                                    \
    {                                                                                                        \
        .bm = m, .bn = n, .bk = BK, .stages = slots                                                          \
    }
const ocl_gemm_form ocl_wgmma_forms[] = {
    FORM(128, 256, 4), FORM(256, 128, 4), FORM(128, 256, 3), FORM(256, 128, 3), FORM(128, 128, 3),
    FORM(128, 128, 4), FORM(64, 256, 4),  FORM(64, 128, 4),  FORM(64, 128, 2),  FORM(128, 64, 4),
    FORM(128, 64, 2),  FORM(64, 64, 4),   FORM(64, 64, 2),   FORM(192, 256, 4), {0}};

static const ocl_tunable wgmma_tunables[] = {
    {"bm", 4, {128, 256, 64, 192}},
    {"bn", 3, {256, 128, 64}},
    {"stages", 3, {4, 3, 2}},
    {"split", OCL_SPLIT_VALUES + OCL_STREAM_VALUES, {OCL_SPLIT_COUNTS, OCL_STREAM_COUNTS}},
    {0}};

/* --- arithmetic of forms --- */

int ocl_wgmma_items(const ocl_gemm_form *f)
{
    return f->bm / f->pm * (f->bn / f->pn) * WARPGROUP;
}

uint64_t ocl_wgmma_local_bytes(const ocl_gemm_form *f)
{
    uint64_t tiles = (uint64_t)f->stages * (uint64_t)(f->bm + f->bn) * BK * 2;
    uint64_t lines =
        4 * (uint64_t)(f->bm / f->pm) * 64 * (uint64_t)(f->bn + 8); /* SLAB_FLOATS of the kernel */
    return tiles > lines ? tiles : lines;
}

int ocl_wgmma_window_steps(const ocl_gemm *g, const ocl_gemm_form *f)
{
    return ocl_is_windows(g, false) ? ocl_wgmma_items(f) / (f->bn / CHUNK) : f->bk;
}

/* A warpgroup gets as much of a tile as its registers can hold (all columns, and 64 or 128 rows), so that
 * few warpgroups read the same lines. */
static void complete(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                     ocl_gemm_form *f)
{
    (void)g;
    (void)device;
    (void)wanted;
    f->pn = f->bn;
    f->pm = f->bm % 128 == 0 && f->bm > 128 ? 128 : 64;
}

/* Whether cl/kernels/wgmma.clh has the product of this size. */
static bool has_part(const ocl_gemm_form *f)
{
    return (f->pm == 64 && (f->pn == 64 || f->pn == 128 || f->pn == 256)) || (f->pm == 128 && f->pn == 128);
}

#define ONES_BYTES 1024 /* bytes of the tile of ones that sums of A's lines need */

/* Capabilities that a form with `more` bytes of additional local memory needs, besides the instructions. */
static uint32_t sizes_of(const ocl_gemm_form *f, uint64_t more)
{
    return (ocl_wgmma_local_bytes(f) + more > OCL_WGMMA_SMALL_BYTES ? (uint32_t)OCL_CAP_WGMMA_LARGE : 0) |
           (ocl_wgmma_items(f) > 256 ? (uint32_t)OCL_CAP_WGMMA_WIDE : 0);
}

/* With stream-k the 168 registers of each of 384 items are too few for sums of lines, except in the layout
 * TN, which computes gradients of weights: in other layouts ptxas 12.9 spills 8 to 16 bytes of an item. */
static bool makes_line_sums(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    if (f->stream > 0 && ocl_wgmma_items(f) > 256 && !(g->ta && !g->tb))
        return false;
    return (sizes_of(f, ONES_BYTES) & ~device->caps) == 0 &&
           ocl_wgmma_local_bytes(f) + ONES_BYTES <= ocl_form_room(&ocl_wgmma_family, device);
}

static bool fits(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    /* 384 items have 168 registers each, which are too few for the addresses and masks of windows */
    if (ocl_has_windows(g) && ocl_wgmma_items(f) > 256)
        return false;
    if (!has_part(f) || f->bm < f->pm || f->bn < f->pn || (sizes_of(f, 0) & ~device->caps) != 0)
        return false;
    uint64_t items = (uint64_t)ocl_wgmma_items(f), most = (uint64_t)ocl_form_max_items(device);
    return f->stages >= 2 && f->stages <= 4 && items <= (items > 256 ? ocl_group_limit(device) : most) &&
           ocl_wgmma_local_bytes(f) <= ocl_form_room(&ocl_wgmma_family, device);
}

static double cost(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    int parts = f->bm / 64 * (f->bn / f->pn); /* each part reads its 64 lines of A and its columns of B */
    ocl_mma_work work = {.items = ocl_wgmma_items(f),
                         .registers = f->pm * f->pn / (double)WARPGROUP + 64.0,
                         .multiply = 0.5 * f->bm * f->bn * f->bk, /* 2048 multiply-adds per clock */
                         .lines = (double)parts * (64 + f->pn) + f->bm + f->bn,
                         .local_bytes = (double)ocl_wgmma_local_bytes(f)};
    return ocl_mma_time(g, device, f, &work);
}

/* Choice */

static void product_defines(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_define(e, "BM", f->bm);
    ocl_define(e, "BN", f->bn);
    ocl_define(e, "WM", f->pm);
    ocl_define(e, "WN", f->pn);
    ocl_define(e, "STAGES", f->stages);
    ocl_define(e, "MMA_BF16", g->type_a == CLT_BF16);
    ocl_define(e, "MMA_SM", 80); /* generation of the copy instructions */
    ocl_define(e, OCL_RETARGET_DEFINE, 1);
}

static uint64_t ones_bytes(const ocl_gemm *g)
{
    return g->line_sums != NULL && g->line_sums->made ? ONES_BYTES : 0;
}

static uint64_t local_bytes(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    (void)device;
    return ocl_wgmma_local_bytes(f) + ones_bytes(g);
}

static uint32_t uses(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    (void)device;
    return OCL_CAP_WGMMA | sizes_of(f, ones_bytes(g));
}

static const ocl_form_key keys[] = {{"bm", offsetof(ocl_gemm_form, bm), OCL_FORM_KEPT},
                                    {"bn", offsetof(ocl_gemm_form, bn), OCL_FORM_KEPT},
                                    {"stages", offsetof(ocl_gemm_form, stages), OCL_FORM_KEPT},
                                    {0}};

const ocl_form_family ocl_wgmma_family = {.variant = &ocl_gemm_wgmma,
                                          .forms = ocl_wgmma_forms,
                                          .keys = keys,
                                          .min_part = 512,
                                          .complete = complete,
                                          .fits = fits,
                                          .cost = cost,
                                          .program = "gemm_wgmma",
                                          .kernel = "gemm_fwd_wgmma",
                                          .retargeted = true,
                                          .local_bytes = local_bytes,
                                          .local_alignment = OCL_WGMMA_ALIGNMENT,
                                          .items = ocl_wgmma_items,
                                          .window_steps = ocl_wgmma_window_steps,
                                          .uses = uses,
                                          .makes_line_sums = makes_line_sums,
                                          .streams = true,
                                          .defines = product_defines};

static bool wgmma_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const ocl_gemm *g = problem;
    ocl_gemm_form form;
    if (g->type_a != g->type_b || (g->type_a != CLT_F16 && g->type_a != CLT_BF16)) {
        snprintf(reason, size, "it multiplies f16 by f16 or bf16 by bf16, not %s by %s",
                 clt_dtype_name(g->type_a), clt_dtype_name(g->type_b));
        return false;
    }
    if (!ocl_windows_tiled(g, BK, reason, size))
        return false;
    if (!ocl_mma_aligned(g, true) || !ocl_mma_aligned(g, false)) {
        snprintf(reason, size, "rows of %s do not start at multiples of 16 bytes",
                 ocl_mma_aligned(g, true) ? "B" : "A");
        return false;
    }
    return ocl_form_choose(&ocl_wgmma_family, g, device, NULL, &form, reason, size);
}

static clt_status wgmma_emit(ocl_emitter *e, const void *problem)
{
    return ocl_form_emit(&ocl_wgmma_family, e, problem);
}

const ocl_variant ocl_gemm_wgmma = {.name = "wgmma",
                                    .needs = OCL_CAP_LOCAL | OCL_CAP_WGMMA,
                                    .accepts = wgmma_accepts,
                                    .tunables = wgmma_tunables,
                                    .emit = wgmma_emit,
                                    .style = OCL_KERNEL_UNITS};
