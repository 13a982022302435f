/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that stay on the device between runs: a run writes one row per sample; at position 0 it also clears
 * the other rows. */
#include "common.clh"
#include "types.clh"

/* y (samples, rows, width); x (samples, width); position (samples); one work-item per element of y. */
__kernel void kv_cache_fwd(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                           __global const int *position, ulong p0, uint rows, uint width, ulong elements)
{
    ulong i = get_global_id(0);
    if (i >= elements)
        return;
    ulong row = i / width;
    uint c = (uint)(i - row * width);
    ulong n = row / rows;
    uint at = (uint)position[p0 + n], r = (uint)(row - n * rows);
    if (r == at)
        y[y0 + i] = x[x0 + n * width + c];
    else if (at == 0)
        STORE(DT, y, y0 + i, 0.0f);
}
