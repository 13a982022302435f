/* SPDX-License-Identifier: Apache-2.0
 *
 * The variant lane of attention, for CPU devices (kernels in engine/ops/attention/attention_lane.cl):
 * forward has an item per block of queries, backward an item per share of the key tiles of a key head. Knows
 * sizes and device descriptions. */
#include <stdio.h>

#include "engine/ops/attention/attention.h"

#define LANE_MAX_HEAD 256 /* largest head: tiles are kept in private memory */
#define LANE_MAX_SHARES 16
#define LANE_MAX_PRIVATE (512 << 10) /* bytes; the standard tiles take up to 265 KiB */
#define LANE_SUM_ROWS 4              /* equal to SUM_ROWS of attention_lane.cl */

/* Register blocking (rows, vectors) and tile sizes of the lane kernels (attention_lane.cl), and the number
 * of work-items (shares) among which backward divides the key tiles of a head. */
typedef struct lane_form {
    int64_t rows, vectors, bq, bk, qb, kb, shares;
} lane_form;

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The tile size that divides `total` evenly into the fewest tiles of at most `most`, rounded up to a
 * multiple of `unit`. */
static int64_t even_tile(int64_t total, int64_t most, int64_t unit)
{
    int64_t tiles = (total + most - 1) / most;
    return round_up((total + tiles - 1) / tiles, unit);
}

/* The smallest number of shares that keeps all compute units nearly always busy. With `heads` equal pieces
 * of work on `units` compute units, the time is proportional to ceil(heads * shares / units) / shares; a
 * larger number is taken only if it saves more than 10 % of the time. */
static int64_t lane_shares(int64_t heads, int64_t tiles, int64_t units)
{
    int64_t best = 1;
    double least = 0;
    for (int64_t shares = 1; shares <= tiles && shares <= LANE_MAX_SHARES; shares++) {
        double time = (double)((heads * shares + units - 1) / units) / (double)shares;
        if (shares == 1 || time < 0.9 * least) {
            best = shares;
            least = time;
        }
    }
    return best;
}

static int64_t lane_units(const ocl_device_desc *device)
{
    return device->compute_units ? (int64_t)device->compute_units : 1;
}

/* Register blocking: the accumulators, the operands and a broadcast must fit into the vector registers. 32
 * registers of sixteen lanes hold 16 accumulators; 16 registers of eight lanes (or 32 of four) hold 6. Tiles
 * fit into the first- and second-level caches, and are smaller where large ones would leave compute units
 * idle. */
static lane_form lane_measure(const clt_attention *s, const ocl_device_desc *device)
{
    bool large = device->vector_floats >= 16;
    int64_t units = lane_units(device);
    int64_t queries = s->dim <= 64 ? 96 : s->dim <= 128 ? 64 : 32, keys = queries;
    lane_form f = {.vectors = large && round_up(s->dim, 16) % 32 == 0 ? 2 : 1};
    f.rows = large ? 16 / f.vectors : 6;
    while (queries > 32 && s->batch * s->heads * ((s->tq + queries - 1) / queries) < 2 * units)
        queries -= 32;
    while (keys > 32 && s->batch * s->kv_heads * ((s->tk + keys - 1) / keys) < 2 * units)
        keys -= 32;
    f.bq = even_tile(s->tq, queries, 16 * f.vectors);
    f.kb = even_tile(s->tk, keys, 16 * f.vectors);
    f.bk = f.qb = s->dim <= 128 ? 64 : 32; /* kernels round it up to a multiple of `rows` */
    return f;
}

static bool lane_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    (void)device;
    if (s.dim <= LANE_MAX_HEAD)
        return true;
    snprintf(reason, size, "a head of %lld elements; tiles hold %d", (long long)s.dim, LANE_MAX_HEAD);
    return false;
}

/* Bytes of tiles in an item's private memory, which drivers keep on a thread's stack, in the direction
 * (forward or backward) that needs more. `first`: rows of the side that stays with the item; `second`: rows
 * of the side that streams by. */
static int64_t private_bytes(const clt_attention *s, int64_t first, int64_t second)
{
    return 4 * (round_up(s->dim, 32) * (5 * first + 2 * second) + 2 * first * second);
}

/* Applies the tile sizes of a tuning record, for the side that stays with an item and for the side that
 * streams by. False: they do not fit. */
static bool lane_tuned(ocl_emitter *e, const clt_attention *s, const char *const names[2], const lane_form *f,
                       int64_t *stay, int64_t stay_total, int64_t *pass)
{
    int unit = (int)(16 * f->vectors),
        wanted[2] = {ocl_tuned(e, names[0], (int)*stay), ocl_tuned(e, names[1], (int)*pass)};
    if (wanted[0] != *stay)
        *stay = even_tile(stay_total, wanted[0] / unit * unit, unit);
    *pass = round_up(wanted[1], f->rows);
    return wanted[0] >= unit && private_bytes(s, *stay, *pass) <= LANE_MAX_PRIVATE;
}

static clt_status lane_refuse(const clt_attention *s)
{
    CLT_FAIL(
        CLT_EUNSUPPORTED,
        "the tuning record's tiles, with rows of %lld elements, take more than %d bytes of private memory",
        (long long)s->dim, LANE_MAX_PRIVATE);
}

static void lane_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s, const lane_form *f,
                       clt_attention_kernel kernel, const char *name)
{
    clt_attention_begin(e, call, s, "attention_lane", kernel, name);
    ocl_define(e, "ROWS", f->rows);
    ocl_define(e, "VECTORS", f->vectors);
    ocl_define(e, "SHUFFLES", (e->device->quirks & OCL_QUIRK_NO_SHUFFLES) == 0);
}

static clt_status attention_fwd_lane(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    lane_form f = lane_measure(&s, e->device);
    if (!lane_tuned(e, &s, (const char *const[2]){"queries", "keys"}, &f, &f.bq, s.tq, &f.bk))
        return lane_refuse(&s);
    lane_begin(e, call, &s, &f, CLT_ATTENTION_FORWARD, "attention_fwd_lane");
    ocl_define(e, "BQ", f.bq);
    ocl_define(e, "BK", f.bk);
    clt_attention_outputs(e, call, &s);
    clt_attention_inputs(e, call, &s);
    clt_attention_sizes(e, call, &s);
    ocl_kernel_end_1d(e, (uint64_t)(s.batch * s.heads) * clt_div_up((uint64_t)s.tq, (uint64_t)f.bq), 1,
                      clt_attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

/* Emits the kernel: gradient i (+)= the sum of its partial copies. */
static void lane_sum(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                     const clt_attention_grads *g, int i, int32_t copies, int64_t shares)
{
    uint64_t rows = (uint64_t)(s->batch * (i ? s->tk : s->tq));
    uint64_t elements = rows * (uint64_t)((i ? s->kv_heads : s->heads) * s->dim);
    ocl_kernel_begin(e, "attention_lane", "attention_bwd_sum_lane");
    ocl_define(e, "KERNEL", CLT_ATTENTION_SUM);
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", i ? s->kv_heads : s->heads);
    clt_define_dtype(e, "GT", clt_call_dtype(call, g->tensor[i]));
    clt_attention_grad_arg(e, call, s, g, i, 1);
    ocl_arg_in(e, copies, CLT_F32, (uint64_t)shares * elements);
    ocl_arg_u64(e, rows);
    clt_arg_size32(e, shares, "shares");
    ocl_kernel_end_1d(e, clt_div_up(rows, LANE_SUM_ROWS), 1, (double)shares * (double)elements);
}

/* True if gradient i is first computed in f32 workspace: the backward kernel accumulates in f32 only, and if
 * several items contribute to dq, each needs its own copy. */
static bool lane_apart(const clt_call *call, const lane_form *f, const clt_attention_grads *g, int i)
{
    return (i == 0 && f->shares > 1) || (g->tensor[i] >= 0 && clt_call_dtype(call, g->tensor[i]) != CLT_F32);
}

static clt_status attention_bwd_lane(ocl_emitter *e, const void *problem)
{
    static const char *const names[3] = {"attention.dq", "attention.dk", "attention.dv"};
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    lane_form f = lane_measure(&s, e->device);
    clt_attention_grads g, to;
    if (!clt_attention_wants(call, &s, &g))
        return CLT_OK;
    if (!lane_tuned(e, &s, (const char *const[2]){"keys", "queries"}, &f, &f.kb, s.tk, &f.qb))
        return lane_refuse(&s);
    int64_t tiles = (s.tk + f.kb - 1) / f.kb;
    f.shares = ocl_tuned(e, "shares", (int)lane_shares(s.batch * s.kv_heads, tiles, lane_units(e->device)));
    /* every share needs a tile, since it writes its copy of dq only with its first tile */
    if (f.shares > 1 && f.shares > tiles)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "%lld shares need at least one tile of keys each, but there are only %lld tiles",
                 (long long)f.shares, (long long)tiles);
    to = g;
    for (int i = 0; i < 3; i++) {
        int64_t rows = s.batch * (i ? s.tk : s.tq), width = (i ? s.kv_heads : s.heads) * s.dim;
        if (!lane_apart(call, &f, &g, i)) {
            clt_attention_scratch(e, &s, &to, i, CLT_F32);
            continue;
        }
        to.tensor[i] = ocl_workspace(e, CLT_F32, (uint64_t)((i ? 1 : f.shares) * rows * width), names[i]);
        to.start[i] = 0;
        to.ld[i] = width;
        to.accumulate[i] = false;
    }
    lane_begin(e, call, &s, &f, CLT_ATTENTION_BACKWARD, "attention_bwd_lane");
    ocl_define(e, "QB", f.qb);
    ocl_define(e, "KB", f.kb);
    clt_define_dtype(e, "DYT", clt_call_dtype(call, call->dout[0]));
    for (int i = 0; i < 3; i++)
        clt_attention_grad_arg(e, call, &s, &to, i, i ? 1 : f.shares);
    ocl_arg_in(e, call->dout[0], clt_call_dtype(call, call->dout[0]),
               clt_attention_rows(&s) * (uint64_t)s.dim);
    ocl_arg_in(e, call->out[0], clt_call_dtype(call, call->out[0]), clt_attention_rows(&s) * (uint64_t)s.dim);
    ocl_arg_in(e, call->saved[0], CLT_F32, clt_attention_rows(&s));
    clt_arg_size32(e, f.shares, "shares");
    clt_attention_inputs(e, call, &s);
    clt_attention_sizes(e, call, &s);
    ocl_kernel_end_1d(e, (uint64_t)(s.batch * s.kv_heads * f.shares), 1,
                      clt_attention_pairs(call, &s) * (10.0 * (double)s.dim + 5.0));
    for (int i = 0; i < 3; i++)
        if (g.tensor[i] >= 0 && lane_apart(call, &f, &g, i))
            lane_sum(e, call, &s, &g, i, to.tensor[i], i ? 1 : f.shares);
    return CLT_OK;
}

static const ocl_tunable fwd_tiles[] = {{"queries", 3, {32, 64, 96}}, {"keys", 3, {32, 64, 96}}, {0}};
static const ocl_tunable bwd_tiles[] = {
    {"keys", 3, {32, 64, 96}}, {"queries", 3, {32, 64, 96}}, {"shares", 5, {1, 2, 4, 8, 16}}, {0}};
const ocl_variant clt_attention_fwd_lane = {.name = "lane",
                                            .needs = OCL_CAP_WIDE_VECTORS,
                                            .accepts = lane_accepts,
                                            .tunables = fwd_tiles,
                                            .emit = attention_fwd_lane,
                                            .written_for = OCL_CAP_WIDE_VECTORS,
                                            .style = OCL_KERNEL_LANES};
const ocl_variant clt_attention_bwd_lane = {.name = "lane",
                                            .needs = OCL_CAP_WIDE_VECTORS,
                                            .accepts = lane_accepts,
                                            .tunables = bwd_tiles,
                                            .emit = attention_bwd_lane,
                                            .written_for = OCL_CAP_WIDE_VECTORS,
                                            .style = OCL_KERNEL_LANES};
