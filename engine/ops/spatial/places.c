/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the launch geometry of kernels on channels-last tensors. */
#include "engine/ops/spatial/places.h"

#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/elementwise/reduce_shared.clh"
#include "engine/ops/emit_util.h"

/* Elements that an item in lane style moves, if there are enough of them for all compute units: this
 * amortises the cost of a group. */
#define LANE_ELEMENTS 65536
#define GROUPS_PER_UNIT 8

clt_places clt_places_of(const clt_spatial *s, const int64_t sizes[CLT_SPATIAL_MAX], double moved)
{
    clt_places p = {.rows = (uint64_t)(s->n * sizes[0] * sizes[1]),
                    .width = (uint64_t)sizes[2],
                    .channels = (uint64_t)s->channels};
    p.each = moved / (double)clt_places_elements(&p);
    p.each = p.each < 1.0 ? 1.0 : p.each;
    return p;
}

void clt_places_begin(ocl_emitter *e, clt_places *p, const char *family, const char *kernel, clt_style style,
                      clt_dtype type, bool accumulate)
{
    ocl_kernel_begin(e, family, kernel);
    p->items = clt_define_group(e, style);
    if (style == CLT_STYLE_LANE)
        clt_define_ahead(e);
    /* aligned vectors need whole vectors of channels */
    clt_define_stores(e, style, type, clt_places_elements(p), accumulate || p->channels % 16 != 0);
}

static void end_lane(ocl_emitter *e, const clt_places *p, double flops)
{
    uint64_t units = e->device->compute_units ? e->device->compute_units : 1, places = p->rows * p->width;
    uint64_t tile = p->channels < MAX_TILE ? p->channels : MAX_TILE, tiles = clt_div_up(p->channels, tile);
    uint64_t block = (uint64_t)(LANE_ELEMENTS / ((double)tile * p->each));
    while (block > 1 && clt_div_up(places, block) * tiles < units * GROUPS_PER_UNIT)
        block /= 2;
    if (block < clt_div_up(places, OCL_MAX_GROUPS_YZ))
        block = clt_div_up(places, OCL_MAX_GROUPS_YZ);
    uint64_t blocks = clt_div_up(places, block);
    tile = clt_column_tile(e->device, p->channels, blocks);
    clt_arg_size32(e, (int64_t)places, "places");
    ocl_arg_u32(e, (uint32_t)block);
    ocl_arg_u32(e, (uint32_t)tile);
    ocl_kernel_end_2d(e, clt_div_up(p->channels, tile), blocks, 1, 1, flops);
}

static void end_flat(ocl_emitter *e, const clt_places *p, double flops)
{
    clt_arg_size32(e, (int64_t)p->rows, "rows");
    ocl_arg_u32(e, 1);
    ocl_arg_u32(e, (uint32_t)p->items);
    clt_check_size32(e, (int64_t)(p->width * p->channels + p->items), "elements of a row");
    ocl_kernel_end_2d(e, clt_div_up(p->width * p->channels, p->items) * p->items,
                      p->rows < OCL_MAX_GROUPS_YZ ? p->rows : OCL_MAX_GROUPS_YZ, p->items, 1, flops);
}

void clt_places_end(ocl_emitter *e, const clt_places *p, clt_style style, double flops)
{
    clt_arg_size32(e, (int64_t)p->channels, "channels");
    if (style == CLT_STYLE_LANE)
        end_lane(e, p, flops);
    else
        end_flat(e, p, flops);
}
