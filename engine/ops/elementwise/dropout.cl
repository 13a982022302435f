/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout: y = x * scale if the element's uniform number is >= p, else 0. The mask is a function of the step
 * block and of the element's index in the global batch. So backward computes it again, and it does not depend
 * on the number of ranks. One Philox block serves four consecutive elements; the first block of a
 * micro-batch may begin before its first element. Knows flat arrays only.
 *
 * -DDT=type read  -DGT=type written  -DRESIDUAL=1: forward adds a tensor of the type written  -DLS, -DVEC:
 * see elements.clh, counted in blocks  -DNT: see lanes.clh */
#include "common.clh"
#include "elements.clh"
#include "lanes.clh"
#include "quads.clh"
#include "philox.clh"
#include "types.clh"

#pragma option RESIDUAL 0

/* The result at index `at`: the masked value v, plus the residual r there. */
#if RESIDUAL
#define PLUS(load, at, v) (load(GT, r, at) + (v))
#define RESIDUAL_ARG __global const STORAGE(GT) *restrict r, ulong r0,
#define RESIDUAL_VALUE (r + r0)
#define RESIDUAL_QUADS &&QUADS(GT, r)
#else
#define PLUS(load, at, v) (v)
#define RESIDUAL_ARG
#define RESIDUAL_VALUE 0
#define RESIDUAL_QUADS
#endif

#if LS == 1 && PHILOX_LANES
#define LANE_FORM 1
#else
#define LANE_FORM 0
#endif

#define DROPPED(word, p) (clt_uniform(word) < (p))

/* Computes the elements of one Philox block that exist, at most four. `at` is the index of the first; it
 * wraps around (below 0) if that element belongs to the previous sample. */
static inline void dropout_block(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                 __global const STORAGE(GT) * r, uint4 words, ulong at, ulong elements,
                                 float p, float scale)
{
#define ONE(i, word)                                                                                         \
    if ((i) < elements)                                                                                      \
    STORE_GRAD(GT, y, i, PLUS(LOAD, i, DROPPED(word, p) ? 0.0f : LOAD(DT, x, i) * scale), accumulate)
    ONE(at, words.x);
    ONE(at + 1, words.y);
    ONE(at + 2, words.z);
    ONE(at + 3, words.w);
#undef ONE
}

#if LS != 1
/* Computes a block whose four elements all exist, at addresses aligned for vectors of four. */
static inline void dropout_quad(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                __global const STORAGE(GT) * r, uint4 words, ulong at, float p, float scale)
{
    float4 v = LOAD4(DT, x, at) * scale;
    v = select(v, (float4)(0.0f), convert_float4(words >> 8) * 0x1p-24f < (float4)(p));
    STORE4_GRAD(GT, y, at, PLUS(LOAD4, at, v), accumulate);
}
#else
#define dropout_quad(y, accumulate, x, r, words, at, p, scale)
#endif

#if LANE_FORM
/* Sixteen elements. `words` and the threshold have their sign bits flipped, because vector units only have
 * signed comparisons. */
#define SIXTEEN(at, words)                                                                                   \
    do {                                                                                                     \
        float16 x_ = LOAD16(DT, x, at) * scale;                                                              \
        int16 dropped_ = (int16)(threshold) > as_int16(words);                                               \
        STREAM16_GRAD(GT, y, at, PLUS(LOAD16, at, as_float16(as_int16(x_) & ~dropped_)), accumulate);        \
    } while (0)

/* Processes whole Philox blocks, eight at a time. `index`: the lower half of the first one's index; all must
 * have the same upper half. Returns how many of the `blocks` it has processed. */
static inline uint dropout_eights(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                  __global const STORAGE(GT) * r, const philox_start *s, uint index,
                                  uint blocks, float p, float scale)
{
    const uint sign = 0x80000000u;
    int threshold = as_int(((uint)ceil(p * 0x1p24f) << 8) ^ sign); /* word < this: DROPPED */
    ulong8 lanes = index + PHILOX_ORDER;
    uint k = 0;
    for (; k + 8 <= blocks; k += 8, lanes += 8) {
        uint16 first, second;
        clt_philox_eight(s, lanes, sign, &first, &second);
        SIXTEEN(4 * k, first);
        SIXTEEN(4 * k + 16, second);
    }
    return k;
}
#endif

/* Forward and backward: y (+)= mask(x), or r + mask(x). `count`: blocks of the launch, at least all that
 * hold an element; `elements`: number of elements that exist. Blocks at the edges are processed one by one,
 * and so are all blocks of a group in which the lower half of the index would overflow. No restrict:
 * Oclgrind 21.10 does not support it in functions that are inlined into a loop. */
static inline void dropout_body(__global STORAGE(GT) * y, int accumulate, __global const STORAGE(DT) * x,
                                __global const STORAGE(GT) * r, __global const uint *sb, ulong per_sample,
                                uint op, float p, float scale, ulong elements, ulong count)
{
    ulong index = (((ulong)sb[SB_SAMPLE_HI] << 32) | sb[SB_SAMPLE_LO]) * per_sample;
    ulong base = clt_chunk_base(), block = index / 4 + base;
    ulong at = base * 4 - index % 4; /* index of the first block's first element; may wrap around */
    uint size = clt_chunk_size(base, count), first = 0, end = 0; /* [first, end): eight at a time */
#if LANE_FORM
    if (at >= elements)
        first = 1;
    if (at + 4 * first < elements && (uint)block <= 0xffffffffu - VEC) {
        philox_start s = clt_philox_start(sb, CLT_RNG_DROPOUT, op, (uint)(block >> 32));
        ulong from = at + 4 * first, whole = min((elements - from) / 4, (ulong)(size - first));
        end = first + dropout_eights(y + from, accumulate, x + from, RESIDUAL ? r + from : r, &s,
                                     (uint)block + first, (uint)whole, p, scale);
    }
#endif
    bool quads = LS != 1 && index % 4 == 0 && QUADS(GT, y) && QUADS(DT, x) RESIDUAL_QUADS;
    FOR_ELEMENTS(k, size)
    {
        if (k >= first && k < end)
            k = end;
        if (quads && at + 4 * (ulong)k + 4 <= elements)
            dropout_quad(y, accumulate, x, r, clt_rng_block(sb, CLT_RNG_DROPOUT, op, block + k),
                         at + 4 * (ulong)k, p, scale);
        else if (k < size)
            dropout_block(y, accumulate, x, r, clt_rng_block(sb, CLT_RNG_DROPOUT, op, block + k),
                          at + 4 * (ulong)k, elements, p, scale);
    }
}

ELEMENTWISE void dropout_fwd(__global STORAGE(GT) *restrict y, ulong y0,
                             __global const STORAGE(DT) *restrict x, ulong x0,
                             RESIDUAL_ARG __global const uint *restrict sb, ulong sb0, ulong per_sample,
                             uint op, float p, float scale, ulong elements, ulong count)
{
    dropout_body(y + y0, 0, x + x0, RESIDUAL_VALUE, sb + sb0, per_sample, op, p, scale, elements, count);
}

ELEMENTWISE void dropout_bwd(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                             __global const STORAGE(DT) *restrict dy, ulong dy0,
                             __global const uint *restrict sb, ulong sb0, ulong per_sample, uint op, float p,
                             float scale, ulong elements, ulong count)
{
    dropout_body(dx + dx0, accumulate, dy + dy0, 0, sb + sb0, per_sample, op, p, scale, elements, count);
}
