/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss dice_loss of segmentation. Knows voxels with logits and class numbers, no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/loss/loss.h"
#include "engine/ops/spatial/spatial.h"

/* dice_loss: loss of a sample = mean over classes of w (1 - (2 sum(p t) + s) / (sum(p) + sum(t) + s)), sums
 *         over its voxels; w = class_weights or 1, p = softmax or sigmoid of x, t = onehot(target);
 *         squared_pred: sum(p^2) instead of sum(p)
 * shapes  x (N,C,...), channels-last in memory, target (N,...) -> record (4); saves slope (N,C,2), the
 *         derivatives with respect to sum(p) and sum(p t). With C = 1 the target is 0 or 1
 * dtypes  x f32|f16|bf16; target u8|u16|i32; arithmetic f32
 * grads   dx: write or accumulate; the mean is over the samples of the global batch          units   none
 * memory  workspace 12*N*C*blocks + 4*N*C + 12*N bytes, blocks <= 1024
 * errors  CLT_ESHAPE: types, not one target per voxel, more than 256 classes; a target out of range
 *         (which the loader refuses) gives NaN
 * source  Milletari, Navab & Ahmadi 2016, arXiv:1606.04797; as monai.losses.DiceLoss with
 *         smooth_nr = smooth_dr, but class_weights also has a number for an excluded background
 * tested  verify -t 'dice_loss*', tol 64 */

enum { DICE_SOFTMAX, DICE_SIGMOID }; /* choices of `activation` */

static const clt_attr_spec dice_attrs[] = {
    CLT_SPEC_CHOICE("activation", DICE_SOFTMAX, "softmax|sigmoid",
                    "the function that turns logits into probabilities"),
    CLT_SPEC_BOOL("include_background", true, "class 0 counts, too"),
    CLT_SPEC_BOOL("squared_pred", false, "sums squares of the probabilities in the denominator"),
    CLT_SPEC_FLOAT("smooth", 1e-5, 0, 1e6, "added to numerator and denominator"),
    CLT_SPEC_OPEN(INT, "ignore_index", -INT32_MAX, INT32_MAX,
                  "voxels of this value do not count; not set: all count"),
    CLT_SPEC_FLOAT("weight", 1, 0, 1e6, "factor of this loss"),
    CLT_SPEC_OPEN(FLOATS, CLT_CLASS_WEIGHTS, 0, 1e6,
                  "a list of one weight for each class, including one for the background, even if it does "
                  "not count; not set: all are 1"),
};

#define MAX_CLASSES 256
#define MIN_BLOCK 64 /* voxels */
#define MAX_BLOCKS 1024

static clt_status check_target(const clt_infer *ctx, const clt_shape *x)
{
    const clt_tensor *t = clt_infer_in(ctx, 1);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    if (t->dtype != CLT_U8 && t->dtype != CLT_U16 && t->dtype != CLT_I32)
        return clt_infer_fail(ctx, "target '%s' has type %s; class numbers must be u8, u16 or i32", t->name,
                              clt_dtype_name(t->dtype));
    if (t->shape.dim[0] != x->dim[0] || clt_shape_elements(&t->shape) * x->dim[1] != clt_shape_elements(x))
        return clt_infer_fail(ctx, "logits %s need one target for each position, but '%s' is %s",
                              clt_shape_text(x, a, sizeof a), t->name,
                              clt_shape_text(&t->shape, b, sizeof b));
    return CLT_OK;
}

static clt_status dice_loss_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape x = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    bool softmax = clt_node_attr(ctx->node, "activation")->choice == DICE_SOFTMAX;
    if (x.ndim < 3)
        return clt_infer_fail(ctx, "the logits %s are not images or volumes (samples, classes, ...)",
                              clt_shape_text(&x, text, sizeof text));
    CLT_TRY(check_target(ctx, &x));
    if (x.dim[1] > MAX_CLASSES)
        return clt_infer_fail(ctx, "%lld classes; there may be up to %d", (long long)x.dim[1], MAX_CLASSES);
    if (x.dim[1] == 1 && softmax)
        return clt_infer_fail(ctx, "the softmax of one channel is 1; use \"activation\": \"sigmoid\"");
    if (x.dim[1] == 1 && !clt_node_attr(ctx->node, "include_background")->b)
        return clt_infer_fail(
            ctx, "with one channel there is no background class; \"include_background\" must be true");
    const clt_attr *ignore = clt_node_attr(ctx->node, "ignore_index");
    clt_infer_bound(ctx, 1, x.dim[1] == 1 ? 2 : x.dim[1], ignore->set, ignore->i);
    clt_shape slope = clt_shape3(x.dim[0], x.dim[1], 2);
    CLT_TRY(clt_infer_saved(ctx, "slope", CLT_F32, &slope));
    CLT_TRY(clt_infer_class_weights(ctx, x.dim[1]));
    return clt_infer_loss(ctx, clt_node_attr(ctx->node, "weight")->f, 1, false, 0, 1);
}

typedef struct dice {
    const clt_call *call;
    uint64_t samples, classes, voxels; /* voxels of one sample */
    uint64_t blocks, block;            /* `blocks` blocks of `block` voxels for each sample */
} dice;

static dice measure(const clt_call *call)
{
    const clt_shape *x = &clt_call_tensor(call, call->in[0])->shape;
    dice d = {.call = call, .samples = (uint64_t)x->dim[0], .classes = (uint64_t)x->dim[1]};
    d.voxels = (uint64_t)clt_shape_elements(x) / (d.samples * d.classes);
    d.blocks = clt_div_up(d.voxels, MIN_BLOCK);
    d.blocks = d.blocks > MAX_BLOCKS ? MAX_BLOCKS : d.blocks;
    d.block = clt_div_up(d.voxels, d.blocks);
    d.blocks = clt_div_up(d.voxels, d.block);
    return d;
}

static void begin(ocl_emitter *e, const dice *d, const char *kernel)
{
    const clt_node *node = d->call->node;
    ocl_kernel_begin(e, "dice", kernel);
    clt_define_type_of(e, "DT", d->call, d->call->in[0]);
    clt_define_type_of(e, "TT", d->call, d->call->in[1]);
    ocl_define(e, "CLASSES", (int64_t)d->classes);
    ocl_define(e, "SIGMOID", clt_node_attr(node, "activation")->choice == DICE_SIGMOID);
    ocl_define(e, "SQUARED", clt_node_attr(node, "squared_pred")->b);
    ocl_define(e, "FIRST", !clt_node_attr(node, "include_background")->b);
    ocl_define(e, "HAS_IGNORE", clt_node_attr(node, "ignore_index")->set);
}

static void end(ocl_emitter *e, uint64_t items, double flops)
{
    ocl_kernel_end_items(e, items, clt_local_rows(e->device, items), flops);
}

static void arg_ignore(ocl_emitter *e, const dice *d)
{
    ocl_arg_i32(e, (int32_t)clt_node_attr(d->call->node, "ignore_index")->i);
}

/* Adds the logits and the targets as arguments. */
static void arg_inputs(ocl_emitter *e, const dice *d)
{
    clt_arg_in_of(e, d->call, d->call->in[0], d->samples * d->voxels * d->classes);
    clt_arg_in_of(e, d->call, d->call->in[1], d->samples * d->voxels);
}

static clt_status dice_forward_voxel(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    const dice d = measure(call);
    uint64_t parts = d.samples * d.blocks * d.classes * 3, terms = d.samples * d.classes;
    int32_t part = ocl_workspace(e, CLT_F32, parts, "dice.sums"),
            term = ocl_workspace(e, CLT_F32, terms, "dice.terms"),
            rows = ocl_workspace(e, CLT_F32, 3 * d.samples, "dice.rows");
    begin(e, &d, "dice_fwd_sums");
    ocl_arg_out(e, part, CLT_F32, parts);
    arg_inputs(e, &d);
    clt_arg_step(e, call);
    clt_arg_size32(e, (int64_t)d.samples, "samples");
    ocl_arg_u64(e, d.voxels);
    ocl_arg_u32(e, (uint32_t)d.blocks);
    ocl_arg_u64(e, d.block);
    arg_ignore(e, &d);
    end(e, d.samples * d.blocks, 8.0 * (double)(d.samples * d.voxels * d.classes));
    begin(e, &d, "dice_fwd_terms");
    ocl_define(e, "WEIGHTED", call->constant >= 0);
    ocl_arg_out(e, term, CLT_F32, terms);
    ocl_arg_out(e, call->saved[0], CLT_F32, 2 * terms);
    ocl_arg_in(e, part, CLT_F32, parts);
    if (call->constant >= 0)
        ocl_arg_in(e, call->constant, CLT_F32, d.classes);
    ocl_arg_u32(e, (uint32_t)d.samples);
    ocl_arg_u32(e, (uint32_t)d.blocks);
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "smooth")->f);
    end(e, terms, (double)parts);
    begin(e, &d, "dice_fwd_rows");
    ocl_arg_out(e, rows, CLT_F32, 3 * d.samples);
    ocl_arg_in(e, term, CLT_F32, terms);
    clt_arg_step(e, call);
    ocl_arg_u32(e, (uint32_t)d.samples);
    end(e, d.samples, (double)terms);
    clt_emit_loss_record(e, call, rows, (int64_t)d.samples);
    return CLT_OK;
}

static clt_status dice_backward_voxel(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    const dice d = measure(call);
    uint64_t elements = d.samples * d.voxels * d.classes;
    if (call->din[0] < 0)
        return CLT_OK;
    begin(e, &d, "dice_bwd");
    clt_define_type_of(e, "GT", call, call->din[0]);
    clt_arg_grad_of(e, call, call->din[0], elements, call->din_accumulate[0]);
    arg_inputs(e, &d);
    ocl_arg_in(e, call->saved[0], CLT_F32, 2 * d.samples * d.classes);
    clt_arg_step(e, call);
    clt_arg_loss_scale(e, call);
    ocl_arg_u32(e, (uint32_t)d.samples);
    ocl_arg_u64(e, d.voxels);
    arg_ignore(e, &d);
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "weight")->f);
    ocl_arg_u32(e, (uint32_t)call->node->loss);
    ocl_kernel_end_items(e, d.samples * d.voxels, clt_local_flat(e->device), 14.0 * (double)elements);
    return CLT_OK;
}
/* An item works on whole voxels, whose classes lie side by side, on every device. */
static const ocl_variant forward_voxel = {.name = "voxel", .emit = dice_forward_voxel};
static const ocl_variant backward_voxel = {.name = "voxel", .emit = dice_backward_voxel};
static const ocl_variant *const forward_variants[] = {&forward_voxel, NULL};
static const ocl_variant *const backward_variants[] = {&backward_voxel, NULL};

CLT_OP_DOC(
    dice_loss,
    .text = "The soft Dice loss of segmentation: it falls as the predicted regions overlap the regions of "
            "the mask more. The loss is the mean over samples and classes; class_weights multiply the loss "
            "of each class. Give it logits, not probabilities. Often used together with cross_entropy on the "
            "same logits.",
    .inputs =
        "x: logits (N,C,...), f32, f16 or bf16\ntarget: a field of the data with a class number for each "
        "position, u8, u16 or i32; 0 or 1 where C is 1",
    .example = "{\"op\": \"dice_loss\", \"include_background\": false}",
    .before = "{\"op\": \"conv2d\", \"out\": 3, \"kernel\": 3, \"padding\": 1}, ", .after = "",
    .data = CLT_DOC_MASKS);

CLT_OP_DEFINE(dice_loss, "loss = 1 - (2 sum(p t) + s) / (sum(p) + sum(t) + s), mean over samples and classes",
              2, 2, CLT_OP_ATTRS(dice_attrs), .flags = CLT_OP_LOSS, .infer = dice_loss_infer,
              .forward = {.variants = forward_variants}, .backward = {.variants = backward_variants},
              .layout = clt_spatial_layout, .no_grad_inputs = 2, .in_place_inputs = 1);
