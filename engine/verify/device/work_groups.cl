/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that test work-groups, for the checker: barriers, local memory, and many groups. Every result is
 * an integer that the host computes as well. Knows nothing else.
 *
 *   -DLS=items of a work-group
 *   -DWORDS=words of local memory of a work-group */
#include "common.clh"

#pragma option LS 64
#pragma option WORDS 64

/* y (items) = x after `rounds` rounds, in each of which an item changes its value and takes another item's
 * through local memory. Each item does a different amount of work before the barrier, so that items that do
 * not wait give wrong values. Two sets of cells alternate, so that one barrier per round is enough. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void group_rotate(__global uint *y, ulong y0,
                                                                           __global const uint *x, ulong x0,
                                                                           uint rounds)
{
    __local uint cells[2 * LS];
    uint l = (uint)get_local_id(0), group = (uint)get_group_id(0), value = x[x0 + get_global_id(0)];
    for (uint r = 0; r < rounds; r++) {
        __local uint *now = r & 1 ? cells + LS : cells;
        for (uint work = (7 * l + 5 * r + group) % 23; work > 0; work--)
            value = value * 1664525u + 1013904223u;
        now[l] = value;
        barrier(CLK_LOCAL_MEM_FENCE);
        value = now[(l + 1 + r) % LS] ^ r;
    }
    y[y0 + get_global_id(0)] = value;
}

/* y (groups,WORDS): each group fills local memory with its words, and writes them in reverse order, so that
 * other items read them. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void group_local(__global uint *y, ulong y0,
                                                                          __global const uint *x, ulong x0)
{
    __local uint cells[WORDS];
    uint l = (uint)get_local_id(0), group = (uint)get_group_id(0), first = x[x0 + group];
    for (uint i = l; i < WORDS; i += LS)
        cells[i] = (first ^ i) * 0x9e3779b1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    y += y0 + (ulong)group * WORDS;
    for (uint i = l; i < WORDS; i += LS)
        y[i] = cells[WORDS - 1 - i];
}

static inline uint mixed(uint value, uint dimension)
{
    value = (value ^ (uint)get_group_id(dimension)) * 0x9e3779b1u + (uint)get_local_id(dimension);
    value = (value ^ (uint)get_num_groups(dimension)) * 0x85ebca6bu + (uint)get_local_size(dimension);
    return value ^ value >> 15;
}

/* y (items) = x, mixed with all indices and sizes that an item can query, in up to three dimensions. */
__kernel void group_many(__global uint *y, ulong y0, __global const uint *x, ulong x0)
{
    size_t row = get_global_id(2) * get_global_size(1) + get_global_id(1);
    size_t i = row * get_global_size(0) + get_global_id(0);
    y[y0 + i] = mixed(mixed(mixed(x[x0 + i], 0), 1), 2);
}
