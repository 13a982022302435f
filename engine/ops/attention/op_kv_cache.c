/* SPDX-License-Identifier: Apache-2.0
 *
 * The op kv_cache: rows of keys or values that stay on the device between runs of a plan. Generation writes
 * one row a run and attention reads all rows so far. Knows rows and positions, no model. */
#include "engine/ops/emit_util.h"

/* kv_cache: y[n, position[n]] = x[n, 0]; other rows stay as they are; position 0 clears them first
 * shapes  x (N,1,C), position (N) i32 -> y (N,rows,C), which outlives the run
 * dtypes  x,y f32|f16|bf16
 * grads   none                                       memory  y itself
 * errors  CLT_ESHAPE for other shapes; a position at or beyond rows writes nothing
 * source  -                                          tested  verify -t 'kv_cache*', exact; test_generate */

static const clt_attr_spec kv_cache_attrs[] = {
    CLT_SPEC_NEEDED(INT, "rows", 1, INT32_MAX, "rows kept per sample"),
};

static clt_status kv_cache_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0), *position = clt_infer_in(ctx, 1);
    char text[CLT_SHAPE_TEXT];
    if (x->shape.ndim != 3 || x->shape.dim[1] != 1)
        return clt_infer_fail(ctx, "the input %s must be (N, 1, features)",
                              clt_shape_text(&x->shape, text, sizeof text));
    if (position->dtype != CLT_I32 || clt_shape_elements(&position->shape) != x->shape.dim[0])
        return clt_infer_fail(ctx, "the positions '%s' must be one i32 number per sample", position->name);
    int64_t rows = clt_node_attr(ctx->node, "rows")->i;
    clt_infer_bound(ctx, 1, rows, false, 0);
    clt_shape shape = clt_shape3(x->shape.dim[0], rows, x->shape.dim[2]);
    CLT_TRY(clt_infer_out(ctx, x->dtype, &shape));
    clt_infer_persist(ctx);
    return CLT_OK;
}

static clt_status kv_cache_forward(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    const clt_tensor *x = clt_call_tensor(call, call->in[0]), *y = clt_call_tensor(call, call->out[0]);
    uint64_t elements = (uint64_t)clt_shape_elements(&y->shape);
    ocl_kernel_begin(e, "kv_cache", "kv_cache_fwd");
    clt_define_dtype(e, "DT", x->dtype);
    ocl_arg_inout(e, call->out[0], x->dtype, elements);
    ocl_arg_in(e, call->in[0], x->dtype, (uint64_t)clt_shape_elements(&x->shape));
    ocl_arg_in(e, call->in[1], CLT_I32, (uint64_t)x->shape.dim[0]);
    clt_arg_size32(e, y->shape.dim[1], "positions");
    clt_arg_size32(e, y->shape.dim[2], "elements of a position");
    ocl_arg_u64(e, elements);
    ocl_kernel_end_items(e, elements, 0, 0);
    return CLT_OK;
}

static const ocl_variant forward_flat = {.name = "flat", .emit = kv_cache_forward};
static const ocl_variant *const forward_variants[] = {&forward_flat, NULL};

CLT_OP_DOC(
    kv_cache,
    .text = "Keeps a row for each run on the device: the keys and values of earlier tokens while text is "
            "generated. Training has no use for it.",
    .inputs =
        "x: (N,1,C), f32, f16 or bf16\nposition: (N) i32, the row that x is written to; 0 clears the others",
    .output = "y: (N,rows,C), type of x, kept from run to run",
    .example = "{\"op\": \"kv_cache\", \"inputs\": [\"key\", \"position\"], \"rows\": 64}",
    .before = "{\"op\": \"embedding\", \"name\": \"key\", \"vocab\": 256, \"dim\": 32}, ",
    .after = ", {\"op\": \"reduce\", \"axes\": [1]}, {\"op\": \"linear\", \"out\": 10}, {\"op\": "
             "\"cross_entropy\"}",
    .data = CLT_DOC_DECODE);

CLT_OP_DEFINE(kv_cache, "y[n, position[n]] = x[n]; y is kept from run to run", 2, 2,
              CLT_OP_ATTRS(kv_cache_attrs), .no_grad_inputs = 1 << 1, .infer = kv_cache_infer,
              .forward = {.variants = forward_variants});
