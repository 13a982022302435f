/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and affine maps between storage types: gradients of views and sums, the ops scale and cast. Knows
 * flat arrays only.
 *
 * -DDT=type read  -DGT=type written  -DLS, -DVEC: see elements.clh
 * -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "types.clh"

/* dst (+)= src. */
ELEMENTWISE void elementwise_bwd_copy(__global STORAGE(GT) *restrict dst, ulong dst0, int accumulate,
                                      __global const STORAGE(DT) *restrict src, ulong src0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    dst += dst0 + base;
    src += src0 + base;
    FOR_VECTORS(k, size, QUADS(GT, dst) && QUADS(DT, src))
    STREAMV_GRAD(GT, dst, k, LOADV(DT, src, k), accumulate);
    FOR_REST(k, size)
    STORE_GRAD(GT, dst, k, LOAD(DT, src, k), accumulate);
}

/* y = x * factor + shift, rounded once. */
ELEMENTWISE void elementwise_fwd_affine(__global STORAGE(GT) *restrict y, ulong y0,
                                        __global const STORAGE(DT) *restrict x, ulong x0, float factor,
                                        float shift, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
    FOR_VECTORS(k, size, QUADS(GT, y) && QUADS(DT, x))
    STREAMV(GT, y, k, fma(LOADV(DT, x, k), (REALS)(factor), (REALS)(shift)));
    FOR_REST(k, size)
    STORE(GT, y, k, fma(LOAD(DT, x, k), factor, shift));
}

/* y = (x - centre) * factor + shift of integers. The difference is computed exactly, in 64 bits, because f32
 * cannot hold every integer beyond 2^24. centre: the bits of a long. */
ELEMENTWISE void elementwise_fwd_centred(__global STORAGE(GT) *restrict y, ulong y0,
                                         __global const STORAGE(DT) *restrict x, ulong x0, ulong centre,
                                         float factor, float shift, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
    FOR_ELEMENTS(k, size)
    STORE(GT, y, k, fma((float)((long)x[k] - (long)centre), factor, shift));
}

/* dx (+)= dy * factor. */
ELEMENTWISE void elementwise_bwd_affine(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                                        __global const STORAGE(DT) *restrict dy, ulong dy0, float factor,
                                        ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    dx += dx0 + base;
    dy += dy0 + base;
    FOR_VECTORS(k, size, QUADS(GT, dx) && QUADS(DT, dy))
    STREAMV_GRAD(GT, dx, k, LOADV(DT, dy, k) * factor, accumulate);
    FOR_REST(k, size)
    STORE_GRAD(GT, dx, k, LOAD(DT, dy, k) * factor, accumulate);
}

/* dst = 0. */
ELEMENTWISE void elementwise_bwd_zero(__global STORAGE(GT) *restrict dst, ulong dst0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    dst += dst0 + base;
    FOR_VECTORS(k, size, QUADS(GT, dst))
    STREAMV(GT, dst, k, (REALS)(0.0f));
    FOR_REST(k, size)
    STORE(GT, dst, k, 0.0f);
}
