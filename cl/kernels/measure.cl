/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that measure a device's peaks: fused multiply-adds from registers, and streams through memory, in
 * lane style (one work-item per group, float16 vectors) and in group style (many work-items). The results
 * are not used. Host side: cl/measure/measure.c and cl/measure/stream.c, which count the work.
 *
 * -DNONTEMPORAL=1: also streams with non-temporal stores, if the compiler supports them */
#include "common.clh"

#pragma option NONTEMPORAL 0

/* Independent chains of fma: enough to hide its latency on all ports, few enough to stay in registers. The
 * best number differs between devices, so several are tried. x converges to add / (1 - factor), so it stays
 * a normal number. Each lane of a chain starts with a different value from memory, because a compiler that
 * knows lanes or work-items to be equal may compute only one of them and copy it (Intel's does). start:
 * START_FLOATS floats, which cl/measure/stream.c writes. */
#include "kernel_shared.clh"
#define FMA_BODY(type, count, LOAD_START)                                                                    \
    type x[count];                                                                                           \
    UNROLL_FOR (int i = 0; i < count; i++)                                                                   \
        x[i] = LOAD_START(i);                                                                                \
    for (uint r = 0; r < rounds; r++) {                                                                      \
        UNROLL_FOR (int i = 0; i < count; i++)                                                               \
            x[i] = fma(x[i], (type)(factor), (type)(add));                                                   \
    }                                                                                                        \
    type sum = x[0];                                                                                         \
    UNROLL_FOR (int i = 1; i < count; i++)                                                                   \
        sum += x[i];

#define FMA_LANE(width, count)                                                                               \
    __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void measure_fma_lane_##width##x##count(         \
        __global float *out, __global const float *start, uint rounds, float factor, float add)              \
    {                                                                                                        \
        FMA_BODY(float##width, count, START_##width)                                                         \
        vstore##width(sum, get_group_id(0), out);                                                            \
    }
#define START_4(i) vload4((i), start)
#define START_8(i) vload8((i), start)
#define START_16(i) vload16((i), start)
#define FMA_GROUP(count)                                                                                     \
    __kernel void measure_fma_group_##count(__global float *out, __global const float *start, uint rounds,   \
                                            float factor, float add)                                         \
    {                                                                                                        \
        FMA_BODY(float, count, START_ITEM)                                                                   \
        out[get_global_id(0)] = sum;                                                                         \
    }
#define START_ITEM(i) start[((uint)get_local_id(0) + (i)) % START_FLOATS]

FMA_LANE(4, 12)
FMA_LANE(8, 8)
FMA_LANE(8, 12)
FMA_LANE(8, 14)
FMA_LANE(16, 6)
FMA_LANE(16, 12)
FMA_LANE(16, 16)
FMA_GROUP(8)
FMA_GROUP(16)

/* Lane style: each group streams one contiguous part. Group style: in each iteration neighbouring items of
 * the whole grid access neighbouring vectors. `count` is in vectors. */
#define LANE_RANGE                                                                                           \
    ulong part = (count + get_num_groups(0) - 1) / get_num_groups(0), i = part * get_group_id(0),            \
          end = min(i + part, count), step = 1
#define GROUP_RANGE ulong i = get_global_id(0), end = count, step = get_global_size(0)
#define LANE_SHAPE __attribute__((reqd_work_group_size(1, 1, 1)))
#define GROUP_SHAPE
#define PUT_PLAIN(p, v) *(p) = (v)
#define PUT_PAST_CACHES(p, v) __builtin_nontemporal_store((v), (p))

#define STREAMS(style, STYLE, vector, PUT)                                                                   \
    STYLE##_SHAPE __kernel void measure_fill_##style(__global vector *a, __global vector *b,                 \
                                                     __global vector *c, ulong count)                        \
    {                                                                                                        \
        STYLE##_RANGE;                                                                                       \
        for (; i < end; i += step) {                                                                         \
            a[i] = (vector)(0.0f);                                                                           \
            b[i] = (vector)(1.0f);                                                                           \
            c[i] = (vector)(2.0f);                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    STYLE##_SHAPE __kernel void measure_triad_##style(__global vector *restrict a,                           \
                                                      __global const vector *restrict b,                     \
                                                      __global const vector *restrict c, ulong count)        \
    {                                                                                                        \
        STYLE##_RANGE;                                                                                       \
        for (; i < end; i += step)                                                                           \
            PUT(a + i, fma((vector)(3.0f), c[i], b[i]));                                                     \
    }                                                                                                        \
    STYLE##_SHAPE __kernel void measure_copy_##style(__global vector *restrict a,                            \
                                                     __global const vector *restrict b,                      \
                                                     __global const vector *restrict c, ulong count)         \
    {                                                                                                        \
        STYLE##_RANGE;                                                                                       \
        for (; i < end; i += step)                                                                           \
            PUT(a + i, b[i]);                                                                                \
    }                                                                                                        \
    STYLE##_SHAPE __kernel void measure_read_##style(__global vector *restrict a,                            \
                                                     __global const vector *restrict b,                      \
                                                     __global const vector *restrict c, ulong count)         \
    {                                                                                                        \
        vector sum[4] = {(vector)(0.0f), (vector)(0.0f), (vector)(0.0f), (vector)(0.0f)};                    \
        STYLE##_RANGE;                                                                                       \
        ulong own = i;                                                                                       \
        for (; i + 3 * step < end; i += 4 * step) {                                                          \
            UNROLL_FOR (int u = 0; u < 4; u++)                                                               \
                sum[u] += b[i + u * step];                                                                   \
        }                                                                                                    \
        for (; i < end; i += step)                                                                           \
            sum[0] += b[i];                                                                                  \
        if (own < count)                                                                                     \
            a[own] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                  \
    }

STREAMS(lane, LANE, float16, PUT_PLAIN)
STREAMS(group, GROUP, float4, PUT_PLAIN)
#if NONTEMPORAL
STREAMS(lane_nt, LANE, float16, PUT_PAST_CACHES)
#endif

__kernel void measure_nothing(__global float *out)
{
    if (get_global_id(0) == 0)
        out[0] = 1.0f;
}
