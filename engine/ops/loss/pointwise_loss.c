/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses that are a sum over elements: mse, l1, bce_with_logits. Knows element counts, no model. */
#include "engine/ops/loss/pointwise_loss.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/loss.h"

/* mse: loss = sum (x - y)^2 / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = 2 (x - y) * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   square of y's unit
 * source  torch.nn.functional.mse_loss
 * errors  CLT_ESHAPE: types, element counts                     tested  verify -t 'mse*', tol 8 */
/* l1: loss = sum |x - y| / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = sign(x - y), 0 at 0, * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   unit of y
 * source  torch.nn.functional.l1_loss
 * errors  CLT_ESHAPE: types, element counts                     tested  verify -t 'l1*', tol 8 */
/* bce_with_logits: loss = sum max(x,0) - x y + log(1+exp(-|x|)) / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = (sigmoid(x) - y) * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   nats
 * source  torch.nn.functional.binary_cross_entropy_with_logits; correct: x > 0 exactly when y > 0.5
 * errors  CLT_ESHAPE: types, element counts
 * tested  verify -t 'bce_with_logits*', tol 8 */

static const clt_attr_spec pointwise_loss_attrs[] = {
    CLT_SPEC_FLOAT("weight", 1, 0, 1e6, "factor of this loss"),
};

static clt_status pointwise_loss_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0), *y = clt_infer_in(ctx, 1);
    char xs[CLT_SHAPE_TEXT], ys[CLT_SHAPE_TEXT];
    if (y->dtype == CLT_I64 || y->dtype == CLT_F64)
        return clt_infer_fail(
            ctx, "target '%s' has type %s; 64-bit targets are not supported, convert them to f32", y->name,
            clt_dtype_name(y->dtype));
    int64_t elements = clt_shape_elements(&x->shape);
    int64_t wanted = clt_shape_elements(&y->shape);
    if (x->shape.ndim > 2 && y->shape.dim[0] == x->shape.dim[0] && wanted < elements &&
        y->shape.ndim < x->shape.ndim)
        return clt_infer_fail(
            ctx,
            "prediction %s has more numbers per sample than target '%s' %s; to predict one result from "
            "samples of several dimensions put {\"op\": \"flatten\"} before the first linear layer",
            clt_shape_text(&x->shape, xs, sizeof xs), y->name, clt_shape_text(&y->shape, ys, sizeof ys));
    if (wanted != elements || y->shape.ndim < 1 || x->shape.dim[0] != y->shape.dim[0])
        return clt_infer_fail(
            ctx, "prediction %s and target '%s' %s must have the same number of elements per sample",
            clt_shape_text(&x->shape, xs, sizeof xs), y->name, clt_shape_text(&y->shape, ys, sizeof ys));
    int64_t per_sample = elements / x->shape.dim[0];
    return clt_infer_loss(ctx, clt_node_attr(ctx->node, "weight")->f, 1, false, 0, per_sample);
}

/* Elements per row of the record's reduction: fixed, so that the order of the sum depends only on the
 * shape. */
#define BLOCK 1024

static void pointwise_loss_inputs(ocl_emitter *e, const clt_call *call, uint64_t elements)
{
    ocl_arg_in(e, call->in[0], clt_call_dtype(call, call->in[0]), elements);
    ocl_arg_in(e, call->in[1], clt_call_dtype(call, call->in[1]), elements);
    clt_arg_step(e, call);
}

static void pointwise_loss_define(ocl_emitter *e, const clt_call *call)
{
    ocl_define(e, "KIND", clt_pointwise_kind(call->node));
    clt_define_dtype(e, "DT", clt_call_dtype(call, call->in[0]));
    clt_define_dtype(e, "TT", clt_call_dtype(call, call->in[1]));
}

static void pointwise_loss_sizes(ocl_emitter *e, const clt_call *call, uint64_t elements)
{
    ocl_arg_u64(e, elements);
    ocl_arg_u64(e, elements / (uint64_t)clt_call_tensor(call, call->in[0])->shape.dim[0]);
}

static clt_status pointwise_loss_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    uint64_t elements = (uint64_t)clt_call_elements(call, call->in[0]), blocks = clt_div_up(elements, BLOCK);
    uint64_t wg = clt_local_group(e->device, BLOCK / 4);
    int32_t rows = ocl_workspace(e, CLT_F32, 3 * blocks, "loss.rows");
    ocl_kernel_begin(e, "pointwise_loss", group ? "pointwise_loss_fwd_group" : "pointwise_loss_fwd_row");
    pointwise_loss_define(e, call);
    ocl_define(e, "BLOCK", BLOCK);
    if (group)
        ocl_define(e, "WG", (int64_t)wg);
    ocl_arg_out(e, rows, CLT_F32, 3 * blocks);
    pointwise_loss_inputs(e, call, elements);
    pointwise_loss_sizes(e, call, elements);
    if (group)
        ocl_kernel_end_1d(e, blocks * wg, wg, 3.0 * (double)elements);
    else
        ocl_kernel_end_items(e, blocks, clt_local_rows(e->device, blocks), 3.0 * (double)elements);
    clt_emit_loss_record(e, call, rows, (int64_t)blocks);
    return CLT_OK;
}

static clt_status pointwise_loss_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    uint64_t elements = (uint64_t)clt_call_elements(call, call->in[0]);
    clt_dtype dx_dtype = clt_call_dtype(call, call->din[0]);
    clt_elementwise_begin(e, "pointwise_loss", "pointwise_loss_bwd", style);
    pointwise_loss_define(e, call);
    clt_define_dtype(e, "GT", dx_dtype);
    if (clt_pointwise_kind(call->node) != POINTWISE_BCE)
        clt_define_stores(e, style, dx_dtype, elements, call->din_accumulate[0]);
    ocl_arg_grad(e, call->din[0], dx_dtype, elements, call->din_accumulate[0]);
    pointwise_loss_inputs(e, call, elements);
    clt_arg_loss_scale(e, call);
    ocl_arg_u64(e, elements / (uint64_t)clt_call_tensor(call, call->in[0])->shape.dim[0]);
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "weight")->f);
    ocl_arg_u32(e, (uint32_t)call->node->loss);
    clt_elementwise_end(e, elements, 3.0 * (double)elements, style);
    return CLT_OK;
}
CLT_GROUP_ROW_VARIANTS(pointwise_loss_forward, NULL, NULL)
CLT_ELEMENTWISE_VARIANTS(pointwise_loss_backward)

#define ERROR_INPUTS                                                                                         \
    .inputs = "x: (N,...), f32, f16 or bf16\ny: a field of the data with the same number of elements, f32, " \
              "f16, bf16, u8, u16, i32 or u32"
#define ONE_OUTPUT .before = "{\"op\": \"linear\", \"out\": 1}, ", .after = ""
CLT_OP_DOC(mse, .text = "The mean squared error, the usual loss for targets that are numbers.", ERROR_INPUTS,
           .example = "{\"op\": \"mse\"}", ONE_OUTPUT, .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(mse, "loss = mean (x - y)^2", 2, 2, CLT_OP_ATTRS(pointwise_loss_attrs),
              .flags = CLT_OP_LOSS | CLT_OP_REGRESSION, .infer = pointwise_loss_infer,
              CLT_OP_VARIANTS(pointwise_loss), .no_grad_inputs = 2);
CLT_OP_DOC(l1, .text = "The mean absolute error: less moved by single targets that are far off than mse.",
           ERROR_INPUTS, .example = "{\"op\": \"l1\"}", ONE_OUTPUT, .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(l1, "loss = mean |x - y|", 2, 2, CLT_OP_ATTRS(pointwise_loss_attrs),
              .flags = CLT_OP_LOSS | CLT_OP_REGRESSION, .infer = pointwise_loss_infer,
              CLT_OP_VARIANTS(pointwise_loss), .no_grad_inputs = 2);
CLT_OP_DOC(
    bce_with_logits,
    .text = "The loss for answers that are yes or no, one or several for each sample, sigmoid included: give "
            "it logits. Accuracy counts the elements where x is above 0 exactly when y is above 0.5.",
    .inputs = "x: logits (N,...), f32, f16 or bf16\ny: a field of the data with the same number of elements, "
              "from 0 to 1, f32, f16, bf16, u8, u16, i32 or u32",
    .example = "{\"op\": \"bce_with_logits\"}", ONE_OUTPUT, .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(bce_with_logits, "loss = mean of -(y log s(x) + (1-y) log(1-s(x))), s the sigmoid", 2, 2,
              CLT_OP_ATTRS(pointwise_loss_attrs), .flags = CLT_OP_LOSS | CLT_OP_CORRECT,
              .infer = pointwise_loss_infer, CLT_OP_VARIANTS(pointwise_loss), .no_grad_inputs = 2);
