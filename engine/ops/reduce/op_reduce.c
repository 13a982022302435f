/* SPDX-License-Identifier: Apache-2.0
 *
 * The op reduce: sum, mean or maximum over any dimensions except the batch. Knows shapes and strides, no
 * model. */
#include <string.h>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/elementwise/reduce_shared.clh"
#include "engine/ops/emit_util.h"
#include "engine/ops/op_problem.h"

/* reduce: y = sum, mean or max of x over `axes` (all but the batch by default)
 * shapes  x (N,...) -> y without the axes, or with size 1 there (keepdims)
 *         max saves the index of the first maximum among each output's elements, u32, shaped as y
 * dtypes  x,y f32|f16|bf16; accumulates f32              units   none
 * grads   dx = dy, dy / count, or dy at the first maximum: write or accumulate
 * memory  no workspace
 * errors  CLT_ESHAPE: integer x, bad axes, nothing to reduce
 * source  -                                              tested  verify -t 'reduce*', tol 16, or exact */

enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX };
static const clt_attr_spec reduce_attrs[] = {
    CLT_SPEC_CHOICE("kind", REDUCE_MEAN, "sum|mean|max", "what to compute"),
    CLT_SPEC_OPEN(
        INTS, "axes", -CLT_MAX_DIMS, CLT_MAX_DIMS,
        "dimensions to reduce, 0 being the batch, which stays; negative: from the end; not set: all others"),
    CLT_SPEC_BOOL("keepdims", false, "keep reduced dimensions with size 1"),
};

/* Sets is_reduced[d] for each dimension that is reduced. */
static clt_status reduce_axes(const clt_infer *ctx, const clt_shape *shape, bool *is_reduced)
{
    const clt_attr *axes = clt_node_attr(ctx->node, "axes");
    for (int d = 0; d < CLT_MAX_DIMS; d++)
        is_reduced[d] = axes->n_list == 0 && d > 0 && d < shape->ndim;
    for (int i = 0; i < axes->n_list; i++) {
        int axis = 0;
        CLT_TRY(clt_infer_axis(ctx, axes->list[i], shape->ndim, &axis));
        if (is_reduced[axis])
            return clt_infer_fail(ctx, "axis %d is listed twice", axis);
        is_reduced[axis] = true;
    }
    return CLT_OK;
}

static clt_status reduce_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape, out = {0, {0}};
    clt_dtype dtype = clt_infer_in(ctx, 0)->dtype;
    bool is_reduced[CLT_MAX_DIMS];
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input %s has only the batch dimension: there is nothing to reduce",
                              clt_shape_text(&shape, text, sizeof text));
    CLT_TRY(reduce_axes(ctx, &shape, is_reduced));
    for (int d = 0; d < shape.ndim; d++)
        if (!is_reduced[d] || clt_node_attr(ctx->node, "keepdims")->b)
            out.dim[out.ndim++] = is_reduced[d] ? 1 : shape.dim[d];
    CLT_TRY(clt_infer_out(ctx, dtype, &out));
    if (clt_node_attr(ctx->node, "kind")->choice == REDUCE_MAX)
        return clt_infer_saved(ctx, "index", CLT_U32, &out);
    return CLT_OK;
}

/* The shape for the kernels: up to three kept and three reduced dimensions, innermost last, missing ones of
 * size 1. Six dimensions cannot alternate between kept and reduced more often. */
typedef struct reduce_view {
    uint64_t kept[3], kept_stride[3], reduced[3], reduced_stride[3];
    uint64_t outputs, count; /* number of outputs; elements that each output combines */
    bool inner_kept;
    int kind;
} reduce_view;

/* Adds the next outer dimension; merge: merges it with the dimension added last, as they are contiguous. */
static void view_add(uint64_t *sizes, uint64_t *strides, int *at, bool merge, uint64_t size, uint64_t stride)
{
    if (merge) {
        sizes[*at] *= size;
        return;
    }
    --*at;
    sizes[*at] = size;
    strides[*at] = stride;
}

static reduce_view reduce_look(const clt_call *call)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    const clt_attr *axes = clt_node_attr(call->node, "axes");
    reduce_view v = {.kept = {1, 1, 1}, .reduced = {1, 1, 1}, .outputs = 1, .count = 1, .inner_kept = false};
    v.kind = clt_node_attr(call->node, "kind")->choice;
    int at_kept = 3, at_reduced = 3, last = -1;
    uint64_t stride = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        uint64_t size = (uint64_t)shape->dim[d];
        bool is_reduced = axes->n_list == 0 && d > 0;
        for (int i = 0; i < axes->n_list; i++)
            is_reduced = is_reduced || axes->list[i] == d || axes->list[i] + shape->ndim == d;
        if (size == 1)
            continue;
        if (is_reduced) {
            view_add(v.reduced, v.reduced_stride, &at_reduced, last == 1, size, stride);
            v.count *= size;
        } else {
            view_add(v.kept, v.kept_stride, &at_kept, last == 0, size, stride);
            v.outputs *= size;
        }
        if (last < 0)
            v.inner_kept = !is_reduced;
        last = is_reduced;
        stride *= size;
    }
    if (at_reduced == 3) /* all reduced dimensions have size 1 */
        v.reduced_stride[2] = 1;
    return v;
}

/* Adds the arguments for sizes, which are 32-bit in the kernels, and for strides, which are 64-bit. */
static void reduce_shape_args(ocl_emitter *e, const reduce_view *v)
{
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, (int64_t)v->kept[i], "kept elements");
    for (int i = 0; i < 3; i++)
        ocl_arg_u64(e, v->kept_stride[i]);
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, (int64_t)v->reduced[i], "reduced elements");
    for (int i = 0; i < 3; i++)
        ocl_arg_u64(e, v->reduced_stride[i]);
    ocl_arg_f32(e, v->kind == REDUCE_MEAN ? (float)(1.0 / (double)v->count) : 1.0f);
    if (v->kind == REDUCE_MAX && v->count > UINT32_MAX)
        ocl_emit_fail(e, clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                                  "emitting %s: a maximum over %llu elements; at most 2^32-1 can be "
                                  "numbered; reduce fewer dimensions at a time",
                                  e->label ? e->label : "reduce", (unsigned long long)v->count));
}

/* How the work is divided among items: a group or an item for each output; or an item for one column or for
 * several. */
typedef enum reduce_form { FORM_GROUP, FORM_COLUMN_FLAT, FORM_COLUMN_LANE, FORM_ROW } reduce_form;
/* In lane style: the smallest number of columns of an item; the wanted number of groups per compute unit;
 * the number of rows that are read side by side if a tile is only a part of each row. */
#define MIN_TILE 64
#define GROUPS_PER_UNIT 8
#define ROWS_OF_TILES 8

static uint64_t reduce_tile(const ocl_device_desc *device, const reduce_view *v)
{
    uint64_t units = device->compute_units ? device->compute_units : 1, tile = MAX_TILE;
    while (tile > MIN_TILE &&
           clt_div_up(v->kept[2], tile) * v->kept[1] * v->kept[0] < units * GROUPS_PER_UNIT)
        tile /= 2;
    return tile;
}

typedef struct reduce_launch {
    reduce_form form;
    uint64_t local, tile; /* items of a work-group; columns of an item */
} reduce_launch;

static clt_status reduce_divide(ocl_emitter *e, const reduce_view *v, reduce_form form, reduce_launch *l)
{
    *l = (reduce_launch){.form = form, .local = 1};
    if (form == FORM_ROW)
        return clt_tuned_items(e, "local", clt_local_rows(e->device, v->kept[2]), &l->local);
    if (form == FORM_GROUP)
        return clt_tuned_items(e, "items", clt_local_group(e->device, v->count), &l->local);
    if (form == FORM_COLUMN_LANE)
        l->tile = (uint64_t)ocl_tuned(e, "tile", (int)reduce_tile(e->device, v));
    return CLT_OK;
}

static void reduce_define(ocl_emitter *e, const reduce_view *v, reduce_launch *l)
{
    ocl_define(e, "MAX", v->kind == REDUCE_MAX);
    if (l->form == FORM_GROUP) {
        ocl_define(e, "WG", (int64_t)l->local);
    } else if (l->form == FORM_COLUMN_LANE) {
        l->local = clt_define_group(e, CLT_STYLE_LANE);
        ocl_define(e, "ROWS", l->tile >= v->kept[2] ? 1 : ROWS_OF_TILES);
    } else if (l->form == FORM_COLUMN_FLAT) {
        l->tile = l->local = clt_define_group(e, CLT_STYLE_FLAT);
    }
}

static void reduce_end(ocl_emitter *e, const reduce_view *v, const reduce_launch *l, double flops)
{
    uint64_t items = v->outputs;
    if (l->form == FORM_GROUP)
        items *= l->local;
    if (l->tile) {
        ocl_arg_u32(e, (uint32_t)l->tile);
        items = clt_div_up(v->kept[2], l->tile) * v->kept[1] * v->kept[0] * l->local;
    }
    ocl_kernel_end_1d(e, items, l->local, flops);
}

static const char *const forward_kernels[] = {"reduce_fwd_group", "reduce_fwd_column", "reduce_fwd_column",
                                              "reduce_fwd_row"};
static const char *const backward_kernels[] = {"reduce_bwd_group", "reduce_bwd_column", "reduce_bwd_column",
                                               "reduce_bwd_row"};

static clt_status reduce_forward(ocl_emitter *e, const clt_call *call, reduce_form form)
{
    reduce_view v = reduce_look(call);
    bool index = v.kind == REDUCE_MAX && call->saved[0] >= 0; /* not saved by plans without backward */
    reduce_launch l;
    CLT_TRY(reduce_divide(e, &v, form, &l));
    ocl_kernel_begin(e, "reduce", forward_kernels[form]);
    reduce_define(e, &v, &l);
    ocl_define(e, "INDEX", index);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_arg_out_of(e, call, call->out[0], v.outputs);
    if (index)
        ocl_arg_out(e, call->saved[0], CLT_U32, v.outputs);
    clt_arg_in_of(e, call, call->in[0], v.outputs * v.count);
    reduce_shape_args(e, &v);
    reduce_end(e, &v, &l, (double)v.outputs * (double)v.count);
    return CLT_OK;
}

static clt_status reduce_backward(ocl_emitter *e, const clt_call *call, reduce_form form)
{
    if (call->din[0] < 0)
        return CLT_OK;
    reduce_view v = reduce_look(call);
    reduce_launch l;
    CLT_TRY(reduce_divide(e, &v, form, &l));
    ocl_kernel_begin(e, "reduce", backward_kernels[form]);
    reduce_define(e, &v, &l);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    bool lane = form == FORM_COLUMN_LANE || (form == FORM_ROW && v.reduced_stride[2] == 1);
    /* the contiguous dimension: aligned if its size is a multiple of the vector */
    uint64_t inner = form == FORM_ROW ? v.reduced[2] : v.kept[2];
    if (lane)
        clt_define_stores(e, CLT_STYLE_LANE, clt_call_dtype(call, call->din[0]), v.outputs * v.count,
                          call->din_accumulate[0] || inner % 16 != 0);
    clt_arg_grad_of(e, call, call->din[0], v.outputs * v.count, call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], v.outputs);
    if (v.kind == REDUCE_MAX)
        ocl_arg_in(e, call->saved[0], CLT_U32, v.outputs);
    reduce_shape_args(e, &v);
    double adds = call->din_accumulate[0] ? (double)v.outputs * (double)v.count : 0.0;
    reduce_end(e, &v, &l, adds + (double)v.outputs);
    return CLT_OK;
}

static bool accepts_inner(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    reduce_view v = reduce_look(problem);
    (void)device;
    if (v.inner_kept)
        snprintf(reason, size, "the innermost dimension is kept");
    return !v.inner_kept;
}

static bool accepts_column(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)device;
    reduce_view v = reduce_look(problem);
    if (!v.inner_kept)
        snprintf(reason, size, "the innermost dimension is reduced");
    return v.inner_kept;
}

static const ocl_tunable group_tunables[] = {CLT_TUNABLE_ITEMS, {0}};
static const ocl_tunable lane_tunables[] = {{"tile", 5, {64, 128, 256, 512, MAX_TILE}}, {0}};
static const ocl_tunable row_tunables[] = {CLT_TUNABLE_LOCAL, {0}};
#define REDUCE_VARIANT(direction, word, form, caps, accept, tuned, written, kind)                            \
    static clt_status direction##_##word(ocl_emitter *e, const void *call)                                   \
    {                                                                                                        \
        return direction(e, call, form);                                                                     \
    }                                                                                                        \
    static const ocl_variant direction##_variant_##word = {#word,   caps, accept, tuned, direction##_##word, \
                                                           written, kind};
#define REDUCE_VARIANTS(direction)                                                                           \
    REDUCE_VARIANT(direction, group, FORM_GROUP, OCL_CAP_LOCAL, accepts_inner, group_tunables, 0,            \
                   OCL_KERNEL_GROUPS)                                                                        \
    REDUCE_VARIANT(direction, flat, FORM_COLUMN_FLAT, 0, accepts_column, NULL, 0, OCL_KERNEL_GROUPS)         \
    REDUCE_VARIANT(direction, lane, FORM_COLUMN_LANE, 0, accepts_column, lane_tunables,                      \
                   OCL_CAP_WIDE_VECTORS, OCL_KERNEL_ANY)                                                     \
    REDUCE_VARIANT(direction, row, FORM_ROW, 0, NULL, row_tunables, OCL_CAP_WIDE_VECTORS, OCL_KERNEL_ANY)    \
    static const ocl_variant *const direction##_variants[] = {                                               \
        &direction##_variant_group, &direction##_variant_flat, &direction##_variant_lane,                    \
        &direction##_variant_row, NULL};
REDUCE_VARIANTS(reduce_forward)
REDUCE_VARIANTS(reduce_backward)

static const char *reduce_fwd_problem(const void *problem, char *buffer, size_t size)
{
    static const char *const kinds[] = {"sum", "mean", "max"};
    const clt_call *call = problem;
    reduce_view v = reduce_look(call);
    snprintf(buffer, size, "outer=%llu kept=%llu reduced=%llu %s %s%s",
             (unsigned long long)(v.kept[0] * v.kept[1]), (unsigned long long)v.kept[2],
             (unsigned long long)v.count, clt_dtype_name(clt_call_dtype(call, call->in[0])), kinds[v.kind],
             v.inner_kept ? " +columns" : "");
    return buffer;
}

static const char *reduce_bwd_problem(const void *problem, char *buffer, size_t size)
{
    const clt_call *call = problem;
    reduce_fwd_problem(problem, buffer, size);
    size_t length = strlen(buffer);
    snprintf(buffer + length, size - length, " dy:%s", clt_dtype_name(clt_call_dtype(call, call->dout[0])));
    return buffer;
}

CLT_OP_DOC(
    reduce,
    .text = "The sum, the mean or the largest of the elements along some dimensions, the batch never among "
            "them: pooling over a sequence, for instance.",
    .inputs = "x: (N,...), f32, f16 or bf16",
    .output = "y: x without these dimensions, or with size 1 there (keepdims), type of x",
    .example = "{\"op\": \"reduce\", \"kind\": \"mean\", \"axes\": [1]}",
    .before = "{\"op\": \"embedding\", \"vocab\": 256, \"dim\": 32}, ",
    .after = ", {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}", .data = CLT_DOC_WORDS);

CLT_OP_DEFINE(reduce, "y = sum, mean or max of x over axes", 1, 1, CLT_OP_ATTRS(reduce_attrs),
              .flags = CLT_OP_WIDE, .infer = reduce_infer,
              .forward = {.variants = reduce_forward_variants,
                          .name = "reduce.forward",
                          .sources = "reduce",
                          .variable = "CLTRAIN_REDUCE",
                          .problem = reduce_fwd_problem,
                          .flops = clt_rows_flops,
                          .describe = clt_op_fwd_describe},
              .backward = {.variants = reduce_backward_variants,
                           .name = "reduce.backward",
                           .sources = "reduce",
                           .variable = "CLTRAIN_REDUCE",
                           .problem = reduce_bwd_problem,
                           .flops = clt_rows_flops,
                           .describe = clt_op_bwd_describe});
