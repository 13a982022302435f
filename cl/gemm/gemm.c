/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM on the host: checks of the contract, the list of backends (cl/backends/gemm_choice.c chooses), and
 * the backend `simple`, which accepts everything without windows (kernels in cl/backends/gemm.cl). This file
 * must not know what the matrices mean, and it calls neither OpenCL nor a library. */
#include "cl/gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ocl_gemm ocl_gemm_make(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    ocl_gemm g = {.m = m, .n = n, .k = k, .ta = ta, .tb = tb, .batch = 1, .alpha = 1.0f};
    g.lda = ta ? m : k;
    g.ldb = tb ? k : n;
    g.ldc = n;
    /* Leading dimensions of empty matrices are 1, because libraries refuse 0. */
    g.lda = g.lda > 0 ? g.lda : 1;
    g.ldb = g.ldb > 0 ? g.ldb : 1;
    g.ldc = g.ldc > 0 ? g.ldc : 1;
    g.stride_a = m * k;
    g.stride_b = k * n;
    g.stride_c = m * n;
    g.type_a = g.type_b = g.type_c = CLT_F32;
    g.a = g.b = g.c = g.bias = g.residual = g.pre = g.dact = OCL_NO_TENSOR;
    g.activation = OCL_ACT_NONE;
    return g;
}

double ocl_gemm_flops(const ocl_gemm *gemm)
{
    return 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k * (double)gemm->batch;
}

double ocl_gemm_moment_flops(const ocl_gemm *gemm)
{
    bool made = gemm->moments != NULL && gemm->moments->blocks > 0;
    return made ? 4.0 * (double)gemm->m * (double)gemm->n * (double)gemm->batch : 0.0;
}

/* Checks */

/* Number of elements from an operand's first to its last one over all batch items; false above 2^62. */
static bool span(ocl_stored_matrix m, int64_t batch, int64_t *out)
{
    int64_t in_item, between;
    if (m.rows == 0 || m.columns == 0) {
        *out = 0;
        return true;
    }
    if (__builtin_mul_overflow(m.rows - 1, m.ld, &in_item) ||
        __builtin_add_overflow(in_item, m.columns, &in_item) ||
        __builtin_mul_overflow(batch - 1, m.stride, &between) ||
        __builtin_add_overflow(in_item, between, out))
        return false;
    return *out < INT64_C(1) << 62;
}

static ocl_stored_matrix stored_c(const ocl_gemm *g)
{
    return (ocl_stored_matrix){g->m, g->n, g->ldc, g->stride_c};
}

bool ocl_gemm_spans(const ocl_gemm *g, int64_t *a, int64_t *b, int64_t *c)
{
    bool fit = span(ocl_gemm_stored(g, true), g->batch, a) && span(ocl_gemm_stored(g, false), g->batch, b) &&
               span(stored_c(g), g->batch, c);
    if (ocl_has_windows(g))
        *(ocl_is_windows(g, true) ? a : b) = g->windows.elements;
    return fit;
}

const char *ocl_gemm_activation_text(const ocl_gemm *g)
{
    static const char *const activations[] = {"", " +relu", " +gelu", " +gelu_tanh"};
    return (unsigned)g->activation <= OCL_ACT_GELU_TANH ? activations[g->activation] : " +?";
}

const char *ocl_gemm_text(const ocl_gemm *g, char *buffer, size_t size)
{
    snprintf(buffer, size, "gemm %c%c m=%lld n=%lld k=%lld batch=%lld %s*%s->%s%s%s%s%s%s%s%s",
             g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', (long long)g->m, (long long)g->n, (long long)g->k,
             (long long)g->batch, clt_dtype_name(g->type_a), clt_dtype_name(g->type_b),
             clt_dtype_name(g->type_c), ocl_given(g->bias) ? " +bias" : "", ocl_gemm_activation_text(g),
             ocl_given(g->pre) ? " +pre" : "", ocl_given(g->dact) ? " +dact" : "",
             ocl_given(g->residual) ? " +residual" : "", g->tf32 ? " +tf32" : "",
             ocl_has_windows(g) ? " +windows" : "");
    return buffer;
}

static clt_status check_operand(const char *what, const char *operand, ocl_tensor_ref ref, clt_dtype type,
                                ocl_stored_matrix m)
{
    if (!clt_dtype_is_float(type) || type == CLT_F64)
        CLT_FAIL(CLT_ESHAPE, "checking %s: %s is stored as %s; f32, f16 and bf16 are possible", what, operand,
                 clt_dtype_name(type));
    if (m.ld < m.columns || m.ld < 1)
        CLT_FAIL(CLT_ESHAPE, "checking %s: the row stride of %s is %lld and its rows have %lld elements",
                 what, operand, (long long)m.ld, (long long)m.columns);
    if (m.stride < 0)
        CLT_FAIL(CLT_ESHAPE, "checking %s: the batch stride of %s is %lld, below 0", what, operand,
                 (long long)m.stride);
    if (ref.tensor == OCL_NO_TENSOR_ID && m.rows > 0 && m.columns > 0)
        CLT_FAIL(CLT_ESHAPE, "checking %s: %s has no tensor", what, operand);
    if (ref.offset % clt_dtype_bytes(type) != 0)
        CLT_FAIL(CLT_ESHAPE, "checking %s: %s starts at byte %llu, which is not a multiple of %s", what,
                 operand, (unsigned long long)ref.offset, clt_dtype_name(type));
    return CLT_OK;
}

/* Checks that batch items of C do not overlap: they must follow each other in memory, or lie side by side in
 * the same rows (heads packed along a row). */
static clt_status check_items(const char *what, const ocl_gemm *g)
{
    if (g->batch == 1 || g->m == 0 || g->n == 0)
        return CLT_OK;
    bool stacked = g->stride_c >= (g->m - 1) * g->ldc + g->n;
    bool side_by_side = g->stride_c >= g->n && (g->batch - 1) * g->stride_c + g->n <= g->ldc;
    if (!stacked && !side_by_side)
        CLT_FAIL(CLT_ESHAPE, "checking %s: batch items of C overlap (row stride %lld, batch stride %lld)",
                 what, (long long)g->ldc, (long long)g->stride_c);
    return CLT_OK;
}

static bool same(ocl_tensor_ref a, ocl_tensor_ref b)
{
    return ocl_given(a) && a.tensor == b.tensor && a.offset == b.offset;
}

/* Checks that an operand's offset is a multiple of the element size. */
static clt_status check_place(const char *what, const char *operand, ocl_tensor_ref ref, clt_dtype type)
{
    if (ocl_given(ref) && ref.offset % clt_dtype_bytes(type) != 0)
        CLT_FAIL(CLT_ESHAPE, "checking %s: the %s starts at byte %llu, which is not a multiple of %s", what,
                 operand, (unsigned long long)ref.offset, clt_dtype_name(type));
    return CLT_OK;
}

static clt_status check_epilogue(const char *what, const ocl_gemm *g)
{
    if ((unsigned)g->activation > OCL_ACT_GELU_TANH)
        CLT_FAIL(CLT_ESHAPE, "checking %s: activation %d does not exist", what, (int)g->activation);
    CLT_TRY(check_place(what, "bias", g->bias, CLT_F32));
    CLT_TRY(check_place(what, "residual", g->residual, g->type_c));
    CLT_TRY(check_place(what, "pre-activation", g->pre, g->type_c));
    CLT_TRY(check_place(what, "pre-activation of dact", g->dact, g->type_c));
    if ((ocl_given(g->pre) || ocl_given(g->dact)) && g->activation == OCL_ACT_NONE)
        CLT_FAIL(CLT_ESHAPE, "checking %s: %s without an activation", what,
                 ocl_given(g->pre) ? "pre" : "dact");
    if (ocl_given(g->dact) && (ocl_given(g->bias) || ocl_given(g->residual) || ocl_given(g->pre)))
        CLT_FAIL(CLT_ESHAPE, "checking %s: dact excludes bias, residual and pre", what);
    if (same(g->pre, g->c) || same(g->pre, g->residual) || same(g->pre, g->a) || same(g->pre, g->b))
        CLT_FAIL(CLT_ESHAPE, "checking %s: the pre-activation is the same memory as another operand", what);
    return CLT_OK;
}

clt_status ocl_gemm_check(const ocl_gemm *g)
{
    char what[OCL_GEMM_TEXT], reason[160];
    int64_t a, b, c;
    ocl_gemm_text(g, what, sizeof what);
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX)
        CLT_FAIL(CLT_ESHAPE, "checking %s: sizes go from 0 to 2^31-1", what);
    if (g->batch < 1 || g->batch > INT32_MAX)
        CLT_FAIL(CLT_ESHAPE, "checking %s: the batch goes from 1 to 2^31-1", what);
    CLT_TRY(check_operand(what, "A", g->a, g->type_a, ocl_gemm_stored(g, true)));
    CLT_TRY(check_operand(what, "B", g->b, g->type_b, ocl_gemm_stored(g, false)));
    CLT_TRY(check_operand(what, "C", g->c, g->type_c, stored_c(g)));
    if (!ocl_gemm_spans(g, &a, &b, &c))
        CLT_FAIL(CLT_ESHAPE, "checking %s: an operand spans more than 2^62 elements", what);
    if (!ocl_windows_layout(g, reason, sizeof reason))
        CLT_FAIL(CLT_ESHAPE, "checking %s: %s", what, reason);
    CLT_TRY(check_items(what, g));
    if (g->moments != NULL && g->batch > 1 && g->stride_c != g->n)
        CLT_FAIL(CLT_ESHAPE,
                 "checking %s: moments need batch items of C side by side, %lld elements apart, but they are "
                 "%lld apart",
                 what, (long long)g->n, (long long)g->stride_c);
    if (g->line_sums != NULL && g->batch > 1)
        CLT_FAIL(CLT_ESHAPE, "checking %s: sums of A's lines need a batch of 1", what);
    if (c > 0 && ((g->c.tensor == g->a.tensor && g->c.offset == g->a.offset) ||
                  (g->c.tensor == g->b.tensor && g->c.offset == g->b.offset)))
        CLT_FAIL(CLT_ESHAPE, "checking %s: C is the same memory as A or B", what);
    return check_epilogue(what, g);
}

/* Epilogue */

/* The value of HAS_BIAS, HAS_RESIDUAL and HAS_PRE in cl/gemm/gemm_epilogue.clh: 0 absent, 1 present, 2 may
 * be NULL. */
static int64_t presence(const ocl_gemm *g, ocl_tensor_ref ref, bool possible)
{
    return g->optional_operands && possible ? 2 : ocl_given(ref);
}

/* The presence of the epilogue's operands, in the kernel's order. ocl_gemm_check refuses operands that
 * exclude each other. */
typedef struct epilogue_operands {
    int64_t bias, residual, pre, dact;
} epilogue_operands;

static epilogue_operands operands_of(const ocl_gemm *g)
{
    bool forward = !ocl_given(g->dact);
    return (epilogue_operands){.bias = presence(g, g->bias, forward),
                               .residual = presence(g, g->residual, forward),
                               .pre = presence(g, g->pre, forward && g->activation != OCL_ACT_NONE),
                               .dact = ocl_given(g->dact)};
}

static uint64_t columns_of(const ocl_gemm *g)
{
    return (uint64_t)g->n * (uint64_t)g->batch;
}

bool ocl_gemm_make_moments(ocl_emitter *e, const ocl_gemm *g, uint64_t blocks)
{
    if (g->moments == NULL || e->workspace == NULL)
        return false;
    *g->moments = (ocl_moments){
        .blocks = blocks,
        .count = ocl_workspace(e, CLT_F32, blocks, "rows of blocks"),
        .mean = ocl_workspace(e, CLT_F32, blocks * columns_of(g), "means of blocks"),
        .square = ocl_workspace(e, CLT_F32, blocks * columns_of(g), "squares of blocks"),
    };
    return true;
}

static bool has_moments(const ocl_gemm *g)
{
    return g->moments != NULL && g->moments->blocks > 0;
}

void ocl_gemm_epilogue_defines(ocl_emitter *e, const ocl_gemm *g)
{
    epilogue_operands has = operands_of(g);
    ocl_define_text(e, "DTC", clt_dtype_name(g->type_c));
    ocl_define(e, "ACTIVATION", (int64_t)g->activation);
    ocl_define(e, "HAS_BIAS", has.bias);
    ocl_define(e, "HAS_RESIDUAL", has.residual);
    ocl_define(e, "HAS_PRE", has.pre);
    ocl_define(e, "HAS_DACT", has.dact);
    if (has_moments(g))
        ocl_define(e, "MOMENTS", 1);
}

void ocl_gemm_epilogue_args(ocl_emitter *e, const ocl_gemm *g)
{
    epilogue_operands has = operands_of(g);
    uint64_t elements = (uint64_t)(g->m * g->n) * (uint64_t)g->batch;
    if (has.bias)
        ocl_arg_tensor(e, OCL_READ, g->bias, CLT_F32, (uint64_t)g->n);
    if (has.residual)
        ocl_arg_tensor(e, OCL_READ, g->residual, g->type_c, elements);
    if (has.pre)
        ocl_arg_tensor(e, OCL_WRITE, g->pre, g->type_c, elements);
    if (has.dact)
        ocl_arg_tensor(e, OCL_READ, g->dact, g->type_c, elements);
    if (has_moments(g)) {
        ocl_arg_out(e, g->moments->count, CLT_F32, g->moments->blocks);
        ocl_arg_out(e, g->moments->mean, CLT_F32, g->moments->blocks * columns_of(g));
        ocl_arg_out(e, g->moments->square, CLT_F32, g->moments->blocks * columns_of(g));
    }
}

/* Operands */

void ocl_gemm_operand_defines(ocl_emitter *e, const ocl_gemm *g)
{
    ocl_define(e, "TA", g->ta);
    ocl_define(e, "TB", g->tb);
    ocl_define_text(e, "DTA", clt_dtype_name(g->type_a));
    ocl_define_text(e, "DTB", clt_dtype_name(g->type_b));
}

void ocl_gemm_result_arg(ocl_emitter *e, const ocl_gemm *g)
{
    ocl_arg_tensor(e, g->beta != 0.0f ? OCL_READ_WRITE : OCL_WRITE, g->c, g->type_c,
                   (uint64_t)(g->m * g->n) * (uint64_t)g->batch);
}

/* Adds the arguments GEMM_A_B. */
static void factor_args(ocl_emitter *e, const ocl_gemm *g)
{
    uint64_t items_a = g->stride_a ? (uint64_t)g->batch : 1, items_b = g->stride_b ? (uint64_t)g->batch : 1;
    uint64_t elements_a = (uint64_t)(g->m * g->k) * items_a, elements_b = (uint64_t)(g->k * g->n) * items_b;
    if (ocl_is_windows(g, true))
        elements_a = (uint64_t)g->windows.elements;
    if (ocl_is_windows(g, false))
        elements_b = (uint64_t)g->windows.elements;
    ocl_arg_tensor(e, OCL_READ, g->a, g->type_a, elements_a);
    ocl_arg_tensor(e, OCL_READ, g->b, g->type_b, elements_b);
}

/* Adds the arguments GEMM_SIZES. */
static void size_args(ocl_emitter *e, const ocl_gemm *g)
{
    ocl_arg_u32(e, (uint32_t)g->m);
    ocl_arg_u32(e, (uint32_t)g->n);
    ocl_arg_u32(e, (uint32_t)g->k);
    ocl_arg_u64(e, (uint64_t)g->lda);
    ocl_arg_u64(e, (uint64_t)g->ldb);
    ocl_arg_u64(e, (uint64_t)g->stride_a);
    ocl_arg_u64(e, (uint64_t)g->stride_b);
    ocl_arg_u32(e, (uint32_t)g->batch);
}

void ocl_gemm_operand_args(ocl_emitter *e, const ocl_gemm *g)
{
    ocl_gemm_result_arg(e, g);
    factor_args(e, g);
    ocl_gemm_epilogue_args(e, g);
    size_args(e, g);
    ocl_arg_u64(e, (uint64_t)g->ldc);
    ocl_arg_u64(e, (uint64_t)g->stride_c);
    ocl_arg_f32(e, g->alpha);
    ocl_arg_f32(e, g->beta);
}

void ocl_gemm_part_args(ocl_emitter *e, const ocl_gemm *g, int32_t part, uint64_t floats)
{
    ocl_arg_out(e, part, CLT_F32, floats);
    factor_args(e, g);
    size_args(e, g);
}

/* --- backend `simple` --- */

static void simple_defines(ocl_emitter *e, const ocl_gemm *g, bool lane, int vectors, int tile)
{
    ocl_define(e, "VW", lane ? 16 : 4);
    ocl_define(e, "NV", vectors);
    ocl_define(e, "TILE", tile);
    ocl_define(e, "LANE", lane);
    ocl_gemm_operand_defines(e, g);
    ocl_gemm_epilogue_defines(e, g);
}

static clt_status simple_emit(ocl_emitter *e, const void *problem)
{
    const ocl_gemm *g = problem;
    bool lane = ocl_prefers_lanes(e->device);
    bool dot = g->tb && !g->ta, tall = g->ta && g->tb;
    uint64_t wide = (uint64_t)(tall ? g->m : g->n), narrow = (uint64_t)(tall ? g->n : g->m);
    /* Enough independent accumulators to hide the latency of fma, few enough to stay in registers: two
     * vectors by eight were the fastest of 1x8, 2x8, 3x8, 2x12 and 4x4 on a CPU device with 32 vector
     * registers. One vector is used if the second one would be empty. */
    int vectors = lane && wide > 16 ? 2 : 1, tile = dot ? 4 : 8;
    uint64_t across = dot ? (uint64_t)tile : (uint64_t)vectors * (lane ? 16 : 4);
    uint64_t tiles = clt_div_up(wide, across) * clt_div_up(narrow, (uint64_t)tile);
    uint64_t group = lane ? 1 : ocl_group_items(e->device, 64);
    ocl_kernel_begin(e, "gemm", dot ? "gemm_fwd_dot" : "gemm_fwd_simple");
    simple_defines(e, g, lane, vectors, tile);
    ocl_kernel_needs(e, lane ? OCL_CAP_WIDE_VECTORS : 0);
    ocl_gemm_operand_args(e, g);
    ocl_kernel_end_items(e, tiles * (uint64_t)g->batch, group, ocl_gemm_flops(g));
    return ocl_emit_status(e);
}

static bool simple_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)device;
    if (!ocl_has_windows(problem))
        return true;
    snprintf(reason, size, "it reads matrices in memory, not windows of an image");
    return false;
}

static const ocl_variant gemm_simple = {.name = "simple", .accepts = simple_accepts, .emit = simple_emit};

enum {
    AT_LANE,
#ifdef CLT_HAVE_CLBLAST
    AT_CLBLAST,
#endif
    FIRST_UNIT,
    BEFORE_UNITS = FIRST_UNIT - 1,
#define OCL_UNIT(name, caps) AT_##name,
#include "cl/device/matrix_units.def"
    AT_TILE
};

const ocl_variant *const ocl_gemm_variants[] = {[AT_LANE] = &ocl_gemm_lane,
#ifdef CLT_HAVE_CLBLAST
                                                [AT_CLBLAST] = &ocl_gemm_clblast,
#endif
/* the newest unit first */
#define OCL_UNIT(name, caps) [FIRST_UNIT + AT_TILE - 1 - AT_##name] = &ocl_gemm_##name,
#include "cl/device/matrix_units.def"
                                                [AT_TILE] = &ocl_gemm_tile,
                                                &gemm_simple,
                                                NULL};

uint32_t ocl_gemm_promises(const ocl_variant *backend)
{
    return backend == &gemm_simple     ? OCL_GEMM_CHAINS | OCL_GEMM_ALL
           : backend == &ocl_gemm_lane ? OCL_GEMM_CHAINS | OCL_GEMM_MOMENTS
                                       : 0;
}

const ocl_library *ocl_gemm_library(void)
{
#ifdef CLT_HAVE_CLBLAST
    return &ocl_clblast;
#else
    return NULL;
#endif
}

/* Bytes of one operand: rows x columns of all batch items. A shared operand counts once. */
static uint64_t operand_bytes(int64_t rows, int64_t columns, int64_t batch, clt_dtype dtype)
{
    return (uint64_t)rows * (uint64_t)columns * (uint64_t)batch * clt_dtype_bytes(dtype);
}

void ocl_emit_library_gemm(ocl_emitter *e, const ocl_gemm *gemm, const ocl_library *library)
{
    int64_t batch_a = gemm->stride_a ? gemm->batch : 1, batch_b = gemm->stride_b ? gemm->batch : 1;
    const ocl_span_use use[3] = {{gemm->beta != 0.0f ? OCL_READ_WRITE : OCL_WRITE, gemm->c,
                                  (uint32_t)clt_dtype_bytes(gemm->type_c),
                                  operand_bytes(gemm->m, gemm->n, gemm->batch, gemm->type_c)},
                                 {OCL_READ, gemm->a, (uint32_t)clt_dtype_bytes(gemm->type_a),
                                  operand_bytes(gemm->m, gemm->k, batch_a, gemm->type_a)},
                                 {OCL_READ, gemm->b, (uint32_t)clt_dtype_bytes(gemm->type_b),
                                  operand_bytes(gemm->k, gemm->n, batch_b, gemm->type_b)}};
    ocl_emit_library(e, library, gemm, sizeof *gemm, ocl_gemm_flops(gemm), use);
}
