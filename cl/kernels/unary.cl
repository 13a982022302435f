/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations: y = FN(x) and dx = dy * DFN(v), where v is x, or y for the functions whose derivative is
 * simplest in y. The scalar functions are those of common.clh; the ones that nobody else needs are here.
 * Knows flat arrays only.
 *
 * -DFN=function  -DDFN=derivative  -DDT=type of x, y, v  -DDYT=type of dy  -DGT=type of dx  -DLS, -DVEC: see
 * elements.clh */
#include "common.clh"
#include "elements.clh"

#ifndef DT
#define DT f32
#endif
#ifndef DYT
#define DYT f32
#endif
#ifndef GT
#define GT f32
#endif
#ifndef FN
#define FN clt_relu
#endif
#ifndef DFN
#define DFN clt_drelu
#endif

/* NaN stays NaN. */
inline float clt_relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}
inline float clt_drelu(float x)
{
    return x > 0.0f ? 1.0f : 0.0f;
}
inline float clt_tanh(float x)
{
    return tanh(x);
}
/* In terms of y: _y. */
inline float clt_dtanh_y(float y)
{
    return fma(-y, y, 1.0f);
}
inline float clt_dsigmoid_y(float y)
{
    return y * (1.0f - y);
}

ELEMENTWISE void unary_fwd(__global STORAGE(DT) *restrict y, ulong y0, __global const STORAGE(DT) *restrict x,
                           ulong x0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
    FOR_ELEMENTS(k, size)
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
    FOR_ELEMENTS(k, size)
    STORE_GRAD(GT, dx, k, LOAD(DYT, dy, k) * DFN(LOAD(DT, v, k)), accumulate);
}
