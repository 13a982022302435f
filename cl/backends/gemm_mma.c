/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `mma` on the host, for GPUs with matrix units: which problems it accepts, what its forms need
 * and cost (cl/gemm/gemm_forms.c chooses), which instructions a device has for them, and the kernel command
 * (cl/backends/gemm_mma.cl). This file must not know what the matrices mean, and it decides by what a probe
 * has shown of the device.
 *
 * Why these tile sizes. A warp reads (WM + WN) * 32 bytes for 16 * WM * WN multiply-adds. With 64 x 32 that
 * is 10.7 multiply-adds a byte, or 8 if the bytes that copies write for a 128 x 128 tile are counted too;
 * warps of 64 x 64 in tiles of 256 x 128 reach 11.6. An SM of Ampere (1024 multiply-adds and 128 bytes of
 * local memory a clock) needs 8, an SM of Hopper, with these instructions, about 10. The slot for a tile of
 * 128 x 128 x 32 takes 16 KiB, so three slots fill the 48 KiB that NVIDIA's driver reports. For 256 x 128
 * two slots fit there, and four (96 KiB) where a probe has shown that a work-group may have that much. For
 * f32, BK is 16, which takes the same bytes.
 *
 * Occupancy. An item of a 64 x 32 warp has 64 registers of sums, 24 of fragments, and about 125 in all with
 * addresses and copies in flight (ptxas, tests/e2e/test_gemm_ptx.sh): two work-groups of 256 items fit on an
 * SM with 64 Ki registers. With 64 x 64 (the 256 x 128 and 128 x 256 forms) the sums alone take 128
 * registers, and all take 212 to 254: one work-group of 256 items, 8 warps, fits on an SM. It has as many
 * sums as two work-groups of the smaller form. In 16 steps of k a warp does 32 independent multiplications,
 * enough to hide their latency, and each needs a third fewer bytes of fragments and a quarter fewer of
 * global memory. tf32 takes equally many registers with 64 x 32, and 217 to 224 with 64 x 64. wmma takes up
 * to 165. */
#include "cl/backends/gemm_mma.h"
#include "cl/gemm/gemm_windows.h"
#include "cl/kernels/kernel_shared.clh"

#include <stddef.h>
#include <stdio.h>

#define WARP 32
#define MOST_STEPS 64 /* largest bk of all forms */

/* Three or four stages hide the memory's latency. The small forms are for products that would leave compute
 * units idle; small forms with two stages also serve devices without asynchronous copies. Of forms with
 * equal cost in the model the first one is chosen. So large forms whose stages exceed 48 KiB, for devices on
 * which a probe showed more local memory, come before large forms with fewer stages. bk is for 16-bit
 * elements. */
#define FORM(m, n, k, rows, columns, slots)                                                                  \
    {                                                                                                        \
        .bm = m, .bn = n, .bk = k, .pm = rows, .pn = columns, .stages = slots                                \
    }
const ocl_gemm_form ocl_mma_forms[] = {FORM(256, 128, 32, 64, 64, 4),
                                       FORM(128, 256, 32, 64, 64, 4),
                                       FORM(256, 128, 32, 64, 64, 3),
                                       FORM(128, 256, 32, 64, 64, 3),
                                       FORM(256, 128, 32, 64, 64, 2),
                                       FORM(128, 256, 32, 64, 64, 2),
                                       FORM(128, 128, 32, 64, 32, 3),
                                       FORM(128, 128, 32, 64, 32, 2),
                                       FORM(128, 64, 32, 64, 32, 4),
                                       FORM(64, 128, 32, 32, 64, 4),
                                       FORM(128, 64, 32, 64, 32, 2),
                                       FORM(64, 64, 32, 32, 32, 4),
                                       FORM(64, 64, 32, 32, 32, 2),
                                       FORM(32, 64, 32, 16, 32, 3),
                                       FORM(32, 32, 32, 16, 16, 4),
                                       FORM(32, 32, 32, 16, 16, 2),
                                       {0}};

static const ocl_tunable mma_tunables[] = {{"bm", 4, {128, 64, 32, 256}},
                                           {"bn", 4, {128, 64, 32, 256}},
                                           {"bk", 3, {32, 16, 64}},
                                           {"wm", 3, {64, 32, 16}},
                                           {"wn", 3, {32, 64, 16}},
                                           {"stages", 3, {3, 4, 2}},
                                           {"sm", 3, {80, 75, 70}},
                                           {"split", OCL_SPLIT_VALUES, {OCL_SPLIT_COUNTS}},
                                           {0}};

/* --- arithmetic of forms --- */

static int chunk(const ocl_gemm *g) /* elements in 16 bytes */
{
    return 16 / (int)clt_dtype_bytes(g->type_a);
}

int ocl_mma_items(const ocl_gemm_form *f)
{
    return f->bm / f->pm * (f->bn / f->pn) * WARP;
}

/* Chunks of a slot: SLOT_A, SLOT_B of the kernel. `along`: rows of local memory run along k. Rows are padded
 * for Volta, whose loads cannot use the swizzle. */
static uint64_t slot_chunks(const ocl_gemm *g, const ocl_gemm_form *f, bool along, int lines)
{
    int rows = along ? lines : f->bk, pitch = (along ? f->bk : lines) / chunk(g) + (f->sm < 75);
    return (uint64_t)rows * (uint64_t)pitch;
}

uint64_t ocl_mma_local_bytes(const ocl_gemm *g, const ocl_gemm_form *f, bool emulated)
{
    uint64_t slot = slot_chunks(g, f, !g->ta, f->bm) + slot_chunks(g, f, g->tb, f->bn);
    uint64_t tiles = 16 * (uint64_t)f->stages * slot;
    int gap = g->type_b != CLT_F32 || g->tb ? 8 : f->pn < 32 ? 16 : 4; /* LINE_FLOATS of the kernel */
    uint64_t lines = 4 * (uint64_t)(f->bm / f->pm) * 16 * (uint64_t)(f->bn + gap);
    uint64_t words = f->sm < 75 ? MMA_SCRATCH_WORDS_70 : MMA_SCRATCH_WORDS;
    uint64_t scratch = emulated ? 4 * (uint64_t)(ocl_mma_items(f) / WARP) * words : 0;
    return (tiles > lines ? tiles : lines) + scratch;
}

bool ocl_mma_aligned(const ocl_gemm *g, bool of_a)
{
    uint64_t bytes = clt_dtype_bytes(g->type_a), start = of_a ? g->a.offset : g->b.offset;
    uint64_t ld = (uint64_t)(of_a ? g->lda : g->ldb) * bytes;
    uint64_t stride = g->batch > 1 ? (uint64_t)(of_a ? g->stride_a : g->stride_b) * bytes : 0;
    if (ocl_is_windows(g, of_a))
        return ocl_windows_divisible(g, chunk(g));
    return (start | ld | stride) % 16 == 0;
}

/* --- limits of the device --- */

int ocl_mma_generation(clt_dtype type, const ocl_device_desc *device)
{
    if (type == CLT_F32)
        return device->caps & OCL_CAP_MMA_TF32 ? 80 : 0;
    if (type == CLT_BF16)
        return device->caps & OCL_CAP_MMA_BF16 ? 80 : 0;
    return device->caps & OCL_CAP_MMA_F16      ? 80
           : device->caps & OCL_CAP_MMA_F16_K8 ? 75
           : device->caps & OCL_CAP_WMMA_F16   ? 70
                                               : 0;
}

bool ocl_mma_emulates(const ocl_device_desc *device)
{
    return (device->quirks & OCL_QUIRK_ANY_STYLE) != 0 && device->compute_capability == 0;
}

/* Whether the device has the instructions of a generation. Emulation supports all of them; before 80 there
 * is only f16. */
static bool has_generation(const ocl_gemm *g, const ocl_device_desc *device, int sm)
{
    int own = ocl_mma_generation(g->type_a, device);
    if (own != 0)
        return sm == own;
    return sm == 80 || (g->type_a == CLT_F16 && (sm == 75 || sm == 70));
}

static void complete(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                     ocl_gemm_form *f)
{
    int own = ocl_mma_generation(g->type_a, device);
    f->sm = wanted->sm != 0 ? wanted->sm : own != 0 ? own : 80;
    if (wanted->bk == 0 && g->type_a == CLT_F32)
        f->bk /= 2;
}

static uint64_t local_bytes(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    bool emulated = ocl_mma_generation(g->type_a, device) == 0 || device->emulated_caps != 0;
    return ocl_mma_local_bytes(g, f, emulated);
}

static bool fits(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    bool regular = f->bm >= f->pm && f->bn >= f->pn && f->stages >= 2 && f->bk >= 2 * chunk(g);
    return regular && has_generation(g, device, f->sm) &&
           /* before generation 80 copies go through registers, so only one slot can be filled ahead */
           (f->sm >= 80 || f->stages == 2) && ocl_mma_items(f) <= ocl_form_max_items(device) &&
           f->pm * f->pn <= 64 * 64 && /* at most 128 registers for the sums of an item */
           local_bytes(g, device, f) <= ocl_form_room(&ocl_mma_family, device);
}

/* A cost model to rank forms until the tuner has measured. The unit is the time of one multiply-add of a
 * compute unit, whose matrix units do about a thousand per clock. Per clock, a compute unit gets 25 to 33
 * bytes from the second-level cache (public measurements of V100, A100, H100) and moves 128 bytes to or from
 * local memory. So a tile of 64 x 64, which reads twice as many bytes per multiply-add as one of 128 x 128,
 * is bound by the cache.
 *
 * There is no term for windows of an image, because their instructions never bound a step: for every tile
 * size, all instructions of a step take at most half of the clocks in which its bytes come from the cache.
 * (Clocks of instructions and of bytes in the gradient of a weight, sm_90, ptxas: 252 of 576 with 128 x 128,
 * 103 of 288 with 64 x 64, 69 of 144 with 32 x 32; in small tiles multiplications take less than that.) Only
 * windows that are read element by element, from images with few channels, take longer, by half. They do so
 * for every tile size, in proportion to its rows, so the choice stays the same. */

/* multiply-adds in the time in which a byte is read from the second-level cache */
#define FMA_PER_CACHE_BYTE 36.0
#define FMA_PER_LOCAL_BYTE 8.0    /* a byte to or from local memory */
#define FMA_PER_MEMORY_BYTE 120.0 /* from memory */
#define COST_STEP 6000.0          /* per step: a barrier, addresses, waiting for copies */
#define COST_TILE 2000000.0       /* per work-group: start, first tiles, storing C: about 2 us */
#define COST_COMMAND 4000000.0    /* per additional kernel: about 3 us */
#define REGISTERS 65536.0         /* registers of a compute unit */

/* Occupancy: the number of work-groups that a compute unit runs at the same time, to hide each other's
 * latency. */
static double side_by_side(const ocl_device_desc *device, const ocl_mma_work *w, double groups_per_unit)
{
    double resident = REGISTERS / (w->registers * w->items);
    /* a compute unit has two to four times the local memory that is reported for one work-group, and at
     * least as much as any probe showed to work */
    uint64_t unit = 2 * device->local_bytes;
    for (int retargeted = 0; retargeted < 2; retargeted++) {
        uint64_t proven = ocl_desc_max_local(device, retargeted != 0);
        unit = proven > unit ? proven : unit;
    }
    unit = device->local_argument_bytes > unit ? device->local_argument_bytes : unit;
    double by_local = (double)unit / w->local_bytes;
    resident = by_local < resident ? by_local : resident;
    resident = groups_per_unit < resident ? groups_per_unit : resident;
    return resident < 1.0 ? 1.0 : (double)(int)resident;
}

/* Time until the last compute unit ends, with stream-k: each group has a share of all steps. */
static double stream_time(const ocl_gemm_form *f, const ocl_form_shares *s, double step, double tile)
{
    double own = s->own_parts > 0 ? (double)s->part_steps * step + tile : 0.0;
    double other = (double)s->other_steps * step + (double)s->of_tiles * tile;
    return f->stream * (own > other ? own : other);
}

double ocl_mma_time(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f,
                    const ocl_mma_work *w)
{
    double units = device->compute_units ? device->compute_units : 1;
    double groups = (double)ocl_form_groups(g, f),
           rounds = (double)ocl_form_up((int64_t)groups, (int64_t)units);
    double steps = (double)ocl_form_part_steps(g, f) / f->bk, bytes = (double)clt_dtype_bytes(g->type_a);
    double local = w->lines * f->bk * bytes * FMA_PER_LOCAL_BYTE;
    double load = (double)(f->bm + f->bn) * f->bk * bytes * FMA_PER_CACHE_BYTE;
    double step = w->multiply > local ? w->multiply : local;
    step = step > load ? step : load;
    double overlap = side_by_side(device, w, groups / units);
    double tile = COST_TILE / overlap;
    step += COST_STEP / overlap;
    double total = rounds * (steps * step + tile), parts = (double)ocl_form_workspace(g, f);
    if (f->stream > 0) {
        ocl_form_shares shares;
        ocl_form_shares_of(g, f, &shares);
        total = stream_time(f, &shares, step, tile);
        parts = (double)shares.pairs * f->bm * f->bn;
    }
    if (ocl_form_is_partial(f)) /* partial sums are written and read */
        total += COST_COMMAND + 8.0 * parts * FMA_PER_MEMORY_BYTE / units;
    return total;
}

static double cost(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    /* matrix units are half as fast for f32, and for 16-bit types before generation 80 */
    double bytes = (double)clt_dtype_bytes(g->type_a);
    double warps = ocl_mma_items(f) / (double)WARP;
    ocl_mma_work work = {.items = ocl_mma_items(f),
                         .registers = f->pm * f->pn / (double)WARP + 64.0,
                         .multiply = (double)f->bm * f->bn * f->bk * (f->sm < 80 ? 2.0 : bytes / 2.0),
                         /* fragments read by every warp, and tiles written */
                         .lines = warps * (f->pm + f->pn) + f->bm + f->bn,
                         .local_bytes = (double)ocl_mma_local_bytes(g, f, false)};
    return ocl_mma_time(g, device, f, &work);
}

/* Choice */

static void product_defines(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_define(e, "BM", f->bm);
    ocl_define(e, "BN", f->bn);
    ocl_define(e, "BK", f->bk);
    ocl_define(e, "WM", f->pm);
    ocl_define(e, "WN", f->pn);
    ocl_define(e, "STAGES", f->stages);
    ocl_define(e, "ALIGNED_A", ocl_mma_aligned(g, true));
    ocl_define(e, "ALIGNED_B", ocl_mma_aligned(g, false));
    ocl_define(e, "MMA_BF16", g->type_a == CLT_BF16);
    ocl_define(e, "MMA_TF32", g->type_a == CLT_F32);
    ocl_define(e, "MMA_SM", f->sm);
    if (g->type_a == CLT_F32)
        ocl_define(e, "MMA_ROUND_EVEN", e->device->compute_capability >= 90 && e->device->emulated_caps == 0);
}

static uint32_t uses(const ocl_gemm *g, const ocl_device_desc *device, const ocl_gemm_form *f)
{
    (void)f;
    return device->caps & ocl_unit_caps(&ocl_unit_mma, g->type_a);
}

static const ocl_form_key keys[] = {{"bm", offsetof(ocl_gemm_form, bm), OCL_FORM_KEPT},
                                    {"bn", offsetof(ocl_gemm_form, bn), OCL_FORM_KEPT},
                                    {"bk", offsetof(ocl_gemm_form, bk), OCL_FORM_KEPT},
                                    {"wm", offsetof(ocl_gemm_form, pm), OCL_FORM_KEPT},
                                    {"wn", offsetof(ocl_gemm_form, pn), OCL_FORM_KEPT},
                                    {"stages", offsetof(ocl_gemm_form, stages), OCL_FORM_KEPT},
                                    {"sm", offsetof(ocl_gemm_form, sm), OCL_FORM_COMPUTED},
                                    {0}};

const ocl_form_family ocl_mma_family = {.variant = &ocl_gemm_mma,
                                        .forms = ocl_mma_forms,
                                        .keys = keys,
                                        .min_part = 256,
                                        .complete = complete,
                                        .fits = fits,
                                        .cost = cost,
                                        .program = "gemm_mma",
                                        .kernel = "gemm_fwd_mma",
                                        .local_bytes = local_bytes,
                                        .local_alignment = 128,
                                        .items = ocl_mma_items,
                                        .uses = uses,
                                        .defines = product_defines};

/* The reason why matrix units cannot multiply operands of these types, or NULL. */
static const char *refused_types(const ocl_gemm *g)
{
    if (g->type_a != g->type_b)
        return "matrix units multiply f16 by f16, bf16 by bf16 or tf32 by tf32";
    if (g->type_a == CLT_F32 && !g->tf32)
        return "f32 products keep all bits of their operands (precision.matmul ieee)";
    return NULL;
}

static bool mma_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const ocl_gemm *g = problem;
    const char *types = refused_types(g);
    ocl_gemm_form form;
    if (types != NULL) {
        snprintf(reason, size, "%s, not %s by %s", types, clt_dtype_name(g->type_a),
                 clt_dtype_name(g->type_b));
        return false;
    }
    if (!ocl_windows_tiled(g, MOST_STEPS, reason, size))
        return false;
    if (g->lda > UINT32_MAX || g->ldb > UINT32_MAX) {
        snprintf(reason, size, "rows of %s lie more than 2^32 elements apart",
                 g->lda > UINT32_MAX ? "A" : "B");
        return false;
    }
    if (ocl_mma_generation(g->type_a, device) == 0 && !ocl_mma_emulates(device)) {
        snprintf(reason, size, "the device has no matrix units for %s",
                 g->type_a == CLT_F32 ? "tf32" : clt_dtype_name(g->type_a));
        return false;
    }
    return ocl_form_choose(&ocl_mma_family, g, device, NULL, &form, reason, size);
}

static clt_status mma_emit(ocl_emitter *e, const void *problem)
{
    return ocl_form_emit(&ocl_mma_family, e, problem);
}

const ocl_variant ocl_gemm_mma = {.name = "mma",
                                  .needs = OCL_CAP_LOCAL,
                                  .accepts = mma_accepts,
                                  .tunables = mma_tunables,
                                  .emit = mma_emit,
                                  .style = OCL_KERNEL_UNITS};
