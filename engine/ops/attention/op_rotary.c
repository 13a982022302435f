/* SPDX-License-Identifier: Apache-2.0
 *
 * The op rotary: rotates queries and keys by an angle that depends on their position in the sequence, so
 * that their products depend on the distance between positions. Knows heads and positions, no model. */
#include <math.h>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/attention/rotary.h"

/* rotary: for each pair (a, b) with index i of R/2 in each turned head at place t:
 *         y = (a cos f - b sin f, a sin f + b cos f), f = place * w, w = base^(-2i/R)
 *         scaling: w (s + (1-s)/factor) instead of w; linear: s = 0; with u = w original / 2pi, the turns of
 *         the pair within `original` places, llama3: s = (u - low) / (high - low) within [0, 1]; yarn: s
 *         falls linearly with i from 1 at u = high to 0 at u = low, both rounded outwards to whole i
 * shapes  x (N,T,H*D), optionally position -> y (N,T,H*D); D head, R rotary (0: all of D). The place of row t
 *         of sample n is t; with position (N) it is t + position[n], with position (N,T) it is position[n,t]
 * dtypes  x,y f32|f16|bf16; position i32
 * grads   dx: write or accumulate                         units   f: radians
 * memory  nothing                                         accuracy of f: 1e-7 of a turn at any place
 * errors  CLT_ESHAPE: widths that head does not divide, odd sizes, more heads than there are; high <= low
 * source  Su et al. 2021, arXiv:2104.09864; halves as pairs: GPT-NeoX and Llama; linear scaling: Chen et al.
 *         2023, arXiv:2306.15595; yarn: Peng et al. 2023, arXiv:2309.00071; llama3: Meta's Llama 3.1
 * tested  verify -t 'rotary*'; tests/golden (net llama) */

static const clt_attr_spec rotary_attrs[] = {
    CLT_SPEC_NEEDED(INT, "head", 2, 65536, "elements of a head"),
    CLT_SPEC_INT("heads", 0, 0, 65536,
                 "number of heads that are rotated, from the first on; the others, such as the values of a "
                 "packed row, stay as they are; 0: all"),
    CLT_SPEC_INT("rotary", 0, 0, 65536,
                 "number of elements of a head that are rotated, from the first on; 0: all"),
    CLT_SPEC_FLOAT("base", 10000, 1.0001, 1e12,
                   "the first pair turns about `base` times as fast as the last"),
    CLT_SPEC_BOOL("interleaved", false,
                  "a pair is two neighbours; otherwise an element of the first half and the same element of "
                  "the second half"),
    CLT_SPEC_CHOICE("scaling", CLT_ROTARY_NONE, "none|linear|llama3|yarn",
                    "how slow pairs are slowed down further, for sequences longer than in an earlier "
                    "training; linear: all pairs alike"),
    CLT_SPEC_FLOAT("factor", 1, 1, 1e6, "with a scaling, the slowest pairs turn this many times as slowly"),
    CLT_SPEC_INT("original", 8192, 1, INT32_MAX,
                 "llama3, yarn: the longest sequence of the earlier training"),
    CLT_SPEC_FLOAT("low", 1, 0.0001, 1e6,
                   "llama3, yarn: pairs that turn at most this often within `original` places are slowed by "
                   "the whole factor"),
    CLT_SPEC_FLOAT(
        "high", 0, 0, 1e6,
        "llama3, yarn: pairs that turn at least this often are not slowed; 0: 4 for llama3, 32 for yarn"),
};

/* Values of -DOFFSETS: the meaning of the optional second input. */
enum { NO_OFFSETS, OFFSET_OF_SAMPLES, OFFSET_OF_ROWS };

/* `positions` is the number of elements of the second input. With one row for each sample both values mean
 * the same. */
static int offsets_of(int64_t positions, int64_t samples)
{
    return positions == samples ? OFFSET_OF_SAMPLES : OFFSET_OF_ROWS;
}

/* Kernel arguments of a scaling (rotary.cl). `by` says what decides the scale of a pair: 1, its index; 2,
 * its angle; 0: there is no scaling. */
typedef struct rotary_scaling {
    int by, first, last;
    uint64_t least, step, low, high, scale;
    unsigned shift;
} rotary_scaling;

#define RADIANS_MAX 8 /* upper limit of the angles `low` and `high`, in radians */

static double rotary_high(const clt_node *node)
{
    double high = clt_node_attr(node, "high")->f;
    return high > 0 ? high : clt_node_attr(node, "scaling")->choice == CLT_ROTARY_YARN ? 32 : 4;
}

/* The angle between neighbouring places, in radians, of a pair that turns `turns` times within `original`. */
static double angle_of(const clt_node *node, double turns)
{
    return 2 * acos(-1) * turns / (double)clt_node_attr(node, "original")->i;
}

/* The index, not rounded, of the pair that turns `turns` times within `original` places. */
static double pair_of(const clt_node *node, int64_t pairs, double turns)
{
    return -(double)pairs * log(angle_of(node, turns)) / log(clt_node_attr(node, "base")->f);
}

/* Scales all pairs beyond `first`, pairs from `last` on by the whole factor. */
static void scale_by_index(rotary_scaling *s, double first, double last)
{
    s->by = 1;
    s->first = (int)first;
    s->last = (int)fmax(last, first + 1);
    s->step = s->last - s->first > 1 ? (uint64_t)ldexp(1.0 / (s->last - s->first), 64) : 0;
}

/* Scales angles below `high`, angles up to `low` by the whole factor; `low` and `high` are in radians. */
static void scale_by_angle(rotary_scaling *s, double low, double high)
{
    s->by = 2;
    s->low = (uint64_t)ldexp(low / RADIANS_MAX, 64);
    s->high = (uint64_t)ldexp(high / RADIANS_MAX, 64);
    int exponent;
    double mantissa = frexp(RADIANS_MAX / (high - low), &exponent); /* quotient > 1; mantissa in [0.5, 1) */
    s->shift = (unsigned)(exponent - 1);
    s->scale = (uint64_t)ldexp(mantissa, 64);
}

static rotary_scaling scaling_of(const clt_node *node, int64_t pairs)
{
    double low = clt_node_attr(node, "low")->f, high = rotary_high(node), last = 2 * (double)pairs - 1;
    double factor = clt_node_attr(node, "factor")->f;
    rotary_scaling s = {.least = factor > 1 ? (uint64_t)ldexp(1 / factor, 64) : 0};
    int64_t choice = s.least ? clt_node_attr(node, "scaling")->choice : CLT_ROTARY_NONE;
    if (choice == CLT_ROTARY_LINEAR)
        scale_by_index(&s, -1, 0);
    else if (choice == CLT_ROTARY_LLAMA3)
        scale_by_angle(&s, angle_of(node, low), angle_of(node, high));
    else if (choice == CLT_ROTARY_YARN)
        scale_by_index(&s, fmin(fmax(floor(pair_of(node, pairs, high)), 0), last),
                       fmax(fmin(ceil(pair_of(node, pairs, low)), last), 0));
    return s;
}

typedef struct rotary_sizes {
    int64_t places, dim, heads, turned, pairs;
    uint64_t rows, ratio;
    rotary_scaling scaling;
} rotary_sizes;

static rotary_sizes rotary_measure(const clt_node *node, const clt_shape *x)
{
    rotary_sizes s = {.dim = clt_node_attr(node, "head")->i, .turned = clt_node_attr(node, "heads")->i};
    int64_t rotary = clt_node_attr(node, "rotary")->i;
    s.pairs = (rotary ? rotary : s.dim) / 2;
    s.heads = clt_shape_last(x) / s.dim;
    s.turned = s.turned ? s.turned : s.heads;
    s.places = x->dim[1];
    s.rows = (uint64_t)clt_shape_rows(x);
    s.scaling = scaling_of(node, s.pairs);
    double base = clt_node_attr(node, "base")->f;
    s.ratio = s.pairs > 0 ? (uint64_t)ldexp(pow(base, -1.0 / (double)s.pairs), 64) : 0;
    return s;
}

static clt_status infer_scaling(const clt_infer *ctx)
{
    const clt_node *node = ctx->node;
    double low = clt_node_attr(node, "low")->f, high = rotary_high(node);
    if (low >= high)
        return clt_infer_fail(ctx, "low (%g) must be below high (%g)", low, high);
    if (clt_node_attr(node, "scaling")->choice == CLT_ROTARY_LLAMA3 && angle_of(node, high) >= RADIANS_MAX)
        return clt_infer_fail(ctx, "no pair turns %g times within %lld places (original)", high,
                              (long long)clt_node_attr(node, "original")->i);
    return CLT_OK;
}

static clt_status rotary_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    int64_t dim = clt_node_attr(ctx->node, "head")->i, rotary = clt_node_attr(ctx->node, "rotary")->i;
    if (shape.ndim != 3 || shape.dim[2] % dim != 0)
        return clt_infer_fail(ctx, "the input %s must be (N, T, width), the width a multiple of head (%lld)",
                              clt_shape_text(&shape, text, sizeof text), (long long)dim);
    if ((rotary ? rotary : dim) % 2 != 0 || rotary > dim)
        return clt_infer_fail(ctx, "%lld of the %lld elements of a head cannot turn in pairs",
                              (long long)(rotary ? rotary : dim), (long long)dim);
    if (clt_node_attr(ctx->node, "heads")->i > shape.dim[2] / dim)
        return clt_infer_fail(ctx, "%lld heads are to be rotated, but a row has only %lld",
                              (long long)clt_node_attr(ctx->node, "heads")->i,
                              (long long)(shape.dim[2] / dim));
    CLT_TRY(infer_scaling(ctx));
    if (ctx->node->n_in > 1) {
        const clt_tensor *position = clt_infer_in(ctx, 1);
        int64_t count = clt_shape_elements(&position->shape);
        if (position->dtype != CLT_I32 || (count != shape.dim[0] && count != shape.dim[0] * shape.dim[1]))
            return clt_infer_fail(ctx,
                                  "the positions '%s' must be one i32 number for each sample, (N), or for "
                                  "each row, (N, T); they are %s %s",
                                  position->name, clt_shape_text(&position->shape, text, sizeof text),
                                  clt_dtype_name(position->dtype));
        clt_infer_bound(ctx, 1, INT32_MAX, false, 0);
    }
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

/* Emits one launch, from x to y, or backward from dy to dx. */
static void rotary_emit(ocl_emitter *e, const clt_call *call, bool backward, clt_style style)
{
    int32_t from = backward ? call->dout[0] : call->in[0], to = backward ? call->din[0] : call->out[0];
    rotary_sizes s = rotary_measure(call->node, &clt_call_tensor(call, call->in[0])->shape);
    uint64_t elements = s.rows * (uint64_t)(s.heads * s.dim);
    ocl_kernel_begin(e, "rotary", style == CLT_STYLE_LANE ? "rotary_row" : "rotary_flat");
    clt_define_type_of(e, "DT", call, from);
    clt_define_type_of(e, "YT", call, to);
    ocl_define(e, "INTERLEAVED", clt_node_attr(call->node, "interleaved")->b);
    ocl_define(e, "OFFSETS",
               call->node->n_in > 1
                   ? offsets_of(clt_call_elements(call, call->in[1]), (int64_t)s.rows / s.places)
                   : NO_OFFSETS);
    if (s.scaling.by)
        ocl_define(e, "SCALING", s.scaling.by);
    if (s.dim % 32 == 0 && s.pairs % 16 == 0)
        clt_define_stores(e, style, clt_call_dtype(call, to), elements, backward && call->din_accumulate[0]);
    clt_arg_grad_of(e, call, to, elements, backward && call->din_accumulate[0]);
    clt_arg_in_of(e, call, from, elements);
    if (call->node->n_in > 1)
        ocl_arg_in(e, call->in[1], CLT_I32, (uint64_t)clt_call_elements(call, call->in[1]));
    uint64_t items = style == CLT_STYLE_LANE ? s.rows : s.rows * (uint64_t)(s.dim - s.pairs);
    ocl_arg_u64(e, items);
    clt_arg_size32(e, s.places, "places");
    clt_arg_size32(e, s.heads, "heads");
    clt_arg_size32(e, s.turned, "heads that turn");
    clt_arg_size32(e, s.dim, "elements of a head");
    clt_arg_size32(e, s.pairs, "pairs of a head");
    ocl_arg_f32(e, backward ? -1.0f : 1.0f);
    ocl_arg_u64(e, s.ratio);
    if (s.scaling.by)
        ocl_arg_u64(e, s.scaling.least);
    if (s.scaling.by == 1) {
        ocl_arg_i32(e, s.scaling.first);
        ocl_arg_u32(e, (uint32_t)s.scaling.last);
        ocl_arg_u64(e, s.scaling.step);
    } else if (s.scaling.by == 2) {
        ocl_arg_u64(e, s.scaling.low);
        ocl_arg_u64(e, s.scaling.high);
        ocl_arg_u64(e, s.scaling.scale);
        ocl_arg_u32(e, s.scaling.shift);
    }
    ocl_kernel_end_items(
        e, items, style == CLT_STYLE_LANE ? clt_local_rows(e->device, items) : clt_local_flat(e->device),
        6.0 * (double)(s.rows * (uint64_t)(s.turned * s.pairs)));
}

static clt_status rotary_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    rotary_emit(e, call, false, style);
    return CLT_OK;
}

static clt_status rotary_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] >= 0)
        rotary_emit(e, call, true, style);
    return CLT_OK;
}

CLT_ELEMENTWISE_VARIANTS(rotary_forward)
CLT_ELEMENTWISE_VARIANTS(rotary_backward)

CLT_OP_DOC(
    rotary,
    .text =
        "Rotates queries and keys by their place in the sequence, so that attention sees how far apart "
        "places are without a table of positions. Goes between the layer that makes queries, keys and values "
        "and the attention; if these lie side by side in x, only the heads of queries and keys are rotated.",
    .inputs =
        "x: (N,T,H*head), f32, f16 or bf16\nposition: (N) i32, the place of each sample's first row, or "
        "(N,T) i32, the place of every row, which begins again at 0 where a row holds several documents; "
        "optional",
    .output = "y: shape and type of x", .example = "{\"op\": \"rotary\", \"head\": 8, \"heads\": 8}",
    .before = "{\"op\": \"embedding\", \"vocab\": 256, \"dim\": 32}, {\"op\": \"linear\", \"out\": 96}, ",
    .after = ", {\"op\": \"attention\", \"heads\": 4}, {\"op\": \"linear\", \"out\": 256}, {\"op\": "
             "\"cross_entropy\"}",
    .data = CLT_DOC_TEXT);

CLT_OP_DEFINE(rotary, "y = pairs of x turned by place * base^(-2i/R): rotary position embedding", 1, 2,
              CLT_OP_ATTRS(rotary_attrs), .flags = CLT_OP_CHEAP, .infer = rotary_infer,
              CLT_OP_VARIANTS(rotary), .no_grad_inputs = 1u << 1);
