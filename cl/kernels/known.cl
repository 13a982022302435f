/* SPDX-License-Identifier: Apache-2.0
 *
 * For the checker's known answers: the generator and the 16-bit conversions of common.clh, laid bare. Knows nothing else.
 *
 * -DDT=f16 or bf16 */
#include "common.clh"

#ifndef DT
#define DT f16
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

/* y (n) f32 = x (n) stored as DT. */
__kernel void known_widen(__global float *y, ulong y0, __global const ushort *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i < n)
        y[y0 + i] = LOAD(DT, x + x0, i);
}

/* y (n) stored as DT = x (n) f32. */
__kernel void known_narrow(__global ushort *y, ulong y0, __global const float *x, ulong x0, uint n)
{
    size_t i = get_global_id(0);
    if (i < n)
        STORE(DT, y + y0, i, x[x0 + i]);
}
