/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `lane` on the host: which problems it accepts, how C is divided into blocks, and the kernel
 * command (kernel in cl/backends/gemm_lane.cl). The one kernel also packs, so there is no workspace, and
 * weights are not packed in advance: a packed element of B serves all rows of a block, which makes packing a
 * few percent of the work. This file must not know what the matrices mean. */
#include "cl/backends/gemm_lane.h"
#include "cl/gemm/gemm_windows.h"
#include "cl/kernels/kernel_shared.clh"

#include <stdio.h>

/* Limits for a block's panel of A and for the whole block. The panel of A is read again for every
 * micro-panel of B and should stay in a part of a core's second-level cache; the sums are accessed once per
 * block of k, in order. An unpacked A stays in the cache less well, because its rows map to few cache sets,
 * so its limit is smaller. */
#define PANEL_BYTES (UINT64_C(400) << 10)
#define PACKED_BYTES (UINT64_C(960) << 10)
#define UNPACKED_BYTES (UINT64_C(640) << 10)
/* Matrices up to NEAR_BYTES are assumed to be in a core's own cache, those above FAR_BYTES in memory. */
#define NEAR_BYTES 4e6
#define FAR_BYTES 16e6
#define PAGE_BYTES 4096
#define MICRO_PANELS 4 /* micro-panels of B that the kernel packs together */
#define MAX_TILES_ACROSS 64
/* Largest number of rows in a block of moments. Cancellation enlarges the relative error of a sum of squares
 * by at most this factor. */
#define MOMENT_ROWS 128
#define MAX_PARTS 2 /* largest number of pieces into which each of the last blocks is cut */
/* One work-group per core takes blocks until none is left. If there are more blocks than this, it takes
 * several at a time. */
#define MAX_TILES (UINT64_C(1) << 20)

/* Costs in units of one fused multiply-add of 16 lanes, per element or as noted. They were measured on a
 * core with 256-bit vectors and are right within a factor of two, which is enough to rank blocks. */
#define COST_PACK_B 0.3
#define COST_PACK_B_TRANSPOSED 0.4
#define COST_PACK_A 0.4
#define COST_READ_A 0.05
#define COST_SHARED 0.25    /* added if the operand comes from a cache that the cores share */
#define COST_FAR 0.6        /* added if the operand comes from memory each time */
#define LONG_ROW 128.0      /* elements: pieces of A's stored rows this short double the two costs above */
#define COST_UNPACKED 0.025 /* added per multiply-add if A lies along k and is not packed: addresses */
#define COST_TILE 40.0      /* per tile and block of k: loading and storing the sums */
#define COST_GROUP 3000.0   /* per block */
#define COST_UNEVEN 0.3     /* imbalance at the end, as a fraction of the time of one piece */

/* 0: chosen by ocl_lane_choose */
static const ocl_tunable lane_tunables[] = {{"mr", 5, {0, 6, 8, 12, 14}},
                                            {"nv", 4, {0, 1, 2, 3}},
                                            {"kc", 5, {0, 192, 256, 384, 512}},
                                            {"mt", 6, {0, 8, 16, 32, 48, 64}},
                                            {"nt", 6, {0, 4, 8, 12, 16, 24}},
                                            {"pack_a", 2, {0, 1}},
                                            {0}};

static int64_t up(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

/* MRP of the kernel: rows of a packed tile of A, with padding. */
static int packed_rows(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    return g->ta ? b->mr : (b->mr + 7) / 8 * 8;
}

static uint64_t panel_b_bytes(const ocl_lane_blocks *b)
{
    return MICRO_PANELS * (uint64_t)b->kc * (uint64_t)b->nv * LANES * 4;
}

static uint64_t panel_a_bytes(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    return b->pack_a ? (uint64_t)b->mt * (uint64_t)b->kc * (uint64_t)packed_rows(g, b) * 4 : 0;
}

static uint64_t sums_bytes(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    uint64_t tile = (uint64_t)b->mr * (uint64_t)b->nv * LANES * 4;
    return g->k > b->kc ? tile * (uint64_t)b->mt * (uint64_t)b->nt : tile;
}

/* Bytes of all sums: for k > SUM_STEPS also the sums of finished chains and their rounding errors. The
 * limits for caches do not count these additional numbers, because they are accessed only once per chain;
 * but local memory must hold them. With less than about 2 MB of local memory, blocks with k > SUM_STEPS
 * therefore have fewer tiles (at least a third as many), and an element of B is packed correspondingly more
 * often. */
static uint64_t all_sums_bytes(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    return (g->k > SUM_STEPS ? 3 : 1) * sums_bytes(g, b);
}

uint64_t ocl_lane_local_bytes(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    return panel_b_bytes(b) + panel_a_bytes(g, b) + all_sums_bytes(g, b);
}

static bool fits(const ocl_gemm *g, const ocl_device_desc *device, const ocl_lane_blocks *b)
{
    uint64_t rows_of_a = (uint64_t)b->mt * (uint64_t)b->mr * (uint64_t)b->kc * 4;
    if (ocl_lane_local_bytes(g, b) > device->local_bytes)
        return false;
    if (!b->pack_a)
        return rows_of_a + sums_bytes(g, b) <= UNPACKED_BYTES;
    return panel_a_bytes(g, b) <= PANEL_BYTES && panel_a_bytes(g, b) + sums_bytes(g, b) <= PACKED_BYTES;
}

/* Cost of reading an operand, by the cache or memory that holds it. A matrix of windows is read from its
 * image, which has fewer elements. */
static double distance_cost(const ocl_gemm *g, int operand, int64_t elements, clt_dtype type)
{
    int64_t read = (int)g->windows.operand == operand ? g->windows.elements : elements;
    double bytes = (double)read * (double)clt_dtype_bytes(type);
    return bytes > FAR_BYTES ? COST_FAR : bytes > NEAR_BYTES ? COST_SHARED : 0.0;
}

/* Cost of a block of `mt` rows of tiles. A block of k also ends where a chain of sums ends. Every chain
 * except one stores and loads two more numbers per sum: the total so far and its rounding error. */
static double block_cost(const ocl_gemm *g, const ocl_lane_blocks *b, int mt)
{
    double k = (double)g->k, tiles = (double)mt * b->nt;
    double k_blocks = (double)(g->k / SUM_STEPS * up(SUM_STEPS, b->kc) + up(g->k % SUM_STEPS, b->kc));
    double added_chains = g->k > SUM_STEPS ? (double)(up(g->k, SUM_STEPS) - 1) : 0.0;
    double pack_b = (g->tb ? COST_PACK_B_TRANSPOSED : COST_PACK_B) +
                    distance_cost(g, OCL_WINDOWS_B, g->k * g->n, g->type_b);
    double short_rows = !g->ta ? 1.0 : 1.0 + LONG_ROW / ((double)mt * b->mr);
    double pack_a = (b->pack_a ? COST_PACK_A : COST_READ_A) +
                    short_rows * distance_cost(g, OCL_WINDOWS_A, g->m * g->k, g->type_a);
    double step = b->pack_a || g->ta ? 1.0 : 1.0 + COST_UNPACKED;
    return tiles * b->mr * b->nv * k * step + (double)b->nt * b->nv * LANES * k * pack_b +
           (double)mt * b->mr * k * pack_a + tiles * (k_blocks + 2.0 * added_chains) * COST_TILE + COST_GROUP;
}

/* Cost of the problem on all cores. While some cores compute whole blocks in the last round, the others
 * already compute pieces of the cut blocks. The last term allows for a delayed core: it favours small
 * pieces. */
static double cost(const ocl_gemm *g, const ocl_device_desc *device, const ocl_lane_blocks *b)
{
    int64_t units = device->compute_units ? (int64_t)device->compute_units : 1;
    int64_t whole = (int64_t)(b->blocks - b->cut), rounds = up(whole, units);
    int64_t meanwhile = (rounds * units - whole) * b->parts;
    int64_t pieces = (int64_t)b->cut * b->parts - meanwhile;
    double piece = block_cost(g, b, (int)up(b->mt, b->parts));
    return (double)rounds * block_cost(g, b, b->mt) + (double)up(pieces > 0 ? pieces : 0, units) * piece +
           COST_UNEVEN * piece;
}

static void count_blocks(const ocl_gemm *g, const ocl_device_desc *device, int parts, ocl_lane_blocks *b)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    int64_t down = up(up(g->m, b->mr), b->mt), across = up(up(g->n, b->nv * LANES), b->nt);
    b->blocks = (uint64_t)(down * across * g->batch);
    b->parts = b->mt >= parts && b->blocks <= MAX_TILES / 2 ? parts : 1;
    b->cut = b->parts == 1 ? 0 : b->blocks < units ? b->blocks : units;
}

/* Whether A must be packed. Reasons: it is not f32; it is a matrix of windows; it has fewer rows than a
 * tile; unpacked rows along k would need more address registers than there are (mr > 8); its columns are
 * whole pages apart, so that all elements of a row map to a few sets of the caches. */
static bool must_pack(const ocl_gemm *g, int mr)
{
    bool far_apart = g->ta && g->lda * (int64_t)sizeof(float) % PAGE_BYTES == 0;
    return g->type_a != CLT_F32 || g->m < mr || far_apart || (mr > 8 && !g->ta) ||
           g->windows.operand == OCL_WINDOWS_A;
}

/* Register blocking: the accumulators, nv vectors of the micro-panel and one broadcast must fit into the
 * vector registers: 16 of 4 or 8 floats, or 32 of 16. With 32 there is room for 14 rows of two vectors, but
 * 8 rows also hide the latency of fma, need no packed A, and were faster (docs/measurements.md, GEMM). kc is
 * so small that a micro-panel of B and, if packed, a tile of A fit into the first-level cache together with
 * the next ones; blocks of kc divide a chain of sums. */
static void choose_tile(const ocl_gemm *g, const ocl_device_desc *device, const ocl_lane_blocks *wanted,
                        bool pack_a, ocl_lane_blocks *b)
{
    bool large = device->vector_floats >= 16;
    b->mr = wanted->mr ? wanted->mr : large ? 8 : 6;
    b->nv = wanted->nv ? wanted->nv : large && g->n > LANES ? 2 : 1;
    b->pack_a = pack_a || must_pack(g, b->mr);
    int longest = b->nv > 1 || (b->pack_a && g->k <= 256) ? 256 : b->pack_a ? 192 : 384;
    int64_t chain = g->k < SUM_STEPS ? g->k : SUM_STEPS, parts = up(chain, wanted->kc ? wanted->kc : longest);
    b->kc = parts > 1 ? (int)(up(up(chain, parts), 8) * 8) : (int)(g->k > 0 ? g->k : 1);
}

typedef struct lane_search {
    const ocl_gemm *g;
    const ocl_device_desc *device;
    const ocl_lane_blocks *wanted;
    ocl_lane_blocks best;
    double time; /* 0: no block fits */
} lane_search;

static void consider(lane_search *s, ocl_lane_blocks *b)
{
    if (!fits(s->g, s->device, b))
        return;
    for (int parts = 1; parts <= MAX_PARTS; parts++) {
        count_blocks(s->g, s->device, parts, b);
        double time = cost(s->g, s->device, b);
        if (s->time == 0.0 || time < s->time) {
            s->time = time;
            s->best = *b;
        }
    }
}

/* Tries all heights and widths of blocks that divide C evenly. */
static void consider_blocks(lane_search *s, bool pack_a)
{
    const ocl_lane_blocks *wanted = s->wanted;
    ocl_lane_blocks b = {0};
    choose_tile(s->g, s->device, wanted, pack_a, &b);
    int64_t down = up(s->g->m, b.mr), across = up(s->g->n, b.nv * LANES), last_mt = 0;
    for (int64_t i = 1; i <= down; i++) {
        int64_t mt = wanted->mt ? (wanted->mt < down ? wanted->mt : down) : up(down, i), last_nt = 0;
        if (mt == last_mt)
            continue;
        b.mt = (int)(last_mt = mt);
        for (int64_t j = up(across, MAX_TILES_ACROSS); j <= across; j++) {
            int64_t nt = wanted->nt ? (wanted->nt < across ? wanted->nt : across) : up(across, j);
            if (nt == last_nt)
                continue;
            b.nt = (int)(last_nt = nt);
            consider(s, &b);
        }
    }
}

bool ocl_lane_choose(const ocl_gemm *g, const ocl_device_desc *device, const ocl_lane_blocks *wanted,
                     ocl_lane_blocks *out)
{
    static const ocl_lane_blocks nothing;
    lane_search s = {.g = g, .device = device, .wanted = wanted ? wanted : &nothing};
    if (!s.wanted->pack_a)
        consider_blocks(&s, false);
    consider_blocks(&s, true);
    if (s.time > 0.0)
        *out = s.best;
    return s.time > 0.0;
}

/* Accepts a problem if the smallest block fits into local memory. */
static bool lane_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const ocl_gemm *g = problem;
    static const ocl_lane_blocks nothing;
    ocl_lane_blocks smallest = {.mt = 1, .nt = 1};
    if (g->m < 3 || g->n < 4) {
        snprintf(reason, size, "%lld x %lld is too small for tiles", (long long)g->m, (long long)g->n);
        return false;
    }
    choose_tile(g, device, &nothing, true, &smallest);
    if (!fits(g, device, &smallest)) {
        snprintf(reason, size, "no block fits %llu bytes of local memory",
                 (unsigned long long)device->local_bytes);
        return false;
    }
    return true;
}

static void lane_args(ocl_emitter *e, const ocl_gemm *g, const ocl_lane_blocks *b)
{
    ocl_gemm_operand_args(e, g);
    if (g->windows.operand != OCL_WINDOWS_NONE)
        ocl_windows_args(e, &g->windows, true);
    ocl_arg_u32(e, (uint32_t)b->mt);
    ocl_arg_u32(e, (uint32_t)b->nt);
    ocl_arg_u32(e, (uint32_t)b->kc);
    ocl_arg_tile_counter(e);
    ocl_arg_u32(e, (uint32_t)clt_div_up(b->blocks, MAX_TILES));
    ocl_arg_u32(e, (uint32_t)b->cut);
    ocl_arg_u32(e, (uint32_t)b->parts);
    ocl_arg_local(e, panel_b_bytes(b));
    if (b->pack_a)
        ocl_arg_local(e, panel_a_bytes(g, b));
    ocl_arg_local(e, all_sums_bytes(g, b));
}

static uint64_t groups_of(const ocl_device_desc *device, const ocl_lane_blocks *b)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    uint64_t pieces = b->blocks + b->cut * (uint64_t)(b->parts - 1);
    return pieces < units ? pieces : units;
}

/* MOMENT_BLOCK of the kernel: number of blocks of moments in the first `tiles` tiles of a row of blocks. */
static int64_t moment_blocks_of(const ocl_lane_blocks *b, int64_t tiles)
{
    int64_t most = MOMENT_ROWS / b->mr, half = b->cut > 0 ? up(b->mt, b->parts) : b->mt;
    return tiles <= half ? up(tiles, most) : up(half, most) + up(tiles - half, most);
}

static uint64_t moment_blocks(const ocl_gemm *g, const ocl_lane_blocks *b)
{
    int64_t row_tiles = up(g->m, b->mr), above = (row_tiles - 1) / b->mt;
    return (uint64_t)(above * moment_blocks_of(b, b->mt) + moment_blocks_of(b, row_tiles - above * b->mt));
}

static clt_status lane_emit(ocl_emitter *e, const void *problem)
{
    /* Forward products of a model (B transposed) have several combinations of epilogues, and a program for
     * each would compile for a second or two. So in this layout the epilogue's operands are optional
     * pointers; other products seldom have them. */
    ocl_gemm own = *(const ocl_gemm *)problem;
    const ocl_gemm *g = &own;
    own.optional_operands = own.tb && own.windows.operand == OCL_WINDOWS_NONE;
    ocl_lane_blocks wanted = {.mr = ocl_tuned(e, "mr", 0),
                              .nv = ocl_tuned(e, "nv", 0),
                              .kc = ocl_tuned(e, "kc", 0),
                              .mt = ocl_tuned(e, "mt", 0),
                              .nt = ocl_tuned(e, "nt", 0),
                              .pack_a = ocl_tuned(e, "pack_a", 0) != 0};
    ocl_lane_blocks b;
    if (!ocl_lane_choose(g, e->device, &wanted, &b) && !ocl_lane_choose(g, e->device, NULL, &b))
        CLT_FAIL(CLT_EUNSUPPORTED, "emitting a lane GEMM: no block fits %llu bytes of local memory",
                 (unsigned long long)e->device->local_bytes);
    bool moments = ocl_gemm_make_moments(e, g, moment_blocks(g, &b));
    ocl_kernel_begin(e, "gemm_lane", "gemm_fwd_lane");
    ocl_define(e, "MR", b.mr);
    ocl_define(e, "NV", b.nv);
    ocl_define(e, "MICRO_PANELS", MICRO_PANELS);
    ocl_define(e, "PACK_A", b.pack_a);
    if (g->k > SUM_STEPS)
        ocl_define(e, "CHAINS", 1);
    ocl_define(e, "SHUFFLES", (e->device->quirks & OCL_QUIRK_NO_SHUFFLES) == 0);
    /* Finishing whole tiles from registers needs a copy of the epilogue's code for each vector of sums, so
     * it is done only without an activation. */
    ocl_define(e, "DIRECT", g->activation == OCL_ACT_NONE);
    ocl_define(e, "PREFETCH", (e->device->caps & OCL_CAP_PREFETCH) != 0);
    ocl_kernel_needs(e, e->device->caps & OCL_CAP_PREFETCH);
    ocl_gemm_operand_defines(e, g);
    ocl_gemm_epilogue_defines(e, g);
    if (moments)
        ocl_define(e, "MOMENT_ROWS", MOMENT_ROWS);
    ocl_define(e, "WINDOWS", (int64_t)g->windows.operand);
    lane_args(e, g, &b);
    ocl_kernel_end_1d(e, groups_of(e->device, &b), 1, ocl_gemm_flops(g) + ocl_gemm_moment_flops(g));
    return ocl_emit_status(e);
}

const ocl_variant ocl_gemm_lane = {.name = "lane",
                                   .needs = OCL_CAP_WIDE_VECTORS,
                                   .accepts = lane_accepts,
                                   .tunables = lane_tunables,
                                   .emit = lane_emit};
