/* SPDX-License-Identifier: Apache-2.0
 *
 * The op bias, and the bias commands that linear shares with it. Knows rows and columns, no model. */
#include "engine/ops/bias.h"
#include "engine/ops/emit_util.h"

/* bias: y = x + b over the last dimension
 * shapes  x (N,...,C), b (C) -> y (N,...,C)
 * dtypes  x,y f32|f16|bf16; b any of them; accumulates f32
 * grads   dx: copy of dy; db: write or accumulate               units   none
 * memory  workspace of db: slabs*C*4 bytes, slabs <= 256        errors  CLT_ESHAPE for an integer x
 * source  -
 * tested  verify -t 'bias*', exact on integers */

typedef struct bias_problem {
    const clt_call *call;
    int32_t y, x, b; /* forward */
    int32_t db, dy;  /* backward */
    bool accumulate;
    int64_t rows, cols;
} bias_problem;

static void bias_add_begin(ocl_emitter *e, const bias_problem *p, const char *kernel)
{
    uint64_t elements = (uint64_t)(p->rows * p->cols);
    clt_dtype dtype = clt_call_dtype(p->call, p->y), b_dtype = clt_call_dtype(p->call, p->b);
    ocl_kernel_begin(e, "bias", kernel);
    clt_define_dtype(e, "DT", dtype);
    clt_define_dtype(e, "WT", b_dtype);
    clt_define_wide(e, elements);
    ocl_arg_out(e, p->y, dtype, elements);
    ocl_arg_in(e, p->x, dtype, elements);
    ocl_arg_in(e, p->b, b_dtype, (uint64_t)p->cols);
    ocl_arg_u64(e, (uint64_t)p->rows);
    clt_arg_size32(e, p->cols, "columns");
}

static clt_status bias_add_flat(ocl_emitter *e, const void *problem)
{
    const bias_problem *p = problem;
    double elements = (double)p->rows * (double)p->cols;
    bias_add_begin(e, p, "bias_fwd_flat");
    ocl_kernel_end_1d(e, (uint64_t)(p->rows * p->cols), clt_local_flat(e->device), elements);
    return CLT_OK;
}

static clt_status bias_add_row(ocl_emitter *e, const void *problem)
{
    const bias_problem *p = problem;
    double elements = (double)p->rows * (double)p->cols;
    bias_add_begin(e, p, "bias_fwd_row");
    ocl_kernel_end_1d(e, (uint64_t)p->rows, clt_local_rows(e->device, (uint64_t)p->rows), elements);
    return CLT_OK;
}

/* Rows of up to this many are summed in one stage. */
#define ONE_STAGE_ROWS 64
#define MAX_SLABS 256

/* Slabs near the square root of the rows balance the two stages and keep rounding errors near eps * 2 *
 * sqrt(rows). */
static int64_t bias_slab_rows(int64_t rows)
{
    int64_t slabs = 1;
    while (slabs * slabs < rows && slabs < MAX_SLABS)
        slabs++;
    return (int64_t)clt_div_up((uint64_t)rows, (uint64_t)slabs);
}

static void bias_grad_sum(ocl_emitter *e, const bias_problem *p, int32_t part, clt_dtype part_dtype,
                          int64_t rows)
{
    clt_dtype db_dtype = clt_call_dtype(p->call, p->db);
    ocl_kernel_begin(e, "bias", "bias_bwd_w");
    clt_define_dtype(e, "GT", db_dtype);
    clt_define_dtype(e, "PT", part_dtype);
    ocl_arg_grad(e, p->db, db_dtype, (uint64_t)p->cols, p->accumulate);
    ocl_arg_in(e, part, part_dtype, (uint64_t)(rows * p->cols));
    clt_arg_size32(e, rows, "rows");
    clt_arg_size32(e, p->cols, "columns");
    ocl_kernel_end_1d(e, (uint64_t)p->cols, clt_local_rows(e->device, (uint64_t)p->cols),
                      (double)rows * (double)p->cols);
}

static clt_status bias_grad_emit(ocl_emitter *e, const bias_problem *p, bool by_row)
{
    clt_dtype dy_dtype = clt_call_dtype(p->call, p->dy);
    if (p->rows <= ONE_STAGE_ROWS) {
        bias_grad_sum(e, p, p->dy, dy_dtype, p->rows);
        return CLT_OK;
    }
    int64_t slab_rows = bias_slab_rows(p->rows);
    uint64_t slabs = clt_div_up((uint64_t)p->rows, (uint64_t)slab_rows), cols = (uint64_t)p->cols;
    int32_t part = ocl_workspace(e, CLT_F32, slabs * cols, "bias.part");
    ocl_kernel_begin(e, "bias", by_row ? "bias_bwd_w_part_row" : "bias_bwd_w_part_flat");
    clt_define_dtype(e, "DT", dy_dtype);
    ocl_arg_out(e, part, CLT_F32, slabs * cols);
    ocl_arg_in(e, p->dy, dy_dtype, (uint64_t)p->rows * cols);
    ocl_arg_u64(e, (uint64_t)p->rows);
    clt_arg_size32(e, p->cols, "columns");
    ocl_arg_u64(e, (uint64_t)slab_rows);
    double flops = (double)p->rows * (double)p->cols;
    if (by_row)
        ocl_kernel_end_2d(e, clt_div_up(cols, 16), slabs, clt_local_rows(e->device, clt_div_up(cols, 16)), 1,
                          flops);
    else
        ocl_kernel_end_2d(e, cols, slabs, clt_group_limit(e->device) < 64 ? 1 : 64, 1, flops);
    bias_grad_sum(e, p, part, CLT_F32, (int64_t)slabs);
    return CLT_OK;
}

static clt_status bias_grad_flat(ocl_emitter *e, const void *problem)
{
    return bias_grad_emit(e, problem, false);
}
static clt_status bias_grad_row(ocl_emitter *e, const void *problem)
{
    return bias_grad_emit(e, problem, true);
}

static const ocl_variant add_flat = {"flat", 0, clt_accepts_flat, NULL, bias_add_flat};
static const ocl_variant add_row = {"row", 0, NULL, NULL, bias_add_row};
static const ocl_variant *const add_variants[] = {&add_flat, &add_row, NULL};
static const ocl_variant grad_flat = {"flat", 0, clt_accepts_flat, NULL, bias_grad_flat};
static const ocl_variant grad_row = {"row", 0, NULL, NULL, bias_grad_row};
static const ocl_variant *const grad_variants[] = {&grad_flat, &grad_row, NULL};

static void bias_select(ocl_emitter *e, const ocl_variant *const *list, const bias_problem *problem,
                        const char *what)
{
    const ocl_variant *variant = NULL;
    clt_status status = ocl_variant_select(list, problem, e->device, what, NULL, &variant);
    if (status == CLT_OK)
        status = variant->emit(e, problem);
    if (status != CLT_OK)
        ocl_emit_fail(e, status);
}

void clt_emit_bias(ocl_emitter *e, const clt_call *call, int32_t y, int32_t x, int32_t b, int64_t rows,
                   int64_t cols)
{
    bias_problem p = {.call = call, .y = y, .x = x, .b = b, .rows = rows, .cols = cols};
    bias_select(e, add_variants, &p, "bias");
}

void clt_emit_bias_grad(ocl_emitter *e, const clt_call *call, int32_t db, bool accumulate, int32_t dy,
                        int64_t rows, int64_t cols)
{
    bias_problem p = {.call = call, .db = db, .accumulate = accumulate, .dy = dy, .rows = rows, .cols = cols};
    bias_select(e, grad_variants, &p, "bias gradient");
}

static clt_status bias_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    clt_dtype dtype = x->dtype;
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input needs a feature dimension after the batch");
    clt_shape b = clt_shape1(clt_shape_last(&shape));
    CLT_TRY(clt_infer_out(ctx, dtype, &shape));
    return clt_infer_param(ctx, "bias", &b, (clt_init){CLT_INIT_ZEROS, 0.0f, 0, 0});
}

static bias_problem bias_forward_problem(const clt_call *call)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    return (bias_problem){.call = call,
                          .y = call->out[0],
                          .x = call->in[0],
                          .b = call->param[0],
                          .rows = clt_shape_rows(shape),
                          .cols = clt_shape_last(shape)};
}

static clt_status bias_fwd_flat(ocl_emitter *e, const void *call)
{
    bias_problem p = bias_forward_problem(call);
    return bias_add_flat(e, &p);
}
static clt_status bias_fwd_row(ocl_emitter *e, const void *call)
{
    bias_problem p = bias_forward_problem(call);
    return bias_add_row(e, &p);
}

static clt_status bias_backward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    const clt_tensor *dy = clt_call_tensor(call, call->dout[0]);
    if (call->din[0] >= 0)
        clt_emit_copy_grad(e, call->din[0], call->dout[0], dy->dtype,
                           (uint64_t)clt_shape_elements(&dy->shape), call->din_accumulate[0]);
    if (call->dparam[0] < 0)
        return CLT_OK;
    bias_problem p = {.call = call,
                      .db = call->dparam[0],
                      .accumulate = call->dparam_accumulate[0],
                      .dy = call->dout[0],
                      .rows = clt_shape_rows(&dy->shape),
                      .cols = clt_shape_last(&dy->shape)};
    return bias_grad_emit(e, &p, by_row);
}
static clt_status bias_bwd_flat(ocl_emitter *e, const void *call)
{
    return bias_backward(e, call, false);
}
static clt_status bias_bwd_row(ocl_emitter *e, const void *call)
{
    return bias_backward(e, call, true);
}

static const ocl_variant fwd_flat = {"flat", 0, clt_accepts_flat, NULL, bias_fwd_flat};
static const ocl_variant fwd_row = {"row", 0, NULL, NULL, bias_fwd_row};
static const ocl_variant *const fwd_variants[] = {&fwd_flat, &fwd_row, NULL};
static const ocl_variant bwd_flat = {"flat", 0, clt_accepts_flat, NULL, bias_bwd_flat};
static const ocl_variant bwd_row = {"row", 0, NULL, NULL, bias_bwd_row};
static const ocl_variant *const bwd_variants[] = {&bwd_flat, &bwd_row, NULL};

extern const clt_op_ref clt_op_bias_ref;
extern const clt_op clt_op_bias;
const clt_op clt_op_bias = {
    .name = "bias",
    .summary = "y = x + b over the last dimension",
    .min_in = 1,
    .max_in = 1,
    .infer = bias_infer,
    .forward = fwd_variants,
    .backward = bwd_variants,
    .same_grad_inputs = 1,
    .ref = &clt_op_bias_ref,
};
