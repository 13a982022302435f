/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `tile` on the host, for GPUs: which problems it accepts, what its forms need and cost
 * (cl/gemm/gemm_forms.c chooses), and the kernel commands (kernels in cl/backends/gemm_tile.cl, which also
 * gives the reasons for the forms). This file must not know what the matrices mean, and it decides by
 * capabilities of a device, never by its name. */
#include "cl/backends/gemm_tile.h"
#include "cl/gemm/gemm_windows.h"

#include <stddef.h>
#include <stdio.h>

#define MOST_STEPS 32 /* largest bk of all forms */

/* Tall and wide forms are for products with a short side, where a large square tile would be mostly
 * padding. */
#define FORM(m, n, k, rows, columns)                                                                         \
    {                                                                                                        \
        .bm = m, .bn = n, .bk = k, .pm = rows, .pn = columns                                                 \
    }
const ocl_gemm_form ocl_tile_forms[] = {
    FORM(128, 128, 8, 8, 8), FORM(128, 64, 8, 8, 8),  FORM(64, 128, 8, 8, 8),  FORM(64, 64, 8, 8, 8),
    FORM(64, 64, 16, 4, 4),  FORM(128, 32, 16, 8, 4), FORM(32, 128, 16, 4, 8), FORM(32, 32, 16, 4, 4),
    FORM(32, 32, 32, 2, 2),  FORM(256, 16, 8, 4, 4),  FORM(16, 256, 8, 4, 4),  {0}};

static const ocl_tunable tile_tunables[] = {{"bm", 5, {128, 64, 32, 16, 256}},
                                            {"bn", 5, {128, 64, 32, 16, 256}},
                                            {"bk", 3, {8, 16, 32}},
                                            {"tm", 3, {8, 4, 2}},
                                            {"tn", 3, {8, 4, 2}},
                                            {"va", 4, {8, 4, 2, 1}},
                                            {"vb", 4, {8, 4, 2, 1}},
                                            {"split", OCL_SPLIT_VALUES, {OCL_SPLIT_COUNTS}},
                                            {0}};

/* --- arithmetic of forms --- */

int ocl_tile_items(const ocl_gemm_form *f)
{
    return f->bm / f->pm * (f->bn / f->pn);
}

/* Floats of a tile in local memory: STAGE_FLOATS of cl/gemm/gemm_stage.clh. */
static int tile_floats(bool along, int lines, int bk, int width)
{
    int spread = 32 * width / bk;
    int gap = spread < 4 ? 4 : spread >= 32 ? 0 : spread;
    return bk * lines + (along ? bk / width * gap : 0);
}

uint64_t ocl_tile_local_bytes(const ocl_gemm *g, const ocl_gemm_form *f)
{
    int floats = tile_floats(!g->ta, f->bm, f->bk, f->va) + tile_floats(g->tb, f->bn, f->bk, f->vb);
    return 2 * 4 * (uint64_t)floats;
}

static bool is_aligned(const ocl_gemm *g, bool of_a, uint64_t width)
{
    uint64_t bytes = clt_dtype_bytes(of_a ? g->type_a : g->type_b);
    uint64_t start = (of_a ? g->a.offset : g->b.offset) / bytes;
    uint64_t ld = (uint64_t)(of_a ? g->lda : g->ldb), stride = (uint64_t)(of_a ? g->stride_a : g->stride_b);
    if (ocl_is_windows(g, of_a))
        return ocl_windows_divisible(g, (int64_t)width);
    return (start | ld | (g->batch > 1 ? stride : 0)) % width == 0;
}

/* The vector width of loads: the largest power of two up to `limit` for which all vectors of the operand are
 * aligned, a vector has at most 16 bytes, and every item has something to load. */
static int vector_width(const ocl_gemm *g, bool of_a, const ocl_gemm_form *f, int limit)
{
    clt_dtype type = of_a ? g->type_a : g->type_b;
    int elements = (of_a ? f->bm : f->bn) * f->bk, width = 16 / (int)clt_dtype_bytes(type);
    while (width > 1 && (!is_aligned(g, of_a, (uint64_t)width) || width > limit || width > f->bk ||
                         elements / width < ocl_tile_items(f)))
        width /= 2;
    return width;
}

static void set_widths(const ocl_gemm *g, const ocl_gemm_form *wanted, ocl_gemm_form *f)
{
    f->va = vector_width(g, true, f, wanted->va ? wanted->va : 8);
    f->vb = vector_width(g, false, f, wanted->vb ? wanted->vb : 8);
}

/* --- limits of the device --- */

/* Whether all vectors of windows that an item loads lie in the same columns of the matrix, as gemm_stage.clh
 * requires. */
static bool reads_windows(const ocl_gemm *g, const ocl_gemm_form *f)
{
    int row = ocl_is_windows(g, true) ? f->bk / f->va : f->bn / f->vb;
    return !ocl_has_windows(g) || ocl_tile_items(f) >= row;
}

static bool fits(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    uint64_t local = ocl_tile_local_bytes(g, f), slab = (uint64_t)(f->bm / f->pm * f->bn) * 4;
    return f->bm >= f->pm && f->bn >= f->pn && ocl_tile_items(f) >= 8 &&
           ocl_tile_items(f) <= ocl_form_max_items(device) && local <= ocl_desc_max_local(device, false) &&
           slab <= local && reads_windows(g, f);
}

/* A cost model to rank forms, right within a factor of two, which is enough until the tuner has measured.
 * The unit is the time of one multiply-add of a compute unit, which does about a hundred per clock. */

#define FMA_PER_CACHE_BYTE 6.0   /* multiply-adds in the time of reading a byte from second-level cache */
#define FMA_PER_MEMORY_BYTE 10.0 /* from memory */
#define COST_TILE 6000.0         /* per work-group: start, first loads, storing C */
#define COST_COMMAND 400000.0    /* per additional kernel: about 3 us */
#define REGISTERS 65536.0        /* registers of a compute unit */

/* Occupancy: work-groups that a compute unit runs at the same time. */
static double side_by_side(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f,
                           double groups_per_unit)
{
    double items = ocl_tile_items(f), on_the_way = (double)(f->bm + f->bn) * f->bk / items;
    double registers = f->pm * f->pn + 2 * (f->pm + f->pn) + 2.0 * on_the_way + 30.0;
    double resident = REGISTERS / (registers * items);
    double by_local = (double)device->local_bytes / (double)ocl_tile_local_bytes(g, f);
    resident = by_local < resident ? by_local : resident;
    resident = groups_per_unit < resident ? groups_per_unit : resident;
    return resident < 1.0 ? 1.0 : (double)(int)resident;
}

/* The fraction of the peak speed that this occupancy reaches: more work-groups hide more latency. */
static double hidden(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f,
                     double groups_per_unit)
{
    double warps = side_by_side(g, device, f, groups_per_unit) * ocl_tile_items(f) / 32.0;
    return warps / (warps + 2.0);
}

static double cost(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    double units = device->compute_units ? device->compute_units : 1;
    double groups = (double)ocl_form_groups(g, f),
           rounds = (double)ocl_form_up((int64_t)groups, (int64_t)units);
    double steps = (double)ocl_form_part_steps(g, f), sums = (double)f->bm * f->bn,
           reads = (double)(f->pm + f->pn);
    /* local memory delivers one float per four multiply-adds, and neighbouring items share some of the
     * reads */
    double local = sums * (reads / (f->pm * f->pn)) * 3.3;
    double multiply = sums > local ? sums : local;
    double bytes = f->bm * (double)clt_dtype_bytes(g->type_a) + f->bn * (double)clt_dtype_bytes(g->type_b);
    double load = bytes * FMA_PER_CACHE_BYTE;
    double step = (multiply > load ? multiply : load) / hidden(g, device, f, groups / units);
    double total = rounds * (steps * step + sums * 20.0 + COST_TILE);
    if (f->splits > 1) /* partial sums are written and read */
        total += COST_COMMAND + 8.0 * (double)ocl_form_workspace(g, f) * FMA_PER_MEMORY_BYTE / units;
    return total;
}

/* Choice */

/* Whether to use 16 steps of k instead of 8. With 16-bit elements, a line of 8 steps is only half a sector
 * of 32 bytes. The longer form is chosen if every item still has 16 bytes to load of each tile and the
 * occupancy stays the same. (Losing occupancy would cost more, because first-level caches keep the other
 * half of the sector for the next step.) */
static bool takes_longer_lines(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f,
                               const ocl_gemm_form *longer)
{
    bool a = !g->ta && clt_dtype_bytes(g->type_a) == 2, b = g->tb && clt_dtype_bytes(g->type_b) == 2;
    int least = f->bm < f->bn ? f->bm : f->bn;
    return f->bk == 8 && (a || b) && least * 16 / 8 >= ocl_tile_items(f) &&
           ocl_tile_local_bytes(g, longer) <= ocl_desc_max_local(device, false) &&
           side_by_side(g, device, longer, 1e9) >= side_by_side(g, device, f, 1e9);
}

static void complete(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                     ocl_gemm_form *f)
{
    ocl_gemm_form longer = *f;
    longer.bk = 16;
    set_widths(g, wanted, f);
    set_widths(g, wanted, &longer);
    if (wanted->bk == 0 && takes_longer_lines(g, device, f, &longer) &&
        !ocl_form_is_given_up(&ocl_tile_family, device, &longer))
        *f = longer;
}

/* Whether offsets inside a tile need more than 32 bits. */
static bool wide_offsets(const ocl_gemm *g, const ocl_gemm_form *f)
{
    int64_t limit = UINT32_MAX, lines_a = g->ta ? f->bk : f->bm, lines_b = g->tb ? f->bn : f->bk;
    return g->lda > (limit - 1024) / lines_a || g->ldb > (limit - 1024) / lines_b;
}

static void product_defines(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_define(e, "BM", f->bm);
    ocl_define(e, "BN", f->bn);
    ocl_define(e, "BK", f->bk);
    ocl_define(e, "TM", f->pm);
    ocl_define(e, "TN", f->pn);
    ocl_define(e, "VA", f->va);
    ocl_define(e, "VB", f->vb);
    ocl_define(e, "WIDE_OFFSETS", wide_offsets(g, f));
}

static const ocl_form_key keys[] = {{"bm", offsetof(ocl_gemm_form, bm), OCL_FORM_KEPT},
                                    {"bn", offsetof(ocl_gemm_form, bn), OCL_FORM_KEPT},
                                    {"bk", offsetof(ocl_gemm_form, bk), OCL_FORM_KEPT},
                                    {"tm", offsetof(ocl_gemm_form, pm), OCL_FORM_KEPT},
                                    {"tn", offsetof(ocl_gemm_form, pn), OCL_FORM_KEPT},
                                    {"va", offsetof(ocl_gemm_form, va), OCL_FORM_COMPUTED},
                                    {"vb", offsetof(ocl_gemm_form, vb), OCL_FORM_COMPUTED},
                                    {0}};

const ocl_form_family ocl_tile_family = {.variant = &ocl_gemm_tile,
                                         .forms = ocl_tile_forms,
                                         .keys = keys,
                                         .min_part = 128,
                                         .complete = complete,
                                         .fits = fits,
                                         .cost = cost,
                                         .program = "gemm_tile",
                                         .kernel = "gemm_fwd_tile",
                                         .items = ocl_tile_items,
                                         .defines = product_defines};

static bool tile_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    ocl_gemm_form form;
    if (!ocl_windows_tiled(problem, MOST_STEPS, reason, size))
        return false;
    return ocl_form_choose(&ocl_tile_family, problem, device, NULL, &form, reason, size);
}

static clt_status tile_emit(ocl_emitter *e, const void *problem)
{
    return ocl_form_emit(&ocl_tile_family, e, problem);
}

const ocl_variant ocl_gemm_tile = {.name = "tile",
                                   .needs = OCL_CAP_LOCAL,
                                   .accepts = tile_accepts,
                                   .tunables = tile_tunables,
                                   .emit = tile_emit,
                                   .style = OCL_KERNEL_BLOCKS};
