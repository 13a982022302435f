/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout: y = x * scale where the element's uniform number is >= p, else 0. The mask is a function of the
 * step block and of the element's place in the global batch, so backward computes it again and no rank count
 * changes it. One Philox block serves four consecutive elements; the first block of a micro-batch may begin
 * before its first element. Knows flat arrays only.
 *
 * -DDT=type read  -DGT=type written  -DLS, -DVEC: see elements.clh, counted in blocks */
#include "common.clh"
#include "elements.clh"

#ifndef DT
#define DT f32
#endif
#ifndef GT
#define GT f32
#endif

inline float clt_dropout(uint word, float x, float p, float scale)
{
    return clt_uniform(word) >= p ? x * scale : 0.0f;
}

/* Forward and backward differ in what may be accumulated only: y (+)= mask(x). `count` is the number of
 * blocks of the launch, at least those that hold an element; `elements` of them exist. */
static inline void dropout_body(__global STORAGE(GT) *restrict y, int accumulate,
                                __global const STORAGE(DT) *restrict x, __global const uint *restrict sb,
                                ulong per_sample, uint op, float p, float scale, ulong elements, ulong count)
{
    ulong index = (((ulong)sb[SB_SAMPLE_HI] << 32) | sb[SB_SAMPLE_LO]) * per_sample;
    ulong first = index / 4;
    uint lead = (uint)(index % 4);
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    FOR_ELEMENTS(k, size)
    {
        ulong block = base + k;
        uint4 words = clt_rng_block(sb, RNG_DROPOUT, op, first + block);
        ulong at = block * 4 - lead; /* wraps for the elements before the first: at + j >= elements then */
        if (block * 4 >= lead && at + 4 <= elements) {
            STORE_GRAD(GT, y, at, clt_dropout(words.x, LOAD(DT, x, at), p, scale), accumulate);
            STORE_GRAD(GT, y, at + 1, clt_dropout(words.y, LOAD(DT, x, at + 1), p, scale), accumulate);
            STORE_GRAD(GT, y, at + 2, clt_dropout(words.z, LOAD(DT, x, at + 2), p, scale), accumulate);
            STORE_GRAD(GT, y, at + 3, clt_dropout(words.w, LOAD(DT, x, at + 3), p, scale), accumulate);
        } else {
            if (at < elements)
                STORE_GRAD(GT, y, at, clt_dropout(words.x, LOAD(DT, x, at), p, scale), accumulate);
            if (at + 1 < elements)
                STORE_GRAD(GT, y, at + 1, clt_dropout(words.y, LOAD(DT, x, at + 1), p, scale), accumulate);
            if (at + 2 < elements)
                STORE_GRAD(GT, y, at + 2, clt_dropout(words.z, LOAD(DT, x, at + 2), p, scale), accumulate);
            if (at + 3 < elements)
                STORE_GRAD(GT, y, at + 3, clt_dropout(words.w, LOAD(DT, x, at + 3), p, scale), accumulate);
        }
    }
}

ELEMENTWISE void dropout_fwd(__global STORAGE(GT) *restrict y, ulong y0,
                             __global const STORAGE(DT) *restrict x, ulong x0,
                             __global const uint *restrict sb, ulong sb0, ulong per_sample, uint op, float p,
                             float scale, ulong elements, ulong count)
{
    dropout_body(y + y0, 0, x + x0, sb + sb0, per_sample, op, p, scale, elements, count);
}

ELEMENTWISE void dropout_bwd(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                             __global const STORAGE(DT) *restrict dy, ulong dy0,
                             __global const uint *restrict sb, ulong sb0, ulong per_sample, uint op, float p,
                             float scale, ulong elements, ulong count)
{
    dropout_body(dx + dx0, accumulate, dy + dy0, sb + sb0, per_sample, op, p, scale, elements, count);
}
