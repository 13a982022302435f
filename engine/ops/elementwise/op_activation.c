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

/* The defines that specialise the kernels for one activation. */
typedef struct activation {
    const char *op, *fn, *dfn;
    bool from_output;
    int flops_fwd, flops_bwd;
    ocl_activation epilogue; /* a GEMM's epilogue that can replace the op */
} activation;

static const clt_attr_spec gelu_attrs[] = {
    CLT_SPEC_CHOICE("approximate", CLT_GELU_NONE, "none|tanh",
                    "none: x Phi(x) with the error function; tanh: the approximation GPT-2 was trained with"),
};
/* Counts of flops: erf counts as one operation, like tanh and exp. */
static const activation gelu_tanh = {"gelu", "clt_gelu_tanh",  "clt_dgelu_tanh", false, 9,
                                     16,     OCL_ACT_GELU_TANH};
static const activation activations[] = {
    {"gelu", "clt_gelu_erf", "clt_dgelu_erf", false, 5, 10, OCL_ACT_GELU_ERF},
#define ACTIVATION_ROW(name, formula, says, fn, dfn, from_output, fwd, bwd, epilogue, ...)                   \
    {#name, fn, dfn, from_output, fwd, bwd, epilogue},
    CLT_ACTIVATION_MAP(ACTIVATION_ROW)
#undef ACTIVATION_ROW
};

static const activation *activation_of(const clt_node *node)
{
    const activation *f = activations;
    if (clt_node_attr(node, "approximate")->choice == CLT_GELU_TANH)
        return &gelu_tanh;
    while (strcmp(f->op, node->op->name) != 0)
        f++;
    return f;
}

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

static clt_status activation_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const activation *f = activation_of(call->node);
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    clt_elementwise_begin(e, "unary", "unary_fwd", style);
    ocl_define_text(e, "FN", f->fn);
    if (f->epilogue == OCL_ACT_GELU_ERF)
        ocl_define(e, "STAGED", 1);
    clt_define_type_of(e, "DT", call, call->in[0]);
    if (is_light(f->fn))
        clt_define_stores(e, style, clt_call_dtype(call, call->out[0]), n, false);
    clt_arg_out_of(e, call, call->out[0], n);
    clt_arg_in_of(e, call, call->in[0], n);
    clt_elementwise_end(e, n, f->flops_fwd * (double)n, style);
    return CLT_OK;
}

static clt_status activation_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const activation *f = activation_of(call->node);
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

static ocl_activation activation_epilogue(const clt_node *node)
{
    return activation_of(node)->epilogue;
}
CLT_ELEMENTWISE_VARIANTS(activation_forward)
CLT_ELEMENTWISE_VARIANTS(activation_backward)

#define ACTIVATION_SHAPES .inputs = "x: any shape, f32, f16 or bf16", .output = "y: shape and type of x"
#define ACTIVATION_DOC(name, formula, says, ...)                                                             \
    CLT_OP_DOC(name, .text = says, ACTIVATION_SHAPES, .example = "{\"op\": \"" #name "\"}",                  \
               CLT_DOC_LINEAR_BEFORE);
CLT_ACTIVATION_MAP(ACTIVATION_DOC)
CLT_OP_DOC(gelu, .text = "The activation of GPT-2 and BERT; GPT-2 uses the approximation by tanh.",
           ACTIVATION_SHAPES, .example = "{\"op\": \"gelu\", \"approximate\": \"tanh\"}",
           CLT_DOC_LINEAR_BEFORE);

#define ACTIVATION_OP(op, formula, ...)                                                                      \
    CLT_OP_DEFINE(op, formula, 1, 1, .flags = CLT_OP_CHEAP | CLT_OP_ANY_LAYOUT, .infer = activation_infer,   \
                  CLT_OP_VARIANTS(activation), .activation = activation_epilogue, __VA_ARGS__);
#define ACTIVATION_FROM_TABLE(name, formula, ...) ACTIVATION_OP(name, formula, .n_attrs = 0)
CLT_ACTIVATION_MAP(ACTIVATION_FROM_TABLE)
ACTIVATION_OP(gelu, "y = x * Phi(x), Phi the normal distribution", CLT_OP_ATTRS(gelu_attrs))
