/* SPDX-License-Identifier: Apache-2.0
 *
 * The op dropout. Knows flat arrays and the step block, no model. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

/* dropout: y = keep(i) ? x / (1 - p) : 0 while training, y = x otherwise
 * shapes  x (N,...) -> y as x                            dtypes  x,y f32|f16|bf16; arithmetic f32
 * grads   dx = keep(i) ? dy / (1 - p) : 0: write or accumulate   units   p: probability
 * memory  no workspace and no mask: both directions compute it from the step block
 * errors  CLT_ESHAPE for an integer x
 * source  Srivastava et al. 2014, JMLR 15. keep(i): the uniform number of Philox word i of the stream
 *         (seed, dropout, step, node id) is >= p; i counts elements over the global batch
 * tested  verify -t 'dropout*', tol 2; exact for p = 0.5 */

static const clt_attr_spec dropout_attrs[] = {
    CLT_SPEC_FLOAT("p", 0.5, 0, 0.999999, "probability that an element is set to zero"),
};

static clt_status dropout_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

/* Emits y (+)= mask(x), or residual + mask(x) if the plan has fused a residual sum; both directions. */
static void dropout_emit(ocl_emitter *e, const clt_call *call, bool backward, clt_style style)
{
    int32_t y = backward ? call->din[0] : call->out[0], x = backward ? call->dout[0] : call->in[0];
    int32_t residual = backward ? -1 : call->epilogue.residual;
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    uint64_t n = (uint64_t)clt_shape_elements(shape), per_sample = n;
    double p = clt_node_attr(call->node, "p")->f;
    if (shape->ndim > 0 && shape->dim[0] > 0)
        per_sample = n / (uint64_t)shape->dim[0];
    clt_elementwise_begin(e, "dropout", backward ? "dropout_bwd" : "dropout_fwd", style);
    clt_define_type_of(e, "DT", call, x);
    clt_define_type_of(e, "GT", call, y);
    ocl_define(e, "RESIDUAL", residual >= 0);
    if (backward)
        clt_arg_grad_of(e, call, y, n, call->din_accumulate[0]);
    else
        clt_arg_out_of(e, call, y, n);
    clt_arg_in_of(e, call, x, n);
    if (residual >= 0)
        clt_arg_in_of(e, call, residual, n);
    clt_arg_step(e, call);
    ocl_arg_u64(e, per_sample);
    ocl_arg_u32(e, (uint32_t)call->node->stream);
    ocl_arg_f32(e, (float)p);
    ocl_arg_f32(e, (float)(1.0 / (1.0 - p)));
    ocl_arg_u64(e, n);
    /* Blocks have four elements, and up to three elements of the first one belong to the previous sample.
     * Integer operations are not counted as flops. */
    clt_elementwise_end(e, clt_div_up(n + 3, 4), (residual >= 0 ? 3.0 : 2.0) * (double)n, style);
}

static bool dropout_is_identity(const clt_call *call)
{
    return !call->training || clt_node_attr(call->node, "p")->f == 0.0;
}

static clt_status dropout_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    if (dropout_is_identity(call))
        clt_emit_copy_grad(e, call->out[0], call->in[0], clt_call_dtype(call, call->in[0]), n, false);
    else
        dropout_emit(e, call, false, style);
    return CLT_OK;
}

static clt_status dropout_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    if (call->din[0] < 0)
        return CLT_OK;
    if (dropout_is_identity(call))
        clt_emit_copy_grad(e, call->din[0], call->dout[0], clt_call_dtype(call, call->dout[0]), n,
                           call->din_accumulate[0]);
    else
        dropout_emit(e, call, true, style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(dropout_forward)
CLT_ELEMENTWISE_VARIANTS(dropout_backward)

CLT_OP_DOC(
    dropout,
    .text =
        "Sets a random share of the elements to zero while training and scales the others up; does nothing "
        "in evaluation and generation. What is dropped depends only on train.seed, the step and the sample.",
    .inputs = "x: any shape, f32, f16 or bf16", .output = "y: shape and type of x",
    .example = "{\"op\": \"dropout\", \"p\": 0.1}", CLT_DOC_LINEAR_BEFORE);

static bool dropout_takes_residual(const clt_node *node)
{
    return clt_node_attr(node, "p")->f >
           0.0; /* otherwise the op does nothing, and so cannot add a residual */
}

CLT_OP_DEFINE(dropout, "y = x / (1 - p) with probability 1 - p, else 0; y = x when not training", 1, 1,
              CLT_OP_ATTRS(dropout_attrs),
              .flags = CLT_OP_RANDOM | CLT_OP_EVAL_IDENTITY | CLT_OP_CHEAP | CLT_OP_FOLLOWS,
              .infer = dropout_infer, CLT_OP_VARIANTS(dropout), .takes_residual = dropout_takes_residual);
