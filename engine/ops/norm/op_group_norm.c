/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops group_norm and instance_norm for images and volumes, by the kernels of batch_norm.cl: the rows of
 * a sample are a segment that has its own statistics. Knows rows and channels, no model. */
#include "cl/kernels/kernel_shared.clh"
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/norm/norm.h"
#include "engine/ops/spatial/spatial.h"

/* group_norm: y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps), mean and var over the positions and
 *         the channels of a group in a sample; instance_norm: with each channel a group of its own
 * shapes  x (N,C) or (N,C,...), w (C), b (C) -> y as x; saves mean (N,C), rstd (N,C), the same for the
 *         channels of a group. With more dimensions than two x and y lie channels-last in memory
 * dtypes  x,y f32|f16|bf16; all else f32
 * grads   dx, dw, db: write or accumulate                units   eps: square of x's unit
 * memory  workspace: 8*N*C*(blocks + 1) + 8*C*(parts + 1) bytes, blocks <= 512, parts <= N*blocks/16 + 1
 * errors  CLT_ESHAPE for an integer x or one without channels, for channels that `groups` does not divide,
 *         and for instance_norm without positions, or with one, where nothing varies
 * source  Wu & He 2018, arXiv:1803.08494; Ulyanov, Vedaldi & Lempitsky 2016, arXiv:1607.08022; as
 *         torch.nn.GroupNorm and InstanceNorm2d/3d without running statistics
 * tested  verify -t 'group_norm*', 'instance_norm*', tol 64 */

static const clt_attr_spec group_norm_attrs[] = {
    CLT_SPEC_NEEDED(INT, "groups", 1, INT32_MAX, "number of groups, which divides the channels"),
    CLT_NORM_EPS,
    CLT_SPEC_BOOL("affine", true, "learn a factor and a shift per channel"),
};
static const clt_attr_spec instance_norm_attrs[] = {
    CLT_NORM_EPS,
    CLT_SPEC_BOOL("affine", false, "learn a factor and a shift per channel"),
};

static bool has_groups(const clt_node *node)
{
    return node->op->attrs == group_norm_attrs;
}

static clt_status norm_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input %s has no channels; it must be (samples, channels, ...)",
                              clt_shape_text(&shape, text, sizeof text));
    int64_t channels = shape.dim[1],
            groups = has_groups(ctx->node) ? clt_node_attr(ctx->node, "groups")->i : channels;
    if (channels % groups != 0)
        return clt_infer_fail(ctx, "\"groups\": %lld does not divide the %lld channels", (long long)groups,
                              (long long)channels);
    if (clt_shape_elements(&shape) == shape.dim[0] * groups)
        return clt_infer_fail(ctx,
                              "the input %s has only one value in each group, so every result would be 0",
                              clt_shape_text(&shape, text, sizeof text));
    clt_shape row = clt_shape1(channels), stats = clt_shape2(shape.dim[0], channels);
    if (clt_node_attr(ctx->node, "affine")->b) {
        CLT_TRY(clt_infer_param(ctx, "weight", &row, (clt_init){CLT_INIT_ONES, 0.0f, 0, 0}));
        CLT_TRY(clt_infer_param(ctx, "bias", &row, (clt_init){CLT_INIT_ZEROS, 0.0f, 0, 0}));
    }
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape));
    CLT_TRY(clt_infer_saved(ctx, "mean", CLT_F32, &stats));
    return clt_infer_saved(ctx, "rstd", CLT_F32, &stats);
}

#define BLOCK_ROWS 128
#define MAX_BLOCKS 512    /* blocks of a sample */
#define PART_BLOCKS 16    /* blocks of a part, for the gradients of w and b */
#define FLAT_ROWS 8       /* rows of an item in kernels without sums, in flat style */
#define FLAT_BLOCKS 32768 /* wanted blocks of all samples together in these kernels */

typedef struct norm {
    const clt_call *call;
    clt_style style;
    uint64_t samples, rows, cols, groups; /* rows: the rows of one sample */
    uint64_t tile, items;
    clt_column_blocks blocks, pass; /* of a sample: for kernels with sums, and for kernels without */
    bool affine;
} norm;

static clt_column_blocks blocks_of(uint64_t rows, uint64_t least, uint64_t most)
{
    uint64_t each = clt_div_up(rows, most < 1 ? 1 : most);
    each = each < least ? least : each;
    return (clt_column_blocks){clt_div_up(rows, each), each};
}

static norm measure(const ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    norm n = {.call = call, .style = style, .affine = call->node->n_param > 0};
    n.samples = (uint64_t)shape->dim[0];
    n.cols = (uint64_t)shape->dim[1];
    n.rows = (uint64_t)clt_shape_elements(shape) / (n.samples * n.cols);
    n.groups = has_groups(call->node) ? (uint64_t)clt_node_attr(call->node, "groups")->i : n.cols;
    n.blocks = blocks_of(n.rows, BLOCK_ROWS, MAX_BLOCKS);
    n.pass = style == CLT_STYLE_FLAT ? blocks_of(n.rows, FLAT_ROWS, FLAT_BLOCKS / n.samples) : n.blocks;
    n.tile = clt_column_tile(e->device, n.cols, n.samples * n.blocks.count);
    return n;
}

static void begin(ocl_emitter *e, norm *n, const char *kernel)
{
    ocl_kernel_begin(e, "batch_norm", kernel);
    n->items = clt_define_group(e, n->style);
    n->tile = n->style == CLT_STYLE_LANE ? n->tile : n->items;
}

static void arg_rows(ocl_emitter *e, const norm *n, const clt_column_blocks *blocks)
{
    ocl_arg_u64(e, n->rows);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, blocks->rows);
    ocl_arg_u32(e, (uint32_t)n->tile);
}

static void end_blocks(ocl_emitter *e, const norm *n, uint64_t blocks, double flops)
{
    ocl_kernel_end_1d(e, clt_div_up(n->cols, n->tile) * blocks * n->items, n->items, flops);
}

static double elements(const norm *n)
{
    return (double)(n->samples * n->rows * n->cols);
}

/* Adds the last arguments of a kernel with an item for each sample and group. */
static void arg_groups(ocl_emitter *e, const norm *n)
{
    ocl_arg_u64(e, n->rows);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, n->blocks.rows);
    ocl_arg_u64(e, n->samples);
    ocl_arg_u64(e, n->groups);
}
static void end_groups(ocl_emitter *e, const norm *n, double flops)
{
    ocl_kernel_end_1d(e, clt_div_up(n->samples * n->groups, n->items) * n->items, n->items,
                      flops * (double)(n->samples * n->blocks.count * n->cols));
}

static void arg_mean_rstd(ocl_emitter *e, const norm *n)
{
    ocl_arg_in(e, n->call->saved[0], CLT_F32, n->samples * n->cols);
    ocl_arg_in(e, n->call->saved[1], CLT_F32, n->samples * n->cols);
}

/* Emits mean and rstd of the groups. */
static void emit_statistics(ocl_emitter *e, norm *n)
{
    const clt_call *call = n->call;
    uint64_t parts = n->samples * n->blocks.count * n->cols;
    int32_t part[2] = {ocl_workspace(e, CLT_F32, parts, "means of blocks"),
                       ocl_workspace(e, CLT_F32, parts, "squares of blocks")};
    begin(e, n, "batch_norm_moments");
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_chains(e, &n->blocks);
    ocl_arg_out(e, part[0], CLT_F32, parts);
    ocl_arg_out(e, part[1], CLT_F32, parts);
    clt_arg_in_of(e, call, call->in[0], n->samples * n->rows * n->cols);
    arg_rows(e, n, &n->blocks);
    end_blocks(e, n, n->samples * n->blocks.count, 4.0 * elements(n));
    begin(e, n, "group_norm_stats");
    ocl_arg_out(e, call->saved[0], CLT_F32, n->samples * n->cols);
    ocl_arg_out(e, call->saved[1], CLT_F32, n->samples * n->cols);
    ocl_arg_in(e, part[0], CLT_F32, parts);
    ocl_arg_in(e, part[1], CLT_F32, parts);
    arg_groups(e, n);
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "eps")->f);
    end_groups(e, n, 7.0);
}

static clt_status norm_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    norm n = measure(e, call, style);
    uint64_t all = n.samples * n.rows * n.cols;
    if (!call->again)
        emit_statistics(e, &n);
    begin(e, &n, "batch_norm_fwd");
    clt_define_type_of(e, "DT", call, call->in[0]);
    ocl_define(e, "AFFINE", n.affine);
    ocl_define(e, "RELU", 0);
    ocl_define(e, "RESIDUAL", 0);
    clt_define_stores(e, style, clt_call_dtype(call, call->out[0]), all, n.cols % LANES != 0);
    clt_arg_out_of(e, call, call->out[0], all);
    clt_arg_in_of(e, call, call->in[0], all);
    arg_mean_rstd(e, &n);
    for (int i = 0; n.affine && i < 2; i++)
        ocl_arg_in(e, call->param[i], CLT_F32, n.cols);
    arg_rows(e, &n, &n.pass);
    end_blocks(e, &n, n.samples * n.pass.count, (2.0 + 2.0 * n.affine) * elements(&n));
    return CLT_OK;
}

/* Emits the gradients of w and b from the sums and products of blocks. */
static void emit_params(ocl_emitter *e, norm *n, const int32_t *part)
{
    const clt_call *call = n->call;
    uint64_t blocks = n->samples * n->blocks.count, parts = clt_div_up(blocks, PART_BLOCKS);
    int32_t of_parts[2] = {ocl_workspace(e, CLT_F32, parts * n->cols, "sums of parts"),
                           ocl_workspace(e, CLT_F32, parts * n->cols, "products of parts")};
    int32_t total[2] = {ocl_workspace(e, CLT_F32, n->cols, "sums of channels"),
                        ocl_workspace(e, CLT_F32, n->cols, "products of channels")};
    begin(e, n, "batch_norm_bwd_part");
    for (int i = 0; i < 2; i++)
        ocl_arg_out(e, of_parts[i], CLT_F32, parts * n->cols);
    for (int i = 0; i < 2; i++)
        ocl_arg_in(e, part[i], CLT_F32, blocks * n->cols);
    ocl_arg_u64(e, blocks);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, PART_BLOCKS);
    ocl_arg_u32(e, (uint32_t)n->tile);
    end_blocks(e, n, parts, 2.0 * (double)(blocks * n->cols));
    begin(e, n, "batch_norm_bwd_total");
    ocl_define(e, "HAVE_DW", call->dparam[0] >= 0);
    ocl_define(e, "HAVE_DB", call->dparam[1] >= 0);
    for (int i = 0; i < 2; i++)
        ocl_arg_out(e, total[i], CLT_F32, n->cols);
    for (int i = 0; i < 2; i++)
        if (call->dparam[i] >= 0)
            ocl_arg_grad(e, call->dparam[i], CLT_F32, n->cols, call->dparam_accumulate[i]);
    for (int i = 0; i < 2; i++)
        ocl_arg_in(e, of_parts[i], CLT_F32, parts * n->cols);
    ocl_arg_u64(e, parts);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u32(e, (uint32_t)n->tile);
    end_blocks(e, n, 1, 2.0 * (double)(parts * n->cols));
}

static void emit_dx(ocl_emitter *e, norm *n, const int32_t *part)
{
    const clt_call *call = n->call;
    uint64_t all = n->samples * n->rows * n->cols, stats = n->samples * n->cols;
    int32_t total[2] = {ocl_workspace(e, CLT_F32, stats, "sums of groups"),
                        ocl_workspace(e, CLT_F32, stats, "products of groups")};
    begin(e, n, "group_norm_bwd_total");
    ocl_define(e, "AFFINE", n->affine);
    for (int i = 0; i < 2; i++)
        ocl_arg_out(e, total[i], CLT_F32, stats);
    for (int i = 0; i < 2; i++)
        ocl_arg_in(e, part[i], CLT_F32, n->blocks.count * stats);
    if (n->affine)
        ocl_arg_in(e, call->param[0], CLT_F32, n->cols);
    arg_groups(e, n);
    end_groups(e, n, 2.0 + 2.0 * n->affine);
    begin(e, n, "batch_norm_bwd");
    clt_define_type_of(e, "DT", call, call->in[0]);
    ocl_define(e, "AFFINE", n->affine);
    ocl_define(e, "BATCH", 1);
    ocl_define(e, "GROUPED", 1);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    clt_define_stores(e, n->style, clt_call_dtype(call, call->din[0]), all,
                      call->din_accumulate[0] || n->cols % LANES != 0);
    clt_arg_grad_of(e, call, call->din[0], all, call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], all);
    clt_arg_in_of(e, call, call->in[0], all);
    arg_mean_rstd(e, n);
    for (int i = 0; i < 2; i++)
        ocl_arg_in(e, total[i], CLT_F32, stats);
    if (n->affine)
        ocl_arg_in(e, call->param[0], CLT_F32, n->cols);
    arg_rows(e, n, &n->pass);
    ocl_arg_f32(e, (float)((double)n->groups / (double)(n->rows * n->cols)));
    end_blocks(e, n, n->samples * n->pass.count, (7.0 + n->affine) * elements(n));
}

static clt_status norm_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    norm n = measure(e, call, style);
    bool params = n.affine && (call->dparam[0] >= 0 || call->dparam[1] >= 0);
    uint64_t all = n.samples * n.rows * n.cols, parts = n.samples * n.blocks.count * n.cols;
    if (!params && call->din[0] < 0)
        return CLT_OK;
    int32_t part[2] = {ocl_workspace(e, CLT_F32, parts, "sums of blocks"),
                       ocl_workspace(e, CLT_F32, parts, "products of blocks")};
    begin(e, &n, "batch_norm_bwd_sums");
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_chains(e, &n.blocks);
    ocl_define(e, "SUMS", 1);
    ocl_define(e, "HAVE_DR", 0);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    ocl_arg_out(e, part[0], CLT_F32, parts);
    ocl_arg_out(e, part[1], CLT_F32, parts);
    clt_arg_in_of(e, call, call->dout[0], all);
    clt_arg_in_of(e, call, call->in[0], all);
    arg_mean_rstd(e, &n);
    arg_rows(e, &n, &n.blocks);
    end_blocks(e, &n, n.samples * n.blocks.count, 5.0 * elements(&n));
    if (params)
        emit_params(e, &n, part);
    if (call->din[0] >= 0)
        emit_dx(e, &n, part);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(norm_forward)
CLT_ELEMENTWISE_VARIANTS(norm_backward)

CLT_OP_DOC(
    group_norm,
    .text =
        "Gives the channels of a group in each sample the mean 0 and the variance 1 over all positions, then "
        "a learned factor and shift per channel. Unlike batch_norm it is independent of the other samples, "
        "and the same in training and evaluation.",
    .inputs = "x: (N,C,...), f32, f16 or bf16", .output = "y: shape and type of x",
    .params = "weight: (C), bias: (C) unless affine is false",
    .example = "{\"op\": \"group_norm\", \"groups\": 2}",
    .before =
        "{\"op\": \"reshape\", \"shape\": [1, 28, 28]}, {\"op\": \"conv2d\", \"out\": 4, \"kernel\": 3}, ",
    CLT_DOC_CLASSES_AFTER);
CLT_OP_DOC(
    instance_norm,
    .text =
        "Gives every channel of each sample the mean 0 and the variance 1 over all positions. There are no "
        "running statistics: training and evaluation are the same.",
    .inputs = "x: (N,C,...), f32, f16 or bf16", .output = "y: shape and type of x",
    .params = "weight: (C), bias: (C) with affine",
    .example = "{\"op\": \"instance_norm\", \"affine\": true}",
    .before =
        "{\"op\": \"reshape\", \"shape\": [1, 28, 28]}, {\"op\": \"conv2d\", \"out\": 4, \"kernel\": 3}, ",
    CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(group_norm, "y = (x - mean) / sqrt(var + eps) * w + b for each sample and group of channels", 1,
              1, CLT_OP_ATTRS(group_norm_attrs), .flags = CLT_OP_CHEAP | CLT_OP_REPEATS_BY_SAVED,
              .infer = norm_infer, CLT_OP_VARIANTS(norm), .layout = clt_spatial_layout);
CLT_OP_DEFINE(instance_norm, "y = (x - mean) / sqrt(var + eps) * w + b for each sample and channel", 1, 1,
              CLT_OP_ATTRS(instance_norm_attrs), .flags = CLT_OP_CHEAP | CLT_OP_REPEATS_BY_SAVED,
              .infer = norm_infer, CLT_OP_VARIANTS(norm), .layout = clt_spatial_layout);
