/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of up to four inputs, and products of two. The last input may be broadcast: its `period` elements
 * repeat along the others. Knows flat arrays only.
 *
 *   -DMUL=0|1  -DNIN=1..4 (2 with MUL)  -DBCAST=0|1: the last input is broadcast
 *   -DDT=type read  -DBT=type of the last input  -DGT=type written
 *   -DLS, -DVEC: see elements.clh  -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "types.clh"

#pragma option MUL 0
#pragma option NIN 2
#pragma option BCAST 0
#pragma option BT f32

#if NIN > 1
#define FULL_1 , __global const STORAGE(DT) *restrict in0, ulong off0
#define ADVANCE_1 in0 += off0 + base;
#define QUADS_1 &&QUADS(DT, in0)
#define TERM_1(load, k) load(DT, in0, k) +
#else
#define FULL_1
#define ADVANCE_1
#define QUADS_1
#define TERM_1(load, k)
#endif
#if NIN > 2
#define FULL_2 , __global const STORAGE(DT) *restrict in1, ulong off1
#define ADVANCE_2 in1 += off1 + base;
#define QUADS_2 &&QUADS(DT, in1)
#define TERM_2(load, k) load(DT, in1, k) +
#else
#define FULL_2
#define ADVANCE_2
#define QUADS_2
#define TERM_2(load, k)
#endif
#if NIN > 3
#define FULL_3 , __global const STORAGE(DT) *restrict in2, ulong off2
#define ADVANCE_3 in2 += off2 + base;
#define QUADS_3 &&QUADS(DT, in2)
#define TERM_3(load, k) load(DT, in2, k) +
#else
#define FULL_3
#define ADVANCE_3
#define QUADS_3
#define TERM_3(load, k)
#endif

/* The result for element k of all inputs except the last, and element c of the last input. */
#if MUL
#define VALUE(load, k, c) (load(DT, in0, k) * load(BT, last, c))
#else
#define VALUE(load, k, c) (TERM_1(load, k) TERM_2(load, k) TERM_3(load, k) load(BT, last, c))
#endif

#if BCAST
#define PERIOD_ARG uint period,
#else
#define PERIOD_ARG
#endif

/* Whether all arrays are aligned for vectors of four. */
#define QUADS_ALL (QUADS(GT, y) && QUADS(BT, last) QUADS_1 QUADS_2 QUADS_3)

#if !BCAST
#define LOOP                                                                                                 \
    last += last0 + base;                                                                                    \
    FOR_VECTORS(k, size, QUADS_ALL)                                                                          \
    STREAMV_GRAD(GT, y, k, VALUE(LOADV, k, k), accumulate);                                                  \
    FOR_REST(k, size)                                                                                        \
    STORE_GRAD(GT, y, k, VALUE(LOAD, k, k), accumulate);
#elif LS == 1
/* Loops over runs that end where the broadcast input repeats, so that both inputs are contiguous in a run. */
#define LOOP                                                                                                 \
    last += last0;                                                                                           \
    uint c = (uint)(base % period);                                                                          \
    for (uint k = 0; k < size; c = 0) {                                                                      \
        uint end = k + min(size - k, period - c);                                                            \
        for (; k + LANES <= end; k += LANES, c += LANES)                                                     \
            STREAM16_GRAD(GT, y, k, VALUE(LOAD16, k, c), accumulate);                                        \
        for (; k < end; k++, c++)                                                                            \
            STORE_GRAD(GT, y, k, VALUE(LOAD, k, c), accumulate);                                             \
    }
#else
#define LOOP                                                                                                 \
    last += last0;                                                                                           \
    uint phase = (uint)(base % period);                                                                      \
    FOR_VECTORS(k, size, period % 4 == 0 && QUADS_ALL)                                                       \
    STREAMV_GRAD(GT, y, k, VALUE(LOADV, k, (phase + k) % period), accumulate);                               \
    FOR_REST(k, size)                                                                                        \
    STORE_GRAD(GT, y, k, VALUE(LOAD, k, (phase + k) % period), accumulate);
#endif

/* y (+)= in0 + in1 + in2 + last, or in0 * last; last[i % period] with BCAST. */
#define BINARY_KERNEL(name)                                                                                  \
    ELEMENTWISE void name(__global STORAGE(GT) *restrict y, ulong y0, int accumulate FULL_1 FULL_2 FULL_3,   \
                          __global const STORAGE(BT) *restrict last, ulong last0, PERIOD_ARG ulong count)    \
    {                                                                                                        \
        ulong base = clt_chunk_base();                                                                       \
        uint size = clt_chunk_size(base, count);                                                             \
        y += y0 + base;                                                                                      \
        ADVANCE_1 ADVANCE_2 ADVANCE_3 LOOP                                                                   \
    }

BINARY_KERNEL(binary_fwd)
BINARY_KERNEL(binary_bwd)
