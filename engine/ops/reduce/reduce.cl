/* SPDX-License-Identifier: Apache-2.0
 *
 * Sum, mean and maximum over any set of dimensions, and their gradients. The tensor is seen as up to three
 * kept and three reduced dimensions with strides, innermost last. Forms: group (one work-group per output;
 * the innermost dimension is reduced); column (the innermost dimension is kept: one item per tile of
 * neighbouring outputs, which stay in the first-level cache while whole rows stream past them, or one output
 * per item of a group); row (one item per output; accepts everything). A maximum stores the index of the
 * first one; NaN is greater than everything. Sums of many elements are made in chains (long_sum.clh).
 * Launches have one dimension: devices limit the groups of the others to 65535.
 *
 *   -DMAX=0|1  -DINDEX=0|1: store the index of the maximum
 *   -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx
 *   -DWG=work-group size of the kernels group  -DLS=items of a group of the kernels column
 *   -DROWS=rows that the item of a one-item group reads side by side (several if a tile is a part of each
 *   row)
 *   -DNT: see lanes.clh */
#include "common.clh"
#include "lanes.clh"
#include "long_sum.clh"
#include "groups.clh"
#include "reduce_shared.clh"
#include "types.clh"

#pragma option MAX 0
#pragma option INDEX MAX
#pragma option LS 1
#pragma option ROWS 1
/* Sizes and strides in elements; kept sizes k0, k1, k2, reduced sizes r0, r1, r2, the innermost last. */
#define SHAPE_ARGS                                                                                           \
    uint k0, uint k1, uint k2, ulong ks0, ulong ks1, ulong ks2, uint r0, uint r1, uint r2, ulong rs0,        \
        ulong rs1, ulong rs2
#if INDEX
#define INDEX_OUT , __global uint *restrict where, ulong where0
#else
#define INDEX_OUT
#endif
#if MAX
#define INDEX_IN , __global const uint *restrict where, ulong where0
#define START (-INFINITY)
#else
#define INDEX_IN
#define START 0.0f
#endif

/* END_CHAIN adds the running sum to the sum of all chains and begins another chain. END_SUM adds the last
 * chain; `sum` is then the result. A maximum is one chain. */
#if MAX
#define END_CHAIN(type, all, rest, sum) (void)0
#define END_SUM(type, all, rest, sum) ((void)(all), (void)(rest))
#else
#define END_CHAIN(type, all, rest, sum)                                                                      \
    do {                                                                                                     \
        LONG_SUM_ADD(type, all, rest, sum);                                                                  \
        (sum) = (type)(0.0f);                                                                                \
    } while (0)
#define END_SUM(type, all, rest, sum)                                                                        \
    do {                                                                                                     \
        LONG_SUM_ADD(type, all, rest, sum);                                                                  \
        (sum) = (all);                                                                                       \
    } while (0)
#endif

#define FOR_OUTER(i0, i1)                                                                                    \
    for (uint i0 = 0; i0 < r0; i0++)                                                                         \
        for (uint i1 = 0; i1 < r1; i1++)

/* Adds one value to the result. A maximum changes only for a greater value, or for the first NaN. */
static inline float reduce_take(float sum, float v)
{
#if MAX
    return v > sum || v != v ? v : sum;
#else
    return sum + v;
#endif
}
static inline float16 reduce_take16(float16 sum, float16 v)
{
#if MAX
    return select(sum, v, v > sum || v != v);
#else
    return sum + v;
#endif
}
static inline float reduce_lanes(float16 v)
{
    float lane[16];
    vstore16(v, 0, lane);
    for (uint half_size = 8; half_size > 0; half_size >>= 1)
        for (uint i = 0; i < half_size; i++)
            lane[i] = reduce_take(lane[i], lane[i + half_size]);
    return lane[0];
}
static inline bool reduce_same(float v, float top)
{
    return v == top || (v != v && top != top);
}
/* The group's outputs in the kernels column: `width` of them from `begin` on, of row o0, o1. */
#define TILE_OF_GROUP                                                                                        \
    uint group = (uint)get_group_id(0), tiles = (k2 - 1) / tile + 1, row = group / tiles;                    \
    uint begin = (group - row * tiles) * tile, width = min(tile, k2 - begin);                                \
    ulong o0 = row / k1, o1 = row % k1
#define SHAPE k0, k1, k2, ks0, ks1, ks2, r0, r1, r2, rs0, rs1, rs2

/* Finding the index of the first maximum: vectors first test whether a block of FIND elements contains it. */
#define FIND 64
static inline bool reduce_among(__global const STORAGE(DT) * p, float top)
{
    int16 hit = (int16)(0);
    int16 nan = (int16)(top != top ? -1 : 0);
    for (uint i = 0; i < FIND; i += LANES) {
        float16 v = LOAD16(DT, p, i);
        hit |= (v == (float16)(top)) | ((v != v) & nan);
    }
    return any(hit);
}
static inline uint reduce_find(__global const STORAGE(DT) * x, float top, SHAPE_ARGS)
{
    FOR_OUTER(i0, i1)
    {
        __global const STORAGE(DT) *p = x + i0 * rs0 + i1 * rs1;
        uint i = 0;
        if (rs2 == 1)
            while (i + FIND <= r2 && !reduce_among(p + i, top))
                i += FIND;
        for (; i < r2; i++)
            if (reduce_same(LOAD(DT, p, i * rs2), top))
                return (i0 * r1 + i1) * r2 + i;
    }
    return 0;
}

/* y (kept) = factor * sum of x (kept and reduced), or its maximum. */
__kernel void reduce_fwd_row(__global STORAGE(DT) *restrict y, ulong y0 INDEX_OUT,
                             __global const STORAGE(DT) *restrict x, ulong x0, SHAPE_ARGS, float factor)
{
    ulong o = get_global_id(0);
    if (o >= (ulong)k0 * k1 * k2)
        return;
    ulong o01 = o / k2, o2 = o - o01 * k2, o0 = o01 / k1, o1 = o01 - o0 * k1;
    x += x0 + o0 * ks0 + o1 * ks1 + o2 * ks2;
    float sum = START, all = 0.0f, rest = 0.0f;
    float16 sum16 = (float16)(START), all16 = (float16)(0.0f), rest16 = (float16)(0.0f);
    uint taken = 0;
    FOR_OUTER(i0, i1)
    {
        __global const STORAGE(DT) *p = x + i0 * rs0 + i1 * rs1;
        for (uint i = 0; i < r2;) {
            uint end = i + min(r2 - i, (uint)SUM_STEPS);
            taken += end - i;
            if (rs2 == 1)
                for (; i + LANES <= end; i += LANES)
                    sum16 = reduce_take16(sum16, LOAD16(DT, p, i));
            for (; i < end; i++)
                sum = reduce_take(sum, LOAD(DT, p, i * rs2));
            if (taken >= SUM_STEPS) {
                END_CHAIN(float, all, rest, sum);
                END_CHAIN(float16, all16, rest16, sum16);
                taken = 0;
            }
        }
    }
    END_SUM(float, all, rest, sum);
    END_SUM(float16, all16, rest16, sum16);
    sum = reduce_take(reduce_lanes(sum16), sum);
    STORE(DT, y, y0 + o, sum * factor);
#if INDEX
    where[where0 + o] = reduce_find(x, sum, SHAPE);
#endif
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void reduce_fwd_group(
    __global STORAGE(DT) *restrict y, ulong y0 INDEX_OUT, __global const STORAGE(DT) *restrict x, ulong x0,
    SHAPE_ARGS, float factor)
{
    __local float scratch[WG];
    uint group = (uint)get_group_id(0), o01 = group / k2;
    ulong o = group, o2 = group - o01 * k2, o0 = o01 / k1, o1 = o01 % k1;
    uint lane = (uint)get_local_id(0), taken = 0;
    x += x0 + o0 * ks0 + o1 * ks1 + o2 * ks2;
    float sum = START, all = 0.0f, rest = 0.0f;
    FOR_OUTER(i0, i1)
    {
        __global const STORAGE(DT) *p = x + i0 * rs0 + i1 * rs1;
        for (uint i = lane; i < r2; i += WG) {
            sum = reduce_take(sum, LOAD(DT, p, i));
            if (++taken == SUM_STEPS) {
                END_CHAIN(float, all, rest, sum);
                taken = 0;
            }
        }
    }
    END_SUM(float, all, rest, sum);
    scratch[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = WG / 2; half_size > 0; half_size >>= 1) {
        if (lane < half_size)
            scratch[lane] = reduce_take(scratch[lane], scratch[lane + half_size]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = scratch[0];
    if (lane == 0)
        STORE(DT, y, y0 + o, sum * factor);
#if INDEX
    __local uint first[WG];
    uint found = UINT_MAX;
    FOR_OUTER(i0, i1)
    {
        __global const STORAGE(DT) *p = x + i0 * rs0 + i1 * rs1;
        for (uint i = lane; i < r2; i += WG)
            if (reduce_same(LOAD(DT, p, i), sum))
                found = min(found, (i0 * r1 + i1) * r2 + i);
    }
    first[lane] = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = WG / 2; half_size > 0; half_size >>= 1) {
        if (lane < half_size)
            first[lane] = min(first[lane], first[lane + half_size]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0)
        where[where0 + o] = first[0];
#endif
}

#if INDEX
#define IF_INDEX(s) s
#else
#define IF_INDEX(s)
#endif

#if LS == 1
/* Reduces `count` rows from p on, sixteen columns at a time; `place` is the index of the first row. */
#define TAKE_ROWS(count)                                                                                     \
    for (uint c = 0; c + LANES <= width; c += LANES) {                                                       \
        float16 s = vload16(0, sum + c);                                                                     \
        IF_INDEX(uint16 f = vload16(0, first + c);)                                                          \
        for (uint r = 0; r < (count); r++) {                                                                 \
            float16 v = LOAD16(DT, p, r * rs2 + c);                                                          \
            IF_INDEX(f = select(f, (uint16)(place + r), v > s || (v != v && s == s));)                       \
            s = reduce_take16(s, v);                                                                         \
        }                                                                                                    \
        vstore16(s, 0, sum + c);                                                                             \
        IF_INDEX(vstore16(f, 0, first + c);)                                                                 \
    }                                                                                                        \
    for (uint r = 0; r < (count); r++)                                                                       \
        for (uint c = width / LANES * LANES; c < width; c++) {                                               \
            float v = LOAD(DT, p, r * rs2 + c);                                                              \
            IF_INDEX(first[c] = v > sum[c] || (v != v && sum[c] == sum[c]) ? place + r : first[c];)          \
            sum[c] = reduce_take(sum[c], v);                                                                 \
        }
#endif

/* The groups: tiles of k2, and the same for each index of k1 and k0. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void reduce_fwd_column(
    __global STORAGE(DT) *restrict y, ulong y0 INDEX_OUT, __global const STORAGE(DT) *restrict x, ulong x0,
    SHAPE_ARGS, float factor, uint tile)
{
    TILE_OF_GROUP;
    x += x0 + o0 * ks0 + o1 * ks1 + begin;
    y += y0 + (o0 * k1 + o1) * k2 + begin;
    IF_INDEX(where += where0 + (o0 * k1 + o1) * k2 + begin;)
#if LS == 1
    float sum[MAX_TILE], all[MAX_TILE], rest[MAX_TILE];
    uint taken = 0;
    IF_INDEX(uint first[MAX_TILE];)
    for (uint c = 0; c < width; c++) {
        sum[c] = START;
        all[c] = rest[c] = 0.0f;
        IF_INDEX(first[c] = 0;)
    }
    FOR_OUTER(i0, i1)
    {
        __global const STORAGE(DT) *p = x + i0 * rs0 + i1 * rs1;
        IF_INDEX(uint place = (i0 * r1 + i1) * r2;)
        for (uint i = 0; i < r2;) {
            uint end = i + min(r2 - i, (uint)SUM_STEPS);
            taken += end - i;
            for (; i + ROWS <= end; i += ROWS) {
                TAKE_ROWS(ROWS)
                p += ROWS * rs2;
                IF_INDEX(place += ROWS;)
            }
            uint left = end - i;
            TAKE_ROWS(left)
            i = end;
            if (taken >= SUM_STEPS) {
                for (uint c = 0; c < width; c++)
                    END_CHAIN(float, all[c], rest[c], sum[c]);
                taken = 0;
            }
        }
    }
    for (uint c = 0; c < width; c++) {
        END_SUM(float, all[c], rest[c], sum[c]);
        STORE(DT, y, c, sum[c] * factor);
        IF_INDEX(where[c] = first[c];)
    }
#else
    uint c = (uint)get_local_id(0);
    if (c >= width)
        return;
    float sum = START, all = 0.0f, rest = 0.0f;
    uint taken = 0;
    IF_INDEX(uint first = 0;)
    FOR_OUTER(i0, i1)
    for (uint i = 0; i < r2; i++) {
        float v = LOAD(DT, x, i0 * rs0 + i1 * rs1 + i * rs2 + c);
        IF_INDEX(first = v > sum || (v != v && sum == sum) ? (i0 * r1 + i1) * r2 + i : first;)
        sum = reduce_take(sum, v);
        if (++taken == SUM_STEPS) {
            END_CHAIN(float, all, rest, sum);
            taken = 0;
        }
    }
    END_SUM(float, all, rest, sum);
    STORE(DT, y, c, sum * factor);
    IF_INDEX(where[c] = first;)
#endif
}

/* The gradient of an element from the gradient of its output. */
#if MAX
#define SHARE(grad, found, place) ((place) == (found) ? (grad) : 0.0f)
#define SHARE16(grad, found, place) select((float16)(0.0f), (grad), (place) == (found))
#else
#define SHARE(grad, found, place) (grad)
#define SHARE16(grad, found, place) (grad)
#endif

#define COUNT16 (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

/* dy (kept) -> dx (kept and reduced): factor * dy, or dy at the first maximum and 0 elsewhere. */
__kernel void reduce_bwd_row(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                             __global const STORAGE(DYT) *restrict dy, ulong dy0 INDEX_IN, SHAPE_ARGS,
                             float factor)
{
    ulong o = get_global_id(0);
    if (o >= (ulong)k0 * k1 * k2)
        return;
    ulong o01 = o / k2, o2 = o - o01 * k2, o0 = o01 / k1, o1 = o01 - o0 * k1;
    float grad = LOAD(DYT, dy, dy0 + o) * factor;
#if MAX
    uint found = where[where0 + o];
#endif
    dx += dx0 + o0 * ks0 + o1 * ks1 + o2 * ks2;
    FOR_OUTER(i0, i1)
    {
        __global STORAGE(GT) *p = dx + i0 * rs0 + i1 * rs1;
#if MAX
        uint place = (i0 * r1 + i1) * r2;
#endif
        uint i = 0;
        if (rs2 == 1)
            for (; i + LANES <= r2; i += LANES)
                STREAM16_GRAD(GT, p, i, SHARE16((float16)(grad), (uint16)(found), place + i + COUNT16),
                              accumulate);
        for (; i < r2; i++)
            STORE_GRAD(GT, p, i * rs2, SHARE(grad, found, place + i), accumulate);
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void reduce_bwd_group(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0 INDEX_IN, SHAPE_ARGS, float factor)
{
    uint group = (uint)get_group_id(0), o01 = group / k2;
    ulong o = group, o2 = group - o01 * k2, o0 = o01 / k1, o1 = o01 % k1;
    float grad = LOAD(DYT, dy, dy0 + o) * factor;
#if MAX
    uint found = where[where0 + o];
#endif
    dx += dx0 + o0 * ks0 + o1 * ks1 + o2 * ks2;
    FOR_OUTER(i0, i1)
    {
        __global STORAGE(GT) *p = dx + i0 * rs0 + i1 * rs1;
#if MAX
        uint place = (i0 * r1 + i1) * r2;
#endif
        for (uint i = (uint)get_local_id(0); i < r2; i += WG)
            STORE_GRAD(GT, p, i, SHARE(grad, found, place + i), accumulate);
    }
}

__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void reduce_bwd_column(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0 INDEX_IN, SHAPE_ARGS, float factor, uint tile)
{
    TILE_OF_GROUP;
    dx += dx0 + o0 * ks0 + o1 * ks1 + begin;
    dy += dy0 + (o0 * k1 + o1) * k2 + begin;
#if MAX
    where += where0 + (o0 * k1 + o1) * k2 + begin;
#endif
#if LS == 1
    float grad[MAX_TILE];
    for (uint c = 0; c < width; c++)
        grad[c] = LOAD(DYT, dy, c) * factor;
    FOR_OUTER(i0, i1)
    for (uint i = 0; i < r2; i++) {
        __global STORAGE(GT) *p = dx + i0 * rs0 + i1 * rs1 + i * rs2;
#if MAX
        uint place = (i0 * r1 + i1) * r2 + i;
#endif
        uint c = 0;
        for (; c + LANES <= width; c += LANES)
            STREAM16_GRAD(GT, p, c, SHARE16(vload16(0, grad + c), vload16(0, where + c), (uint16)(place)),
                          accumulate);
        for (; c < width; c++)
            STORE_GRAD(GT, p, c, SHARE(grad[c], where[c], place), accumulate);
    }
#else
    uint c = (uint)get_local_id(0);
    if (c >= width)
        return;
    float grad = LOAD(DYT, dy, c) * factor;
#if MAX
    uint found = where[c];
#endif
    FOR_OUTER(i0, i1)
    for (uint i = 0; i < r2; i++)
        STORE_GRAD(GT, dx, i0 * rs0 + i1 * rs1 + i * rs2 + c, SHARE(grad, found, (i0 * r1 + i1) * r2 + i),
                   accumulate);
#endif
}
