/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments and limits of matrices of windows: see gemm_windows.h. */
#include "cl/gemm/gemm_windows.h"

#include <stdio.h>
#include <stdlib.h>

/* Bits of a row's mask: one for each place of the window along each dimension, and one that is never set. */
#define MASK_BITS 31

/* How a counter is advanced by the steps of a tile, and what that does to a pointer: WALK_PARAMS. */
typedef struct walk {
    int64_t add[4], size[3], unit[3], carry[3], on;
} walk;

/* Elements between neighbours of the image along each dimension: its strides. */
static void strides_of(const ocl_windows *w, int64_t apart[3])
{
    apart[2] = w->place;
    apart[1] = apart[2] * w->in[2];
    apart[0] = apart[1] * w->in[1];
}

/* A: the column, as channel and place in the window. A tile further is bk columns further. */
static walk walk_of_columns(const ocl_windows *w, int64_t bk)
{
    int64_t apart[3], place = bk / w->channels, row = place / w->kernel[2];
    strides_of(w, apart);
    walk s = {.add = {bk % w->channels, place % w->kernel[2], row % w->kernel[1], row / w->kernel[1]},
              .size = {w->channels, w->kernel[2], w->kernel[1]},
              .unit = {0, 1, 1}};
    int64_t step[4] = {1, apart[2] * w->dilation[2], apart[1] * w->dilation[1], apart[0] * w->dilation[0]};
    for (int i = 0; i < 3; i++)
        s.carry[i] = step[i + 1] - s.size[i] * step[i];
    for (int i = 0; i < 4; i++)
        s.on += s.add[i] * step[i];
    return s;
}

/* B: the row, as place of the result in units of the image. A tile further is bk rows further. */
static walk walk_of_rows(const ocl_windows *w, int64_t bk)
{
    int64_t apart[3], left = bk;
    strides_of(w, apart);
    walk s = {.unit = {0, w->stride[1], w->stride[0]}};
    for (int i = 0; i < 3; i++) {
        int dim = 2 - i;
        s.add[i] = left % w->out[dim] * w->stride[dim];
        s.size[i] = w->out[dim] * w->stride[dim];
        s.on += s.add[i] * apart[dim];
        s.carry[i] =
            (dim > 0 ? apart[dim - 1] * w->stride[dim - 1] : apart[0] * w->in[0]) - s.size[i] * apart[dim];
        left /= w->out[dim];
    }
    s.on += left * apart[0] * w->in[0];
    return s;
}

static walk walk_of(const ocl_windows *w, int64_t bk)
{
    return w->operand == OCL_WINDOWS_A ? walk_of_columns(w, bk) : walk_of_rows(w, bk);
}

static bool is_small(int64_t value)
{
    return llabs(value) <= INT32_MAX / 4;
}

/* Kernels add up to four of these numbers in 32 bits. */
static bool fits_words(const walk *s)
{
    bool small = is_small(s->on);
    for (int i = 0; i < 3; i++)
        small = small && is_small(s->carry[i]) && is_small(s->size[i]);
    return small;
}

bool ocl_windows_divisible(const ocl_gemm *g, int64_t width)
{
    const ocl_windows *w = &g->windows;
    bool of_a = w->operand == OCL_WINDOWS_A;
    int64_t bytes = (int64_t)clt_dtype_bytes(of_a ? g->type_a : g->type_b);
    int64_t start = (int64_t)(of_a ? g->a.offset : g->b.offset) / bytes;
    int64_t stride = g->batch > 1 ? (of_a ? g->stride_a : g->stride_b) : 0;
    return (w->channels | w->place | start | stride) % width == 0;
}

bool ocl_windows_tiled(const ocl_gemm *g, int64_t most, char *reason, size_t size)
{
    const ocl_windows *w = &g->windows;
    if (w->operand == OCL_WINDOWS_NONE)
        return true;
    if (w->operand == OCL_WINDOWS_A ? g->ta : !g->ta || g->tb) {
        snprintf(reason, size, "%s can be a matrix of windows only in %s",
                 w->operand == OCL_WINDOWS_A ? "A" : "B",
                 w->operand == OCL_WINDOWS_A ? "the layouts NN and NT" : "the layout TN");
        return false;
    }
    if (w->operand == OCL_WINDOWS_A && w->kernel[0] + w->kernel[1] + w->kernel[2] > MASK_BITS) {
        snprintf(reason, size, "a window of %lld x %lld x %lld is too large for a mask of %d bits",
                 (long long)w->kernel[0], (long long)w->kernel[1], (long long)w->kernel[2], MASK_BITS);
        return false;
    }
    for (int64_t bk = 1; bk <= most; bk *= 2) {
        walk s = walk_of(w, bk);
        if (!fits_words(&s)) {
            snprintf(reason, size, "the image is too large for offsets of 32 bits");
            return false;
        }
    }
    return true;
}

/* --- arguments --- */

static uint64_t three(const int64_t values[3], int64_t added)
{
    uint64_t packed = 0;
    for (int i = 0; i < 3; i++)
        packed |= (uint64_t)(values[i] + added) << (21 * i);
    return packed;
}

void ocl_windows_args(ocl_emitter *e, const ocl_windows *w, bool by_rows)
{
    bool merged = by_rows && w->dilation[2] == 1 && w->place == w->channels;
    int64_t kernel[3] = {w->kernel[0], w->kernel[1], merged ? 1 : w->kernel[2]};
    ocl_arg_u64(e, three(w->in, 0));
    ocl_arg_u64(e, three(w->out, 0));
    ocl_arg_u64(e, three(kernel, 0));
    ocl_arg_u64(e, three(w->stride, 0));
    ocl_arg_u64(e, three(w->dilation, 0));
    ocl_arg_u64(e, three(w->padding, INT64_C(1) << 20));
    ocl_arg_u32(e, (uint32_t)w->channels);
    ocl_arg_u32(e, (uint32_t)(w->channels * (merged ? w->kernel[2] : 1)));
    ocl_arg_u64(e, (uint64_t)w->place);
}

void ocl_windows_tile_args(ocl_emitter *e, const ocl_windows *w, int64_t bk)
{
    walk s = walk_of(w, bk);
    ocl_windows_args(e, w, false);
    for (int i = 0; i < 4; i++)
        ocl_arg_i32(e, (int32_t)s.add[i]);
    for (int i = 0; i < 3; i++)
        ocl_arg_i32(e, (int32_t)s.size[i]);
    for (int i = 1; i < 3; i++)
        ocl_arg_i32(e, (int32_t)s.unit[i]);
    ocl_arg_i32(e, (int32_t)s.on);
    for (int i = 0; i < 3; i++)
        ocl_arg_i32(e, (int32_t)s.carry[i]);
}

bool ocl_gemm_is_possible(const ocl_gemm *g, const ocl_device_desc *device, char *reason, size_t size)
{
    for (const ocl_variant *const *v = ocl_gemm_variants; *v != NULL; v++)
        if (ocl_variant_accepts(*v, g, device, reason, size))
            return true;
    return false;
}
