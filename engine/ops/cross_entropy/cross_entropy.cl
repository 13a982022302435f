/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy with the softmax inside. Forward keeps {max, sum of exp(x - max)} of each row, from which
 * backward recomputes the probabilities; the kernels whose names contain `record` do both directions in one
 * pass and overwrite the logits by their gradient. Rows of samples beyond the step block's valid count, and
 * rows whose target is ignored, give {0, 0, 0} and a zero gradient. A target out of range gives NaN, so that
 * the error is noticed, and reads nothing out of bounds. Of the `stride` logits of a row the first `cols`
 * are classes; the others are padding, are not read and get a zero gradient. A launch may process only some
 * of the micro-batch's rows, from row0 on.
 *
 * -DDT=type of logits  -DGT=type of their gradient  -DTT=type of targets  -DHAS_IGNORE=0|1  -DSMOOTH=0|1
 * -DWEIGHTED=0|1: classes have weights, by which the terms of the loss are multiplied
 * -DMIXED=0|1: each row has a second target, and each sample the share of the first target (mixup, cutmix)
 * -DKEEP_EXP=0|1: exponentials are kept where the logits were
 * -DHELD=n: the items of a group hold a row of 16-bit logits in registers, n vectors of four each, so that
 * it is read once; rows begin at multiples of 8 bytes
 * -DWIDE=1: 64-bit element indices  -DWG=work-group size */
#include "common.clh"
#include "loss_scale.clh"
#include "step_block.clh"
#include "lanes.clh"
#include "groups.clh"
#include "quad_functions.clh"
#include "quads.clh"
#include "types.clh"

#include "softmax.clh"
#pragma option TT i32
#pragma option HAS_IGNORE 0
#pragma option SMOOTH 0
#pragma option MIXED 0
#pragma option WEIGHTED 0
#pragma option KEEP_EXP 1 /* f32 y can hold the exponentials between the passes */
#pragma option HELD 0
#pragma option WIDE 0
#if WIDE
#define INDEX ulong
#else
#define INDEX uint
#endif

/* Whether row `row` of the micro-batch counts in the loss; *target gets its target. Padding rows are
 * recognised without reading their target. */
static inline bool cross_entropy_counts(__global const uint *sb, __global const STORAGE(TT) * target,
                                        ulong row, uint rows_per_sample, int ignore)
{
    if (row / rows_per_sample >= sb[SB_VALID])
        return false;
#if HAS_IGNORE
    return (int)*target != ignore;
#else
    return true;
#endif
}

/* The target distribution of a row: `share` of class `first`, the rest of class `second`. */
typedef struct cross_entropy_targets {
    int first, second;
    float share;
} cross_entropy_targets;

#if MIXED
#define MIXED_ARGS                                                                                           \
    , __global const STORAGE(TT) * second, ulong second0, __global const float *share, ulong share0
#define TARGETS(target, r)                                                                                   \
    cross_entropy_mixed((int)*(target), (int)second[second0 + (r)],                                          \
                        share[share0 + (row0 + (r)) / rows_per_sample], ignore)
static inline cross_entropy_targets cross_entropy_mixed(int first, int second, float share, int ignore)
{
    cross_entropy_targets t = {first, HAS_IGNORE && second == ignore ? first : second, share};
    return t;
}
#else
#define MIXED_ARGS
#define TARGETS(target, r) cross_entropy_single((int)*(target))
#endif
static inline cross_entropy_targets cross_entropy_single(int target)
{
    cross_entropy_targets t = {target, target, 1.0f};
    return t;
}

/* The weights of the classes: the loss is -sum w_c q_c log p_c for the target distribution q, and its
 * derivative with respect to logit c is p_c * sum w q - w_c q_c. */
typedef struct cross_entropy_weights {
    __global const float *of;
    float mean_weight; /* mean weight of all classes */
} cross_entropy_weights;

#if WEIGHTED
#define WEIGHT_ARGS , __global const float *class_weight, ulong class_weight0, float mean_weight
#define WEIGHTS cross_entropy_weigh(class_weight + class_weight0, mean_weight)
#define WEIGHT_OF(w, c) (w).of[c]
#define WEIGHT4_OF(w, c) vload4(0, (w).of + (c))
#define WEIGHT16_OF(w, c) vload16(0, (w).of + (c))
#else
#define WEIGHT_ARGS
#define WEIGHTS cross_entropy_weigh(0, 1.0f)
#define WEIGHT_OF(w, c) 1.0f
#define WEIGHT4_OF(w, c) (float4)(1.0f)
#define WEIGHT16_OF(w, c) (float16)(1.0f)
#endif
static inline cross_entropy_weights cross_entropy_weigh(__global const float *of, float mean_weight)
{
    cross_entropy_weights w = {of, mean_weight};
    return w;
}

static inline bool cross_entropy_in_range(int target, uint cols)
{
    return target >= 0 && (uint)target < cols;
}

static inline bool cross_entropy_targets_in_range(cross_entropy_targets t, uint cols)
{
    return cross_entropy_in_range(t.first, cols) && cross_entropy_in_range(t.second, cols);
}

/* The probability of class c in the target distribution before label smoothing. */
static inline float cross_entropy_hot(cross_entropy_targets t, int c)
{
#if MIXED
    return (c == t.first ? t.share : 0.0f) + (c == t.second ? 1.0f - t.share : 0.0f);
#else
    return c == t.first ? 1.0f : 0.0f;
#endif
}

/* The sum of the targets' weights, each times the target's share; 1 without weights. */
static inline float cross_entropy_hot_weight(cross_entropy_targets t, cross_entropy_weights w)
{
#if WEIGHTED && MIXED
    return t.share * WEIGHT_OF(w, t.first) + (1.0f - t.share) * WEIGHT_OF(w, t.second);
#elif WEIGHTED
    return WEIGHT_OF(w, t.first);
#else
    return 1.0f;
#endif
}

/* sum w q, the factor of the probabilities in the gradient. */
static inline float cross_entropy_weight_sum(cross_entropy_targets t, cross_entropy_weights w,
                                             float smoothing)
{
#if WEIGHTED && SMOOTH
    return (1.0f - smoothing) * cross_entropy_hot_weight(t, w) + smoothing * w.mean_weight;
#else
    return cross_entropy_hot_weight(t, w);
#endif
}

/* The values of a row that counts; both directions need them. */
typedef struct cross_entropy_row {
    float xt, top, exp_sum;
    float xm;  /* the mean of the logits of mixed targets; with weights the second target's logit */
    float hot; /* sum of the targets' weights, each times the target's share */
    bool in_range;
} cross_entropy_row;

/* Writes {loss, 1, correct} of one row from its reductions. centred: the sum of w * (x - max), used with
 * label smoothing only. beaten: a class before the target has the maximum too (of equal logits the first is
 * the prediction). */
static inline void cross_entropy_finish(__global float *out, uint cols, cross_entropy_row row, float centred,
                                        bool beaten, float smoothing, cross_entropy_targets t,
                                        cross_entropy_weights w)
{
    float log_sum = clt_log(row.exp_sum), loss = NAN, correct = 0.0f;
    if (row.in_range) {
#if WEIGHTED && MIXED
        loss = t.share * WEIGHT_OF(w, t.first) * (log_sum - (row.xt - row.top)) +
               (1.0f - t.share) * WEIGHT_OF(w, t.second) * (log_sum - (row.xm - row.top));
#else
        loss = row.hot * (log_sum - (row.xm - row.top));
#endif
#if SMOOTH
        loss = (1.0f - smoothing) * loss + smoothing * (w.mean_weight * log_sum - centred / (float)cols);
#endif
        correct = row.xt == row.top && !beaten ? 1.0f : 0.0f;
    }
    out[0] = loss;
    out[1] = 1.0f;
    out[2] = correct;
}

static inline void cross_entropy_skip(__global float *out)
{
    out[0] = out[1] = out[2] = 0.0f;
}

/* Whether one of x[0..end) equals top; end <= cols. */
static inline bool cross_entropy_tie(__global const STORAGE(DT) * x, int end, float top)
{
    int c = 0;
    for (; c + LANES <= end; c += LANES)
        if (any(isequal(LOAD16(DT, x, c), (float16)(top))))
            return true;
    for (; c < end; c++)
        if (LOAD(DT, x, c) == top)
            return true;
    return false;
}

/* Sum of w * (x - top) over a row, for label smoothing. */
static inline float cross_entropy_centred(__global const STORAGE(DT) * x, uint cols, float top,
                                          cross_entropy_weights w)
{
    float16 sum = 0.0f;
    uint c = 0;
    for (; c + LANES <= cols; c += LANES)
        sum += WEIGHT16_OF(w, c) * (LOAD16(DT, x, c) - top);
    float centred = clt_sum16(sum);
    for (; c < cols; c++)
        centred += WEIGHT_OF(w, c) * (LOAD(DT, x, c) - top);
    return centred;
}

/* Begins a row: reads the logits and weights of its targets. */
static inline cross_entropy_row cross_entropy_begin(__global const STORAGE(DT) * x, uint cols,
                                                    cross_entropy_targets t, cross_entropy_weights w)
{
    cross_entropy_row row = {.in_range = cross_entropy_targets_in_range(t, cols)};
    row.xt = row.in_range ? LOAD(DT, x, t.first) : 0.0f;
    row.hot = row.in_range ? cross_entropy_hot_weight(t, w) : 0.0f;
    row.xm = row.xt;
#if MIXED && WEIGHTED
    if (row.in_range)
        row.xm = LOAD(DT, x, t.second);
#elif MIXED
    if (row.in_range)
        row.xm = t.share * row.xt + (1.0f - t.share) * LOAD(DT, x, t.second);
#endif
    return row;
}

/* Computes the reductions of a row and writes its record, by one item. */
static inline cross_entropy_row cross_entropy_row_of(__global float *out, __global const STORAGE(DT) * x,
                                                     uint cols, cross_entropy_targets targets,
                                                     float smoothing, cross_entropy_weights w)
{
    int t = targets.first;
    cross_entropy_row row = cross_entropy_begin(x, cols, targets, w);
    row.top = clt_row_of(x, cols, &row.exp_sum);
    float centred = SMOOTH ? cross_entropy_centred(x, cols, row.top, w) : 0.0f;
    bool beaten = row.in_range && row.xt == row.top && cross_entropy_tie(x, t, row.top);
    cross_entropy_finish(out, cols, row, centred, beaten, smoothing, targets, w);
    return row;
}

/* The vectors of a row that belong to an item of a group. FOR_ROW4 runs its statement for each of them, with
 * c its first element; ROW4(c) is the vector, from memory or from `held`. Only the last vector of `held` can
 * be beyond the row. */
#if HELD
static inline float4 cross_entropy_held_bf16(uint2 v)
{
    return (float4)(as_float(v.x << 16), as_float(v.x & 0xffff0000u), as_float(v.y << 16),
                    as_float(v.y & 0xffff0000u));
}
static inline float4 cross_entropy_held_f16(uint2 v)
{
    return vload_half4(0, (const half *)&v);
}
#define HELD_PARAM const uint2 *held,
#define HELD_ARG held,
/* Compilers do not know that all vectors but the last are in the row, so each vector gets a branch. Without
 * the branches they interleave the exponentials of many vectors, which takes more registers than there
 * are. */
#define FOR_ROW4(c, whole)                                                                                   \
    _Pragma("unroll") for (uint j_ = 0, c = 4 * lane; j_ < HELD; j_++, c += 4 * WG) if (c < (whole))
#define ROW4(c) CLT_CAT(cross_entropy_held_, DT)(held[j_])
/* c as a constant offset from an address that all vectors share: 25 addresses would need 50 registers. */
#define PLACE4(c) ((size_t)(4 * lane) + (size_t)(4 * WG * j_))
#define ROW_END4 (cols & ~3u)
#else
#define HELD_PARAM
#define HELD_ARG
#define FOR_ROW4(c, whole) FOR_QUADS(c, whole)
#define ROW4(c) LOAD4(DT, x, c)
#define PLACE4(c) (c)
#define ROW_END4 WHOLE_QUADS(cols, QUADS(DT, x) && QUADS(DT, kept))
#endif

/* Like cross_entropy_row_of(), computed by all items of a group. Exponentials are stored in `kept` unless it
 * is 0. `kept` may be x itself: every item reads the target's logit before it is overwritten. */
CLT_INLINE cross_entropy_row cross_entropy_group_of(__local float *scratch, __global float *out,
                                                    __global const STORAGE(DT) * x,
                                                    __global STORAGE(DT) * kept, HELD_PARAM uint cols,
                                                    cross_entropy_targets targets, float smoothing,
                                                    cross_entropy_weights w)
{
    uint lane = (uint)get_local_id(0);
    int t = targets.first;
    cross_entropy_row row = cross_entropy_begin(x, cols, targets, w);
    barrier(CLK_GLOBAL_MEM_FENCE); /* all items have read x[t] before its owner overwrites it */
    float top = -INFINITY, exp_sum = 0.0f, centred = 0.0f, ties = 0.0f;
    uint whole = ROW_END4;
    float4 top4 = -INFINITY, sum4 = 0.0f, centred4 = 0.0f;
    FOR_ROW4(c, whole)
    top4 = fmax(top4, ROW4(c));
    FOR_SINGLES(c, whole, cols)
    top = fmax(top, LOAD(DT, x, c));
    row.top = clt_group_max(scratch, fmax(top, clt_max4(top4)));
    FOR_ROW4(c, whole)
    {
        float4 d = ROW4(c) - row.top, e = clt_exp_down4(d);
        if (kept)
            STORE4(DT, kept, c, e);
        sum4 += e;
        centred4 += SMOOTH ? WEIGHT4_OF(w, c) * d : d;
        /* equal maxima among elements c .. c + 3 that come before the target */
        int4 tie = (d == (float4)(0.0f)) & ((int4)((int)c, (int)c + 1, (int)c + 2, (int)c + 3) < (int4)(t));
        ties += any(tie) ? 1.0f : 0.0f;
    }
    FOR_SINGLES(c, whole, cols)
    {
        float d = LOAD(DT, x, c) - row.top, e = clt_exp_down(d);
        if (kept)
            STORE(DT, kept, c, e);
        exp_sum += e;
        centred += SMOOTH ? WEIGHT_OF(w, c) * d : d;
        ties += d == 0.0f && (int)c < t ? 1.0f : 0.0f;
    }
    row.exp_sum = clt_group_sum(scratch, exp_sum + clt_sum4(sum4));
    ties = clt_group_sum(scratch, ties);
#if SMOOTH
    centred = clt_group_sum(scratch, centred + clt_sum4(centred4));
#endif
    if (lane == 0)
        cross_entropy_finish(out, cols, row, centred, ties > 0.0f, smoothing, targets, w);
    return row;
}

/* Fills `held`; elements of it beyond the row are never used. */
#if HELD
#define HOLD_ROW                                                                                             \
    uint2 held[HELD];                                                                                        \
    _Pragma("unroll") for (uint j_ = 0; j_ < HELD;                                                           \
                           j_++) if (j_ + 1 < HELD || 4 * (lane + WG * j_) < (cols & ~3u)) held[j_] =        \
        *(const __global uint2 *)(x + PLACE4(c));
#else
#define HOLD_ROW
#endif

/* logits (rows,cols), target (rows) -> out (rows,3) {loss, counted, correct}, stats (rows,2); one
 * work-group per row. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void cross_entropy_fwd_group(
    __global float *out, ulong out0, __global float *stats, ulong stats0, __global const STORAGE(DT) * x,
    ulong x0, __global const STORAGE(TT) * target, ulong target0 MIXED_ARGS WEIGHT_ARGS,
    __global const uint *sb, ulong sb0, ulong rows, uint cols, uint stride, uint rows_per_sample, int ignore,
    float smoothing, ulong row0)
{
    __local float scratch[WG];
    ulong r = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    out += out0 + 3 * r;
    stats += stats0 + 2 * r;
    target += target0 + r;
    x += x0 + r * stride;
    /* uniform in the group, so that either all items reach the barriers or none */
    if (!cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        if (lane == 0) {
            cross_entropy_skip(out);
            stats[0] = stats[1] = 0.0f;
        }
        return;
    }
    HOLD_ROW
    cross_entropy_row row =
        cross_entropy_group_of(scratch, out, x, 0, HELD_ARG cols, TARGETS(target, r), smoothing, WEIGHTS);
    if (lane == 0) {
        stats[0] = row.top;
        stats[1] = row.exp_sum;
    }
}

/* One item per row, sixteen classes at a time. */
__kernel void cross_entropy_fwd_row(__global float *out, ulong out0, __global float *stats, ulong stats0,
                                    __global const STORAGE(DT) * x, ulong x0,
                                    __global const STORAGE(TT) * target, ulong target0 MIXED_ARGS WEIGHT_ARGS,
                                    __global const uint *sb, ulong sb0, ulong rows, uint cols, uint stride,
                                    uint rows_per_sample, int ignore, float smoothing, ulong row0)
{
    ulong r = get_global_id(0);
    if (r >= rows)
        return;
    out += out0 + 3 * r;
    stats += stats0 + 2 * r;
    target += target0 + r;
    if (!cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        cross_entropy_skip(out);
        stats[0] = stats[1] = 0.0f;
        return;
    }
    x += x0 + r * stride;
    cross_entropy_row row = cross_entropy_row_of(out, x, cols, TARGETS(target, r), smoothing, WEIGHTS);
    stats[0] = row.top;
    stats[1] = row.exp_sum;
}

/* The factor of the gradient: weight * loss scale / normaliser. */
static inline float cross_entropy_scale(__global const uint *sb, float weight, uint loss_index,
                                        float loss_scale)
{
    return (weight * as_float(sb[SB_NORM + loss_index])) * loss_scale;
}

/* dx (rows,cols) (+)= scale * (softmax(x) - target distribution); one item per element; dx may be x. */
__kernel void cross_entropy_bwd_flat(__global STORAGE(GT) * dx, ulong dx0, int accumulate,
                                     __global const STORAGE(DT) * x, ulong x0,
                                     __global const STORAGE(TT) * target,
                                     ulong target0 MIXED_ARGS WEIGHT_ARGS, __global const float *stats,
                                     ulong stats0, __global const uint *sb, ulong sb0 LOSS_SCALE_ARGS,
                                     ulong rows, uint cols, uint stride, uint rows_per_sample, int ignore,
                                     float smoothing, ulong row0, float weight, uint loss_index)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)rows * stride)
        return;
    INDEX r = i / stride;
    uint c = (uint)(i - r * stride);
    target += target0 + r;
    float g = 0.0f;
    if (c < cols && cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        float scale = cross_entropy_scale(sb + sb0, weight, loss_index, LOSS_SCALE);
        cross_entropy_targets t = TARGETS(target, r);
        stats += stats0 + 2 * (ulong)r;
        float p = clt_exp_down(LOAD(DT, x + x0, i) - stats[0]) * (1.0f / stats[1]);
        float q = SMOOTH ? smoothing / (float)cols : 0.0f;
        q += (SMOOTH ? 1.0f - smoothing : 1.0f) * cross_entropy_hot(t, (int)c);
        g = NAN;
        if (cross_entropy_targets_in_range(t, cols)) {
            const cross_entropy_weights w = WEIGHTS;
            g = scale * (cross_entropy_weight_sum(t, w, smoothing) * p - WEIGHT_OF(w, c) * q);
        }
    }
    STORE_GRAD(GT, dx + dx0, i, g, accumulate);
}

/* One item per row, sixteen classes at a time. */
__kernel void cross_entropy_bwd_row(__global STORAGE(GT) * dx, ulong dx0, int accumulate,
                                    __global const STORAGE(DT) * x, ulong x0,
                                    __global const STORAGE(TT) * target, ulong target0 MIXED_ARGS WEIGHT_ARGS,
                                    __global const float *stats, ulong stats0, __global const uint *sb,
                                    ulong sb0 LOSS_SCALE_ARGS, ulong rows, uint cols, uint stride,
                                    uint rows_per_sample, int ignore, float smoothing, ulong row0,
                                    float weight, uint loss_index)
{
    ulong r = get_global_id(0);
    if (r >= rows)
        return;
    target += target0 + r;
    x += x0 + r * stride;
    dx += dx0 + r * stride;
    stats += stats0 + 2 * r;
    uint c = 0;
    if (!cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        for (; c < stride; c++)
            STORE_GRAD(GT, dx, c, 0.0f, accumulate);
        return;
    }
    const cross_entropy_targets targets = TARGETS(target, r);
    int t = targets.first;
    bool in_range = cross_entropy_targets_in_range(targets, cols);
    float scale = in_range ? cross_entropy_scale(sb + sb0, weight, loss_index, LOSS_SCALE) : NAN;
    const cross_entropy_weights w = WEIGHTS;
    /* the factor of the exponentials */
    float top = stats[0], inverse = 1.0f / stats[1];
    inverse *= in_range ? cross_entropy_weight_sum(targets, w, smoothing) : 1.0f;
    float base = SMOOTH ? smoothing / (float)cols : 0.0f;
    /* the target's element is corrected after the loop, from values read before the loop overwrites them */
    float xt = in_range ? LOAD(DT, x, t) : 0.0f;
    float before = in_range && accumulate ? LOAD(GT, dx, t) : 0.0f;
#if MIXED
    float xs = in_range ? LOAD(DT, x, targets.second) : 0.0f;
    float before_second = in_range && accumulate ? LOAD(GT, dx, targets.second) : 0.0f;
#endif
    for (; c + 2 * LANES <= cols; c += 2 * LANES) {
        float16 e[2] = {LOAD16(DT, x, c) - top, LOAD16(DT, x, c + LANES) - top};
        clt_exp_down_two16(e);
        STORE16_GRAD(GT, dx, c, scale * (e[0] * inverse - WEIGHT16_OF(w, c) * base), accumulate);
        STORE16_GRAD(GT, dx, c + LANES, scale * (e[1] * inverse - WEIGHT16_OF(w, c + LANES) * base),
                     accumulate);
    }
    for (; c < cols; c++) {
        float g = scale * (clt_exp_down(LOAD(DT, x, c) - top) * inverse - WEIGHT_OF(w, c) * base);
        STORE_GRAD(GT, dx, c, g, accumulate);
    }
    for (; c < stride; c++)
        STORE_GRAD(GT, dx, c, 0.0f, accumulate);
    if (in_range) {
        float q = base + (SMOOTH ? 1.0f - smoothing : 1.0f) * cross_entropy_hot(targets, t);
        q *= WEIGHT_OF(w, t);
        STORE(GT, dx, t, before + scale * (clt_exp_down(xt - top) * inverse - q));
    }
#if MIXED
    if (in_range && targets.second != t) {
        float q = base + (SMOOTH ? 1.0f - smoothing : 1.0f) * cross_entropy_hot(targets, targets.second);
        q *= WEIGHT_OF(w, targets.second);
        STORE(GT, dx, targets.second, before_second + scale * (clt_exp_down(xs - top) * inverse - q));
    }
#endif
}

/* Forward and backward in one pass, in place: x (rows,cols) holds the logits, then their gradient; out
 * (rows,3) as in forward. The arithmetic is the same as in the two separate kernels. */
__kernel void cross_entropy_bwd_record_row(__global STORAGE(DT) * x, ulong x0, __global float *out,
                                           ulong out0, __global const STORAGE(TT) * target, ulong target0,
                                           __global const uint *sb, ulong sb0 LOSS_SCALE_ARGS, ulong rows,
                                           uint cols, uint stride, uint rows_per_sample, int ignore,
                                           float smoothing, ulong row0, float weight, uint loss_index)
{
    ulong r = get_global_id(0);
    if (r >= rows)
        return;
    out += out0 + 3 * r;
    target += target0 + r;
    x += x0 + r * stride;
    uint c = 0;
    if (!cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        cross_entropy_skip(out);
        for (; c < stride; c++)
            STORE(DT, x, c, 0.0f);
        return;
    }
    int t = (int)*target;
    cross_entropy_row row =
        cross_entropy_row_of(out, x, cols, cross_entropy_single(t), smoothing, cross_entropy_weigh(0, 1.0f));
    float inverse = 1.0f / row.exp_sum, base = SMOOTH ? smoothing / (float)cols : 0.0f;
    float scale = row.in_range ? cross_entropy_scale(sb + sb0, weight, loss_index, LOSS_SCALE) : NAN;
    for (; c + 2 * LANES <= cols; c += 2 * LANES) {
        float16 e[2] = {LOAD16(DT, x, c) - row.top, LOAD16(DT, x, c + LANES) - row.top};
        clt_exp_down_two16(e);
        STORE16(DT, x, c, scale * (e[0] * inverse - base));
        STORE16(DT, x, c + LANES, scale * (e[1] * inverse - base));
    }
    for (; c < cols; c++)
        STORE(DT, x, c, scale * (clt_exp_down(LOAD(DT, x, c) - row.top) * inverse - base));
    for (; c < stride; c++)
        STORE(DT, x, c, 0.0f);
    if (row.in_range) {
        float q = SMOOTH ? base + (1.0f - smoothing) : 1.0f;
        STORE(DT, x, t, scale * (clt_exp_down(row.xt - row.top) * inverse - q));
    }
}

/* One work-group per row; each element is read and written by the same item. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void cross_entropy_bwd_record_group(
    __global STORAGE(DT) * x, ulong x0, __global float *out, ulong out0, __global const STORAGE(TT) * target,
    ulong target0, __global const uint *sb, ulong sb0 LOSS_SCALE_ARGS, ulong rows, uint cols, uint stride,
    uint rows_per_sample, int ignore, float smoothing, ulong row0, float weight, uint loss_index)
{
    __local float scratch[WG];
    ulong r = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    out += out0 + 3 * r;
    target += target0 + r;
    x += x0 + r * stride;
    if (!cross_entropy_counts(sb + sb0, target, row0 + r, rows_per_sample, ignore)) {
        if (lane == 0)
            cross_entropy_skip(out);
        for (uint c = lane; c < stride; c += WG)
            STORE(DT, x, c, 0.0f);
        return;
    }
    int t = (int)*target;
    HOLD_ROW
    cross_entropy_row row =
        cross_entropy_group_of(scratch, out, x, KEEP_EXP ? x : 0, HELD_ARG cols, cross_entropy_single(t),
                               smoothing, cross_entropy_weigh(0, 1.0f));
    float scale = row.in_range ? cross_entropy_scale(sb + sb0, weight, loss_index, LOSS_SCALE) : NAN;
    float inverse = 1.0f / row.exp_sum, base = SMOOTH ? smoothing / (float)cols : 0.0f;
    /* the elements are divided among the items as in the passes before */
    uint whole = HELD ? cols & ~3u : WHOLE_QUADS(cols, QUADS(DT, x));
    FOR_ROW4(c, whole)
    {
        float4 e = ROW4(c);
        int4 hit = (int4)((int)c, (int)c + 1, (int)c + 2, (int)c + 3) == (int4)(t);
        float4 q = base + select((float4)(0.0f), (float4)(SMOOTH ? 1.0f - smoothing : 1.0f), hit);
        if (!KEEP_EXP)
            e = clt_exp_down4(e - row.top);
        STORE4(DT, x, PLACE4(c), scale * (e * inverse - q));
    }
    FOR_SINGLES(c, whole, cols)
    {
        float e = LOAD(DT, x, c), q = base + ((int)c == t ? (SMOOTH ? 1.0f - smoothing : 1.0f) : 0.0f);
        e = KEEP_EXP ? e : clt_exp_down(e - row.top);
        STORE(DT, x, c, scale * (e * inverse - q));
    }
    for (uint c = cols + lane; c < stride; c += WG)
        STORE(DT, x, c, 0.0f);
}
