/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduces per-row losses to a loss record, for every loss. Knows rows of three floats, no loss in
 * particular. */
#include "engine/ops/loss/loss.h"
#include "engine/ops/emit_util.h"

/* Up to this many rows are summed in one stage. More rows are first summed in parts of about sqrt(rows)
 * rows, at most MAX_PART_ROWS; many parts are summed in parts again. So rounding errors stay as small as in a
 * few hundred additions for any number of rows. */
#define ONE_STAGE_ROWS 64
#define MAX_PARTS 256
#define MAX_PART_ROWS 256

clt_status clt_infer_class_weights(clt_infer *ctx, int64_t classes)
{
    const clt_attr *weights = clt_node_attr(ctx->node, CLT_CLASS_WEIGHTS);
    bool some = false;
    if (!weights->set)
        return CLT_OK;
    if (weights->n_list != classes)
        return clt_infer_fail(ctx, "\"%s\" has %d numbers, but there are %lld classes", CLT_CLASS_WEIGHTS,
                              (int)weights->n_list, (long long)classes);
    for (int i = 0; i < weights->n_list; i++)
        some = some || weights->number[i] > 0;
    if (!some)
        return clt_infer_fail(ctx, "\"%s\": all are 0, so that no target would count", CLT_CLASS_WEIGHTS);
    return clt_infer_constant(ctx, CLT_CLASS_WEIGHTS, weights->number, classes);
}

/* Sums `*n` rows in parts. Then *rows holds the sums of the parts and *n their number. */
static void emit_parts(ocl_emitter *e, int32_t *rows, uint64_t *n)
{
    uint64_t wanted = 1;
    while (wanted * wanted < *n && wanted < MAX_PARTS)
        wanted++;
    uint64_t block = clt_div_up(*n, wanted);
    block = block > MAX_PART_ROWS ? MAX_PART_ROWS : block;
    uint64_t parts = clt_div_up(*n, block);
    int32_t part = ocl_workspace(e, CLT_F32, 3 * parts, "loss.part");
    ocl_kernel_begin(e, "loss", "loss_fwd_part");
    ocl_arg_out(e, part, CLT_F32, 3 * parts);
    ocl_arg_in(e, *rows, CLT_F32, 3 * *n);
    ocl_arg_u64(e, *n);
    ocl_arg_u64(e, block);
    ocl_arg_u32(e, (uint32_t)parts);
    ocl_kernel_end_items(e, parts, clt_local_rows(e->device, parts), 3.0 * (double)*n);
    *rows = part;
    *n = parts;
}

void clt_emit_loss_record(ocl_emitter *e, const clt_call *call, int32_t rows_tensor, int64_t rows)
{
    uint64_t parts = (uint64_t)rows;
    int32_t part = rows_tensor;
    for (bool first = true; parts > (first ? ONE_STAGE_ROWS : MAX_PARTS); first = false)
        emit_parts(e, &part, &parts);
    ocl_tensor_ref record = ocl_ref(call->losses);
    record.offset = (uint64_t)call->node->loss * CLT_LOSS_RECORD * sizeof(float);
    ocl_kernel_begin(e, "loss", "loss_fwd_record");
    ocl_arg_tensor(e, OCL_READ_WRITE, record, CLT_F32, CLT_LOSS_RECORD);
    ocl_arg_in(e, part, CLT_F32, 3 * parts);
    clt_arg_step(e, call);
    ocl_arg_u32(e, (uint32_t)parts);
    ocl_arg_f32(e, (float)clt_node_attr(call->node, "weight")->f);
    ocl_arg_u32(e, (uint32_t)call->node->loss);
    ocl_kernel_end_1d(e, 1, 1, 3.0 * (double)parts);
}
