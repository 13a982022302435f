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
#include "lanes.clh"

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

#if LS == 1
/* Interleave the lower or upper halves of two vectors by ones, or by pairs. shuffle2 because Oclgrind 21.10
 * cannot check the code that vectors listed by component become. */
#define LOW_ONES (uint16)(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_ONES (uint16)(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_PAIRS (uint16)(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH_PAIRS (uint16)(8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)
/* Sixteen elements with their words. */
#define SIXTEEN(at, words)                                                                                   \
    do {                                                                                                     \
        float16 u_ = convert_float16((words) >> 8) * 0x1p-24f, x_ = LOAD16(DT, x, at) * scale;               \
        float16 v_ = select((float16)(0.0f), x_, u_ >= p);                                                   \
        STORE16_GRAD(GT, y, at, v_, accumulate);                                                             \
    } while (0)

/* The sixteen blocks from `block` on, all whole; x and y point to the first one's first element. */
static inline void dropout_sixteen(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                   __global const uint *sb, uint op, ulong block, float p, float scale)
{
    ulong16 index = block + (ulong16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint16 c[4] = {convert_uint16(index), convert_uint16(index >> 32), (uint16)(sb[SB_STEP]),
                   (uint16)((RNG_DROPOUT << 24) | op)};
    clt_philox16(c, sb[SB_SEED_LO], sb[SB_SEED_HI]);
    uint16 xy = shuffle2(c[0], c[1], LOW_ONES), zw = shuffle2(c[2], c[3], LOW_ONES);
    SIXTEEN(0, shuffle2(xy, zw, LOW_PAIRS));
    SIXTEEN(16, shuffle2(xy, zw, HIGH_PAIRS));
    xy = shuffle2(c[0], c[1], HIGH_ONES);
    zw = shuffle2(c[2], c[3], HIGH_ONES);
    SIXTEEN(32, shuffle2(xy, zw, LOW_PAIRS));
    SIXTEEN(48, shuffle2(xy, zw, HIGH_PAIRS));
}
#endif

/* No restrict here: Oclgrind 21.10 does not know what becomes of it when a function is inlined into a loop.
 * Forward and backward differ in what may be accumulated only: y (+)= mask(x). `count` is the number of
 * blocks of the launch, at least those that hold an element; `elements` of them exist. */
static inline void dropout_body(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                __global const uint *sb, ulong per_sample, uint op, float p, float scale,
                                ulong elements, ulong count)
{
    ulong index = (((ulong)sb[SB_SAMPLE_HI] << 32) | sb[SB_SAMPLE_LO]) * per_sample;
    ulong first = index / 4;
    uint lead = (uint)(index % 4); /* elements of the first block that belong to the sample before */
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    FOR_ELEMENTS(k, size)
    {
        ulong at = (base + k) * 4 - lead; /* of the block's first word; wraps for those elements */
#if LS == 1
        if (at < elements && elements - at >= 64 && size - k >= 16) {
            dropout_sixteen(y + at, accumulate, x + at, sb, op, first + base + k, p, scale);
            k += 15;
            continue;
        }
#endif
        uint4 words = clt_rng_block(sb, RNG_DROPOUT, op, first + base + k);
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
