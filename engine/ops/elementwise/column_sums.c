/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of column sums: divides the rows into blocks and the columns into tiles, in one to three stages.
 * Knows the kernel family colsum, no op in particular. */
#include "cl/kernels/kernel_shared.clh"
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/elementwise/reduce_shared.clh"
#include "engine/ops/emit_util.h"

/* With up to MANY_BLOCKS * MANY_ROWS rows the number of blocks is about the number of rows in a block. So
 * rounding errors grow only with the square root of the number of rows, and the second stage is short. With
 * many columns a single block keeps the device busy, without a second stage. With more rows there are more
 * blocks of MANY_ROWS rows, whose sums are added in two stages; beyond MAX_BLOCKS * MANY_ROWS rows the
 * blocks become longer. */
#define MIN_BLOCK_ROWS 16
#define MANY_BLOCKS 256
#define MANY_ROWS 256    /* of a block */
#define MAX_BLOCKS 32768 /* at most OCL_MAX_GROUPS_YZ */
#define MANY_COLUMNS 16384
#define ONE_STAGE_ROWS 256

/* The smallest number of columns of an item in lane style, and the wanted number of groups per compute
 * unit. */
#define MIN_TILE 64
#define GROUPS_PER_UNIT 8
/* Number of rows that are read side by side if a tile is only a part of each row: with one matrix to read,
 * and with two. Hardware prefetchers follow a limited number of streams. */
#define ROWS_OF_ONE 8
#define ROWS_OF_TWO 4

void clt_define_chains(ocl_emitter *e, const clt_column_blocks *blocks)
{
    if (blocks->rows > SUM_STEPS)
        ocl_define(e, "CHAINS", 1);
}

clt_column_blocks clt_column_blocks_of(int64_t rows, int64_t cols)
{
    clt_column_blocks b = {1, (uint64_t)rows};
    if (rows <= MIN_BLOCK_ROWS || (cols >= MANY_COLUMNS && rows <= ONE_STAGE_ROWS))
        return b;
    b.count = 1;
    while (b.count * b.count < b.rows && b.count < MANY_BLOCKS)
        b.count++;
    b.rows = clt_div_up(b.rows, b.count);
    b.rows = b.rows < MIN_BLOCK_ROWS ? MIN_BLOCK_ROWS : b.rows;
    if (b.rows > MANY_ROWS) {
        uint64_t least = clt_div_up((uint64_t)rows, MAX_BLOCKS);
        b.rows = least > MANY_ROWS ? least : MANY_ROWS;
    }
    b.count = clt_div_up((uint64_t)rows, b.rows);
    return b;
}

/* Tensors and types of one launch. */
typedef struct column_launch {
    int32_t dy, x, mean, rstd;
    int32_t p, q;                    /* results, with a row for each block */
    clt_dtype dy_type, x_type, type; /* types of dy, of x, and of p and q */
    bool p_accumulate, q_accumulate;
    int product; /* terms of p: PRODUCT_* of reduce_shared.clh */
    uint64_t rows, cols;
    clt_column_blocks blocks;
} column_launch;

uint64_t clt_column_tile(const ocl_device_desc *device, uint64_t cols, uint64_t blocks)
{
    uint64_t units = device->compute_units ? device->compute_units : 1, tile = MAX_TILE;
    while (tile > MIN_TILE && clt_div_up(cols, tile) * blocks < units * GROUPS_PER_UNIT)
        tile /= 2;
    return tile;
}

/* True if an item in flat style takes four columns as a vector. It does if a quarter of the items is still
 * enough for the device. */
#define QUAD_ITEMS_PER_UNIT 64
static bool takes_vectors(const ocl_device_desc *device, const column_launch *l, clt_style style)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    return style != CLT_STYLE_LANE && l->cols % 4 == 0 &&
           l->cols / 4 * l->blocks.count >= units * QUAD_ITEMS_PER_UNIT;
}

static double flops_per_element(const column_launch *l)
{
    static const double of_product[] = {0.0, 2.0, 4.0, 1.0, 3.0};
    return of_product[l->product] + (l->q >= 0 ? 1.0 : 0.0);
}

static void launch(ocl_emitter *e, const column_launch *l, clt_style style)
{
    uint64_t elements = l->rows * l->cols, sums = l->blocks.count * l->cols;
    ocl_kernel_begin(e, "colsum", "colsum_bwd_w");
    uint64_t items = clt_define_group(e, style);
    bool vectors = takes_vectors(e->device, l, style);
    uint64_t tile = style == CLT_STYLE_LANE ? clt_column_tile(e->device, l->cols, l->blocks.count)
                                            : items * (vectors ? 4 : 1);
    ocl_define(e, "HAVE_P", l->product);
    ocl_define(e, "HAVE_Q", l->q >= 0);
    if (style == CLT_STYLE_LANE)
        ocl_define(e, "ROWS", tile >= l->cols ? 1 : l->product ? ROWS_OF_TWO : ROWS_OF_ONE);
    if (vectors)
        ocl_define(e, "VECTORS", 1);
    clt_define_dtype(e, "DYT", l->dy_type);
    if (l->product)
        clt_define_dtype(e, "DT", l->x_type);
    clt_define_dtype(e, "GT", l->type);
    if (l->product)
        ocl_arg_grad(e, l->p, l->type, sums, l->p_accumulate);
    if (l->q >= 0)
        ocl_arg_grad(e, l->q, l->type, sums, l->q_accumulate);
    ocl_arg_in(e, l->dy, l->dy_type, elements);
    if (l->product)
        ocl_arg_in(e, l->x, l->x_type, elements);
    if (l->product == PRODUCT_DY_NORMALISED)
        ocl_arg_in(e, l->mean, CLT_F32, l->rows);
    if (l->product == PRODUCT_DY_NORMALISED || l->product == PRODUCT_DY_SCALED)
        ocl_arg_in(e, l->rstd, CLT_F32, l->rows);
    ocl_arg_u64(e, l->rows);
    ocl_arg_u64(e, l->cols);
    ocl_arg_u64(e, l->blocks.rows);
    ocl_arg_u32(e, (uint32_t)tile);
    ocl_kernel_end_2d(e, clt_div_up(l->cols, tile) * items, l->blocks.count, items, 1,
                      flops_per_element(l) * (double)elements);
}

/* Emits both sums in one launch, or in two launches if their types differ. */
static void launch_both(ocl_emitter *e, const clt_call *call, column_launch l, clt_style style)
{
    clt_dtype p_type = l.product ? clt_call_dtype(call, l.p) : CLT_F32,
              q_type = l.q >= 0 ? clt_call_dtype(call, l.q) : CLT_F32;
    column_launch alone = l;
    if (l.product && l.q >= 0 && p_type != q_type) {
        alone.product = 0;
        alone.type = q_type;
        launch(e, &alone, style);
        l.q = -1;
    }
    l.type = l.product ? p_type : q_type;
    launch(e, &l, style);
}

void clt_emit_column_blocks(ocl_emitter *e, const clt_call *call, const clt_column_sums *s, int32_t part_p,
                            int32_t part_q, uint64_t blocks, clt_style style)
{
    bool both = s->p >= 0 && s->q >= 0; /* if only one sum is wanted, the kernel computes it as q */
    clt_column_blocks of = {1, blocks};
    if (blocks > MANY_BLOCKS)
        of = clt_column_blocks_of((int64_t)blocks, s->cols);
    column_launch l = {.dy = s->q >= 0 ? part_q : part_p,
                       .x = part_p,
                       .mean = -1,
                       .rstd = -1,
                       .p = s->p,
                       .q = s->q >= 0 ? s->q : s->p,
                       .dy_type = CLT_F32,
                       .x_type = CLT_F32,
                       .p_accumulate = s->p_accumulate,
                       .q_accumulate = s->q >= 0 ? s->q_accumulate : s->p_accumulate,
                       .product = both ? PRODUCT_X : PRODUCT_NONE,
                       .type = CLT_F32,
                       .rows = blocks,
                       .cols = (uint64_t)s->cols,
                       .blocks = of};
    if (of.count == 1) {
        launch_both(e, call, l, style);
        return;
    }
    l.p = both ? ocl_workspace(e, CLT_F32, of.count * l.cols, "colsum.p") : -1;
    l.q = ocl_workspace(e, CLT_F32, of.count * l.cols, "colsum.q");
    l.p_accumulate = l.q_accumulate = false;
    launch(e, &l, style);
    clt_emit_column_blocks(e, call, s, both ? l.p : l.q, l.q, of.count, style);
}

void clt_emit_column_sums(ocl_emitter *e, const clt_call *call, const clt_column_sums *s, clt_style style)
{
    if (s->p < 0 && s->q < 0)
        return;
    column_launch l = {.dy = s->dy,
                       .x = s->x,
                       .mean = s->mean,
                       .rstd = s->rstd,
                       .p = s->p,
                       .q = s->q,
                       .dy_type = clt_call_dtype(call, s->dy),
                       .x_type = s->p >= 0 ? clt_call_dtype(call, s->x) : CLT_F32,
                       .type = CLT_F32,
                       .p_accumulate = s->p_accumulate,
                       .q_accumulate = s->q_accumulate,
                       .product = PRODUCT_NONE,
                       .rows = (uint64_t)s->rows,
                       .cols = (uint64_t)s->cols,
                       .blocks = clt_column_blocks_of(s->rows, s->cols)};
    if (s->p >= 0)
        l.product = s->mean >= 0 ? PRODUCT_DY_NORMALISED : s->rstd >= 0 ? PRODUCT_DY_SCALED : PRODUCT_DY_X;
    if (l.blocks.count == 1) {
        launch_both(e, call, l, style);
        return;
    }
    uint64_t sums = l.blocks.count * l.cols;
    l.p = s->p >= 0 ? ocl_workspace(e, CLT_F32, sums, "colsum.p") : -1;
    l.q = s->q >= 0 ? ocl_workspace(e, CLT_F32, sums, "colsum.q") : -1;
    l.p_accumulate = l.q_accumulate = false;
    launch(e, &l, style);
    clt_emit_column_blocks(e, call, s, l.p, l.q, l.blocks.count, style);
}

void clt_emit_column_sum(ocl_emitter *e, const clt_call *call, int32_t out, bool accumulate, int32_t dy,
                         int64_t rows, int64_t cols, clt_style style)
{
    clt_column_sums s = {.dy = dy,
                         .x = -1,
                         .mean = -1,
                         .rstd = -1,
                         .p = -1,
                         .q = out,
                         .q_accumulate = accumulate,
                         .rows = rows,
                         .cols = cols};
    clt_emit_column_sums(e, call, &s, style);
}
