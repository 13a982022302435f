/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of chunks of CHUNK words, to compare what the host received with what the device holds. sums[2 c]
 * is the sum of the words of chunk c, sums[2 c + 1] the sum of each word times its position in the chunk,
 * counted from 1; both are modulo 2^32, so the order of additions does not matter. A shorter last chunk
 * counts as if zeros followed. checksum.c computes the same on the host. */
#include "chunk.clh"
#include "warnings.clh"

#ifndef CHUNK
#define CHUNK CLT_STORE_CHUNK
#endif
#ifndef ITEMS /* work-items of a group: a power of two that divides CHUNK */
#define ITEMS 64
#endif

/* Each work-item processes one chunk. */
__kernel void checksum_lane(__global const uint *x, ulong xo, __global uint *sums, ulong so, ulong words)
{
    ulong chunk = get_global_id(0), first = chunk * CHUNK;
    if (first >= words)
        return;
    uint n = (uint)min(words - first, (ulong)CHUNK), i = 0;
    uint16 sum = (uint16)(0u), weighted = (uint16)(0u);
    uint16 place = (uint16)(1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u, 15u, 16u);
    x += xo + first;
    for (; i + 16 <= n; i += 16) {
        uint16 word = vload16(0, x + i);
        sum += word;
        weighted += word * (place + i);
    }
    uint8 a = sum.lo + sum.hi, b = weighted.lo + weighted.hi;
    uint4 c = a.lo + a.hi, d = b.lo + b.hi;
    uint total = c.x + c.y + c.z + c.w, weighted_total = d.x + d.y + d.z + d.w;
    for (; i < n; i++) {
        total += x[i];
        weighted_total += x[i] * (i + 1u);
    }
    sums[so + 2 * chunk] = total;
    sums[so + 2 * chunk + 1] = weighted_total;
}

/* Each work-group processes one chunk; neighbouring work-items read neighbouring words. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void checksum_group(__global const uint *x,
                                                                                ulong xo, __global uint *sums,
                                                                                ulong so, ulong words)
{
    __local uint total[ITEMS], weighted[ITEMS];
    uint l = (uint)get_local_id(0), sum = 0u, product = 0u;
    ulong chunk = get_group_id(0), first = chunk * CHUNK;
    uint n = (uint)min(words - first, (ulong)CHUNK);
    for (uint i = l; i < n; i += ITEMS) {
        uint word = x[xo + first + i];
        sum += word;
        product += word * (i + 1u);
    }
    total[l] = sum;
    weighted[l] = product;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_items = ITEMS / 2; half_items > 0; half_items /= 2) {
        if (l < half_items) {
            total[l] += total[l + half_items];
            weighted[l] += weighted[l + half_items];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) {
        sums[so + 2 * chunk] = total[0];
        sums[so + 2 * chunk + 1] = weighted[0];
    }
}
