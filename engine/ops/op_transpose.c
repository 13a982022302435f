/* SPDX-License-Identifier: Apache-2.0
 *
 * The op transpose: a permutation of dimensions that leaves the batch in place. Moves elements of any type;
 * knows no model. */
#include "engine/ops/emit_util.h"

/* transpose: dimension d of y is dimension perm[d] of x
 * shapes  x (d0,...,dk) -> y (d_perm[0],...,d_perm[k])          dtypes  any of 1, 2 or 4 bytes
 * grads   dx: write or accumulate                               units   none
 * memory  no workspace
 * errors  CLT_ESHAPE: no permutation, or the batch moves
 * source  -                                                     tested  verify -t 'transpose*', exact */

static const clt_attr_spec transpose_attrs[] = {
    {.name = "perm",
     .type = CLT_ATTR_INTS,
     .required = true,
     .min = 0,
     .max = CLT_MAX_DIMS - 1,
     .help = "source dimension of each dimension, the batch (0) first: [0,2,1] swaps the last two of three"},
};

static clt_status transpose_infer(clt_infer *ctx)
{
    const clt_tensor *x = clt_infer_in(ctx, 0);
    const clt_attr *perm = clt_node_attr(ctx->node, "perm");
    clt_shape shape = x->shape;
    char text[CLT_SHAPE_TEXT];
    unsigned seen = 0;
    clt_shape_text(&x->shape, text, sizeof text);
    if (perm->n_list != shape.ndim)
        return clt_infer_fail(ctx, "perm names %d dimensions, the input %s has %d", (int)perm->n_list, text,
                              shape.ndim);
    if (clt_dtype_bytes(x->dtype) > 4)
        return clt_infer_fail(ctx, "input '%s' has type %s; 64-bit types are not supported", x->name,
                              clt_dtype_name(x->dtype));
    for (int i = 0; i < shape.ndim; i++) {
        int64_t p = perm->list[i];
        if (p < 0 || p >= shape.ndim || (seen & (1u << p)))
            return clt_infer_fail(ctx, "perm is not a permutation of 0..%d: entry %d is %lld", shape.ndim - 1,
                                  i, (long long)p);
        seen |= 1u << p;
        shape.dim[i] = x->shape.dim[p];
    }
    if (perm->list[0] != 0)
        return clt_infer_fail(ctx, "perm moves the batch dimension; it must start with 0");
    return clt_infer_out(ctx, x->dtype, &shape);
}

/* y of dims (row-major) = x at strides: both tensors' dimensions merged where they stay together. */
typedef struct transpose_plan {
    int ndim;
    int64_t dim[CLT_MAX_DIMS], stride[CLT_MAX_DIMS];
} transpose_plan;

static transpose_plan transpose_merge(const clt_shape *x, const int64_t *perm)
{
    int64_t stride[CLT_MAX_DIMS];
    int64_t step = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    transpose_plan p = {0};
    for (int i = 0; i < x->ndim; i++) {
        int64_t dim = x->dim[perm[i]], s = stride[perm[i]];
        if (dim == 1)
            continue;
        if (p.ndim > 0 && p.stride[p.ndim - 1] == s * dim) {
            p.dim[p.ndim - 1] *= dim;
            p.stride[p.ndim - 1] = s;
        } else {
            p.dim[p.ndim] = dim;
            p.stride[p.ndim++] = s;
        }
    }
    return p;
}

static transpose_plan transpose_forward_plan(const clt_call *call)
{
    return transpose_merge(&clt_call_tensor(call, call->in[0])->shape,
                           clt_node_attr(call->node, "perm")->list);
}

static transpose_plan transpose_backward_plan(const clt_call *call)
{
    const clt_attr *perm = clt_node_attr(call->node, "perm");
    int64_t inverse[CLT_MAX_DIMS] = {0};
    for (int i = 0; i < perm->n_list; i++)
        inverse[perm->list[i]] = i;
    return transpose_merge(&clt_call_tensor(call, call->out[0])->shape, inverse);
}

/* A swap of the last two of up to three dimensions: y (B,Q,P) = x (B,P,Q). */
static bool transpose_is_swap(const transpose_plan *p)
{
    int n = p->ndim;
    if (n < 2 || n > 3 || p->stride[n - 2] != 1 || p->stride[n - 1] != p->dim[n - 2])
        return false;
    return n == 2 || p->stride[0] == p->dim[1] * p->dim[2];
}

typedef enum transpose_form { FORM_TILE, FORM_FLAT, FORM_ROW } transpose_form;
enum { TILE = 16, TILE_ITEMS = 64 }; /* of kernels/transpose.cl: 16 x 4 items */

static void transpose_begin(ocl_emitter *e, const char *kernel, int32_t y, int32_t x, clt_dtype dtype,
                            uint64_t elements, bool grad, bool accumulate)
{
    ocl_kernel_begin(e, "transpose", kernel);
    clt_define_dtype(e, "DT", dtype);
    ocl_define(e, "GRAD", grad);
    clt_define_wide(e, elements);
    if (grad)
        ocl_arg_grad(e, y, dtype, elements, accumulate);
    else
        ocl_arg_out(e, y, dtype, elements);
    ocl_arg_in(e, x, dtype, elements);
}

static void transpose_tile(ocl_emitter *e, const transpose_plan *p, int32_t y, int32_t x, clt_dtype dtype,
                           uint64_t elements, bool grad, bool accumulate)
{
    int64_t batch = p->ndim == 3 ? p->dim[0] : 1, columns = p->dim[p->ndim - 2], rows = p->dim[p->ndim - 1];
    uint64_t tiles = (uint64_t)batch * clt_div_up((uint64_t)rows, TILE) * clt_div_up((uint64_t)columns, TILE);
    transpose_begin(e, "transpose_fwd_tile", y, x, dtype, elements, grad, accumulate);
    clt_arg_size32(e, batch, "matrices");
    clt_arg_size32(e, rows, "rows");
    clt_arg_size32(e, columns, "columns");
    ocl_kernel_end_1d(e, tiles * TILE_ITEMS, TILE_ITEMS, 0.0);
}

static clt_status transpose_emit(ocl_emitter *e, const clt_call *call, const transpose_plan *p, int32_t y,
                                 int32_t x, transpose_form form, bool grad, bool accumulate)
{
    const clt_tensor *t = clt_call_tensor(call, y);
    clt_dtype dtype = t->dtype;
    uint64_t elements = (uint64_t)clt_shape_elements(&t->shape);
    if (p->ndim <= 1) { /* nothing moves */
        if (grad)
            clt_emit_copy_grad(e, y, x, dtype, elements, accumulate);
        else
            ocl_emit_copy(e, ocl_ref(y), ocl_ref(x), elements * clt_dtype_bytes(dtype));
        return CLT_OK;
    }
    if (form == FORM_TILE) {
        transpose_tile(e, p, y, x, dtype, elements, grad, accumulate);
        return CLT_OK;
    }
    transpose_begin(e, form == FORM_ROW ? "transpose_fwd_row" : "transpose_fwd_flat", y, x, dtype, elements,
                    grad, accumulate);
    ocl_arg_u64(e, elements);
    int pad = CLT_MAX_DIMS - p->ndim;
    for (int i = 0; i < CLT_MAX_DIMS; i++)
        clt_arg_size32(e, i < pad ? 1 : p->dim[i - pad], "elements of a dimension");
    for (int i = 0; i < CLT_MAX_DIMS; i++)
        ocl_arg_u64(e, i < pad ? 0 : (uint64_t)p->stride[i - pad]);
    uint64_t rows = elements / (uint64_t)p->dim[p->ndim - 1];
    if (form == FORM_ROW)
        ocl_kernel_end_1d(e, rows, clt_local_rows(e->device, rows), 0.0);
    else
        ocl_kernel_end_1d(e, elements, clt_local_flat(e->device), 0.0);
    return CLT_OK;
}

static clt_status transpose_forward(ocl_emitter *e, const clt_call *call, transpose_form form)
{
    transpose_plan p = transpose_forward_plan(call);
    return transpose_emit(e, call, &p, call->out[0], call->in[0], form, false, false);
}

static clt_status transpose_backward(ocl_emitter *e, const clt_call *call, transpose_form form)
{
    if (call->din[0] < 0)
        return CLT_OK;
    transpose_plan p = transpose_backward_plan(call);
    return transpose_emit(e, call, &p, call->din[0], call->dout[0], form, true, call->din_accumulate[0]);
}

static bool accepts_tile(const transpose_plan *p, const ocl_device_desc *device, char *reason, size_t size)
{
    if (!clt_accepts_group(NULL, device, reason, size))
        return false;
    if (transpose_is_swap(p))
        return true;
    snprintf(reason, size, "not a swap of the last two of three merged dimensions");
    return false;
}
static bool accepts_fwd_tile(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    transpose_plan p = transpose_forward_plan(problem);
    return accepts_tile(&p, device, reason, size);
}
static bool accepts_bwd_tile(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    transpose_plan p = transpose_backward_plan(problem);
    return accepts_tile(&p, device, reason, size);
}

static clt_status transpose_fwd_tile(ocl_emitter *e, const void *problem)
{
    return transpose_forward(e, problem, FORM_TILE);
}
static clt_status transpose_fwd_flat(ocl_emitter *e, const void *problem)
{
    return transpose_forward(e, problem, FORM_FLAT);
}
static clt_status transpose_fwd_row(ocl_emitter *e, const void *problem)
{
    return transpose_forward(e, problem, FORM_ROW);
}
static clt_status transpose_bwd_tile(ocl_emitter *e, const void *problem)
{
    return transpose_backward(e, problem, FORM_TILE);
}
static clt_status transpose_bwd_flat(ocl_emitter *e, const void *problem)
{
    return transpose_backward(e, problem, FORM_FLAT);
}
static clt_status transpose_bwd_row(ocl_emitter *e, const void *problem)
{
    return transpose_backward(e, problem, FORM_ROW);
}

static const ocl_variant fwd_tile = {"tile", OCL_CAP_LOCAL, accepts_fwd_tile, NULL, transpose_fwd_tile};
static const ocl_variant fwd_flat = {"flat", 0, clt_accepts_flat, NULL, transpose_fwd_flat};
static const ocl_variant fwd_row = {"row", 0, NULL, NULL, transpose_fwd_row};
static const ocl_variant *const fwd_variants[] = {&fwd_tile, &fwd_flat, &fwd_row, NULL};
static const ocl_variant bwd_tile = {"tile", OCL_CAP_LOCAL, accepts_bwd_tile, NULL, transpose_bwd_tile};
static const ocl_variant bwd_flat = {"flat", 0, clt_accepts_flat, NULL, transpose_bwd_flat};
static const ocl_variant bwd_row = {"row", 0, NULL, NULL, transpose_bwd_row};
static const ocl_variant *const bwd_variants[] = {&bwd_tile, &bwd_flat, &bwd_row, NULL};

extern const clt_op_ref clt_op_transpose_ref;
extern const clt_op clt_op_transpose;
const clt_op clt_op_transpose = {
    .name = "transpose",
    .summary = "dimension d of y is dimension perm[d] of x",
    .attrs = transpose_attrs,
    .n_attrs = sizeof transpose_attrs / sizeof transpose_attrs[0],
    .min_in = 1,
    .max_in = 1,
    .flags = CLT_OP_MOVE,
    .infer = transpose_infer,
    .forward = fwd_variants,
    .backward = bwd_variants,
    .ref = &clt_op_transpose_ref,
};
