/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices of windows: checks their layout and sizes, and computes the kernel arguments with which a kernel
 * goes through them without divisions (WALK_PARAMS of gemm_window_tiles.clh). */
#include "cl/gemm/gemm_windows.h"

#include <stdio.h>
#include <stdlib.h>

/* Bits of a row's mask: one for each index of the window along each dimension, and one that is never set. */
#define MASK_BITS 31

/* Limit of sizes: three are packed into one 64-bit word. */
#define SIZE_LIMIT (INT64_C(1) << 20)

/* WALK_PARAMS: how a counter of several digits advances by the steps of a tile, and how its pointer moves
 * with it. */
typedef struct walk {
    int64_t add[4], size[3], unit[3], carry[3], on;
} walk;

/* Strides of the image: elements between neighbours along each dimension. */
static void strides_of(const ocl_windows *w, int64_t apart[3])
{
    apart[2] = w->place;
    apart[1] = apart[2] * w->in[2];
    apart[0] = apart[1] * w->in[1];
}

/* For A the counter is a column, as channel and place in the window. Advances by `steps` columns. */
static walk walk_of_columns(const ocl_windows *w, int64_t steps)
{
    int64_t apart[3], place = steps / w->channels, row = place / w->kernel[2];
    strides_of(w, apart);
    walk s = {.add = {steps % w->channels, place % w->kernel[2], row % w->kernel[1], row / w->kernel[1]},
              .size = {w->channels, w->kernel[2], w->kernel[1]},
              .unit = {0, 1, 1}};
    int64_t step[4] = {1, apart[2] * w->dilation[2], apart[1] * w->dilation[1], apart[0] * w->dilation[0]};
    for (int i = 0; i < 3; i++)
        s.carry[i] = step[i + 1] - s.size[i] * step[i];
    for (int i = 0; i < 4; i++)
        s.on += s.add[i] * step[i];
    return s;
}

int ocl_windows_dims(const ocl_windows *w)
{
    bool flat = w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->padding[0] == 0;
    return w->operand == OCL_WINDOWS_B && flat ? 2 : 3;
}

/* For B the counter is a row, which is a pixel of the result; its digits count pixels of the image. Advances
 * by `steps` rows. Without a depth, the first row of the next image follows the last row of an image. */
static walk walk_of_rows(const ocl_windows *w, int64_t steps)
{
    int64_t apart[3], left = steps;
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
    if (ocl_windows_dims(w) == 2)
        s.carry[1] += s.carry[2];
    return s;
}

static walk walk_of(const ocl_windows *w, int64_t steps)
{
    return w->operand == OCL_WINDOWS_A ? walk_of_columns(w, steps) : walk_of_rows(w, steps);
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

/* Whether all sizes can be passed to a kernel. */
static bool in_range(const ocl_windows *w)
{
    bool right = w->channels > 0 && w->channels <= INT32_MAX && w->place >= w->channels;
    for (int i = 0; i < 3; i++) {
        const int64_t sizes[] = {w->in[i], w->out[i], w->kernel[i], w->stride[i], w->dilation[i]};
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            right = right && sizes[j] > 0 && sizes[j] < SIZE_LIMIT;
        right = right && w->padding[i] >= -SIZE_LIMIT && w->padding[i] < SIZE_LIMIT;
    }
    return right;
}

/* *out = `each` times the product of `sizes`; false if it overflows. */
static bool volume(const int64_t sizes[3], int64_t each, int64_t *out)
{
    *out = each;
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(*out, sizes[i], out))
            return false;
    return true;
}

/* Whether the tensor has enough elements for all images of all batch items. */
static bool has_elements(const ocl_windows *w, int64_t images, int64_t batch, int64_t stride)
{
    int64_t places, last, item;
    if (images == 0)
        return true;
    return volume(w->in, images, &places) && !__builtin_mul_overflow(places - 1, w->place, &last) &&
           !__builtin_mul_overflow(batch - 1, stride, &item) && !__builtin_add_overflow(last, item, &last) &&
           !__builtin_add_overflow(last, w->channels, &last) && last <= w->elements;
}

bool ocl_windows_layout(const ocl_gemm *g, char *reason, size_t size)
{
    const ocl_windows *w = &g->windows;
    bool of_a = w->operand == OCL_WINDOWS_A;
    const char *operand = of_a ? "A" : "B";
    int64_t rows = of_a ? g->m : g->k, columns = of_a ? g->k : g->n, places, width;
    if (w->operand == OCL_WINDOWS_NONE)
        return true;
    if (of_a ? g->ta : !g->ta || g->tb)
        snprintf(reason, size, "%s can be a matrix of windows only in %s", operand,
                 of_a ? "the layouts NN and NT" : "the layout TN");
    else if (!in_range(w))
        snprintf(reason, size, "a size of the windows of %s is not between 1 and 2^20", operand);
    else if (!volume(w->kernel, w->channels, &width) || width != columns)
        snprintf(reason, size,
                 "%s has %lld columns, which is not the size of windows of %lld x %lld x %lld x %lld",
                 operand, (long long)columns, (long long)w->kernel[0], (long long)w->kernel[1],
                 (long long)w->kernel[2], (long long)w->channels);
    else if (!volume(w->out, 1, &places) || rows % places != 0)
        snprintf(reason, size, "%s has %lld rows, which make no whole images of %lld x %lld x %lld windows",
                 operand, (long long)rows, (long long)w->out[0], (long long)w->out[1], (long long)w->out[2]);
    else if (!has_elements(w, rows / places, g->batch, of_a ? g->stride_a : g->stride_b))
        snprintf(reason, size, "the image of %s has only %lld elements", operand, (long long)w->elements);
    else
        return true;
    return false;
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
    if (w->operand == OCL_WINDOWS_A && w->kernel[0] + w->kernel[1] + w->kernel[2] > MASK_BITS) {
        snprintf(reason, size, "a window of %lld x %lld x %lld is too large for a mask of %d bits",
                 (long long)w->kernel[0], (long long)w->kernel[1], (long long)w->kernel[2], MASK_BITS);
        return false;
    }
    for (int64_t steps = 1; steps <= most; steps *= 2) {
        walk s = walk_of(w, steps);
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
    ocl_arg_u64(e, three(w->padding, SIZE_LIMIT));
    ocl_arg_u32(e, (uint32_t)w->channels);
    ocl_arg_u32(e, (uint32_t)(w->channels * (merged ? w->kernel[2] : 1)));
    ocl_arg_u64(e, (uint64_t)w->place);
}

void ocl_windows_tile_args(ocl_emitter *e, const ocl_windows *w, int64_t steps)
{
    walk s = walk_of(w, steps);
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
