/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations relu, tanh, sigmoid, silu (one table, see op_activation.h) and gelu. Knows flat arrays, no
 * model. */
#include "engine/ops/elementwise/op_activation.h"

#include <string.h>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

/* relu, tanh, sigmoid, silu, gelu: y = f(x), element by element
 * shapes  x any -> y as x                                dtypes  x,y f32|f16|bf16; arithmetic f32
 * grads   dx = dy * f'(x), from y for tanh and sigmoid: write or accumulate   units   none
 * memory  no workspace                                   errors  CLT_ESHAPE for an integer x
 * source  Hendrycks & Gimpel 2016, arXiv:1606.08415 (gelu, silu)
 * tested  verify -t 'relu*', 'gelu*', ...; relu exact, others tol 8-32 */

/* What the kernels are specialised with for one activation. */
typedef struct activation {
    const char *fn, *dfn;
    bool from_output;
    int flops_fwd, flops_bwd;
    ocl_activation epilogue; /* a GEMM's epilogue that can replace the op */
} activation;

static const clt_attr_spec gelu_attrs[] = {
    CLT_SPEC_CHOICE("approximate", CLT_GELU_NONE, "none|tanh",
                    "none: x Phi(x) with the error function; tanh: the approximation GPT-2 was trained with"),
};
/* Counts of flops: erf counts as one operation, like tanh and exp. */
static const activation gelu_erf = {"clt_gelu_erf", "clt_dgelu_erf", false, 5, 10, OCL_ACT_GELU_ERF};
static const activation gelu_tanh = {"clt_gelu_tanh", "clt_dgelu_tanh", false, 9, 16, OCL_ACT_GELU_TANH};

#define ACTIVATION_SPEC(name, text, fn, dfn, from_output, fwd, bwd, epilogue, ...)                           \
    static const activation name##_spec = {fn, dfn, from_output, fwd, bwd, epilogue};
CLT_ACTIVATION_MAP(ACTIVATION_SPEC)
#undef ACTIVATION_SPEC

static clt_status activation_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

/* True for functions of one or two instructions: their time is spent on memory accesses. */
static bool is_light(const char *fn)
{
    static const char *const names[] = {"clt_relu", "clt_drelu", "clt_dtanh_y", "clt_dsigmoid_y"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], fn) == 0)
            return true;
    return false;
}

static clt_status activation_forward(ocl_emitter *e, const clt_call *call, const activation *f,
                                     clt_style style)
{
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    clt_elementwise_begin(e, "unary", "unary_fwd", style);
    ocl_define_text(e, "FN", f->fn);
    if (f == &gelu_erf)
        ocl_define(e, "STAGED", 1);
    clt_define_type_of(e, "DT", call, call->in[0]);
    if (is_light(f->fn))
        clt_define_stores(e, style, clt_call_dtype(call, call->out[0]), n, false);
    clt_arg_out_of(e, call, call->out[0], n);
    clt_arg_in_of(e, call, call->in[0], n);
    clt_elementwise_end(e, n, f->flops_fwd * (double)n, style);
    return CLT_OK;
}

static clt_status activation_backward(ocl_emitter *e, const clt_call *call, const activation *f,
                                      clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    int32_t v = f->from_output ? call->out[0] : call->in[0];
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    clt_elementwise_begin(e, "unary", "unary_bwd", style);
    ocl_define_text(e, "DFN", f->dfn);
    clt_define_type_of(e, "DT", call, v);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    if (is_light(f->dfn))
        clt_define_stores(e, style, clt_call_dtype(call, call->din[0]), n, call->din_accumulate[0]);
    clt_arg_grad_of(e, call, call->din[0], n, call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], n);
    clt_arg_in_of(e, call, v, n);
    clt_elementwise_end(e, n, (f->flops_bwd + call->din_accumulate[0]) * (double)n, style);
    return CLT_OK;
}

#define ACTIVATION_OP(op, text, spec, ...)                                                                   \
    static clt_status op##_forward(ocl_emitter *e, const clt_call *call, clt_style style)                    \
    {                                                                                                        \
        const clt_node *node = call->node;                                                                   \
        (void)node;                                                                                          \
        return activation_forward(e, call, spec, style);                                                     \
    }                                                                                                        \
    static clt_status op##_backward(ocl_emitter *e, const clt_call *call, clt_style style)                   \
    {                                                                                                        \
        const clt_node *node = call->node;                                                                   \
        (void)node;                                                                                          \
        return activation_backward(e, call, spec, style);                                                    \
    }                                                                                                        \
    static ocl_activation op##_activation(const clt_node *node)                                              \
    {                                                                                                        \
        (void)node;                                                                                          \
        return (spec)->epilogue;                                                                             \
    }                                                                                                        \
    CLT_ELEMENTWISE_VARIANTS(op##_forward)                                                                   \
    CLT_ELEMENTWISE_VARIANTS(op##_backward)                                                                  \
    extern const clt_op clt_op_##op;                                                                         \
    const clt_op clt_op_##op = {.name = #op,                                                                 \
                                .summary = text,                                                             \
                                .doc = &op##_doc,                                                            \
                                .min_in = 1,                                                                 \
                                .max_in = 1,                                                                 \
                                .flags = CLT_OP_CHEAP | CLT_OP_ANY_LAYOUT,                                   \
                                .infer = activation_infer,                                                   \
                                .forward = {.variants = op##_forward_variants},                              \
                                .backward = {.variants = op##_backward_variants},                            \
                                .activation = op##_activation,                                               \
                                .ref = &clt_op_##op##_ref,                                                   \
                                __VA_ARGS__};

static const clt_op_doc relu_doc = {
    .text = "Negative numbers become zero.",
    .inputs = "x: any shape, f32, f16 or bf16",
    .output = "y: shape and type of x",
    .example = "{\"op\": \"relu\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

static const clt_op_doc tanh_doc = {
    .text = "The hyperbolic tangent: results lie between -1 and 1.",
    .inputs = "x: any shape, f32, f16 or bf16",
    .output = "y: shape and type of x",
    .example = "{\"op\": \"tanh\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

static const clt_op_doc sigmoid_doc = {
    .text = "Results lie between 0 and 1. Do not put it before the loss bce_with_logits, which includes "
            "it.",
    .inputs = "x: any shape, f32, f16 or bf16",
    .output = "y: shape and type of x",
    .example = "{\"op\": \"sigmoid\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

static const clt_op_doc silu_doc = {
    .text = "Also called swish.",
    .inputs = "x: any shape, f32, f16 or bf16",
    .output = "y: shape and type of x",
    .example = "{\"op\": \"silu\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

static const clt_op_doc gelu_doc = {
    .text = "The activation of GPT-2 and BERT; GPT-2 uses the approximation by tanh.",
    .inputs = "x: any shape, f32, f16 or bf16",
    .output = "y: shape and type of x",
    .example = "{\"op\": \"gelu\", \"approximate\": \"tanh\"}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32}, ",
};

#define ACTIVATION_FROM_TABLE(name, text, ...) ACTIVATION_OP(name, text, &name##_spec, .n_attrs = 0)
CLT_ACTIVATION_MAP(ACTIVATION_FROM_TABLE)
#undef ACTIVATION_FROM_TABLE

static const activation *gelu_kind(const clt_node *node)
{
    return clt_node_attr(node, "approximate")->choice == CLT_GELU_TANH ? &gelu_tanh : &gelu_erf;
}
ACTIVATION_OP(gelu, "y = x * Phi(x), Phi the normal distribution", gelu_kind(node), .attrs = gelu_attrs,
              .n_attrs = 1)
