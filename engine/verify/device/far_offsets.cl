/* SPDX-License-Identifier: Apache-2.0
 *
 * Accesses elements far from the start of a large buffer, for the checker. Knows nothing else.
 *
 *   -DDT=u32 or u8: type of the elements */
#include "common.clh"

#pragma option DT u32

/* Writes a word to n places in y: place i is element i * stride. */
__kernel void far_write(__global STORAGE(DT) * y, ulong y0, ulong stride, uint n, uint seed)
{
    uint i = (uint)get_global_id(0);
    if (i < n)
        y[y0 + i * stride] = (STORAGE(DT))(((i ^ seed) * 0x9e3779b1u) >> 8);
}

/* y (n) = the elements at the n places in x. */
__kernel void far_read(__global uint *y, ulong y0, __global const STORAGE(DT) * x, ulong x0, ulong stride,
                       uint n)
{
    uint i = (uint)get_global_id(0);
    if (i < n)
        y[y0 + i] = x[x0 + i * stride];
}
