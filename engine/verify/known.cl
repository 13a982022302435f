/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for the checker's known answers: each runs only the random generator or a 16-bit conversion of
 * common.clh. Knows nothing else.
 *
 *   -DDT=f16 or bf16
 *   -DWIDTH=1, 4, 8 or 16: elements of an item, converted by common.clh, quads.clh and lanes.clh; 2: a word
 *       of a fragment, made by mma_registers.clh
 *   -DROUNDING=1 or 2: for known_round only
 *   -DMMA_SM, -DMMA_BF16, -DMMA_TF32, -DMMA_ROUND_EVEN: see mma.clh */
#include "common.clh"
#include "lanes.clh"
#include "quads.clh"

#ifndef DT
#define DT f16
#endif

#ifndef WIDTH
#define WIDTH 1
#endif
/* the rounding that known_round tests: 1 in an epilogue, 2 of operands of matrix units */
#ifndef ROUNDING
#define ROUNDING 0
#endif

#if WIDTH == 2 || ROUNDING == 2
#include "mma.clh"
#endif
#if WIDTH == 2 /* only a store exists */
#include "mma_registers.clh"
#define WIDEN(y, x)
#define NARROW(y, x) vstore2(as_ushort2(MMA_PACK((x)[0], (x)[1])), 0, y)
#elif WIDTH == 4
#define WIDEN(y, x) STORE4(f32, y, 0, LOAD4(DT, x, 0))
#define NARROW(y, x) STORE4(DT, y, 0, LOAD4(f32, x, 0))
#elif WIDTH == 8 /* only a load exists */
#define WIDEN(y, x) vstore8(LANES_LOAD8(DT, x, 0), 0, y)
#define NARROW(y, x)                                                                                         \
    for (uint k = 0; k < WIDTH; k++)                                                                         \
    STORE(DT, y, k, (x)[k])
#elif WIDTH == 16
#define WIDEN(y, x) STORE16(f32, y, 0, LOAD16(DT, x, 0))
#define NARROW(y, x) STORE16(DT, y, 0, LOAD16(f32, x, 0))
#else
#define WIDEN(y, x) (y)[0] = LOAD(DT, x, 0)
#define NARROW(y, x) STORE(DT, y, 0, (x)[0])
#endif

/* y (n,4) = philox of x (n,6) = counter, key. */
__kernel void known_philox(__global uint *y, ulong y0, __global const uint *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i >= n)
        return;
    x += x0 + 6 * i;
    uint4 r = clt_philox((uint4)(x[0], x[1], x[2], x[3]), (uint2)(x[4], x[5]));
    vstore4(r, i, y + y0);
}

/* y (n,WIDTH) f32 = x (n,WIDTH) stored as DT. */
__kernel void known_widen(__global float *y, ulong y0, __global const ushort *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i >= n)
        return;
    y += y0 + WIDTH * i;
    x += x0 + WIDTH * i;
    WIDEN(y, x);
}

/* y (n,WIDTH) stored as DT = x (n,WIDTH) f32. */
__kernel void known_narrow(__global ushort *y, ulong y0, __global const float *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i >= n)
        return;
    y += y0 + WIDTH * i;
    x += x0 + WIDTH * i;
    NARROW(y, x);
}

#if ROUNDING == 1
#define DTC DT
#include "gemm_epilogue.clh"
#if WIDTH == 16
#define ROUND(y, x) vstore16(CLT_CAT(EPILOGUE_AS16_, DT)(vload16(0, x)), 0, y)
#else
#define ROUND(y, x) (y)[0] = CLT_CAT(EPILOGUE_AS_, DT)((x)[0])
#endif
#elif ROUNDING == 2
#define ROUND(y, x) (y)[0] = as_float(MMA_ROUND(as_uint((x)[0])))
#endif

#if ROUNDING
/* y (n,WIDTH) f32 = x (n,WIDTH) f32 as the 16-bit type or tf32 would hold it. */
__kernel void known_round(__global float *y, ulong y0, __global const float *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i >= n)
        return;
    y += y0 + WIDTH * i;
    x += x0 + WIDTH * i;
    ROUND(y, x);
}
#endif
