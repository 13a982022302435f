/* SPDX-License-Identifier: Apache-2.0
 *
 * The op transpose: a permutation of dimensions that leaves the batch in place. Moves elements of any type;
 * knows no model. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/shape/shape_shared.clh"

/* transpose: dimension d of y is dimension perm[d] of x
 * shapes  x (d0,...,dk) -> y (d_perm[0],...,d_perm[k])          dtypes  any of 1, 2 or 4 bytes
 * grads   dx: write or accumulate                               units   none
 * memory  no workspace
 * errors  CLT_ESHAPE: no permutation, or the batch moves
 * source  -                                                     tested  verify -t 'transpose*', exact */

static const clt_attr_spec transpose_attrs[] = {
    CLT_SPEC_NEEDED(
        INTS, "perm", 0, CLT_MAX_DIMS - 1,
        "source dimension of each dimension, the batch (0) first: [0,2,1] swaps the last two of three"),
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

/* y is row-major with sizes `dim` and reads x with strides `stride`. Dimensions that stay neighbours are
 * merged. */
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
    clt_shape x = clt_tensor_memory_shape(clt_call_tensor(call, call->in[0]));
    return transpose_merge(&x, clt_node_attr(call->node, "perm")->list);
}

static transpose_plan transpose_backward_plan(const clt_call *call)
{
    const clt_attr *perm = clt_node_attr(call->node, "perm");
    int64_t inverse[CLT_MAX_DIMS] = {0};
    for (int i = 0; i < perm->n_list; i++)
        inverse[perm->list[i]] = i;
    clt_shape y = clt_tensor_memory_shape(clt_call_tensor(call, call->out[0]));
    return transpose_merge(&y, inverse);
}

/* Whether the plan swaps the last two of up to three dimensions: y (B,Q,P) = x (B,P,Q). */
static bool transpose_is_swap(const transpose_plan *p)
{
    int n = p->ndim;
    if (n < 2 || n > 3 || p->stride[n - 2] != 1 || p->stride[n - 1] != p->dim[n - 2])
        return false;
    return n == 2 || p->stride[0] == p->dim[1] * p->dim[2];
}

typedef enum transpose_form { FORM_TILE, FORM_FLAT, FORM_LANE } transpose_form;
enum { TILE = TRANSPOSE_TILE, TILE_ITEMS = TRANSPOSE_TILE * TRANSPOSE_ROWS };

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

/* The loops of the kernels in lane style over a permutation, see transpose.cl. */
typedef struct transpose_walk {
    uint64_t cell, p, q, tile_p, tile_q;
    uint64_t p_stride_x, q_stride_y;
    uint64_t outer[4], outer_x[4], outer_y[4]; /* sizes are padded with ones in front */
} transpose_walk;

#define GROUPS_PER_UNIT 8

static uint64_t walk_tiles(const transpose_walk *w)
{
    return w->outer[0] * w->outer[1] * w->outer[2] * w->outer[3] * clt_div_up(w->p, w->tile_p) *
           clt_div_up(w->q, w->tile_q);
}

/* Tile sizes. Contiguous runs in y are long, because each run costs a TLB look-up; runs in x are at least
 * two cache lines; cells are contiguous anyway. Tiles are smaller if there would be too few for the device.
 * They take half of the area that the kernel can hold: rows of x at a distance of a power of two map to the
 * same cache sets, which must hold the lines of this tile and the prefetched lines of the next. */
#define LONG_RUN 64
#define WALK_AREA (TRANSPOSE_AREA / 2)
#define CELL_EDGE 64

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void walk_tile(transpose_walk *w, const ocl_device_desc *device)
{
    uint64_t wanted = (device->compute_units ? device->compute_units : 1) * GROUPS_PER_UNIT;
    w->tile_p = least(w->p, w->cell == 1 ? LONG_RUN : CELL_EDGE);
    w->tile_q = least(w->q, w->cell == 1 ? WALK_AREA / w->tile_p : CELL_EDGE);
    while (walk_tiles(w) < wanted && (w->tile_p > TILE || w->tile_q > TILE)) {
        if (w->tile_p >= w->tile_q)
            w->tile_p = clt_div_up(w->tile_p, 2 * TILE) * TILE;
        else
            w->tile_q = clt_div_up(w->tile_q, 2 * TILE) * TILE;
    }
}

static transpose_walk transpose_walk_of(const transpose_plan *plan, const ocl_device_desc *device)
{
    transpose_walk w = {.cell = 1, .outer = {1, 1, 1, 1}};
    uint64_t stride_y[CLT_MAX_DIMS], step = 1;
    int last = plan->ndim - 1, at = 4;
    for (int i = last; i >= 0; i--) {
        stride_y[i] = step;
        step *= (uint64_t)plan->dim[i];
    }
    if (plan->stride[last] == 1) /* the last dimension stays in place: its elements form a cell */
        w.cell = (uint64_t)plan->dim[last--];
    w.p = (uint64_t)plan->dim[last];
    w.p_stride_x = (uint64_t)plan->stride[last];
    for (int i = last - 1; i >= 0; i--) {
        if ((uint64_t)plan->stride[i] == w.cell) {
            w.q = (uint64_t)plan->dim[i];
            w.q_stride_y = stride_y[i];
        } else {
            w.outer[--at] = (uint64_t)plan->dim[i];
            w.outer_x[at] = (uint64_t)plan->stride[i];
            w.outer_y[at] = stride_y[i];
        }
    }
    walk_tile(&w, device);
    return w;
}

static void transpose_lane(ocl_emitter *e, const transpose_plan *plan, int32_t y, int32_t x, clt_dtype dtype,
                           uint64_t elements, bool grad, bool accumulate)
{
    transpose_walk w = transpose_walk_of(plan, e->device);
    bool lines = (w.cell == 1 ? w.p : w.cell) % 16 == 0; /* runs of y are aligned to vectors */
    transpose_begin(e, w.cell == 1 ? "transpose_fwd_lane" : "transpose_fwd_cells", y, x, dtype, elements,
                    grad, accumulate);
    ocl_define(e, "SHUFFLES", (e->device->quirks & OCL_QUIRK_NO_SHUFFLES) == 0);
    ocl_define(e, "PREFETCH", (e->device->caps & OCL_CAP_PREFETCH) != 0);
    ocl_kernel_needs(e, e->device->caps & OCL_CAP_PREFETCH);
    /* elements that are only copied are stored as any type of the same size */
    if (grad || clt_dtype_bytes(dtype) > 1)
        clt_define_stores(e, CLT_STYLE_LANE,
                          grad                          ? dtype
                          : clt_dtype_bytes(dtype) == 2 ? CLT_BF16
                                                        : CLT_F32,
                          elements, accumulate || !lines);
    clt_arg_size32(e, (int64_t)w.p, "elements of a dimension");
    clt_arg_size32(e, (int64_t)w.q, "elements of a dimension");
    ocl_arg_u32(e, (uint32_t)w.tile_p);
    ocl_arg_u32(e, (uint32_t)w.tile_q);
    clt_arg_size32(e, (int64_t)w.cell, "elements of a dimension");
    ocl_arg_u64(e, w.p_stride_x);
    ocl_arg_u64(e, w.q_stride_y);
    for (int i = 1; i < 4; i++)
        clt_arg_size32(e, (int64_t)w.outer[i], "elements of a dimension");
    for (int i = 0; i < 4; i++)
        ocl_arg_u64(e, w.outer_x[i]);
    for (int i = 0; i < 4; i++)
        ocl_arg_u64(e, w.outer_y[i]);
    ocl_kernel_end_1d(e, walk_tiles(&w), 1, 0.0);
}

static clt_status transpose_emit(ocl_emitter *e, const clt_call *call, const transpose_plan *p, int32_t y,
                                 int32_t x, transpose_form form, bool grad, bool accumulate)
{
    const clt_tensor *t = clt_call_tensor(call, y);
    clt_dtype dtype = t->dtype;
    uint64_t elements = (uint64_t)clt_shape_elements(&t->shape);
    if (p->ndim <= 1) { /* the permutation is the identity */
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
    if (form == FORM_LANE) {
        transpose_lane(e, p, y, x, dtype, elements, grad, accumulate);
        return CLT_OK;
    }
    transpose_begin(e, "transpose_fwd_flat", y, x, dtype, elements, grad, accumulate);
    ocl_arg_u64(e, elements);
    int pad = CLT_MAX_DIMS - p->ndim;
    for (int i = 0; i < CLT_MAX_DIMS; i++)
        clt_arg_size32(e, i < pad ? 1 : p->dim[i - pad], "elements of a dimension");
    for (int i = 0; i < CLT_MAX_DIMS; i++)
        ocl_arg_u64(e, i < pad ? 0 : (uint64_t)p->stride[i - pad]);
    ocl_kernel_end_items(e, elements, clt_local_flat(e->device), 0.0);
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

static bool accepts_tile(const transpose_plan *p, char *reason, size_t size)
{
    if (transpose_is_swap(p))
        return true;
    snprintf(reason, size, "not a swap of the last two of three merged dimensions");
    return false;
}
static bool accepts_fwd_tile(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    transpose_plan p = transpose_forward_plan(problem);
    (void)device;
    return accepts_tile(&p, reason, size);
}
static bool accepts_bwd_tile(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    transpose_plan p = transpose_backward_plan(problem);
    (void)device;
    return accepts_tile(&p, reason, size);
}

#define TRANSPOSE_VARIANTS(fn, accepts)                                                                      \
    static clt_status fn##_tile(ocl_emitter *e, const void *call)                                            \
    {                                                                                                        \
        return fn(e, call, FORM_TILE);                                                                       \
    }                                                                                                        \
    static const ocl_variant fn##_variant_tile = {"tile", OCL_CAP_LOCAL,    accepts, NULL, fn##_tile,        \
                                                  0,      OCL_KERNEL_GROUPS};                                \
    CLT_TWO_VARIANTS(fn, flat, FORM_FLAT, 0, NULL, lane, FORM_LANE, NULL)                                    \
    static const ocl_variant *const fn##_variants[] = {&fn##_variant_tile, &fn##_variant_flat,               \
                                                       &fn##_variant_lane, NULL};
TRANSPOSE_VARIANTS(transpose_forward, accepts_fwd_tile)
TRANSPOSE_VARIANTS(transpose_backward, accepts_bwd_tile)

CLT_OP_DOC(transpose, .text = "Puts the dimensions in another order. The batch stays the first one.",
           .inputs = "x: any shape, any type of 1, 2 or 4 bytes",
           .output = "y: x's dimensions in the order of perm, type of x",
           .example = "{\"op\": \"transpose\", \"perm\": [0, 2, 1]}", .before = "", CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(transpose, "dimension d of y is dimension perm[d] of x", 1, 1, CLT_OP_ATTRS(transpose_attrs),
              .flags = CLT_OP_MOVE, .infer = transpose_infer, CLT_OP_VARIANTS(transpose));
