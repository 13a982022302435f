/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `mma` on the host, for GPUs with matrix units: which problems it takes, the tile, the warps'
 * parts and the number of parts of k, the kernel command (cl/kernels/gemm_mma.cl, which also argues for the
 * forms). It must not know what the matrices mean, and it decides by what a probe has shown of the device. */
#include "cl/gemm_mma.h"

#include <stdio.h>

#include "cl/gemm_tile.h"

/* Partial sums of split problems stay below this. */
#define MAX_PART_FLOATS (UINT64_C(1) << 24)
#define MIN_PART_STEPS 256 /* of k: shorter parts are not worth their sums */
#define WARP 32
#define EMULATION_WORDS 192 /* MMA_SCRATCH of cl/kernels/mma.clh, a warp */

/* Three or four tiles under way hide the memory's latency; the small forms are for products that would leave
 * compute units without work. */
const ocl_mma_form ocl_mma_forms[] = {
    {256, 128, 32, 64, 64, 2, 0}, {128, 128, 32, 64, 32, 3, 0}, {128, 128, 32, 64, 32, 2, 0},
    {128, 64, 32, 64, 32, 4, 0},  {64, 128, 32, 32, 64, 4, 0},  {128, 64, 32, 64, 32, 2, 0},
    {64, 64, 32, 32, 32, 4, 0},   {64, 64, 32, 32, 32, 2, 0},   {32, 64, 32, 16, 32, 3, 0},
    {32, 32, 32, 16, 16, 4, 0},   {32, 32, 32, 16, 16, 2, 0},   {0}};

static const int split_counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

static const ocl_tunable mma_tunables[] = {{"bm", 4, {128, 64, 32, 256}},
                                           {"bn", 4, {128, 64, 32, 256}},
                                           {"bk", 3, {32, 16, 64}},
                                           {"wm", 3, {64, 32, 16}},
                                           {"wn", 3, {32, 64, 16}},
                                           {"stages", 3, {3, 4, 2}},
                                           {"split", 12, {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}},
                                           {0}};

/* Arithmetic of forms */

static int64_t up(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

int ocl_mma_items(const ocl_mma_form *f)
{
    return f->bm / f->wm * (f->bn / f->wn) * WARP;
}

uint64_t ocl_mma_local_bytes(const ocl_mma_form *f, bool emulated)
{
    uint64_t tiles = 2 * (uint64_t)f->stages * (uint64_t)(f->bm + f->bn) * (uint64_t)f->bk;
    uint64_t lines = 4 * (uint64_t)(f->bm / f->wm) * 16 * (uint64_t)(f->bn + 8);
    uint64_t scratch = emulated ? 4 * (uint64_t)(ocl_mma_items(f) / WARP) * EMULATION_WORDS : 0;
    return (tiles > lines ? tiles : lines) + scratch;
}

uint64_t ocl_mma_groups(const ocl_gemm *g, const ocl_mma_form *f)
{
    return (uint64_t)(up(g->m, f->bm) * up(g->n, f->bn)) * (uint64_t)g->batch * (uint64_t)f->splits;
}

uint64_t ocl_mma_workspace(const ocl_gemm *g, const ocl_mma_form *f)
{
    return f->splits > 1 ? (uint64_t)(g->m * g->n) * (uint64_t)g->batch * (uint64_t)f->splits : 0;
}

/* Steps of k of one part: whole steps of BK. */
static int64_t part_steps(const ocl_gemm *g, const ocl_mma_form *f)
{
    return up(up(g->k, f->splits), f->bk) * f->bk;
}

bool ocl_mma_aligned(const ocl_gemm *g, bool of_a)
{
    uint64_t start = (of_a ? g->a.offset : g->b.offset) / 2, ld = (uint64_t)(of_a ? g->lda : g->ldb);
    uint64_t stride = g->batch > 1 ? (uint64_t)(of_a ? g->stride_a : g->stride_b) : 0;
    return ((start | ld | stride) & 7) == 0;
}

/* Limits of the device */

static uint32_t needed(const ocl_gemm *g)
{
    return g->type_a == CLT_BF16 ? OCL_CAP_MMA_BF16 : OCL_CAP_MMA_F16;
}

static bool emulated(const ocl_gemm *g, const ocl_device_desc *device)
{
    return (device->caps & needed(g)) == 0;
}

static int max_items(const ocl_device_desc *device)
{
    uint64_t limit = device->caps & OCL_CAP_WG256 ? 256 : 64;
    return (int)(device->max_work_group < limit ? device->max_work_group : limit);
}

static bool fits(const ocl_gemm *g, const ocl_device_desc *device, const ocl_mma_form *f)
{
    bool regular = f->bm >= f->wm && f->bn >= f->wn && f->stages >= 2;
    return regular && ocl_mma_items(f) <= max_items(device) &&
           f->wm * f->wn <= 64 * 64 && /* sums of an item: 128 registers */
           ocl_mma_local_bytes(f, emulated(g, device)) <= device->local_bytes;
}

/* A model of the time, to rank forms until the tuner has measured. Unit: one multiply-add of one compute
 * unit, of which its matrix units do about a thousand a clock. */

#define FMA_PER_CACHE_BYTE                                                                                   \
    16.0                          /* multiply-adds in the time that a byte takes from the second-level cache \
                                   */
#define FMA_PER_LOCAL_BYTE 8.0    /* from local memory */
#define FMA_PER_MEMORY_BYTE 120.0 /* from memory */
#define COST_STEP 6000.0          /* a barrier, addresses, what copies leave to wait for */
#define COST_TILE 2000000.0       /* a work-group's start, first tiles, sums to C: about 2 us */
#define COST_COMMAND 4000000.0    /* one more kernel: about 3 us */
#define REGISTERS 65536.0         /* of a compute unit */

/* Work-groups that one unit runs side by side; they fill one another's waiting. */
static double side_by_side(const ocl_device_desc *device, const ocl_mma_form *f, double groups_per_unit)
{
    double items = ocl_mma_items(f), registers = f->wm * f->wn / (double)WARP + 64.0;
    double resident = REGISTERS / (registers * items);
    /* units have two to four times the local memory that one work-group may have */
    double by_local = 2.0 * (double)device->local_bytes / (double)ocl_mma_local_bytes(f, false);
    resident = by_local < resident ? by_local : resident;
    resident = groups_per_unit < resident ? groups_per_unit : resident;
    return resident < 1.0 ? 1.0 : (double)(int)resident;
}

static double cost(const ocl_gemm *g, const ocl_device_desc *device, const ocl_mma_form *f)
{
    double units = device->compute_units ? device->compute_units : 1;
    double groups = (double)ocl_mma_groups(g, f), rounds = (double)up((int64_t)groups, (int64_t)units);
    double steps = (double)part_steps(g, f) / f->bk, sums = (double)f->bm * f->bn;
    double multiply = sums * f->bk, warps = ocl_mma_items(f) / (double)WARP;
    double local = warps * (f->wm + f->wn) * f->bk * 2.0 * FMA_PER_LOCAL_BYTE;
    double load = (double)(f->bm + f->bn) * f->bk * 2.0 * FMA_PER_CACHE_BYTE;
    double step = multiply > local ? multiply : local;
    step = step > load ? step : load;
    double overlap = side_by_side(device, f, groups / units);
    double total = rounds * (steps * (step + COST_STEP / overlap) + COST_TILE / overlap);
    if (f->splits > 1) /* written and read */
        total += COST_COMMAND + 8.0 * (double)ocl_mma_workspace(g, f) * FMA_PER_MEMORY_BYTE / units;
    return total;
}

/* Choice */

static bool splits_possible(const ocl_gemm *g, const ocl_mma_form *f, int splits)
{
    ocl_mma_form split = *f;
    split.splits = splits;
    return splits == 1 ||
           (ocl_mma_workspace(g, &split) <= MAX_PART_FLOATS && (splits - 1) * part_steps(g, &split) < g->k);
}

typedef struct best_form {
    bool found;
    double time;
    ocl_mma_form form;
} best_form;

/* Tries every number of parts, or the wanted one. */
static void try_form(const ocl_gemm *g, const ocl_device_desc *device, int wanted_splits,
                     const ocl_mma_form *form, best_form *best)
{
    ocl_mma_form f = *form;
    if (!fits(g, device, &f))
        return;
    for (size_t s = 0; s < sizeof split_counts / sizeof split_counts[0]; s++) {
        int splits = split_counts[s];
        if (wanted_splits ? splits != wanted_splits : splits > 1 && g->k / splits < MIN_PART_STEPS)
            continue;
        if (!splits_possible(g, &f, splits))
            continue;
        f.splits = splits;
        double time = cost(g, device, &f);
        if (!best->found || time < best->time)
            *best = (best_form){true, time, f};
    }
}

static int wish(int wanted, int standard)
{
    return wanted ? wanted : standard;
}

bool ocl_mma_choose(const ocl_gemm *g, const ocl_device_desc *device, const ocl_mma_form *wanted,
                    ocl_mma_form *out, char *reason, size_t size)
{
    static const ocl_mma_form nothing;
    best_form best = {0};
    wanted = wanted ? wanted : &nothing;
    for (const ocl_mma_form *form = ocl_mma_forms; form->bm != 0; form++) {
        ocl_mma_form f = {.bm = wish(wanted->bm, form->bm),
                          .bn = wish(wanted->bn, form->bn),
                          .bk = wish(wanted->bk, form->bk),
                          .wm = wish(wanted->wm, form->wm),
                          .wn = wish(wanted->wn, form->wn),
                          .stages = wish(wanted->stages, form->stages)};
        try_form(g, device, wanted->splits, &f, &best);
    }
    if (!best.found)
        snprintf(
            reason, size,
            "no tile %d x %d x %d with warps of %d x %d, %d stages and %d parts (0: any) fits work-groups "
            "of %d items and %llu bytes of local memory",
            wanted->bm, wanted->bn, wanted->bk, wanted->wm, wanted->wn, wanted->stages, wanted->splits,
            max_items(device), (unsigned long long)device->local_bytes);
    *out = best.form;
    return best.found;
}

static bool mma_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const ocl_gemm *g = problem;
    ocl_mma_form form;
    if (g->type_a != g->type_b || (g->type_a != CLT_F16 && g->type_a != CLT_BF16)) {
        snprintf(reason, size, "matrix units multiply f16 by f16 or bf16 by bf16, not %s by %s",
                 clt_dtype_name(g->type_a), clt_dtype_name(g->type_b));
        return false;
    }
    if (emulated(g, device) && !(device->quirks & OCL_QUIRK_ANY_STYLE)) {
        snprintf(reason, size, "the device has no matrix units for %s", clt_dtype_name(g->type_a));
        return false;
    }
    return ocl_mma_choose(g, device, NULL, &form, reason, size);
}

/* Commands */

static void product_defines(ocl_emitter *e, const ocl_gemm *g, const ocl_mma_form *f)
{
    ocl_define(e, "BM", f->bm);
    ocl_define(e, "BN", f->bn);
    ocl_define(e, "BK", f->bk);
    ocl_define(e, "WM", f->wm);
    ocl_define(e, "WN", f->wn);
    ocl_define(e, "STAGES", f->stages);
    ocl_gemm_operand_defines(e, g);
    ocl_define(e, "ALIGNED_A", ocl_mma_aligned(g, true));
    ocl_define(e, "ALIGNED_B", ocl_mma_aligned(g, false));
    ocl_define(e, "MMA_BF16", g->type_a == CLT_BF16);
    ocl_define(e, "PARTIAL", f->splits > 1);
}

/* part: where the sums go, OCL_NO_TENSOR_ID without splits. */
static void emit_product(ocl_emitter *e, const ocl_gemm *g, const ocl_mma_form *f, int32_t part)
{
    uint64_t items = (uint64_t)ocl_mma_items(f);
    ocl_kernel_begin(e, "gemm_mma", "gemm_fwd_mma");
    product_defines(e, g, f);
    if (f->splits > 1) {
        ocl_gemm_part_args(e, g, part, ocl_mma_workspace(g, f));
        ocl_arg_u32(e, (uint32_t)f->splits);
        ocl_arg_u32(e, (uint32_t)part_steps(g, f));
    } else {
        ocl_gemm_epilogue_defines(e, g);
        ocl_gemm_operand_args(e, g);
    }
    ocl_kernel_end_1d(e, ocl_mma_groups(g, f) * items, items, ocl_gemm_flops(g));
}

/* The choice of a record or, where it has none, of the model; ocl_tuned also tells the tuner what was taken.
 */
static clt_status decide(ocl_emitter *e, const ocl_gemm *g, ocl_mma_form *f)
{
    char reason[240], what[OCL_GEMM_TEXT];
    ocl_mma_form wanted = {.splits = e->workspace == NULL};
    if (!ocl_mma_choose(g, e->device, &wanted, f, reason, sizeof reason))
        CLT_FAIL(CLT_EUNSUPPORTED, "emitting %s: %s", ocl_gemm_text(g, what, sizeof what), reason);
    wanted = (ocl_mma_form){.bm = ocl_tuned(e, "bm", f->bm),
                            .bn = ocl_tuned(e, "bn", f->bn),
                            .bk = ocl_tuned(e, "bk", f->bk),
                            .wm = ocl_tuned(e, "wm", f->wm),
                            .wn = ocl_tuned(e, "wn", f->wn),
                            .stages = ocl_tuned(e, "stages", f->stages),
                            .splits = ocl_tuned(e, "split", f->splits)};
    if (!ocl_mma_choose(g, e->device, &wanted, f, reason, sizeof reason))
        CLT_FAIL(CLT_EUNSUPPORTED, "emitting %s: %s", ocl_gemm_text(g, what, sizeof what), reason);
    if (f->splits > 1 && e->workspace == NULL)
        CLT_FAIL(CLT_EUNSUPPORTED, "emitting %s: %d parts need a workspace",
                 ocl_gemm_text(g, what, sizeof what), f->splits);
    return CLT_OK;
}

static clt_status mma_emit(ocl_emitter *e, const void *problem)
{
    const ocl_gemm *g = problem;
    ocl_mma_form f;
    int32_t part = OCL_NO_TENSOR_ID;
    CLT_TRY(decide(e, g, &f));
    if (f.splits > 1)
        part = ocl_workspace(e, CLT_F32, ocl_mma_workspace(g, &f), "gemm.parts");
    emit_product(e, g, &f, part);
    if (f.splits > 1)
        ocl_tile_emit_sum(e, g, f.splits, part);
    return ocl_emit_status(e);
}

const ocl_variant ocl_gemm_mma = {.name = "mma",
                                  .needs = OCL_CAP_LOCAL,
                                  .accepts = mma_accepts,
                                  .tunables = mma_tunables,
                                  .emit = mma_emit};
