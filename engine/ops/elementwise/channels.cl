/* SPDX-License-Identifier: Apache-2.0
 *
 * Affine maps with constants for each channel: the op cast. Element i belongs to channel i / inner %
 * CHANNELS. inner: the size of a channel's plane if channels lie one after the other, 1 if they are the last
 * dimension in memory. Knows flat arrays only.
 *
 * -DDT=type read  -DGT=type written  -DCHANNELS=2..8  -DSHIFTED=1: y = x * factor + shift, 0: without shift
 * -DLS, -DVEC: see elements.clh  -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "types.clh"

#pragma option CHANNELS 3
#pragma option SHIFTED 1

/* y = (x - centre[channel]) * factor[channel] + shift[channel] of integers: see elementwise_fwd_centred. */
ELEMENTWISE void channels_centred(__global STORAGE(GT) *restrict y, ulong y0,
                                  __global const STORAGE(DT) *restrict x, ulong x0, uint inner, ulong c0,
                                  float f0, float s0, ulong c1, float f1, float s1, ulong c2, float f2,
                                  float s2, ulong c3, float f3, float s3, ulong c4, float f4, float s4,
                                  ulong c5, float f5, float s5, ulong c6, float f6, float s6, ulong c7,
                                  float f7, float s7, ulong count)
{
    const long centre[8] = {(long)c0, (long)c1, (long)c2, (long)c3, (long)c4, (long)c5, (long)c6, (long)c7};
    const float factor[8] = {f0, f1, f2, f3, f4, f5, f6, f7};
    const float shift[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
    FOR_ELEMENTS(k, size)
    {
        uint channel = (uint)((base + k) / inner % CHANNELS);
        STORE(GT, y, k, fma((float)((long)x[k] - centre[channel]), factor[channel], shift[channel]));
    }
}

/* y (+)= x * factor[channel] + shift[channel], rounded once. */
ELEMENTWISE void channels_affine(__global STORAGE(GT) *restrict y, ulong y0, int accumulate,
                                 __global const STORAGE(DT) *restrict x, ulong x0, uint inner, float f0,
                                 float s0, float f1, float s1, float f2, float s2, float f3, float s3,
                                 float f4, float s4, float f5, float s5, float f6, float s6, float f7,
                                 float s7, ulong count)
{
    const float factor[8] = {f0, f1, f2, f3, f4, f5, f6, f7};
    const float shift[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    y += y0 + base;
    x += x0 + base;
#if LS == 1
    /* an item works on a run of elements: it divides once, then increments the channel */
    uint channel = (uint)(base / inner % CHANNELS), left = inner - (uint)(base % inner);
    for (uint k = 0; k < size;) {
        uint end = min(size, k + left);
        float f = factor[channel], s = SHIFTED ? shift[channel] : 0.0f;
        for (; k < end; k++)
            STORE_GRAD(GT, y, k, fma(LOAD(DT, x, k), f, s), accumulate);
        channel = channel + 1 == CHANNELS ? 0 : channel + 1;
        left = inner;
    }
#else
    FOR_ELEMENTS(k, size)
    {
        uint channel = (uint)((base + k) / inner % CHANNELS);
        STORE_GRAD(GT, y, k, fma(LOAD(DT, x, k), factor[channel], SHIFTED ? shift[channel] : 0.0f),
                   accumulate);
    }
#endif
}
