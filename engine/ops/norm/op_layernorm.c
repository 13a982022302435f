/* SPDX-License-Identifier: Apache-2.0
 *
 * The op layernorm over the last dimension. Knows rows and columns, no model. */
#include "engine/ops/reduce/column_sums.h"
#include "engine/ops/emit_util.h"

/* layernorm: y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps), var the mean of (x - mean)^2
 * shapes  x (N,...,C), w (C), b (C) -> y (N,...,C); saves mean (R), rstd (R), R = N*...
 * dtypes  x,y f32|f16|bf16; w,b any of them; mean,rstd f32
 * grads   dx, dw, db: write or accumulate                units   eps: square of x's unit
 * memory  workspace of dw and db: 4*C*blocks bytes each, blocks <= 256 (column_sums.h)
 * errors  CLT_ESHAPE for an integer x or one without a dimension after the batch
 * source  Ba, Kiros & Hinton 2016, arXiv:1607.06450
 * tested  verify -t 'layernorm*', tol 32, more for rows of a few elements */

static const clt_attr_spec layernorm_attrs[] = {
    {.name = "eps",
     .type = CLT_ATTR_FLOAT,
     .default_value = 1e-5,
     .min = 1e-12,
     .max = 1,
     .help = "added to the variance, in the square of x's unit"},
    {.name = "affine",
     .type = CLT_ATTR_BOOL,
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "learn a factor per column"},
    {.name = "bias",
     .type = CLT_ATTR_BOOL,
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "learn a shift per column; needs affine"},
};

static clt_status layernorm_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input %s needs a dimension after the batch, over which to normalise",
                              clt_shape_text(&shape, text, sizeof text));
    const clt_attr *bias = clt_node_attr(ctx->node, "bias");
    bool affine = clt_node_attr(ctx->node, "affine")->b;
    if (!affine && bias->set && bias->b)
        return clt_infer_fail(ctx,
                              "\"bias\": true needs \"affine\": true; a 'bias' layer adds a shift alone");
    clt_shape row = clt_shape1(clt_shape_last(&shape)), stats = clt_shape1(clt_shape_rows(&shape));
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape));
    if (affine)
        CLT_TRY(clt_infer_param(ctx, "weight", &row, (clt_init){CLT_INIT_ONES, 0.0f, 0, 0}));
    if (affine && bias->b)
        CLT_TRY(clt_infer_param(ctx, "bias", &row, (clt_init){CLT_INIT_ZEROS, 0.0f, 0, 0}));
    CLT_TRY(clt_infer_saved(ctx, "mean", CLT_F32, &stats));
    return clt_infer_saved(ctx, "rstd", CLT_F32, &stats);
}

typedef struct layernorm_sizes {
    uint64_t rows, cols, wg;
    bool affine, bias;
} layernorm_sizes;

static layernorm_sizes layernorm_measure(const ocl_emitter *e, const clt_call *call)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    layernorm_sizes s = {.rows = (uint64_t)clt_shape_rows(shape), .cols = (uint64_t)clt_shape_last(shape)};
    s.wg = clt_local_group(e->device, s.cols);
    s.affine = call->node->n_param > 0;
    s.bias = call->node->n_param > 1;
    return s;
}

static void layernorm_end(ocl_emitter *e, const layernorm_sizes *s, bool group, double flops_per_element)
{
    double flops = flops_per_element * (double)(s->rows * s->cols);
    if (group)
        ocl_kernel_end_1d(e, s->rows * s->wg, s->wg, flops);
    else
        ocl_kernel_end_items(e, s->rows, clt_local_rows(e->device, s->rows), flops);
}

static clt_status layernorm_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    layernorm_sizes s = layernorm_measure(e, call);
    bool stats = call->saved[0] >= 0 && call->saved[1] >= 0; /* plans without backward may have none */
    ocl_kernel_begin(e, "layernorm", group ? "layernorm_fwd_group" : "layernorm_fwd_row");
    ocl_define(e, "AFFINE", s.affine);
    ocl_define(e, "BIAS", s.bias);
    ocl_define(e, "STATS", stats);
    clt_define_type_of(e, "DT", call, call->in[0]);
    if (s.affine)
        clt_define_type_of(e, "WT", call, call->param[0]);
    if (group)
        ocl_define(e, "WG", (int64_t)s.wg);
    clt_arg_out_of(e, call, call->out[0], s.rows * s.cols);
    if (stats) {
        ocl_arg_out(e, call->saved[0], CLT_F32, s.rows);
        ocl_arg_out(e, call->saved[1], CLT_F32, s.rows);
    }
    clt_arg_in_of(e, call, call->in[0], s.rows * s.cols);
    if (s.affine)
        clt_arg_in_of(e, call, call->param[0], s.cols);
    if (s.bias)
        clt_arg_in_of(e, call, call->param[1], s.cols);
    ocl_arg_u64(e, s.rows);
    clt_arg_size32(e, (int64_t)s.cols, "columns");
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "eps")->f);
    layernorm_end(e, &s, group, 6.0 + s.affine + s.bias);
    return CLT_OK;
}
static clt_status layernorm_fwd_group(ocl_emitter *e, const void *call)
{
    return layernorm_forward(e, call, true);
}
static clt_status layernorm_fwd_row(ocl_emitter *e, const void *call)
{
    return layernorm_forward(e, call, false);
}

/* dx, by rows, by groups, or (block) together with the first stage of the column sums: part[0] of dw, part[1]
 * of db, each with a row per block, or -1. */
typedef struct layernorm_blocks {
    clt_column_blocks of;
    int32_t part[2];
} layernorm_blocks;

static void layernorm_dx(ocl_emitter *e, const clt_call *call, bool group, const layernorm_blocks *blocks)
{
    layernorm_sizes s = layernorm_measure(e, call);
    uint64_t elements = s.rows * s.cols;
    ocl_kernel_begin(e, "layernorm",
                     blocks  ? "layernorm_bwd_block"
                     : group ? "layernorm_bwd_group"
                             : "layernorm_bwd_row");
    ocl_define(e, "AFFINE", s.affine);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    if (s.affine)
        clt_define_type_of(e, "WT", call, call->param[0]);
    if (group)
        ocl_define(e, "WG", (int64_t)s.wg);
    else
        clt_define_stores(e, CLT_STYLE_LANE, clt_call_dtype(call, call->din[0]), elements,
                          call->din_accumulate[0] || s.cols % 16 != 0);
    if (blocks)
        ocl_define(e, "PARTS", (blocks->part[0] >= 0) + 2 * (blocks->part[1] >= 0));
    clt_arg_grad_of(e, call, call->din[0], elements, call->din_accumulate[0]);
    for (int i = 0; blocks && i < 2; i++)
        if (blocks->part[i] >= 0)
            ocl_arg_out(e, blocks->part[i], CLT_F32, blocks->of.count * s.cols);
    clt_arg_in_of(e, call, call->dout[0], elements);
    clt_arg_in_of(e, call, call->in[0], elements);
    ocl_arg_in(e, call->saved[0], CLT_F32, s.rows);
    ocl_arg_in(e, call->saved[1], CLT_F32, s.rows);
    if (s.affine)
        clt_arg_in_of(e, call, call->param[0], s.cols);
    ocl_arg_u64(e, s.rows);
    clt_arg_size32(e, (int64_t)s.cols, "columns");
    if (blocks) {
        ocl_arg_u64(e, blocks->of.rows);
        ocl_kernel_end_1d(e, blocks->of.count, 1, 16.0 * (double)elements);
        return;
    }
    layernorm_end(e, &s, group, 11.0 + 2 * s.affine + call->din_accumulate[0]);
}

/* Blocks of rows that keep a device busy: below that, dx goes row by row and the sums on their own. */
#define BLOCKS_PER_UNIT 2

static bool layernorm_fits_blocks(const ocl_emitter *e, const clt_call *call, const clt_column_sums *s)
{
    uint64_t units = e->device->compute_units ? e->device->compute_units : 1;
    return call->din[0] >= 0 && (s->p >= 0 || s->q >= 0) &&
           clt_column_blocks_of(s->rows, s->cols).count >= units * BLOCKS_PER_UNIT;
}

static clt_status layernorm_backward(ocl_emitter *e, const clt_call *call, bool group)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    int n_param = call->node->n_param;
    clt_style style = group ? CLT_STYLE_FLAT : CLT_STYLE_LANE;
    clt_column_sums s = {.dy = call->dout[0],
                         .x = call->in[0],
                         .mean = call->saved[0],
                         .rstd = call->saved[1],
                         .p = n_param > 0 ? call->dparam[0] : -1,
                         .q = n_param > 1 ? call->dparam[1] : -1,
                         .p_accumulate = call->dparam_accumulate[0],
                         .q_accumulate = call->dparam_accumulate[1],
                         .rows = clt_shape_rows(shape),
                         .cols = clt_shape_last(shape)};
    if (!group && layernorm_fits_blocks(e, call, &s)) {
        layernorm_blocks b = {clt_column_blocks_of(s.rows, s.cols), {-1, -1}};
        uint64_t sums = b.of.count * (uint64_t)s.cols;
        b.part[0] = s.p >= 0 ? ocl_workspace(e, CLT_F32, sums, "layernorm.dw") : -1;
        b.part[1] = s.q >= 0 ? ocl_workspace(e, CLT_F32, sums, "layernorm.db") : -1;
        layernorm_dx(e, call, false, &b);
        clt_emit_column_blocks(e, call, &s, b.part[0], b.part[1], b.of.count, style);
        return CLT_OK;
    }
    if (call->din[0] >= 0)
        layernorm_dx(e, call, group, NULL);
    clt_emit_column_sums(e, call, &s, style);
    return CLT_OK;
}
static clt_status layernorm_bwd_group(ocl_emitter *e, const void *call)
{
    return layernorm_backward(e, call, true);
}
static clt_status layernorm_bwd_row(ocl_emitter *e, const void *call)
{
    return layernorm_backward(e, call, false);
}

static const ocl_variant fwd_group = {
    .name = "group", .needs = OCL_CAP_LOCAL, .emit = layernorm_fwd_group, .style = OCL_KERNEL_GROUPS};
static const ocl_variant fwd_row = {
    .name = "row", .emit = layernorm_fwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const fwd_variants[] = {&fwd_group, &fwd_row, NULL};
static const ocl_variant bwd_group = {
    .name = "group", .needs = OCL_CAP_LOCAL, .emit = layernorm_bwd_group, .style = OCL_KERNEL_GROUPS};
static const ocl_variant bwd_row = {
    .name = "row", .emit = layernorm_bwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const bwd_variants[] = {&bwd_group, &bwd_row, NULL};

extern const clt_op_ref clt_op_layernorm_ref;
static const clt_op_doc layernorm_doc = {
    .text = "Gives every row the mean 0 and the variance 1, then a learned factor and shift for each column.",
    .inputs = "x: (N,...,C), f32, f16 or bf16",
    .output = "y: shape and type of x",
    .params = "weight: (C) unless affine is false; bias: (C) unless bias or affine is false",
    .example = "{\"op\": \"layernorm\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

extern const clt_op clt_op_layernorm;
const clt_op clt_op_layernorm = {
    .name = "layernorm",
    .summary = "y = (x - mean) / sqrt(var + eps) * w + b over the last dimension",
    .doc = &layernorm_doc,
    .attrs = layernorm_attrs,
    .n_attrs = 3,
    .min_in = 1,
    .max_in = 1,
    .flags = CLT_OP_CHEAP,
    .infer = layernorm_infer,
    .forward = fwd_variants,
    .backward = bwd_variants,
    .ref = &clt_op_layernorm_ref,
};
