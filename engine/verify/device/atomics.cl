/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations for the checker, on cells for which all items compete. Knows nothing else. */
#include "common.clh"
#include "atomics_shared.clh"

/* y (n + cells) holds n answers, then the cells; x (n): the number of each item's cell. Each item applies
 * operation number `which` to its cell and stores the cell's old value as its answer. */
__kernel void atomic_cells(volatile __global uint *y, ulong y0, __global const uint *x, ulong x0, uint n,
                           uint which)
{
    uint i = (uint)get_global_id(0);
    if (i >= n)
        return;
    y += y0;
    volatile __global uint *cell = y + n + x[x0 + i];
    if (which == ATOMICS_INCREMENT)
        y[i] = atomic_inc(cell);
    else if (which == ATOMICS_OR)
        y[i] = atomic_or(cell, 1u << (i & 31));
    else
        y[i] = atomic_xchg(cell, i + 1);
}
