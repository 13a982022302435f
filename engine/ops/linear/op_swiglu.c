/* SPDX-License-Identifier: Apache-2.0
 *
 * The op swiglu: the gate between the linear layers of a Llama's feed-forward part. Knows flat arrays, no
 * model. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

/* swiglu: y = silu(gate) * up = gate / (1 + exp(-gate)) * up, element by element
 * shapes  gate, up any, the same for both -> y as gate       dtypes  f32|f16|bf16, all equal; arithmetic f32
 * grads   dgate, dup: write or accumulate, in one pass       units   none
 * memory  no workspace                                       errors  CLT_ESHAPE with both shapes
 * source  Shazeer 2020, arXiv:2002.05202                     tested  verify -t 'swiglu*', tol 16 */

static clt_status swiglu_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *gate = clt_infer_in(ctx, 0), *up = clt_infer_in(ctx, 1);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    if (!clt_shape_equal(&gate->shape, &up->shape) || gate->dtype != up->dtype)
        return clt_infer_fail(ctx, "gate %s %s and up %s %s must have one shape and one type",
                              clt_shape_text(&gate->shape, a, sizeof a), clt_dtype_name(gate->dtype),
                              clt_shape_text(&up->shape, b, sizeof b), clt_dtype_name(up->dtype));
    clt_shape shape = gate->shape;
    return clt_infer_out(ctx, gate->dtype, &shape);
}

static clt_status swiglu_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    uint64_t n = (uint64_t)clt_call_elements(call, call->out[0]);
    clt_elementwise_begin(e, "swiglu", "swiglu_fwd", style);
    clt_define_type_of(e, "DT", call, call->out[0]);
    clt_define_stores(e, style, clt_call_dtype(call, call->out[0]), n, false);
    clt_arg_out_of(e, call, call->out[0], n);
    clt_arg_in_of(e, call, call->in[0], n);
    clt_arg_in_of(e, call, call->in[1], n);
    clt_elementwise_end(e, n, 6.0 * (double)n, style);
    return CLT_OK;
}

static clt_status swiglu_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    static const char *const wanted[] = {"GATE", "UP"}, *const types[] = {"GT", "UT"};
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    if (call->din[0] < 0 && call->din[1] < 0)
        return CLT_OK;
    clt_elementwise_begin(e, "swiglu", "swiglu_bwd", style);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    int32_t any = call->din[0] >= 0 ? call->din[0] : call->din[1];
    clt_define_stores(e, style, clt_call_dtype(call, any), n,
                      call->din_accumulate[0] || call->din_accumulate[1]);
    for (int i = 0; i < 2; i++) {
        ocl_define(e, wanted[i], call->din[i] >= 0);
        clt_define_type_of(e, types[i], call, call->din[i] >= 0 ? call->din[i] : any);
    }
    for (int i = 0; i < 2; i++)
        if (call->din[i] >= 0)
            clt_arg_grad_of(e, call, call->din[i], n, call->din_accumulate[i]);
    clt_arg_in_of(e, call, call->dout[0], n);
    clt_arg_in_of(e, call, call->in[0], n);
    clt_arg_in_of(e, call, call->in[1], n);
    clt_elementwise_end(e, n, 12.0 * (double)n, style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(swiglu_forward)
CLT_ELEMENTWISE_VARIANTS(swiglu_backward)

CLT_OP_DOC(
    swiglu,
    .text = "One linear layer's outputs, gated by another's: the middle of a Llama's feed-forward part.",
    .inputs = "gate: any shape, f32, f16 or bf16\nup: the shape and type of gate",
    .output = "y: shape and type of gate", .example = "{\"op\": \"swiglu\", \"inputs\": [\"gate\", \"up\"]}",
    .before = "{\"op\": \"flatten\", \"name\": \"flat\"}, {\"op\": \"linear\", \"name\": \"up\", \"out\": "
              "32}, {\"op\": \"linear\", \"name\": \"gate\", \"inputs\": [\"flat\"], \"out\": 32}, ");

CLT_OP_DEFINE(swiglu, "y = gate / (1 + exp(-gate)) * up", 2, 2, .flags = CLT_OP_CHEAP | CLT_OP_ANY_LAYOUT,
              .infer = swiglu_infer, CLT_OP_VARIANTS(swiglu));
