/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of a feed-forward layer: y = silu(gate) * up, and both gradients in one pass. Knows flat arrays
 * only.
 *
 * -DDT=type of gate, up and y  -DDYT=type of dy  -DGT=type of dgate  -DUT=type of dup
 * -DGATE=0|1, -DUP=0|1: whether dgate and dup are wanted
 * -DLS, -DVEC: see elements.clh  -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "types.clh"

#pragma option UT f32
#pragma option GATE 1
#pragma option UP 1

/* The derivative of silu(x) = x s is s (1 + x (1 - s)), s being the sigmoid of x. */
#define SWIGLU_FUNCTIONS(type, name)                                                                         \
    static inline type name(swiglu_slope)(type x, type s)                                                    \
    {                                                                                                        \
        return s * fma(x, (type)(1.0f) - s, (type)(1.0f));                                                   \
    }
#define ONE(name) name
SWIGLU_FUNCTIONS(float, ONE)
SWIGLU_FUNCTIONS(REALS, VECTOR)

ELEMENTWISE void swiglu_fwd(__global STORAGE(DT) *restrict y, ulong y0,
                            __global const STORAGE(DT) *restrict gate, ulong gate0,
                            __global const STORAGE(DT) *restrict up, ulong up0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    gate += gate0 + base;
    up += up0 + base;
    FOR_VECTORS(k, size, QUADS(DT, y) && QUADS(DT, gate) && QUADS(DT, up))
    STREAMV(DT, y, k, VECTOR(clt_silu)(LOADV(DT, gate, k)) * LOADV(DT, up, k));
    FOR_REST(k, size)
    STORE(DT, y, k, clt_silu(LOAD(DT, gate, k)) * LOAD(DT, up, k));
}

#if GATE
#define GATE_PARAM __global STORAGE(GT) *restrict dgate, ulong dgate0, int accumulate_gate,
#define GATE_AT dgate += dgate0 + base;
#define GATE_QUADS QUADS(GT, dgate) &&
#define GATE_STORE(store, k, value) store(GT, dgate, k, value, accumulate_gate)
#else
#define GATE_PARAM
#define GATE_AT
#define GATE_QUADS
#define GATE_STORE(store, k, value)
#endif
#if UP
#define UP_PARAM __global STORAGE(UT) *restrict dup, ulong dup0, int accumulate_up,
#define UP_AT dup += dup0 + base;
#define UP_QUADS QUADS(UT, dup) &&
#define UP_STORE(store, k, value) store(UT, dup, k, value, accumulate_up)
#else
#define UP_PARAM
#define UP_AT
#define UP_QUADS
#define UP_STORE(store, k, value)
#endif

ELEMENTWISE void swiglu_bwd(GATE_PARAM UP_PARAM __global const STORAGE(DYT) *restrict dy, ulong dy0,
                            __global const STORAGE(DT) *restrict gate, ulong gate0,
                            __global const STORAGE(DT) *restrict up, ulong up0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    GATE_AT
    UP_AT
    dy += dy0 + base;
    gate += gate0 + base;
    up += up0 + base;
    FOR_VECTORS(k, size, GATE_QUADS UP_QUADS QUADS(DYT, dy) && QUADS(DT, gate) && QUADS(DT, up))
    {
        REALS x = LOADV(DT, gate, k), s = VECTOR(clt_sigmoid)(x), g = LOADV(DYT, dy, k);
        GATE_STORE(STREAMV_GRAD, k, g * LOADV(DT, up, k) * VECTOR(swiglu_slope)(x, s));
        UP_STORE(STREAMV_GRAD, k, g * x * s);
    }
    FOR_REST(k, size)
    {
        float x = LOAD(DT, gate, k), s = clt_sigmoid(x), g = LOAD(DYT, dy, k);
        GATE_STORE(STORE_GRAD, k, g * LOAD(DT, up, k) * swiglu_slope(x, s));
        UP_STORE(STORE_GRAD, k, g * x * s);
    }
}
