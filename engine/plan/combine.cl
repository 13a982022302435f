/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the micro-batches of a step as a binary tree, so that they round equally for any number of ranks
 * that share the micro-batches (engine/plan/emit_combine.c). The number of the micro-batch is the binary
 * counter: level n holds the sum of 2^n micro-batches while bit n is set. Knows flat arrays of f32 only.
 *
 *   -DLEVELS=1..8: a rank has 2^LEVELS micro-batches
 *   -DLS, -DVEC: see elements.clh */
#include "common.clh"
#include "elements.clh"
#include "step_block.clh"
#include "types.clh"

#ifndef LEVELS
#define LEVELS 1
#endif

#define EACH_1(DO) DO(0)
#define EACH_2(DO) EACH_1(DO) DO(1)
#define EACH_3(DO) EACH_2(DO) DO(2)
#define EACH_4(DO) EACH_3(DO) DO(3)
#define EACH_5(DO) EACH_4(DO) DO(4)
#define EACH_6(DO) EACH_5(DO) DO(5)
#define EACH_7(DO) EACH_6(DO) DO(6)
#define EACH_8(DO) EACH_7(DO) DO(7)
#define EACH_LEVEL(DO) CLT_CAT(EACH_, LEVELS)(DO)

#define ARGUMENT(n) , __global float *level##n, ulong level##n##_0
#define ADVANCE(n) level##n += level##n##_0 + base;
#define ALIGNED(n) &&QUADS(f32, level##n)
#define ADD_VECTOR(n)                                                                                        \
    if (ones > n)                                                                                            \
        sum = LOADV(f32, level##n, k) + sum;
#define ADD_ONE(n)                                                                                           \
    if (ones > n)                                                                                            \
        sum = LOAD(f32, level##n, k) + sum;
#define TAKE(n) to = ones == n ? level##n : to;

/* Adds value, which micro-batch sb[SB_MICRO] has computed, to the sums that wait for it in the tree. The
 * result waits on its level for the next sibling. After the last micro-batch value = factor * the sum of
 * all. */
ELEMENTWISE void combine(__global float *value, ulong value0, __global const uint *sb,
                         ulong sb0 EACH_LEVEL(ARGUMENT), float factor, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count), ones = 0;
    for (uint micro = sb[sb0 + SB_MICRO]; micro & 1; micro >>= 1)
        ones++;
    value += value0 + base;
    EACH_LEVEL(ADVANCE)
    __global float *to = value;
    EACH_LEVEL(TAKE)
    float share = ones == LEVELS ? factor : 1.0f;
    FOR_VECTORS(k, size, QUADS(f32, value) EACH_LEVEL(ALIGNED))
    {
        REALS sum = LOADV(f32, value, k);
        EACH_LEVEL(ADD_VECTOR)
        STREAMV(f32, to, k, sum * share);
    }
    FOR_REST(k, size)
    {
        float sum = LOAD(f32, value, k);
        EACH_LEVEL(ADD_ONE)
        STORE(f32, to, k, sum * share);
    }
}

/* Lets all micro-batches of a step start from the same values: the first one copies them to start, the
 * others copy them back from there. */
ELEMENTWISE void combine_start(__global float *value, ulong value0, __global float *start, ulong start0,
                               __global const uint *sb, ulong sb0, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    bool first = sb[sb0 + SB_MICRO] == 0;
    value += value0 + base;
    start += start0 + base;
    __global float *from = first ? value : start, *to = first ? start : value;
    FOR_VECTORS(k, size, QUADS(f32, value) && QUADS(f32, start))
    STREAMV(f32, to, k, LOADV(f32, from, k));
    FOR_REST(k, size)
    STORE(f32, to, k, LOAD(f32, from, k));
}
