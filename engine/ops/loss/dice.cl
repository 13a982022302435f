/* SPDX-License-Identifier: Apache-2.0
 *
 * The soft Dice loss of segmentation. A voxel (or pixel) has CLASSES logits, which lie side by side, and a
 * class number as target. For each sample and class, forward sums the probabilities p, the voxels t of the
 * class, and p * t, over blocks of voxels (SUM_STEPS at a time), then over the blocks. From these sums
 * follow the loss of a sample and its derivatives with respect to the sums; backward uses these voxel by
 * voxel and computes the probabilities again. A target out of range gives NaN. Samples beyond the step
 * block's valid count give {0, 0, 0} and a zero gradient.
 *
 * -DDT=type of logits  -DGT=type of their gradient  -DTT=type of targets  -DCLASSES=number of logits
 * -DSIGMOID=0|1: sigmoids instead of a softmax  -DSQUARED=0|1: squares of p in the denominator
 * -DFIRST=first class that counts  -DWEIGHTED=0|1: classes have weights
 * -DHAS_IGNORE=0|1: voxels of class `ignore` do not count */
#include "common.clh"
#include "kernel_shared.clh"
#include "loss_scale.clh"
#include "step_block.clh"
#include "types.clh"

#pragma option TT i32
#pragma option CLASSES 3
#pragma option SIGMOID 0
#pragma option SQUARED 0
#pragma option FIRST 0
#pragma option HAS_IGNORE 0
#pragma option WEIGHTED 0
#define SUMS 3 /* sums of p (or of its square), of t and of p * t */

static inline bool dice_counts(int target, int ignore)
{
    return !HAS_IGNORE || target != ignore;
}
/* True if the target is a class. With one class, a target is 0 or 1. */
static inline bool dice_in_range(int target)
{
    return target >= 0 && target < (CLASSES == 1 ? 2 : CLASSES);
}
static inline float dice_is(int target, int c)
{
    return (CLASSES == 1 ? target == 1 : target == c) ? 1.0f : 0.0f;
}

/* Sets p to the probabilities of the voxel that has the logits x. */
static inline void dice_probabilities(__global const STORAGE(DT) * x, float *p)
{
#if SIGMOID
    for (int c = 0; c < CLASSES; c++)
        p[c] = clt_sigmoid(LOAD(DT, x, c));
#else
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < CLASSES; c++) {
        p[c] = LOAD(DT, x, c);
        top = fmax(top, p[c]);
    }
    for (int c = 0; c < CLASSES; c++) {
        p[c] = clt_exp_down(p[c] - top);
        sum += p[c];
    }
    for (int c = 0; c < CLASSES; c++)
        p[c] = p[c] / sum;
#endif
}

/* x (samples,voxels,CLASSES), target (samples,voxels) -> part (samples,blocks,CLASSES,SUMS); an item for each
 * block of `block` voxels of a sample. */
__kernel void dice_fwd_sums(__global float *part, ulong part0, __global const STORAGE(DT) * x, ulong x0,
                            __global const STORAGE(TT) * target, ulong target0, __global const uint *sb,
                            ulong sb0, uint samples, ulong voxels, uint blocks, ulong block, int ignore)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)samples * blocks)
        return;
    ulong sample = item / blocks, first = item % blocks * block, end = min(first + block, voxels);
    float sums[CLASSES * SUMS], chain[CLASSES * SUMS], p[CLASSES];
    part += part0 + item * (CLASSES * SUMS);
    x += x0 + sample * voxels * CLASSES;
    target += target0 + sample * voxels;
    for (int k = 0; k < CLASSES * SUMS; k++)
        sums[k] = 0.0f;
    if (sample >= sb[sb0 + SB_VALID])
        first = end;
    while (first < end) {
        ulong stop = min(end, first + SUM_STEPS);
        for (int k = 0; k < CLASSES * SUMS; k++)
            chain[k] = 0.0f;
        for (ulong v = first; v < stop; v++) {
            int t = (int)target[v];
            if (!dice_counts(t, ignore))
                continue;
            dice_probabilities(x + v * CLASSES, p);
            float off = dice_in_range(t) ? 0.0f : NAN;
            for (int c = 0; c < CLASSES; c++) {
                float is = dice_is(t, c);
                chain[SUMS * c] += SQUARED ? p[c] * p[c] : p[c];
                chain[SUMS * c + 1] += is;
                chain[SUMS * c + 2] += p[c] * is + off;
            }
        }
        for (int k = 0; k < CLASSES * SUMS; k++)
            sums[k] += chain[k];
        first = stop;
    }
    for (int k = 0; k < CLASSES * SUMS; k++)
        part[k] = sums[k];
}

#if WEIGHTED
#define WEIGHT_ARGS , __global const float *class_weight, ulong class_weight0
#define WEIGHT_OF(c) class_weight[class_weight0 + (c)]
#else
#define WEIGHT_ARGS
#define WEIGHT_OF(c) 1.0f
#endif

/* part (samples,blocks,CLASSES,SUMS) -> term (samples,CLASSES): the class's share of the sample's loss;
 * slope (samples,CLASSES,2): its derivatives with respect to the sums of p and of p * t. An item for each
 * sample and class. */
__kernel void dice_fwd_terms(__global float *term, ulong term0, __global float *slope, ulong slope0,
                             __global const float *part, ulong part0 WEIGHT_ARGS, uint samples, uint blocks,
                             float smooth)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)samples * CLASSES)
        return;
    ulong sample = item / CLASSES, c = item % CLASSES;
    float sums[SUMS] = {0.0f, 0.0f, 0.0f}, share = WEIGHT_OF(c) / (float)(CLASSES - FIRST);
    part += part0 + (sample * blocks * CLASSES + c) * SUMS;
    for (ulong b = 0; b < blocks; b++)
        for (int k = 0; k < SUMS; k++)
            sums[k] += part[b * (CLASSES * SUMS) + k];
    float above = 2.0f * sums[2] + smooth, below = sums[0] + sums[1] + smooth;
    bool counts = c >= FIRST;
    term[term0 + item] = counts ? (1.0f - above / below) * share : 0.0f;
    slope[slope0 + 2 * item] = counts ? above / (below * below) * share : 0.0f;
    slope[slope0 + 2 * item + 1] = counts ? -2.0f / below * share : 0.0f;
}

/* term (samples,CLASSES) -> out (samples,3) {loss, 1, 0}; an item for each sample. */
__kernel void dice_fwd_rows(__global float *out, ulong out0, __global const float *term, ulong term0,
                            __global const uint *sb, ulong sb0, uint samples)
{
    ulong sample = get_global_id(0);
    if (sample >= samples)
        return;
    bool counts = sample < sb[sb0 + SB_VALID];
    float loss = 0.0f;
    term += term0 + sample * CLASSES;
    for (int c = 0; c < CLASSES; c++)
        loss += term[c];
    out += out0 + 3 * sample;
    out[0] = counts ? loss : 0.0f;
    out[1] = counts ? 1.0f : 0.0f;
    out[2] = 0.0f;
}

/* dx (samples,voxels,CLASSES) (+)= scale * the gradient; an item for each voxel; dx may be x. */
__kernel void dice_bwd(__global STORAGE(GT) * dx, ulong dx0, int accumulate, __global const STORAGE(DT) * x,
                       ulong x0, __global const STORAGE(TT) * target, ulong target0,
                       __global const float *slope, ulong slope0, __global const uint *sb,
                       ulong sb0 LOSS_SCALE_ARGS, uint samples, ulong voxels, int ignore, float weight,
                       uint loss_index)
{
    ulong v = get_global_id(0);
    if (v >= samples * voxels)
        return;
    ulong sample = v / voxels;
    int t = (int)target[target0 + v];
    dx += dx0 + v * CLASSES;
    if (sample >= sb[sb0 + SB_VALID] || !dice_counts(t, ignore)) {
        for (int c = 0; c < CLASSES; c++)
            STORE_GRAD(GT, dx, c, 0.0f, accumulate);
        return;
    }
    float p[CLASSES], g[CLASSES], mean = 0.0f;
    float scale = (weight * as_float(sb[sb0 + SB_NORM + loss_index])) * LOSS_SCALE;
    dice_probabilities(x + x0 + v * CLASSES, p);
    slope += slope0 + 2 * sample * CLASSES;
    for (int c = 0; c < CLASSES; c++) {
        g[c] = slope[2 * c] * (SQUARED ? 2.0f * p[c] : 1.0f) + slope[2 * c + 1] * dice_is(t, c);
        mean += g[c] * p[c];
    }
    for (int c = 0; c < CLASSES; c++)
        STORE_GRAD(GT, dx, c, scale * (p[c] * (SIGMOID ? g[c] * (1.0f - p[c]) : g[c] - mean)), accumulate);
}
