/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss cross_entropy, softmax included. Knows rows of logits and integer targets, no model. */
#include "engine/ops/cross_entropy/cross_entropy.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/loss.h"

/* cross_entropy: loss = -sum_c w_c q_c log softmax(x)_c, q = (1 - s) h + s / C, h = onehot(target), or with
 *         mixed targets h = share * onehot(target) + (1 - share) * onehot(second); w = class_weights, or 1
 * shapes  x (N,...,P), target (N,...), or x (N,P,...), target (N,...), where x lies channels-last in memory;
 *         second as target, share (N) -> record (4); saves stats (R,2) = {max, sum exp(x - max)}
 *         the first C = classes of P logits count; the others have no probability and a gradient of zero
 * dtypes  x f32|f16|bf16; target, second u8|u16|i32; share f32; arithmetic f32
 * grads   dx = weight/normaliser * loss_scale * (softmax(x) sum(w q) - w q): write or accumulate. The
 *         normaliser is the number of targets that count, or with class_weights and without mixed targets
 *         the sum of their weights
 * memory  workspace 12*R bytes                                  units   loss in nats
 * errors  CLT_ESHAPE: types, not one target per row, axis neither 1 nor the last; a target out of range (the
 *         loader refuses it) gives NaN
 * source  torch.nn.functional.cross_entropy, mean over counted targets; mixed targets are its probabilities,
 *         whose mean is over their number with weights, too
 * tested  verify -t 'cross_entropy*', tol 8 */

static const clt_attr_spec cross_entropy_attrs[] = {
    CLT_CROSS_ENTROPY_ATTRS,
    CLT_SPEC_OPEN(FLOATS, CLT_CLASS_WEIGHTS, 0, 1e6,
                  "a list, one number for each class: its weight; the mean is divided by the sum of the "
                  "targets' weights; not set: all are 1"),
};

static clt_attr *axis_of(clt_node *node)
{
    return &node->attr[clt_node_attr(node, "axis") - node->attr];
}

static bool is_without(const clt_shape *target, const clt_shape *x, int dim)
{
    bool same = target->ndim == x->ndim - 1;
    for (int i = 0; same && i < target->ndim; i++)
        same = target->dim[i] == x->dim[i + (i >= dim)];
    return same;
}

/* Sets axis to 1 or -1. */
static clt_status choose_axis(clt_infer *ctx, const clt_shape *x, const clt_shape *target)
{
    clt_attr *axis = axis_of(ctx->node);
    if (axis->set && axis->i != 1 && axis->i != -1 && axis->i != x->ndim - 1)
        return clt_infer_fail(ctx,
                              "\"axis\": %lld, but the classes of logits are dimension 1 or the last one, -1",
                              (long long)axis->i);
    bool last = x->ndim < 3 || is_without(target, x, x->ndim - 1) || !is_without(target, x, 1);
    if (axis->set)
        last = x->ndim < 3 || axis->i != 1;
    axis->i = last ? -1 : 1;
    return CLT_OK;
}

clt_shape clt_cross_entropy_shape(const clt_node *node, const clt_shape *x)
{
    clt_shape shape = *x;
    if (clt_node_attr(node, "axis")->i != 1)
        return shape;
    for (int i = 1; i + 1 < x->ndim; i++)
        shape.dim[i] = x->dim[i + 1];
    shape.dim[x->ndim - 1] = x->dim[1];
    return shape;
}

static clt_layout cross_entropy_layout(const clt_node *node, const ocl_device_desc *device)
{
    (void)device;
    return clt_node_attr(node, "axis")->i == 1 ? CLT_LAYOUT_CHANNELS_LAST : CLT_LAYOUT_ROW_MAJOR;
}

static bool is_class_type(clt_dtype type)
{
    return type == CLT_U8 || type == CLT_U16 || type == CLT_I32;
}

static clt_status check_mixed(clt_infer *ctx, int64_t classes)
{
    const clt_attr *ignore = clt_node_attr(ctx->node, "ignore_index");
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    if (ctx->node->n_in == 3)
        return clt_infer_fail(ctx,
                              "mixed targets are two inputs, the second targets and the share of the first "
                              "ones in each sample");
    const clt_tensor *t = clt_infer_in(ctx, 1), *second = clt_infer_in(ctx, 2), *share = clt_infer_in(ctx, 3);
    if (!clt_shape_equal(&t->shape, &second->shape) || t->dtype != second->dtype)
        return clt_infer_fail(
            ctx, "the second targets '%s' are %s of %s; they must be like the first ones, %s of %s",
            second->name, clt_shape_text(&second->shape, a, sizeof a), clt_dtype_name(second->dtype),
            clt_shape_text(&t->shape, b, sizeof b), clt_dtype_name(t->dtype));
    if (share->dtype != CLT_F32 || clt_shape_elements(&share->shape) != t->shape.dim[0])
        return clt_infer_fail(ctx, "the share '%s' is %s of %s; it must be one f32 number for each sample",
                              share->name, clt_shape_text(&share->shape, a, sizeof a),
                              clt_dtype_name(share->dtype));
    clt_infer_bound(ctx, 2, classes, ignore->set, ignore->i);
    return CLT_OK;
}

static int64_t cross_entropy_classes(const clt_node *node, const clt_shape *x)
{
    int64_t classes = clt_node_attr(node, "classes")->i;
    return classes > 0 ? classes : clt_shape_last(x);
}

clt_status clt_cross_entropy_infer(clt_infer *ctx, const clt_shape *logits)
{
    const clt_tensor *t = clt_infer_in(ctx, 1);
    char xs[CLT_SHAPE_TEXT], ts[CLT_SHAPE_TEXT];
    CLT_TRY(choose_axis(ctx, logits, &t->shape));
    const clt_shape memory = clt_cross_entropy_shape(ctx->node, logits), *x = &memory;
    if (!is_class_type(t->dtype))
        return clt_infer_fail(
            ctx,
            "target '%s' has type %s; class numbers must be u8, u16 or i32; for targets that "
            "are numbers use the loss mse (or l1)",
            t->name, clt_dtype_name(t->dtype));
    int64_t rows = clt_shape_rows(x);
    if (x->ndim > 2 && t->shape.ndim == 1 && t->shape.dim[0] == x->dim[0] && rows != x->dim[0])
        return clt_infer_fail(
            ctx,
            "logits %s need one target per row, but '%s' has one per sample; to classify "
            "samples of several dimensions put {\"op\": \"flatten\"} before the first linear "
            "layer",
            clt_shape_text(logits, xs, sizeof xs), t->name);
    if (x->ndim < 2 || clt_shape_elements(&t->shape) != rows || t->shape.dim[0] != x->dim[0])
        return clt_infer_fail(
            ctx,
            "logits %s need one target per row of classes, which are the last dimension or, "
            "of images and volumes, dimension 1; but '%s' is %s",
            clt_shape_text(logits, xs, sizeof xs), t->name, clt_shape_text(&t->shape, ts, sizeof ts));
    int64_t per_sample = rows / x->dim[0], classes = cross_entropy_classes(ctx->node, x);
    if (classes > clt_shape_last(x))
        return clt_infer_fail(ctx, "\"classes\": %lld, but a row has %lld logits", (long long)classes,
                              (long long)clt_shape_last(x));
    const clt_attr *ignore = clt_node_attr(ctx->node, "ignore_index");
    clt_infer_bound(ctx, 1, classes, ignore->set, ignore->i);
    if (ctx->node->n_in > 2)
        CLT_TRY(check_mixed(ctx, classes));
    return clt_infer_loss(ctx, clt_node_attr(ctx->node, "weight")->f, 1, ignore->set, ignore->i, per_sample);
}

/* Declares the weights of classes. For targets that are class numbers the normaliser is the sum of their
 * weights. Mixed targets are probabilities; each counts as one. */
static clt_status infer_weights(clt_infer *ctx, int64_t classes)
{
    clt_loss *loss = &ctx->graph->losses[ctx->node->loss];
    CLT_TRY(clt_infer_class_weights(ctx, classes));
    if (ctx->node->constant < 0 || ctx->node->n_in > 2)
        return CLT_OK;
    loss->class_weights = clt_graph_tensor(ctx->graph, ctx->node->constant)->values;
    loss->n_classes = classes;
    return CLT_OK;
}

static clt_status cross_entropy_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape x = clt_infer_in(ctx, 0)->shape;
    CLT_TRY(clt_cross_entropy_infer(ctx, &x));
    x = clt_cross_entropy_shape(ctx->node, &x);
    CLT_TRY(infer_weights(ctx, cross_entropy_classes(ctx->node, &x)));
    clt_shape stats = clt_shape2(clt_shape_rows(&x), 2);
    return clt_infer_saved(ctx, "stats", CLT_F32, &stats);
}

static float mean_weight(const clt_call *call, int64_t classes)
{
    const float *weights = clt_graph_tensor(call->graph, call->constant)->values;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++)
        sum += (double)weights[c];
    return (float)(sum / (double)classes);
}

clt_cross_entropy clt_cross_entropy_make(const clt_call *call, const clt_shape *x, clt_dtype dtype)
{
    clt_cross_entropy s = {.call = call,
                           .logits = call->in[0],
                           .target = call->in[1],
                           .second = call->node->n_in > 2 ? call->in[2] : -1,
                           .share = call->node->n_in > 2 ? call->in[3] : -1,
                           .out = -1,
                           .stats = call->saved[0],
                           .rows = (uint64_t)clt_shape_rows(x),
                           .cols = (uint64_t)cross_entropy_classes(call->node, x),
                           .stride = (uint64_t)clt_shape_last(x),
                           .weights = call->constant,
                           .mean_weight = 1,
                           .dtype = dtype,
                           .target_dtype = clt_call_dtype(call, call->in[1])};
    s.per_sample = (int64_t)s.rows / x->dim[0];
    if (s.weights >= 0)
        s.mean_weight = mean_weight(call, (int64_t)s.cols);
    return s;
}

static clt_cross_entropy cross_entropy_all(const clt_call *call)
{
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    clt_shape shape = clt_cross_entropy_shape(call->node, &x->shape);
    return clt_cross_entropy_make(call, &shape, x->dtype);
}

static void cross_entropy_define(ocl_emitter *e, const clt_cross_entropy *s)
{
    clt_define_dtype(e, "DT", s->dtype);
    clt_define_dtype(e, "TT", s->target_dtype);
    ocl_define(e, "MIXED", s->second >= 0);
    ocl_define(e, "WEIGHTED", s->weights >= 0);
    ocl_define(e, "HAS_IGNORE", clt_node_attr(s->call->node, "ignore_index")->set);
    ocl_define(e, "SMOOTH", clt_node_attr(s->call->node, "label_smoothing")->f > 0.0);
}

/* Adds as an argument the part of a per-row tensor of the micro-batch that belongs to these rows. */
static void cross_entropy_rows_arg(ocl_emitter *e, const clt_cross_entropy *s, ocl_access access,
                                   int32_t tensor, clt_dtype dtype, uint64_t per_row)
{
    ocl_tensor_ref ref = {tensor, s->first * per_row * clt_dtype_bytes(dtype)};
    ocl_arg_tensor(e, access, ref, dtype, s->rows * per_row);
}

/* Adds the targets of these rows, the second targets with their shares, and the weights of the classes. */
static void cross_entropy_target_args(ocl_emitter *e, const clt_cross_entropy *s)
{
    cross_entropy_rows_arg(e, s, OCL_READ, s->target, s->target_dtype, 1);
    if (s->second >= 0) {
        cross_entropy_rows_arg(e, s, OCL_READ, s->second, s->target_dtype, 1);
        ocl_arg_in(e, s->share, CLT_F32, (uint64_t)clt_call_elements(s->call, s->share));
    }
    if (s->weights >= 0) {
        ocl_arg_in(e, s->weights, CLT_F32, s->cols);
        ocl_arg_f32(e, s->mean_weight);
    }
}

/* Adds the arguments that come last in forward; in backward cross_entropy_loss_args() follows. */
static void cross_entropy_size_args(ocl_emitter *e, const clt_cross_entropy *s)
{
    const clt_node *node = s->call->node;
    ocl_arg_u64(e, s->rows);
    clt_arg_size32(e, (int64_t)s->cols, "classes");
    clt_arg_size32(e, (int64_t)s->stride, "logits");
    clt_arg_size32(e, s->per_sample, "targets per sample");
    ocl_arg_i32(e, (int32_t)clt_node_attr(node, "ignore_index")->i);
    ocl_arg_f32(e, (float)clt_node_attr(node, "label_smoothing")->f);
    ocl_arg_u64(e, s->first);
}

static void cross_entropy_loss_args(ocl_emitter *e, const clt_call *call)
{
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "weight")->f);
    ocl_arg_u32(e, (uint32_t)call->node->loss);
}

static void cross_entropy_end(ocl_emitter *e, const clt_cross_entropy *s, uint64_t wg, double flops)
{
    if (wg)
        ocl_kernel_end_1d(e, s->rows * wg, wg, flops);
    else
        ocl_kernel_end_items(e, s->rows, clt_local_rows(e->device, s->rows), flops);
}

/* A group holds a row of 16-bit logits in registers where they have room for it, so that memory is read once
 * and not two or three times: rows of a vocabulary are too long for caches. An item holds at most this
 * number of vectors of four, two registers each: half of the registers that an item of an NVIDIA device can
 * have. */
#define HELD_QUADS 56
#define HELD_FORM "held"

/* Vectors that an item holds; 0: memory is read again in every pass. */
static uint64_t cross_entropy_held(const ocl_emitter *e, const clt_cross_entropy *s, uint64_t wg)
{
    uint64_t quads = wg > 0 ? clt_div_up(s->cols / 4, wg) : 0;
    bool fits = clt_dtype_bytes(s->dtype) == 2 && s->stride % 4 == 0 && quads <= HELD_QUADS;
    bool refused = e->made_by != NULL && ocl_is_given_up(e->device, e->made_by, HELD_FORM);
    return (e->device->caps & OCL_CAP_PTX) && fits && !refused ? quads : 0;
}

/* Begins a kernel; wg: items of a group, 0: an item has a row. If a driver refuses a kernel whose items hold
 * rows, only that form is given up. */
static void cross_entropy_begin(ocl_emitter *e, const clt_cross_entropy *s, const char *kernel, uint64_t wg)
{
    uint64_t held = cross_entropy_held(e, s, wg);
    const char *outer = e->form;
    if (held > 0)
        e->form = HELD_FORM;
    ocl_kernel_begin(e, "cross_entropy", kernel);
    e->form = outer;
    cross_entropy_define(e, s);
    if (wg > 0)
        ocl_define(e, "WG", (int64_t)wg);
    if (held > 0)
        ocl_define(e, "HELD", (int64_t)held);
}

void clt_emit_cross_entropy(ocl_emitter *e, const clt_cross_entropy *s, bool group)
{
    uint64_t wg = group ? clt_local_group(e->device, s->cols) : 0;
    cross_entropy_begin(e, s, group ? "cross_entropy_fwd_group" : "cross_entropy_fwd_row", wg);
    cross_entropy_rows_arg(e, s, OCL_WRITE, s->out, CLT_F32, 3);
    ocl_arg_out(e, s->stats, CLT_F32, 2 * s->rows);
    ocl_arg_in(e, s->logits, s->dtype, s->rows * s->stride);
    cross_entropy_target_args(e, s);
    clt_arg_step(e, s->call);
    cross_entropy_size_args(e, s);
    cross_entropy_end(e, s, wg, 4.0 * (double)(s->rows * s->cols));
}

void clt_emit_cross_entropy_in_place(ocl_emitter *e, const clt_cross_entropy *s, bool group)
{
    uint64_t wg = group ? clt_local_group(e->device, s->cols) : 0;
    cross_entropy_begin(e, s, group ? "cross_entropy_bwd_record_group" : "cross_entropy_bwd_record_row", wg);
    ocl_define(e, "KEEP_EXP", s->dtype == CLT_F32);
    ocl_arg_inout(e, s->logits, s->dtype, s->rows * s->stride);
    cross_entropy_rows_arg(e, s, OCL_WRITE, s->out, CLT_F32, 3);
    cross_entropy_rows_arg(e, s, OCL_READ, s->target, s->target_dtype, 1);
    clt_arg_step(e, s->call);
    clt_arg_loss_scale(e, s->call);
    cross_entropy_size_args(e, s);
    cross_entropy_loss_args(e, s->call);
    cross_entropy_end(e, s, wg, 6.0 * (double)(s->rows * s->cols));
}

static clt_status cross_entropy_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    clt_cross_entropy s = cross_entropy_all(call);
    s.out = ocl_workspace(e, CLT_F32, 3 * s.rows, "cross_entropy.rows");
    clt_emit_cross_entropy(e, &s, group);
    clt_emit_loss_record(e, call, s.out, (int64_t)s.rows);
    return CLT_OK;
}
static clt_status cross_entropy_backward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    if (call->din[0] < 0)
        return CLT_OK;
    clt_cross_entropy s = cross_entropy_all(call);
    uint64_t elements = s.rows * s.stride;
    clt_dtype dx_dtype = clt_call_dtype(call, call->din[0]);
    ocl_kernel_begin(e, "cross_entropy", by_row ? "cross_entropy_bwd_row" : "cross_entropy_bwd_flat");
    cross_entropy_define(e, &s);
    clt_define_dtype(e, "GT", dx_dtype);
    clt_define_wide(e, elements);
    ocl_arg_grad(e, call->din[0], dx_dtype, elements, call->din_accumulate[0]);
    ocl_arg_in(e, s.logits, s.dtype, elements);
    cross_entropy_target_args(e, &s);
    ocl_arg_in(e, s.stats, CLT_F32, 2 * s.rows);
    clt_arg_step(e, call);
    clt_arg_loss_scale(e, call);
    cross_entropy_size_args(e, &s);
    cross_entropy_loss_args(e, call);
    if (by_row)
        ocl_kernel_end_items(e, s.rows, clt_local_rows(e->device, s.rows), 4.0 * (double)elements);
    else
        ocl_kernel_end_items(e, elements, clt_local_flat(e->device), 4.0 * (double)elements);
    return CLT_OK;
}
CLT_GROUP_ROW_VARIANTS(cross_entropy_forward, NULL, NULL)
CLT_FLAT_ROW_VARIANTS(cross_entropy_backward)

CLT_OP_DOC(
    cross_entropy,
    .text = "The loss of a classifier, softmax included: give it logits, not probabilities. Accuracy counts "
            "the rows whose largest logit is the target's. For segmentation the logits are images or volumes "
            "whose channels are the classes, and a target is a mask. For mixup and cutmix each sample has "
            "two targets: the loss is share * loss(target) + (1 - share) * loss(second); if the second "
            "target is ignored, only the first counts. class_weights make up for rare classes, as PyTorch's "
            "weight does: each class's term of the loss is multiplied by its weight, and the mean is divided "
            "by the sum of the targets' weights (for mixed targets, by their number).",
    .inputs = "x: logits (N,...,C), or (N,C,...) with a target for each position, f32, f16 or bf16\n"
              "target: a field of the data with one class number for each row, u8, u16 or i32\n"
              "second: shape and type of target; optional\n"
              "share: (N), f32, of target in a sample; with second",
    .example = "{\"op\": \"cross_entropy\", \"label_smoothing\": 0.1}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 10}, ", .after = "");

CLT_OP_DEFINE(cross_entropy, "loss = -sum q log softmax(x), q = smoothed one-hot target", 2, 4,
              CLT_OP_ATTRS(cross_entropy_attrs), .flags = CLT_OP_LOSS | CLT_OP_CORRECT,
              .layout = cross_entropy_layout, .infer = cross_entropy_infer, CLT_OP_VARIANTS(cross_entropy),
              .no_grad_inputs = 2 | 4 | 8, .in_place_inputs = 1, .with_gemm = &clt_op_linear_cross_entropy);
