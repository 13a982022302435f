/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations: y = FN(x) and dx = dy * DFN(v), where v is x, or y for functions whose derivative is simplest
 * in y. Most functions are in functions.clh; functions that no other kernel needs are here. Knows flat
 * arrays only.
 *
 * -DFN=function  -DDFN=derivative  -DSTAGED=1: the function has two parts (functions.clh)  -DDT=type of
 * x, y, v  -DDYT=type of dy  -DGT=type of dx  -DLS, -DVEC: see elements.clh  -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "types.clh"

#pragma option FN clt_relu
#pragma option DFN clt_drelu
#pragma option STAGED 0

/* NaN stays NaN. Names of derivatives that take y instead of x end with _y. */
#define UNARY_FUNCTIONS(type, name)                                                                          \
    static inline type name(clt_relu)(type x)                                                                \
    {                                                                                                        \
        return select(x, (type)(0.0f), x < (type)(0.0f));                                                    \
    }                                                                                                        \
    static inline type name(clt_drelu)(type x)                                                               \
    {                                                                                                        \
        return select((type)(0.0f), (type)(1.0f), x > (type)(0.0f));                                         \
    }                                                                                                        \
    static inline type name(clt_dtanh_y)(type y)                                                             \
    {                                                                                                        \
        return fma(-y, y, (type)(1.0f));                                                                     \
    }                                                                                                        \
    static inline type name(clt_dsigmoid_y)(type y)                                                          \
    {                                                                                                        \
        return y * ((type)(1.0f) - y);                                                                       \
    }
#define ONE(name) name
UNARY_FUNCTIONS(float, ONE)
UNARY_FUNCTIONS(REALS, VECTOR)

/* Processes whole stages of STAGE elements: the function's first part for all of them, into an array that
 * fits into the first-level cache, then its second part. Returns the number of elements processed. */
#if STAGED && LS == 1
#define STAGE 256
static inline uint unary_stages(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, uint size)
{
    float part[STAGE];
    uint done = 0;
    for (; done + STAGE <= size; done += STAGE) {
        for (uint p = 0; p < STAGE; p += LANES)
            vstore16(CLT_CAT(FN, _first16)(LOAD16(DT, x, done + p)), 0, part + p);
        for (uint p = 0; p < STAGE; p += LANES)
            STREAM16(DT, y, done + p, CLT_CAT(FN, _last16)(LOAD16(DT, x, done + p), vload16(0, part + p)));
    }
    return done;
}
#else
#define unary_stages(y, x, size) 0
#endif

ELEMENTWISE void unary_fwd(__global STORAGE(DT) *restrict y, ulong y0, __global const STORAGE(DT) *restrict x,
                           ulong x0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
    uint done = unary_stages(y, x, size);
    y += done;
    x += done;
    size -= done;
    FOR_VECTORS(k, size, QUADS(DT, y) && QUADS(DT, x))
    STREAMV(DT, y, k, VECTOR(FN)(LOADV(DT, x, k)));
    FOR_REST(k, size)
    STORE(DT, y, k, FN(LOAD(DT, x, k)));
}

ELEMENTWISE void unary_bwd(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                           __global const STORAGE(DYT) *restrict dy, ulong dy0,
                           __global const STORAGE(DT) *restrict v, ulong v0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    dx += dx0 + base;
    dy += dy0 + base;
    v += v0 + base;
    FOR_VECTORS(k, size, QUADS(GT, dx) && QUADS(DYT, dy) && QUADS(DT, v))
    STREAMV_GRAD(GT, dx, k, LOADV(DYT, dy, k) * VECTOR(DFN)(LOADV(DT, v, k)), accumulate);
    FOR_REST(k, size)
    STORE_GRAD(GT, dx, k, LOAD(DYT, dy, k) * DFN(LOAD(DT, v, k)), accumulate);
}
