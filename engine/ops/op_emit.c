/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission helpers that many ops share: storage types as text, gradient copies, the geometry of elementwise
 * kernels, column sums. Knows emitters and the kernel families elementwise and colsum, no op in particular.
 */
#include "engine/ops/elementwise.h"
#include "engine/ops/emit_util.h"

/* Elements of one item's turn: enough to amortise a group on CPU devices, few enough for GPUs to fill all
 * units. */
#define LANE_CHUNK 4096
#define FLAT_CHUNK 4
#define FLAT_GROUP 64

void clt_define_dtype(ocl_emitter *e, const char *name, clt_dtype dtype)
{
    ocl_define_text(e, name, clt_dtype_name(dtype));
}

void clt_define_type_of(ocl_emitter *e, const char *name, const clt_call *call, int32_t id)
{
    clt_define_dtype(e, name, clt_call_dtype(call, id));
}

void clt_arg_in_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements)
{
    ocl_arg_in(e, id, clt_call_dtype(call, id), elements);
}

void clt_arg_out_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements)
{
    ocl_arg_out(e, id, clt_call_dtype(call, id), elements);
}

void clt_arg_grad_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements, bool accumulate)
{
    ocl_arg_grad(e, id, clt_call_dtype(call, id), elements, accumulate);
}

clt_style clt_style_of(const ocl_device_desc *device)
{
    return device->is_cpu ? CLT_STYLE_LANE : CLT_STYLE_FLAT;
}

bool clt_accepts_flat_style(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)problem;
    if (!device->is_cpu || (device->quirks & OCL_QUIRK_ANY_STYLE))
        return true;
    snprintf(reason, size, "groups of %d items give worse vector code than one item per group on CPU devices",
             FLAT_GROUP);
    return false;
}

static uint64_t group_items(const ocl_emitter *e, clt_style style)
{
    uint64_t limit = clt_group_limit(e->device);
    if (style == CLT_STYLE_LANE)
        return 1;
    return limit < FLAT_GROUP ? limit : FLAT_GROUP;
}

uint64_t clt_define_group(ocl_emitter *e, clt_style style)
{
    uint64_t items = group_items(e, style);
    ocl_define(e, "LS", (int64_t)items);
    return items;
}

void clt_define_stores(ocl_emitter *e, clt_style style, clt_dtype dtype, uint64_t elements, bool accumulate)
{
    const ocl_device_desc *d = e->device;
    if (style == CLT_STYLE_LANE && !accumulate && (d->caps & OCL_CAP_NONTEMPORAL) && d->cache_bytes > 0 &&
        (dtype == CLT_F32 || dtype == CLT_BF16) && elements * clt_dtype_bytes(dtype) > d->cache_bytes)
        ocl_define(e, "NT", 1);
}

void clt_elementwise_begin(ocl_emitter *e, const char *family, const char *kernel, clt_style style)
{
    ocl_kernel_begin(e, family, kernel);
    clt_define_group(e, style);
    ocl_define(e, "VEC", style == CLT_STYLE_LANE ? LANE_CHUNK : FLAT_CHUNK);
}

void clt_elementwise_end(ocl_emitter *e, uint64_t count, double flops, clt_style style)
{
    uint64_t items = group_items(e, style);
    uint64_t chunk = items * (style == CLT_STYLE_LANE ? LANE_CHUNK : FLAT_CHUNK);
    ocl_arg_u64(e, count);
    ocl_kernel_end_1d(e, clt_div_up(count, chunk) * items, items, flops);
}

void clt_emit_copy_grad(ocl_emitter *e, int32_t dst, int32_t src, clt_dtype dtype, uint64_t elements,
                        bool accumulate)
{
    clt_style style = clt_style_of(e->device);
    clt_elementwise_begin(e, "elementwise", "elementwise_bwd_copy", style);
    clt_define_dtype(e, "DT", dtype);
    clt_define_dtype(e, "GT", dtype);
    clt_define_stores(e, style, dtype, elements, accumulate);
    ocl_arg_grad(e, dst, dtype, elements, accumulate);
    ocl_arg_in(e, src, dtype, elements);
    clt_elementwise_end(e, elements, accumulate ? (double)elements : 0.0, style);
}

/* Column sums. At most MAX_BLOCKS partial sums of at least BLOCK_ROWS rows: enough groups to fill a device, a
 * short second stage, and rounding errors that grow with the square root of the rows only. The same for every
 * device. */
#define BLOCK_ROWS 64
#define MAX_BLOCKS 256
#define LANE_COLUMNS 64

static uint64_t column_tiles(ocl_emitter *e, int64_t cols, clt_style style)
{
    uint64_t per_group = style == CLT_STYLE_LANE ? LANE_COLUMNS : group_items(e, style);
    return clt_div_up((uint64_t)cols, per_group);
}

static void define_tile(ocl_emitter *e, clt_style style)
{
    clt_define_group(e, style);
    ocl_define(e, "TC", style == CLT_STYLE_LANE ? LANE_COLUMNS : 1);
}

/* Where the first stage writes one of its sums: the result itself when there is one block, else partial sums.
 */
static int32_t sum_target(ocl_emitter *e, int32_t result, uint64_t blocks, int64_t cols, const char *name)
{
    return blocks == 1 || result < 0 ? result : ocl_workspace(e, CLT_F32, blocks * (uint64_t)cols, name);
}

static void sum_blocks(ocl_emitter *e, const clt_call *call, int32_t result, bool accumulate, int32_t part,
                       uint64_t blocks, int64_t cols, clt_style style)
{
    uint64_t items = group_items(e, style);
    ocl_kernel_begin(e, "colsum", "colsum_bwd_w");
    define_tile(e, style);
    clt_define_type_of(e, "GT", call, result);
    clt_arg_grad_of(e, call, result, (uint64_t)cols, accumulate);
    ocl_arg_in(e, part, CLT_F32, blocks * (uint64_t)cols);
    ocl_arg_u32(e, (uint32_t)blocks);
    ocl_arg_u32(e, (uint32_t)cols);
    ocl_kernel_end_1d(e, column_tiles(e, cols, style) * items, items, (double)blocks * (double)cols);
}

/* One launch of the first stage. With several blocks both sums go to f32 partial sums; a single block writes
 * results, which must then be of one type. */
static void sum_rows(ocl_emitter *e, const clt_call *call, const clt_column_sums *s, int32_t p, int32_t q,
                     uint64_t blocks, uint64_t block_rows, clt_style style)
{
    uint64_t elements = (uint64_t)(s->rows * s->cols), sums = blocks * (uint64_t)s->cols,
             items = group_items(e, style);
    bool last = blocks == 1;
    clt_dtype type = last ? clt_call_dtype(call, p >= 0 ? p : q) : CLT_F32;
    ocl_kernel_begin(e, "colsum", "colsum_bwd_w_part");
    define_tile(e, style);
    ocl_define(e, "NORM", s->mean >= 0);
    ocl_define(e, "HAVE_P", p >= 0);
    ocl_define(e, "HAVE_Q", q >= 0);
    clt_define_type_of(e, "DT", call, s->x);
    clt_define_type_of(e, "DYT", call, s->dy);
    clt_define_dtype(e, "GT", type);
    if (p >= 0)
        ocl_arg_grad(e, p, type, sums, last && s->p_accumulate);
    if (q >= 0)
        ocl_arg_grad(e, q, type, sums, last && s->q_accumulate);
    clt_arg_in_of(e, call, s->dy, elements);
    if (p >= 0)
        clt_arg_in_of(e, call, s->x, elements);
    if (p >= 0 && s->mean >= 0) {
        ocl_arg_in(e, s->mean, CLT_F32, (uint64_t)s->rows);
        ocl_arg_in(e, s->rstd, CLT_F32, (uint64_t)s->rows);
    }
    ocl_arg_u64(e, (uint64_t)s->rows);
    clt_arg_size32(e, s->cols, "columns");
    ocl_arg_u64(e, block_rows);
    double per_element = (p >= 0 ? (s->mean >= 0 ? 4.0 : 2.0) : 0.0) + (q >= 0 ? 1.0 : 0.0);
    ocl_kernel_end_2d(e, column_tiles(e, s->cols, style) * items, blocks, items, 1,
                      per_element * (double)elements);
}

void clt_emit_column_sums(ocl_emitter *e, const clt_call *call, const clt_column_sums *s, clt_style style)
{
    if (s->p < 0 && s->q < 0)
        return;
    uint64_t blocks = clt_div_up((uint64_t)s->rows, BLOCK_ROWS);
    blocks = blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks;
    uint64_t block_rows = clt_div_up((uint64_t)s->rows, blocks);
    blocks = clt_div_up((uint64_t)s->rows, block_rows);
    int32_t p = sum_target(e, s->p, blocks, s->cols, "colsum.p");
    int32_t q = sum_target(e, s->q, blocks, s->cols, "colsum.q");
    if (blocks == 1 && p >= 0 && q >= 0 && clt_call_dtype(call, p) != clt_call_dtype(call, q)) {
        sum_rows(e, call, s, p, -1, blocks, block_rows, style);
        sum_rows(e, call, s, -1, q, blocks, block_rows, style);
        return;
    }
    sum_rows(e, call, s, p, q, blocks, block_rows, style);
    if (blocks > 1 && s->p >= 0)
        sum_blocks(e, call, s->p, s->p_accumulate, p, blocks, s->cols, style);
    if (blocks > 1 && s->q >= 0)
        sum_blocks(e, call, s->q, s->q_accumulate, q, blocks, s->cols, style);
}
