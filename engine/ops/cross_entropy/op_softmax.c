/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops softmax and log_softmax over the last dimension. Knows rows and columns, no model. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/loss_shared.clh"
#include "engine/ops/op_problem.h"

/* softmax: y = exp(x - max) / sum; log_softmax: y = x - max - log(sum), sum = sum_c exp(x_c - max)
 * shapes  x (N,...,C) -> y (N,...,C)                     dtypes  x,y f32|f16|bf16; arithmetic f32
 * grads   dx = y (dy - sum(dy y)); log: dx = dy - exp(y) sum(dy): write or accumulate
 * units   log: nats                                      memory  no workspace
 * errors  CLT_ESHAPE for an integer x or one without a dimension after the batch
 * source  -                                              tested  verify -t '*softmax*', tol 16 */

static clt_status softmax_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input %s needs a dimension after the batch, over which to normalise",
                              clt_shape_text(&shape, text, sizeof text));
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

/* Rows of one item of the variant row, which overlaps the passes over neighbouring rows. The number is large
 * enough that the parts without overlap, at the first and the last row, are negligible, and small enough
 * that every compute unit gets several items. */
#define ITEM_ELEMENTS 16384
#define ITEM_ROWS 8
static uint64_t softmax_item_rows(const ocl_device_desc *device, uint64_t rows, uint64_t cols)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    uint64_t most = rows / (8 * units), wanted = clt_div_up(ITEM_ELEMENTS, cols);
    wanted = wanted < ITEM_ROWS ? ITEM_ROWS : wanted;
    return most < 1 ? 1 : wanted < most ? wanted : most;
}

/* Sets *share to the number of items of a group, or of rows of an item. */
static clt_status softmax_share(ocl_emitter *e, bool group, uint64_t rows, uint64_t cols, uint64_t *share)
{
    if (group)
        return clt_tuned_items(e, "items", clt_local_group(e->device, cols), share);
    *share = (uint64_t)ocl_tuned(e, "rows", (int)softmax_item_rows(e->device, rows, cols));
    return CLT_OK;
}

static void softmax_end(ocl_emitter *e, uint64_t rows, uint64_t cols, bool group, uint64_t share,
                        double flops)
{
    ocl_arg_u64(e, rows);
    clt_arg_size32(e, (int64_t)cols, "columns");
    if (group) {
        ocl_kernel_end_1d(e, rows * share, share, flops);
    } else {
        ocl_arg_u32(e, (uint32_t)share);
        ocl_kernel_end_1d(e, clt_div_up(rows, share), 1, flops);
    }
}

static clt_status softmax_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    uint64_t rows = (uint64_t)clt_shape_rows(shape), cols = (uint64_t)clt_shape_last(shape);
    uint64_t share;
    CLT_TRY(softmax_share(e, group, rows, cols, &share));
    ocl_kernel_begin(e, "softmax", group ? "softmax_fwd_group" : "softmax_fwd_row");
    bool log = call->node->op == &clt_op_log_softmax;
    ocl_define(e, "LOG", log);
    clt_define_type_of(e, "DT", call, call->in[0]);
    ocl_define(e, "KEEP_EXP", clt_call_dtype(call, call->out[0]) == CLT_F32);
    if (group)
        ocl_define(e, "WG", (int64_t)share);
    /* other long rows are written twice, so they must not bypass the caches */
    else if (cols <= ROW_NEAR ? cols % 16 == 0 : log)
        clt_define_stores(e, CLT_STYLE_LANE, clt_call_dtype(call, call->out[0]), rows * cols, false);
    clt_arg_out_of(e, call, call->out[0], rows * cols);
    clt_arg_in_of(e, call, call->in[0], rows * cols);
    /* per element: max, difference, exp, sum; then difference, exp, product */
    double flops = 7.0 * (double)(rows * cols);
    softmax_end(e, rows, cols, group, share, flops);
    return CLT_OK;
}
static clt_status softmax_backward(ocl_emitter *e, const clt_call *call, bool group)
{
    if (call->din[0] < 0)
        return CLT_OK;
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    uint64_t rows = (uint64_t)clt_shape_rows(shape), cols = (uint64_t)clt_shape_last(shape);
    uint64_t share;
    CLT_TRY(softmax_share(e, group, rows, cols, &share));
    ocl_kernel_begin(e, "softmax", group ? "softmax_bwd_group" : "softmax_bwd_row");
    ocl_define(e, "LOG", call->node->op == &clt_op_log_softmax);
    clt_define_type_of(e, "DT", call, call->out[0]);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    if (group)
        ocl_define(e, "WG", (int64_t)share);
    else if (cols % 16 == 0)
        clt_define_stores(e, CLT_STYLE_LANE, clt_call_dtype(call, call->din[0]), rows * cols,
                          call->din_accumulate[0]);
    clt_arg_grad_of(e, call, call->din[0], rows * cols, call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], rows * cols);
    clt_arg_in_of(e, call, call->out[0], rows * cols);
    softmax_end(e, rows, cols, group, share, (4.0 + call->din_accumulate[0]) * (double)(rows * cols));
    return CLT_OK;
}
static const ocl_tunable group_tunables[] = {CLT_TUNABLE_ITEMS, {0}};
static const ocl_tunable row_tunables[] = {{"rows", 5, {1, 4, 8, 32, 128}}, {0}};
CLT_GROUP_ROW_VARIANTS(softmax_forward, group_tunables, row_tunables)
CLT_GROUP_ROW_VARIANTS(softmax_backward, group_tunables, row_tunables)

CLT_OP_DOC(softmax,
           .text =
               "Probabilities over the last dimension. Do not put it before the loss cross_entropy, which "
               "includes it.",
           .inputs = "x: (N,...,C), f32, f16 or bf16", .output = "y: shape and type of x",
           .example = "{\"op\": \"softmax\"}", CLT_DOC_LINEAR_BEFORE);

CLT_OP_DOC(
    log_softmax,
    .text = "Logarithms of the probabilities over the last dimension, in nats. Before the loss cross_entropy "
            "it is not needed.",
    .inputs = "x: (N,...,C), f32, f16 or bf16", .output = "y: shape and type of x",
    .example = "{\"op\": \"log_softmax\"}", CLT_DOC_LINEAR_BEFORE);

CLT_OP_DEFINE(softmax, "y = exp(x) / sum exp(x) over the last dimension", 1, 1, .flags = CLT_OP_WIDE,
              .infer = softmax_infer,
              .forward = CLT_ROWS_FAMILY("softmax", "softmax", "CLTRAIN_SOFTMAX", fwd, "forward",
                                         softmax_forward_variants),
              .backward = CLT_ROWS_FAMILY("softmax", "softmax", "CLTRAIN_SOFTMAX", bwd, "backward",
                                          softmax_backward_variants));
CLT_OP_DEFINE(log_softmax, "y = x - log sum exp(x) over the last dimension", 1, 1, .flags = CLT_OP_WIDE,
              .infer = softmax_infer,
              .forward = CLT_ROWS_FAMILY("log_softmax", "softmax", "CLTRAIN_SOFTMAX", fwd, "forward",
                                         softmax_forward_variants),
              .backward = CLT_ROWS_FAMILY("log_softmax", "softmax", "CLTRAIN_SOFTMAX", bwd, "backward",
                                          softmax_backward_variants));
