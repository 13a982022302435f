/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits the kernels of layernorm.cl for layernorm and rmsnorm in the variants group, row and blocks, and
 * chooses between them. */
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/norm/norm.h"

clt_status clt_norm_infer(clt_infer *ctx, clt_shape *row, clt_shape *stats)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input %s needs a dimension after the batch, over which to normalise",
                              clt_shape_text(&shape, text, sizeof text));
    *row = clt_shape1(clt_shape_last(&shape));
    *stats = clt_shape1(clt_shape_rows(&shape));
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

typedef struct norm_sizes {
    uint64_t rows, cols;
    uint64_t items; /* items of a work-group */
    bool affine, bias;
    bool centre;        /* the op subtracts the mean, and saves mean and rstd; otherwise only rstd */
    int32_t mean, rstd; /* -1: not saved; plans without backward may save neither */
} norm_sizes;

static norm_sizes norm_measure(const clt_call *call)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    norm_sizes s = {.rows = (uint64_t)clt_shape_rows(shape), .cols = (uint64_t)clt_shape_last(shape)};
    s.affine = call->node->n_param > 0;
    s.bias = call->node->n_param > 1;
    s.centre = call->node->n_saved > 1;
    s.mean = s.centre ? call->saved[0] : -1;
    s.rstd = call->saved[s.centre ? 1 : 0];
    return s;
}

static clt_status norm_items(ocl_emitter *e, bool group, norm_sizes *s)
{
    return group ? clt_tuned_items(e, "items", clt_local_group(e->device, s->cols), &s->items)
                 : clt_tuned_items(e, "local", clt_local_rows(e->device, s->rows), &s->items);
}

static void norm_end(ocl_emitter *e, const norm_sizes *s, bool group, double flops_per_element)
{
    double flops = flops_per_element * (double)(s->rows * s->cols);
    if (group)
        ocl_kernel_end_1d(e, s->rows * s->items, s->items, flops);
    else
        ocl_kernel_end_items(e, s->rows, s->items, flops);
}

/* Blocks of rows, for the kernels that use a group for each block (layernorm.cl) or an item for each
 * block. */
typedef struct norm_blocks {
    clt_column_blocks of;
    uint64_t item_quads, rows; /* ITEM_QUADS and ROWS if each block has a group; else 0 */
    /* backward: sums of each block for dw and db, the first stage of the column sums; -1: not wanted */
    int32_t part[2];
} norm_blocks;

/* Limits of the kernels with a group for each block: the most vectors of four columns that an item holds of
 * one row, and of all rows that are in flight. For each of these, backward holds three vectors of four
 * registers: of dy, of x and of the earlier dx. */
#define ITEM_QUADS 4
#define QUADS_IN_FLIGHT 8
#define GROUP_STEP 64 /* group sizes are multiples of this */

static uint64_t largest_group(const ocl_device_desc *device)
{
    return clt_group_limit(device) / GROUP_STEP * GROUP_STEP;
}

static norm_blocks norm_group_blocks(const ocl_device_desc *device, norm_sizes *s)
{
    uint64_t quads = s->cols / 4;
    norm_blocks b = {.item_quads = clt_div_up(quads, largest_group(device)), .part = {-1, -1}};
    b.rows = QUADS_IN_FLIGHT / b.item_quads;
    s->items = clt_div_up(clt_div_up(quads, b.item_quads), GROUP_STEP) * GROUP_STEP;
    return b;
}

static void norm_define_blocks(ocl_emitter *e, const norm_blocks *b)
{
    ocl_define(e, "ITEM_QUADS", (int64_t)b->item_quads);
    ocl_define(e, "ROWS", (int64_t)b->rows);
}

/* True if the kernels with a group for each block can handle these rows. row_sums: the number of sums over a
 * row that the kernel computes together. For each sum of each row in flight local memory has the terms of
 * all items, eight words of padding, eight partial sums and the result (layernorm.cl). */
static bool norm_takes_groups(const norm_sizes *sizes, uint64_t row_sums, const ocl_device_desc *device,
                              char *reason, size_t size)
{
    norm_sizes s = *sizes;
    uint64_t most = 4 * ITEM_QUADS * largest_group(device);
    if (s.cols % 4 != 0 || s.cols > most) {
        snprintf(reason, size, "%llu columns: the variant needs at most %llu, a multiple of 4",
                 (unsigned long long)s.cols, (unsigned long long)most);
        return false;
    }
    norm_blocks b = norm_group_blocks(device, &s);
    uint64_t bytes = 4 * b.rows * row_sums * (s.items + 8 + 8 + 1);
    if (bytes <= device->local_bytes)
        return true;
    snprintf(reason, size, "it needs %llu bytes of local memory", (unsigned long long)bytes);
    return false;
}

/* If `blocks` is not NULL, emits the kernel that uses a group for each block. */
static void norm_y(ocl_emitter *e, const clt_call *call, const norm_sizes *sizes, bool group,
                   const norm_blocks *blocks)
{
    norm_sizes s = *sizes;
    bool stats = s.rstd >= 0 && (s.mean >= 0 || !s.centre);
    ocl_kernel_begin(e, "layernorm",
                     blocks  ? "layernorm_fwd_blocks"
                     : group ? "layernorm_fwd_group"
                             : "layernorm_fwd_row");
    ocl_define(e, "CENTRE", s.centre);
    ocl_define(e, "AFFINE", s.affine);
    ocl_define(e, "BIAS", s.bias);
    ocl_define(e, "STATS", stats);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_type_of(e, "YT", call, call->out[0]);
    if (s.affine)
        clt_define_type_of(e, "WT", call, call->param[0]);
    if (group)
        ocl_define(e, "WG", (int64_t)s.items);
    if (blocks)
        norm_define_blocks(e, blocks);
    clt_arg_out_of(e, call, call->out[0], s.rows * s.cols);
    if (stats && s.centre)
        ocl_arg_out(e, s.mean, CLT_F32, s.rows);
    if (stats)
        ocl_arg_out(e, s.rstd, CLT_F32, s.rows);
    clt_arg_in_of(e, call, call->in[0], s.rows * s.cols);
    if (s.affine)
        clt_arg_in_of(e, call, call->param[0], s.cols);
    if (s.bias)
        clt_arg_in_of(e, call, call->param[1], s.cols);
    ocl_arg_u64(e, s.rows);
    clt_arg_size32(e, (int64_t)s.cols, "columns");
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "eps")->f);
    double flops_per_element = (s.centre ? 6.0 : 3.0) + s.affine + s.bias;
    if (blocks) {
        ocl_arg_u64(e, blocks->of.rows);
        ocl_kernel_end_1d(e, blocks->of.count * s.items, s.items,
                          flops_per_element * (double)(s.rows * s.cols));
        return;
    }
    norm_end(e, &s, group, flops_per_element);
}

static clt_status norm_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    norm_sizes s = norm_measure(call);
    CLT_TRY(norm_items(e, group, &s));
    norm_y(e, call, &s, group, NULL);
    return CLT_OK;
}

/* If `blocks` is not NULL, computes dx together with the first stage of the column sums. */
static void norm_dx(ocl_emitter *e, const clt_call *call, const norm_sizes *sizes, bool group,
                    const norm_blocks *blocks)
{
    norm_sizes s = *sizes;
    uint64_t elements = s.rows * s.cols;
    if (blocks && !group)
        s.items = 1;
    ocl_kernel_begin(e, "layernorm",
                     blocks  ? group ? "layernorm_bwd_blocks" : "layernorm_bwd_block"
                     : group ? "layernorm_bwd_group"
                             : "layernorm_bwd_row");
    ocl_define(e, "CENTRE", s.centre);
    ocl_define(e, "AFFINE", s.affine);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    if (s.affine)
        clt_define_type_of(e, "WT", call, call->param[0]);
    if (group)
        ocl_define(e, "WG", (int64_t)s.items);
    else
        clt_define_stores(e, CLT_STYLE_LANE, clt_call_dtype(call, call->din[0]), elements,
                          call->din_accumulate[0] || s.cols % 16 != 0);
    if (blocks)
        ocl_define(e, "PARTS", (blocks->part[0] >= 0) + 2 * (blocks->part[1] >= 0));
    if (blocks && group)
        norm_define_blocks(e, blocks);
    clt_arg_grad_of(e, call, call->din[0], elements, call->din_accumulate[0]);
    for (int i = 0; blocks && i < 2; i++)
        if (blocks->part[i] >= 0)
            ocl_arg_out(e, blocks->part[i], CLT_F32, blocks->of.count * s.cols);
    clt_arg_in_of(e, call, call->dout[0], elements);
    clt_arg_in_of(e, call, call->in[0], elements);
    if (s.centre)
        ocl_arg_in(e, s.mean, CLT_F32, s.rows);
    ocl_arg_in(e, s.rstd, CLT_F32, s.rows);
    if (s.affine)
        clt_arg_in_of(e, call, call->param[0], s.cols);
    ocl_arg_u64(e, s.rows);
    clt_arg_size32(e, (int64_t)s.cols, "columns");
    if (blocks) {
        ocl_arg_u64(e, blocks->of.rows);
        ocl_kernel_end_1d(e, blocks->of.count * s.items, s.items,
                          (s.centre ? 16.0 : 12.0) * (double)elements);
        return;
    }
    norm_end(e, &s, group, (s.centre ? 11.0 : 8.0) + 2 * s.affine + call->din_accumulate[0]);
}

/* This number of blocks of rows for each compute unit keeps a device busy. With fewer blocks, dx is computed
 * row by row, and the column sums in separate kernels. */
#define BLOCKS_PER_UNIT 2

/* True if dx and the column sums are computed together. Both must be wanted; then a tuning record may
 * decide. */
static bool norm_takes_blocks(ocl_emitter *e, const clt_call *call, const clt_column_sums *s)
{
    uint64_t units = e->device->compute_units ? e->device->compute_units : 1;
    if (call->din[0] < 0 || (s->p < 0 && s->q < 0))
        return false;
    return ocl_tuned(e, "blocks", clt_column_blocks_of(s->rows, s->cols).count >= units * BLOCKS_PER_UNIT) !=
           0;
}

static clt_column_sums norm_sums(const clt_call *call, const norm_sizes *sizes)
{
    int n_param = call->node->n_param;
    return (clt_column_sums){.dy = call->dout[0],
                             .x = call->in[0],
                             .mean = sizes->mean,
                             .rstd = sizes->rstd,
                             .p = n_param > 0 ? call->dparam[0] : -1,
                             .q = n_param > 1 ? call->dparam[1] : -1,
                             .p_accumulate = call->dparam_accumulate[0],
                             .q_accumulate = call->dparam_accumulate[1],
                             .rows = (int64_t)sizes->rows,
                             .cols = (int64_t)sizes->cols};
}

/* Emits dx together with the first stage of the wanted column sums, in a group or an item for each block,
 * and then their second stage. */
static void norm_by_blocks(ocl_emitter *e, const clt_call *call, const norm_sizes *sizes,
                           const clt_column_sums *s, bool group, norm_blocks b)
{
    uint64_t sums;
    b.of = clt_column_blocks_of(s->rows, s->cols);
    sums = b.of.count * sizes->cols;
    b.part[0] = s->p >= 0 ? ocl_workspace(e, CLT_F32, sums, "norm.dw") : -1;
    b.part[1] = s->q >= 0 ? ocl_workspace(e, CLT_F32, sums, "norm.db") : -1;
    norm_dx(e, call, sizes, group, &b);
    if (s->p >= 0 || s->q >= 0)
        clt_emit_column_blocks(e, call, s, b.part[0], b.part[1], b.of.count,
                               group ? CLT_STYLE_FLAT : CLT_STYLE_LANE);
}

static clt_status norm_backward(ocl_emitter *e, const clt_call *call, bool group)
{
    norm_sizes sizes = norm_measure(call);
    clt_column_sums s = norm_sums(call, &sizes);
    CLT_TRY(norm_items(e, group, &sizes));
    if (!group && norm_takes_blocks(e, call, &s)) {
        norm_by_blocks(e, call, &sizes, &s, false, (norm_blocks){.part = {-1, -1}});
        return CLT_OK;
    }
    if (call->din[0] >= 0)
        norm_dx(e, call, &sizes, group, NULL);
    clt_emit_column_sums(e, call, &s, group ? CLT_STYLE_FLAT : CLT_STYLE_LANE);
    return CLT_OK;
}

/* --- groups that have a block of rows each --- */

/* Rows of a group in forward: enough to pay for w and b, which the items load once, and few enough for
 * several groups on every compute unit. */
#define FORWARD_ROWS 64
#define FORWARD_GROUPS_PER_UNIT 4

static clt_column_blocks forward_blocks(const ocl_device_desc *device, uint64_t rows, uint64_t at_once)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    uint64_t steps = clt_div_up(rows, units * FORWARD_GROUPS_PER_UNIT * at_once),
             most = FORWARD_ROWS / at_once;
    uint64_t each = at_once * (steps < most ? steps : most);
    return (clt_column_blocks){clt_div_up(rows, each), each};
}

static bool forward_blocks_accepts(const void *problem, const ocl_device_desc *device, char *reason,
                                   size_t size)
{
    norm_sizes s = norm_measure(problem);
    return norm_takes_groups(&s, 1, device, reason, size);
}

static clt_status norm_forward_blocks(ocl_emitter *e, const void *problem)
{
    norm_sizes s = norm_measure(problem);
    norm_blocks b = norm_group_blocks(e->device, &s);
    b.of = forward_blocks(e->device, s.rows, b.rows);
    norm_y(e, problem, &s, true, &b);
    return CLT_OK;
}

static bool backward_blocks_accepts(const void *problem, const ocl_device_desc *device, char *reason,
                                    size_t size)
{
    norm_sizes s = norm_measure(problem);
    return norm_takes_groups(&s, s.centre ? 2 : 1, device, reason, size);
}

static clt_status norm_backward_blocks(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    norm_sizes sizes = norm_measure(call);
    clt_column_sums s = norm_sums(call, &sizes);
    norm_blocks b = norm_group_blocks(e->device, &sizes);
    if (call->din[0] >= 0)
        norm_by_blocks(e, call, &sizes, &s, true, b);
    else
        clt_emit_column_sums(e, call, &s, CLT_STYLE_FLAT);
    return CLT_OK;
}

/* Returns "blocks" if there is a block for at least every other compute unit and a row's vectors of four
 * fill at least half of the smallest group; otherwise NULL. */
static const char *blocks_or_not(const norm_sizes *s, const ocl_device_desc *device, uint64_t blocks)
{
    return s->cols >= 2 * GROUP_STEP && 2 * blocks >= device->compute_units ? "blocks" : NULL;
}

const char *clt_norm_forward_standard(const void *problem, const ocl_device_desc *device)
{
    norm_sizes s = norm_measure(problem);
    char reason[128];
    if (!norm_takes_groups(&s, 1, device, reason, sizeof reason))
        return NULL;
    uint64_t rows_at_once = norm_group_blocks(device, &s).rows;
    return blocks_or_not(&s, device, forward_blocks(device, s.rows, rows_at_once).count);
}

const char *clt_norm_backward_standard(const void *problem, const ocl_device_desc *device)
{
    norm_sizes s = norm_measure(problem);
    return blocks_or_not(&s, device, clt_column_blocks_of((int64_t)s.rows, (int64_t)s.cols).count);
}

static const ocl_tunable group_tunables[] = {CLT_TUNABLE_ITEMS, {0}};
static const ocl_tunable fwd_row_tunables[] = {CLT_TUNABLE_LOCAL, {0}};
static const ocl_tunable bwd_row_tunables[] = {{"blocks", 2, {0, 1}}, CLT_TUNABLE_LOCAL, {0}};
CLT_TWO_VARIANTS(norm_forward, group, true, OCL_CAP_LOCAL, group_tunables, row, false, fwd_row_tunables)
#define BLOCKS_VARIANT(way)                                                                                  \
    static const ocl_variant norm_##way##_variant_blocks = {.name = "blocks",                                \
                                                            .needs = OCL_CAP_LOCAL | OCL_CAP_WG256,          \
                                                            .accepts = way##_blocks_accepts,                 \
                                                            .emit = norm_##way##_blocks,                     \
                                                            .style = OCL_KERNEL_BLOCKS};
BLOCKS_VARIANT(forward)
BLOCKS_VARIANT(backward)
const ocl_variant *const clt_norm_forward[] = {&norm_forward_variant_group, &norm_forward_variant_blocks,
                                               &norm_forward_variant_row, NULL};
CLT_TWO_VARIANTS(norm_backward, group, true, OCL_CAP_LOCAL, group_tunables, row, false, bwd_row_tunables)
const ocl_variant *const clt_norm_backward[] = {&norm_backward_variant_group, &norm_backward_variant_blocks,
                                                &norm_backward_variant_row, NULL};
