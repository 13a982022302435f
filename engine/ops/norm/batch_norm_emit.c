/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that forward and backward of batch_norm share: they cut rows into blocks, begin and end kernels
 * of batch_norm.cl, and make the records that ranks exchange. */
#include "engine/ops/norm/batch_norm_emit.h"

#include "cl/kernels/kernel_shared.clh"
#include "engine/ops/emit_util.h"
#include "engine/ops/exchange.h"

/* A block has at most BLOCK_ROWS rows, unless that would make more than MAX_BLOCKS blocks. More than
 * ONE_STAGE blocks are combined in two stages. */
#define BLOCK_ROWS 128
#define MAX_BLOCKS 4096
#define ONE_STAGE 256
/* Rows of an item in the kernels without sums in flat style: few, so that many items run. */
#define FLAT_ROWS 8
#define FLAT_BLOCKS 32768 /* more rows make the items longer */

uint64_t clt_bn_span_of(uint64_t blocks)
{
    uint64_t span = 1;
    while (blocks > ONE_STAGE && span * span < blocks)
        span++;
    return span;
}

static void cut_rows(clt_batch_norm *n)
{
    n->blocks = clt_column_blocks_of((int64_t)n->rows, (int64_t)n->cols);
    if (n->blocks.count > 1 && n->blocks.rows > BLOCK_ROWS) {
        uint64_t most = clt_div_up(n->rows, MAX_BLOCKS);
        n->blocks.rows = most > BLOCK_ROWS ? most : BLOCK_ROWS;
        n->blocks.count = clt_div_up(n->rows, n->blocks.rows);
    }
    n->span = clt_bn_span_of(n->blocks.count);
    n->parts = clt_div_up(n->blocks.count, n->span);
    n->pass = n->blocks;
    if (n->style == CLT_STYLE_FLAT && n->pass.rows > FLAT_ROWS) {
        uint64_t most = clt_div_up(n->rows, FLAT_BLOCKS);
        n->pass.rows = most > FLAT_ROWS ? most : FLAT_ROWS;
        n->pass.count = clt_div_up(n->rows, n->pass.rows);
    }
}

clt_batch_norm clt_bn_measure(const ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    clt_batch_norm n = {.call = call, .style = style, .affine = call->node->n_param > 2};
    n.cols = (uint64_t)shape->dim[1];
    n.rows = (uint64_t)clt_shape_elements(shape) / n.cols;
    cut_rows(&n);
    n.tile = clt_column_tile(e->device, n.cols, n.blocks.count);
    n.batch = call->training && clt_node_updates_buffers(call->graph, call->node);
    n.ranks = n.batch && call->ranks > 1 ? call->ranks : 1;
    n.relu = clt_node_attr(call->node, "activation")->choice == CLT_BATCH_NORM_RELU;
    n.residual = call->node->n_in > 1 ? call->in[1] : -1;
    n.running_mean = call->param[n.affine ? 2 : 0];
    n.running_var = call->param[n.affine ? 3 : 1];
    return n;
}

void clt_bn_begin(ocl_emitter *e, clt_batch_norm *n, const char *kernel)
{
    ocl_kernel_begin(e, "batch_norm", kernel);
    n->items = clt_define_group(e, n->style);
    n->tile = n->style == CLT_STYLE_LANE ? n->tile : n->items;
}

void clt_bn_define_stores(ocl_emitter *e, const clt_batch_norm *n, clt_dtype dtype, bool accumulate)
{
    clt_define_stores(e, n->style, dtype, n->rows * n->cols, accumulate || n->cols % LANES != 0);
}

void clt_bn_arg_rows(ocl_emitter *e, const clt_batch_norm *n, const clt_column_blocks *blocks)
{
    ocl_arg_u64(e, n->rows);
    ocl_arg_u64(e, n->cols);
    ocl_arg_u64(e, blocks->rows);
    ocl_arg_u32(e, (uint32_t)n->tile);
}

void clt_bn_end_rows(ocl_emitter *e, const clt_batch_norm *n, const clt_column_blocks *blocks,
                     double flops_per_element)
{
    ocl_kernel_end_1d(e, clt_div_up(n->cols, n->tile) * blocks->count * n->items, n->items,
                      flops_per_element * (double)(n->rows * n->cols));
}

void clt_bn_end_parts(ocl_emitter *e, const clt_batch_norm *n, uint64_t parts, double flops)
{
    ocl_kernel_end_1d(e, clt_div_up(n->cols, n->tile) * parts * n->items, n->items, flops * (double)n->cols);
}

void clt_bn_end_channels(ocl_emitter *e, const clt_batch_norm *n, double flops_per_channel)
{
    clt_bn_end_parts(e, n, 1, flops_per_channel);
}

void clt_bn_arg_mean_rstd(ocl_emitter *e, const clt_batch_norm *n)
{
    ocl_arg_in(e, n->call->saved[0], CLT_F32, n->cols);
    ocl_arg_in(e, n->call->saved[1], CLT_F32, n->cols);
}

uint64_t clt_bn_record_words(const clt_batch_norm *n)
{
    return 2 * n->cols + 1;
}

int32_t clt_bn_new_record(ocl_emitter *e, const clt_batch_norm *n)
{
    return ocl_workspace(e, CLT_F32, clt_bn_record_words(n), "record of this rank");
}

int32_t clt_bn_empty_record(ocl_emitter *e, const clt_batch_norm *n)
{
    int32_t record = clt_bn_new_record(e, n);
    ocl_emit_fill(e, ocl_ref(record), clt_bn_record_words(n) * sizeof(float), 0);
    return record;
}

int32_t clt_bn_exchange(ocl_emitter *e, const clt_batch_norm *n, int32_t record)
{
    int32_t all =
        ocl_workspace(e, CLT_F32, (uint64_t)n->ranks * clt_bn_record_words(n), "records of all ranks");
    clt_emit_exchange(e, n->call, record, all, clt_bn_record_words(n));
    return all;
}

void clt_bn_arg_records(ocl_emitter *e, const clt_batch_norm *n, int32_t all)
{
    ocl_arg_in(e, all, CLT_F32, (uint64_t)n->ranks * clt_bn_record_words(n));
    ocl_arg_u64(e, n->cols);
    ocl_arg_u32(e, (uint32_t)n->ranks);
    ocl_arg_u32(e, (uint32_t)n->tile);
}
