/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe of wgmma (cl/probes/probes.c checks the result): four warps multiply A (64,64) by B (64,64),
 * both row-major f16 in global memory, so that k runs along the rows of A and down the columns of B. in = A,
 * then B; out (64,64) f32. The tiles are at the two ends of PROBE_BYTES of local memory, a multiple of 1024.
 * This file includes others, so it is separate from probe.cl, which must not. */
#include "common.clh"
#define MMA_SM 80
#include "mma.clh"
#define WGMMA_TRANSPOSE_B 1
#include "wgmma.clh"

#define CHUNKS 512               /* chunks of 16 bytes in a tile */
#pragma option PROBE_BYTES 16384 /* two tiles of CHUNKS chunks */
#pragma option PROBE_ITEMS 128 /* items of the group: the first four warps multiply, the others do nothing */
#define PLACE_B (PROBE_BYTES / 16 - CHUNKS) /* position of B, in chunks */

__kernel __attribute__((reqd_work_group_size(PROBE_ITEMS, 1, 1))) void probe_wgmma(__global const uint4 *in,
                                                                                   __global float *out,
                                                                                   uint n LOCAL_PARAM)
{
    WGMMA_MEMORY(tiles, PROBE_BYTES);
    uint lid = (uint)get_local_id(0), line = lid / 32 * 16 + lid % 32 / 4, column = 2 * (lid % 4);
    float sums[1][32];
    for (uint i = 0; i < 32; i++)
        sums[0][i] = 0.0f;
    for (uint v = lid; v < 2 * CHUNKS; v += PROBE_ITEMS)
        tiles[(v < CHUNKS ? 0 : PLACE_B - CHUNKS) + (v & ~7u) + ((v & 7) ^ (v >> 3 & 7))] = in[v];
    WGMMA_SEE();
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid >= 128)
        return;
    WGMMA_START(sums, WGMMA_DESCRIPTOR(tiles), WGMMA_DESCRIPTOR(tiles + PLACE_B));
    WGMMA_FINISH(sums);
    if (n < 64 * 64)
        return;
    for (uint j = 0; j < 8; j++)
        for (uint e = 0; e < 4; e++)
            out[64 * (line + 8 * (e >> 1)) + 8 * j + column + (e & 1)] = sums[0][4 * j + e];
}
