/* SPDX-License-Identifier: Apache-2.0
 *
 * The op batch_norm for features, images and volumes, with the residual sum and the relu that may follow it.
 * Knows rows and channels, no model. Its running statistics are buffers (clt_param): a command of the
 * forward pass updates them, in training only. Where ranks share statistics (clt_call.ranks), forward
 * exchanges the moments of each rank's rows, and backward the two sums. */
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/norm/batch_norm_emit.h"
#include "engine/ops/norm/norm.h"
#include "engine/ops/norm/norm_shared.clh"
#include "engine/ops/spatial/spatial.h"

/* batch_norm: y = f((x - mean) * rstd * w + b + residual), rstd = 1 / sqrt(var + eps), mean and var over all
 *         but the channels, f none or relu
 * shapes  x (N,C) or (N,C,...), residual as x or none, w (C), b (C), running_mean (C), running_var (C) -> y
 *         as x; saves mean (C), rstd (C). With more dimensions than two x and y lie channels-last in memory
 * dtypes  x,y f32|f16|bf16; all else f32
 * grads   dx, dresidual, dw, db: write or accumulate     units   eps: square of x's unit
 *         The mask of relu is computed again from x, or with a residual from y, and not saved
 *         If the command that wrote x made the moments of x as well (clt_call.moments_of_input),
 *         forward takes these, and reads x once
 * memory  workspace: 8*C*(blocks + parts) + 12*C bytes, blocks <= 4096, parts <= 64; with ranks that share
 *         statistics 8*C*(ranks + 1) more
 * errors  CLT_ESHAPE for an integer x or one without channels, a residual of another shape or type;
 *         CLT_ECONFIG for training with one value per channel, of all ranks where they share statistics
 * source  Ioffe & Szegedy 2015, arXiv:1502.03167; running statistics as torch.nn.BatchNorm1d, 2d and 3d;
 *         shared by ranks: torch.nn.SyncBatchNorm, moments combined as by Chan, Golub & LeVeque 1979
 * tested  verify -t 'batch_norm*', tol 32; test_golden */

static const clt_attr_spec batch_norm_attrs[] = {
    CLT_NORM_EPS,
    CLT_SPEC_FLOAT("momentum", 0.1, 0, 1, "share of the batch in the new running statistics"),
    CLT_SPEC_BOOL("affine", true, "learn a factor and a shift per channel"),
    CLT_SPEC_CHOICE("activation", CLT_BATCH_NORM_NONE, "none|relu", "function applied to the result"),
};

static clt_status check_residual(clt_infer *ctx)
{
    const clt_tensor *x = clt_infer_in(ctx, 0), *residual = clt_infer_in(ctx, 1);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    if (clt_shape_equal(&x->shape, &residual->shape) && x->dtype == residual->dtype)
        return CLT_OK;
    return clt_infer_fail(ctx, "the residual '%s' is %s of %s; it must be like the first input, %s of %s",
                          residual->name, clt_shape_text(&residual->shape, a, sizeof a),
                          clt_dtype_name(residual->dtype), clt_shape_text(&x->shape, b, sizeof b),
                          clt_dtype_name(x->dtype));
}

static clt_status batch_norm_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx,
                              "the input %s has no channels; it must be (samples, channels), or images or "
                              "volumes (samples, channels, ...)",
                              clt_shape_text(&shape, text, sizeof text));
    if (ctx->node->n_in > 1)
        CLT_TRY(check_residual(ctx));
    clt_shape channels = clt_shape1(shape.dim[1]);
    const clt_init zeros = {CLT_INIT_ZEROS, 0.0f, 0, 0}, ones = {CLT_INIT_ONES, 0.0f, 0, 0};
    if (clt_node_attr(ctx->node, "affine")->b) {
        CLT_TRY(clt_infer_param(ctx, "weight", &channels, ones));
        CLT_TRY(clt_infer_param(ctx, "bias", &channels, zeros));
    }
    CLT_TRY(clt_infer_buffer(ctx, "running_mean", &channels, zeros, true));
    CLT_TRY(clt_infer_buffer(ctx, "running_var", &channels, ones, true));
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape));
    CLT_TRY(clt_infer_saved(ctx, "mean", CLT_F32, &channels));
    return clt_infer_saved(ctx, "rstd", CLT_F32, &channels);
}

/* Statistics of a batch: mean and rstd, which the call saves, and the variance, which is unbiased if several
 * ranks share the statistics. */
typedef struct moments {
    int32_t mean, rstd, var;
} moments;

/* Emits the update of the running statistics. */
static void emit_running(ocl_emitter *e, clt_batch_norm *n, const moments *of)
{
    clt_bn_begin(e, n, "batch_norm_running");
    ocl_arg_inout(e, n->running_mean, CLT_F32, n->cols);
    ocl_arg_inout(e, n->running_var, CLT_F32, n->cols);
    ocl_arg_in(e, of->mean, CLT_F32, n->cols);
    ocl_arg_in(e, of->var, CLT_F32, n->cols);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u32(e, (uint32_t)n->tile);
    ocl_arg_f32(e, (float)clt_node_attr(n->call->node, "momentum")->f);
    ocl_arg_f32(e, n->ranks > 1 ? 1.0f : (float)((double)n->rows / (double)(n->rows - 1)));
    clt_bn_end_channels(e, n, 8.0);
}

/* The moments of blocks of rows, as arguments of the kernels that combine them. */
typedef struct block_moments {
    int32_t mean, square; /* f32 (count, C) */
    int32_t counts;       /* rows of each block; -1: `rows`, or fewer in the last block */
    uint64_t count, rows;
} block_moments;

static void arg_sizes(ocl_emitter *e, const clt_batch_norm *n, const block_moments *of)
{
    if (of->counts >= 0)
        ocl_define(e, "COUNTED", 1);
    ocl_arg_in(e, of->mean, CLT_F32, of->count * n->cols);
    ocl_arg_in(e, of->square, CLT_F32, of->count * n->cols);
    if (of->counts >= 0)
        ocl_arg_in(e, of->counts, CLT_F32, of->count);
    ocl_arg_u64(e, n->rows);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, of->rows);
    ocl_arg_u64(e, of->count);
}

/* Combines the moments of many blocks into moments of parts; returns moments of few blocks as they are. */
static block_moments emit_combine(ocl_emitter *e, clt_batch_norm *n, const block_moments *of)
{
    uint64_t span = clt_bn_span_of(of->count), parts = clt_div_up(of->count, span);
    if (span == 1)
        return *of;
    block_moments to = {.mean = ocl_workspace(e, CLT_F32, parts * n->cols, "means of parts"),
                        .square = ocl_workspace(e, CLT_F32, parts * n->cols, "squares of parts"),
                        .counts = of->counts,
                        .count = parts,
                        .rows = of->rows * span};
    if (of->counts >= 0)
        to.counts = ocl_workspace(e, CLT_F32, parts, "rows of parts");
    clt_bn_begin(e, n, "batch_norm_combine");
    ocl_arg_out(e, to.mean, CLT_F32, parts * n->cols);
    ocl_arg_out(e, to.square, CLT_F32, parts * n->cols);
    if (of->counts >= 0)
        ocl_arg_out(e, to.counts, CLT_F32, parts);
    arg_sizes(e, n, of);
    ocl_arg_u64(e, span);
    ocl_arg_u32(e, (uint32_t)n->tile);
    clt_bn_end_parts(e, n, parts, 7.0 * (double)of->count);
    return to;
}

static void arg_moments(ocl_emitter *e, const clt_batch_norm *n, const moments *of)
{
    ocl_arg_out(e, of->mean, CLT_F32, n->cols);
    ocl_arg_out(e, of->rstd, CLT_F32, n->cols);
    ocl_arg_out(e, of->var, CLT_F32, n->cols);
}

/* Exchanges this rank's record and emits the statistics over the rows of all ranks. */
static void emit_shared_stats(ocl_emitter *e, clt_batch_norm *n, int32_t record, const moments *of)
{
    int32_t all = clt_bn_exchange(e, n, record);
    clt_bn_begin(e, n, "batch_norm_records_stats");
    arg_moments(e, n, of);
    clt_bn_arg_records(e, n, all);
    ocl_arg_f32(e, (float)clt_node_attr(n->call->node, "eps")->f);
    clt_bn_end_channels(e, n, 7.0 * (double)n->ranks + 6.0);
}

static int32_t emit_record(ocl_emitter *e, clt_batch_norm *n, const block_moments *own)
{
    int32_t record = clt_bn_new_record(e, n);
    clt_bn_begin(e, n, "batch_norm_record");
    ocl_arg_out(e, record, CLT_F32, clt_bn_record_words(n));
    arg_sizes(e, n, own);
    ocl_arg_u32(e, (uint32_t)n->tile);
    clt_bn_end_channels(e, n, 7.0 * (double)own->count);
    return record;
}

/* --- forward --- */

static clt_status check_rows(const clt_batch_norm *n)
{
    const clt_call *call = n->call;
    bool positions = clt_call_tensor(call, call->in[0])->shape.ndim > 2;
    if (n->rows * (uint64_t)(n->ranks > 1 ? call->present : 1) >= 2)
        return CLT_OK;
    CLT_FAIL(CLT_ECONFIG,
             "layer '%s' (batch_norm): a micro-batch of one sample%s has no variance to train with; use a "
             "data.micro_batch of 2 or more%s",
             call->node->name, positions ? " with one value per channel" : "",
             n->ranks > 1
                 ? ", or a data.global_batch so large that at least two ranks always have a micro-batch"
                 : "");
}

/* Returns the moments of blocks of x. They come from the work that wrote x if it has computed them,
 * otherwise from a pass over x. */
static block_moments block_moments_of(ocl_emitter *e, clt_batch_norm *n)
{
    const ocl_moments *made = n->call->moments_of_input;
    uint64_t elements = n->blocks.count * n->cols;
    if (made != NULL)
        return (block_moments){
            .mean = made->mean, .square = made->square, .counts = made->count, .count = made->blocks};
    block_moments m = {.mean = ocl_workspace(e, CLT_F32, elements, "means of blocks"),
                       .square = ocl_workspace(e, CLT_F32, elements, "squares of blocks"),
                       .counts = -1,
                       .count = n->blocks.count,
                       .rows = n->blocks.rows};
    clt_bn_begin(e, n, "batch_norm_moments");
    clt_define_type_of(e, "DT", n->call, n->call->in[0]);
    clt_define_chains(e, &n->blocks);
    ocl_arg_out(e, m.mean, CLT_F32, elements);
    ocl_arg_out(e, m.square, CLT_F32, elements);
    clt_arg_in_of(e, n->call, n->call->in[0], n->rows * n->cols);
    clt_bn_arg_rows(e, n, &n->blocks);
    clt_bn_end_rows(e, n, &n->blocks, 4.0);
    return m;
}

/* Emits mean and rstd of the batch and, where this work may do so, the update of the running statistics. */
static clt_status emit_batch(ocl_emitter *e, clt_batch_norm *n)
{
    const clt_call *call = n->call;
    CLT_TRY(check_rows(n));
    moments of = {call->saved[0], call->saved[1], ocl_workspace(e, CLT_F32, n->cols, "variances")};
    block_moments blocks = block_moments_of(e, n), parts = emit_combine(e, n, &blocks);
    if (n->ranks > 1) {
        emit_shared_stats(e, n, emit_record(e, n, &parts), &of);
    } else {
        clt_bn_begin(e, n, "batch_norm_stats");
        arg_moments(e, n, &of);
        arg_sizes(e, n, &parts);
        ocl_arg_u32(e, (uint32_t)n->tile);
        ocl_arg_f32(e, (float)clt_node_attr(call->node, "eps")->f);
        clt_bn_end_channels(e, n, 7.0 * (double)parts.count + 5.0);
    }
    if (call->update_buffers)
        emit_running(e, n, &of);
    return CLT_OK;
}

/* For a rank without a micro-batch: gives an empty record, and updates the running statistics as the other
 * ranks do. */
static void emit_absent(ocl_emitter *e, clt_batch_norm *n)
{
    moments of = {ocl_workspace(e, CLT_F32, n->cols, "means"), ocl_workspace(e, CLT_F32, n->cols, "rstds"),
                  ocl_workspace(e, CLT_F32, n->cols, "variances")};
    emit_shared_stats(e, n, clt_bn_empty_record(e, n), &of);
    if (n->call->update_buffers)
        emit_running(e, n, &of);
}

static void emit_constants(ocl_emitter *e, clt_batch_norm *n)
{
    clt_bn_begin(e, n, "batch_norm_constants");
    ocl_arg_out(e, n->call->saved[0], CLT_F32, n->cols);
    ocl_arg_out(e, n->call->saved[1], CLT_F32, n->cols);
    ocl_arg_in(e, n->running_mean, CLT_F32, n->cols);
    ocl_arg_in(e, n->running_var, CLT_F32, n->cols);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u32(e, (uint32_t)n->tile);
    ocl_arg_f32(e, (float)clt_node_attr(n->call->node, "eps")->f);
    clt_bn_end_channels(e, n, 3.0);
}

static clt_status batch_norm_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    clt_batch_norm n = clt_bn_measure(e, call, style);
    if (call->absent) {
        if (n.ranks > 1)
            emit_absent(e, &n);
        return CLT_OK;
    }
    if (!call->again && n.batch)
        CLT_TRY(emit_batch(e, &n));
    else if (!call->again)
        emit_constants(e, &n);
    clt_bn_begin(e, &n, "batch_norm_fwd");
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_bn_define_stores(e, &n, clt_call_dtype(call, call->out[0]), false);
    clt_arg_out_of(e, call, call->out[0], n.rows * n.cols);
    ocl_define(e, "AFFINE", n.affine);
    ocl_define(e, "RELU", n.relu);
    ocl_define(e, "RESIDUAL", n.residual >= 0);
    clt_arg_in_of(e, call, call->in[0], n.rows * n.cols);
    if (n.residual >= 0)
        clt_arg_in_of(e, call, n.residual, n.rows * n.cols);
    clt_bn_arg_mean_rstd(e, &n);
    for (int i = 0; n.affine && i < 2; i++)
        ocl_arg_in(e, call->param[i], CLT_F32, n.cols);
    clt_bn_arg_rows(e, &n, &n.pass);
    clt_bn_end_rows(e, &n, &n.pass, 2.0 + 2.0 * n.affine + n.relu + (n.residual >= 0));
    return CLT_OK;
}

/* Adds up the sums and products of the blocks of each part. */
static void emit_parts(ocl_emitter *e, clt_batch_norm *n, int32_t part[2])
{
    uint64_t parts = n->parts * n->cols, blocks = n->blocks.count * n->cols;
    int32_t of_blocks[2] = {part[0], part[1]};
    part[0] = ocl_workspace(e, CLT_F32, parts, "sums of parts");
    part[1] = ocl_workspace(e, CLT_F32, parts, "products of parts");
    clt_bn_begin(e, n, "batch_norm_bwd_part");
    ocl_arg_out(e, part[0], CLT_F32, parts);
    ocl_arg_out(e, part[1], CLT_F32, parts);
    ocl_arg_in(e, of_blocks[0], CLT_F32, blocks);
    ocl_arg_in(e, of_blocks[1], CLT_F32, blocks);
    ocl_arg_u64(e, n->blocks.count);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, n->span);
    ocl_arg_u32(e, (uint32_t)n->tile);
    clt_bn_end_parts(e, n, n->parts, 2.0 * (double)n->blocks.count);
}

/* How the backward kernels get the gradient before the activation. */
typedef struct arrival {
    int32_t dy;
    int mask; /* MASK_* of norm_shared.clh */
} arrival;

static arrival arrival_of(const clt_batch_norm *n)
{
    int mask = !n->relu ? MASK_NONE : n->residual >= 0 ? MASK_BY_Y : MASK_BY_X;
    return (arrival){n->call->dout[0], mask};
}

/* Adds the arguments dy and y, and their defines. */
static void arg_arrival(ocl_emitter *e, const clt_batch_norm *n, const arrival *a)
{
    uint64_t elements = n->rows * n->cols;
    ocl_define(e, "MASK", a->mask);
    clt_define_type_of(e, "DYT", n->call, a->dy);
    clt_arg_in_of(e, n->call, a->dy, elements);
    if (a->mask == MASK_BY_Y)
        clt_arg_in_of(e, n->call, n->call->out[0], elements);
}

/* Emits batch_norm_bwd_sums: sums and products of blocks, unless part is NULL, and the gradient of the
 * residual, where that is wanted. */
static void emit_block_sums(ocl_emitter *e, clt_batch_norm *n, const int32_t *part)
{
    const clt_call *call = n->call;
    const arrival a = arrival_of(n);
    int32_t dr = n->residual >= 0 ? call->din[1] : -1;
    clt_bn_begin(e, n, "batch_norm_bwd_sums");
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_chains(e, &n->blocks);
    if (a.mask == MASK_BY_X)
        ocl_define(e, "AFFINE", n->affine);
    ocl_define(e, "SUMS", part != NULL);
    ocl_define(e, "HAVE_DR", dr >= 0);
    for (int i = 0; part && i < 2; i++)
        ocl_arg_out(e, part[i], CLT_F32, n->blocks.count * n->cols);
    if (dr >= 0) {
        clt_define_type_of(e, "RT", call, dr);
        clt_arg_grad_of(e, call, dr, n->rows * n->cols, call->din_accumulate[1]);
    }
    arg_arrival(e, n, &a);
    clt_arg_in_of(e, call, call->in[0], n->rows * n->cols);
    clt_bn_arg_mean_rstd(e, n);
    for (int i = 0; a.mask == MASK_BY_X && n->affine && i < 2; i++)
        ocl_arg_in(e, call->param[i], CLT_F32, n->cols);
    clt_bn_arg_rows(e, n, &n->blocks);
    clt_bn_end_rows(e, n, &n->blocks,
                    (part ? 5.0 : 0.0) + (a.mask != MASK_NONE) + 2.0 * (a.mask == MASK_BY_X));
}

/* The sums and products of channels, (C) each: as two tensors, or as the two halves of a record. */
typedef struct totals {
    ocl_tensor_ref sum, product;
    bool record;
} totals;

static totals new_totals(ocl_emitter *e, const clt_batch_norm *n, bool record)
{
    totals t = {.record = record};
    if (record) {
        t.sum = t.product = ocl_ref(clt_bn_new_record(e, n));
        t.product.offset = n->cols * sizeof(float);
    } else {
        t.sum = ocl_ref(ocl_workspace(e, CLT_F32, n->cols, "sums of channels"));
        t.product = ocl_ref(ocl_workspace(e, CLT_F32, n->cols, "products of channels"));
    }
    return t;
}

/* Emits sums and products, see batch_norm.cl, and with them the gradients of w and b. */
static void emit_sums(ocl_emitter *e, clt_batch_norm *n, const totals *t)
{
    const clt_call *call = n->call;
    uint64_t parts = n->blocks.count * n->cols;
    int32_t part[2] = {ocl_workspace(e, CLT_F32, parts, "sums of blocks"),
                       ocl_workspace(e, CLT_F32, parts, "products of blocks")};
    emit_block_sums(e, n, part);
    if (n->span > 1)
        emit_parts(e, n, part);
    parts = n->parts * n->cols;
    clt_bn_begin(e, n, "batch_norm_bwd_total");
    ocl_define(e, "HAVE_DW", n->affine && call->dparam[0] >= 0);
    ocl_define(e, "HAVE_DB", n->affine && call->dparam[1] >= 0);
    ocl_define(e, "RECORD", t->record);
    ocl_arg_tensor(e, OCL_WRITE, t->sum, CLT_F32, n->cols);
    ocl_arg_tensor(e, OCL_WRITE, t->product, CLT_F32, n->cols + t->record);
    for (int i = 0; n->affine && i < 2; i++)
        if (call->dparam[i] >= 0)
            ocl_arg_grad(e, call->dparam[i], CLT_F32, n->cols, call->dparam_accumulate[i]);
    ocl_arg_in(e, part[0], CLT_F32, parts);
    ocl_arg_in(e, part[1], CLT_F32, parts);
    ocl_arg_u64(e, n->parts);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u32(e, (uint32_t)n->tile);
    if (t->record)
        ocl_arg_u64(e, n->rows);
    clt_bn_end_channels(e, n, 2.0 * (double)n->parts);
}

/* Exchanges the record of this rank and replaces *t by the means over the rows of all ranks. */
static void emit_shared_means(ocl_emitter *e, clt_batch_norm *n, totals *t)
{
    int32_t all = clt_bn_exchange(e, n, t->sum.tensor);
    *t = new_totals(e, n, false);
    clt_bn_begin(e, n, "batch_norm_records_sums");
    ocl_arg_tensor(e, OCL_WRITE, t->sum, CLT_F32, n->cols);
    ocl_arg_tensor(e, OCL_WRITE, t->product, CLT_F32, n->cols);
    clt_bn_arg_records(e, n, all);
    clt_bn_end_channels(e, n, 2.0 * (double)n->ranks + 2.0);
}

/* The gradient of the residual is the gradient before the activation. If it was written, not accumulated, in
 * the type of dy, it is read instead of dy and y. */
static arrival shorter_arrival(const clt_batch_norm *n)
{
    const clt_call *call = n->call;
    int32_t dr = n->residual >= 0 ? call->din[1] : -1;
    if (dr >= 0 && !call->din_accumulate[1] &&
        clt_call_dtype(call, dr) == clt_call_dtype(call, call->dout[0]))
        return (arrival){dr, MASK_NONE};
    return arrival_of(n);
}

static void emit_dx(ocl_emitter *e, clt_batch_norm *n, const totals *t)
{
    const clt_call *call = n->call;
    const arrival a = shorter_arrival(n);
    uint64_t elements = n->rows * n->cols;
    clt_bn_begin(e, n, "batch_norm_bwd");
    clt_define_type_of(e, "DT", call, call->in[0]);
    ocl_define(e, "AFFINE", n->affine);
    ocl_define(e, "BATCH", n->batch);
    clt_define_type_of(e, "GT", call, call->din[0]);
    clt_bn_define_stores(e, n, clt_call_dtype(call, call->din[0]), call->din_accumulate[0]);
    clt_arg_grad_of(e, call, call->din[0], elements, call->din_accumulate[0]);
    arg_arrival(e, n, &a);
    if (n->batch || a.mask == MASK_BY_X) {
        clt_arg_in_of(e, call, call->in[0], elements);
        clt_bn_arg_mean_rstd(e, n);
    } else {
        ocl_arg_in(e, call->saved[1], CLT_F32, n->cols);
    }
    if (n->batch) {
        ocl_arg_tensor(e, OCL_READ, t->sum, CLT_F32, n->cols);
        ocl_arg_tensor(e, OCL_READ, t->product, CLT_F32, n->cols);
    }
    for (int i = 0; n->affine && i < (a.mask == MASK_BY_X ? 2 : 1); i++)
        ocl_arg_in(e, call->param[i], CLT_F32, n->cols);
    clt_bn_arg_rows(e, n, &n->pass);
    ocl_arg_f32(e, n->ranks > 1 ? 1.0f : (float)(1.0 / (double)n->rows));
    clt_bn_end_rows(e, n, &n->pass, (n->batch ? 7.0 : 1.0) + n->affine + (a.mask != MASK_NONE));
}

static clt_status batch_norm_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    clt_batch_norm n = clt_bn_measure(e, call, style);
    bool params = n.affine && (call->dparam[0] >= 0 || call->dparam[1] >= 0);
    bool shared = n.ranks > 1 && call->din[0] >= 0;
    totals t = {.record = false};
    if (call->absent) {
        if (shared)
            (void)clt_bn_exchange(e, &n, clt_bn_empty_record(e, &n));
        return CLT_OK;
    }
    if (params || (n.batch && call->din[0] >= 0)) {
        t = new_totals(e, &n, shared);
        emit_sums(e, &n, &t);
    } else if (n.residual >= 0 && call->din[1] >= 0) {
        emit_block_sums(e, &n, NULL);
    }
    if (shared)
        emit_shared_means(e, &n, &t);
    if (call->din[0] >= 0)
        emit_dx(e, &n, &t);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(batch_norm_forward)
CLT_ELEMENTWISE_VARIANTS(batch_norm_backward)

static bool batch_norm_fold(clt_node *node, bool sum, ocl_activation activation)
{
    clt_attr *own = &node->attr[clt_node_attr(node, "activation") - node->attr];
    if (activation != OCL_ACT_RELU || own->choice != CLT_BATCH_NORM_NONE || (sum && node->n_in > 1))
        return false;
    own->choice = CLT_BATCH_NORM_RELU;
    return true;
}

CLT_OP_DOC(
    batch_norm,
    .text =
        "Gives every channel the mean 0 and the variance 1 over the micro-batch, in images and volumes over "
        "all of their pixels, too, then a learned factor and shift. Evaluation uses running statistics, "
        "which are saved with the model and which every micro-batch of training moves: running += momentum * "
        "(batch - running). With several ranks each one normalises by its own micro-batch, and the running "
        "statistics are the mean of all ranks'; with parallel.sync_batch_norm all normalise by the mean and "
        "variance of all their micro-batches. model.freeze of the running statistics makes the layer use "
        "them in training, too. A second input, a "
        "residual, is added to the result before the activation. The plan also fuses an 'add' and a 'relu' "
        "that follow, and the mean and variance of a convolution's output are computed as that is stored.",
    .inputs = "x: (N,C), or with positions (N,C,L), (N,C,H,W) or (N,C,D,H,W), f32, f16 or bf16\n"
              "residual: shape and type of x; optional",
    .output = "y: shape and type of x",
    .params = "weight: (C), bias: (C) unless affine is false; buffers running_mean: (C), running_var: (C), "
              "the unbiased variance",
    .example = "{\"op\": \"batch_norm\"}", CLT_DOC_LINEAR_BEFORE);

/* PyTorch's count of batches, from which it can derive a momentum. */
static const char *const unused_in_files[] = {"num_batches_tracked", NULL};

CLT_OP_DEFINE(batch_norm, "y = (x - mean) / sqrt(var + eps) * w + b for each channel, over the batch", 1, 2,
              CLT_OP_ATTRS(batch_norm_attrs),
              .flags = CLT_OP_CHEAP | CLT_OP_EXCHANGES | CLT_OP_REPEATS_BY_SAVED | CLT_OP_TAKES_MOMENTS,
              .infer = batch_norm_infer, CLT_OP_VARIANTS(batch_norm), .layout = clt_spatial_layout,
              .fold = batch_norm_fold, .unused_in_files = unused_in_files);
