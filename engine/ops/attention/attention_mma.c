/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants of attention for GPUs with matrix units (engine/ops/attention/attention_mma.cl, which gives
 * the reasons for the sizes, and attention_mma_one.cl): which problems they take, how many rows a work-group
 * holds and how many it streams through local memory. The choice depends on capabilities of the device,
 * never on its name. */
#include <stdio.h>

#include "cl/backends/gemm_mma.h"
#include "engine/ops/attention/attention.h"

#define FEWEST_WARPS 2
#define MMA_MAX_HEAD 128    /* a larger head's accumulators would not fit into the registers */
#define EMULATION_WORDS 192 /* for each warp; equal to MMA_SCRATCH of mma.clh */
#define WIDE_HEAD 64        /* up to this head size a warp can hold two m16 tiles */
#define GROUPS_A_UNIT 2     /* with fewer work-groups per unit, compute units would be idle */

typedef struct mma_form {
    int warps, m_tiles, cols; /* -DWARPS -DM_TILES -DCOLS; warps 0: none */
} mma_form;

/* In the order of preference: the first forms have the most multiply-adds per byte read from local memory,
 * the last ones need the least local memory. */
static const mma_form forms[][5] = {
    [CLT_ATTENTION_FORWARD] = {{4, 2, 64}, {4, 1, 64}, {4, 1, 32}, {2, 1, 16}, {0}},
    [CLT_ATTENTION_DQ] = {{4, 2, 64}, {4, 1, 32}, {2, 1, 16}, {0}},
    [CLT_ATTENTION_DKV] = {{4, 2, 32}, {4, 1, 16}, {2, 1, 16}, {0}},
    [CLT_ATTENTION_BACKWARD] = {{4, 2, 32}, {4, 1, 32}, {4, 1, 16}, {2, 1, 16}, {0}}};

static int64_t form_rows(const mma_form *f)
{
    return 16 * f->m_tiles * f->warps;
}

/* Whether a work-group holds keys and streams queries, instead of the other way round. */
static bool holds_keys(clt_attention_kernel kernel)
{
    return kernel == CLT_ATTENTION_DKV || kernel == CLT_ATTENTION_BACKWARD;
}

static uint64_t form_items(const mma_form *f)
{
    return 32 * (uint64_t)f->warps;
}

/* MMA_SM of mma.clh, the compute capability whose instructions are used; 0: the device has none that this
 * variant can use. Accumulators become operands of the next product without leaving their registers, so the
 * layout of fragments must be documented: NVIDIA documents it for mma.sync, but not for Volta's wmma. */
static int generation(clt_dtype dtype, const ocl_device_desc *device)
{
    int sm = ocl_mma_generation(dtype, device);
    return sm >= 75 ? sm : 0;
}

static bool emulated(clt_dtype dtype, const ocl_device_desc *device)
{
    return generation(dtype, device) == 0 || device->emulated_caps != 0;
}

/* Local memory of a work-group: two slots (double buffering) of two tiles; for dk and dv also the block's
 * values or keys, and lse and delta; with dq also dS^T. */
static uint64_t local_bytes(const clt_attention *s, clt_attention_kernel kernel, const mma_form *f,
                            bool emulate)
{
    uint64_t pitch = ((uint64_t)s->dim + 15) / 16 * 16 + 8, rows = 4 * (uint64_t)f->cols, other = 0;
    if (holds_keys(kernel)) {
        rows += (uint64_t)form_rows(f);
        other = 4 * (uint64_t)f->cols * sizeof(float);
    }
    if (kernel == CLT_ATTENTION_BACKWARD)
        other += 2 * (uint64_t)form_rows(f) * ((uint64_t)f->cols + 8);
    if (emulate)
        other += (uint64_t)f->warps * EMULATION_WORDS * sizeof(uint32_t);
    return 2 * rows * pitch + other;
}

static uint64_t form_groups(const clt_attention *s, clt_attention_kernel kernel, const mma_form *f)
{
    bool keys = holds_keys(kernel);
    return (uint64_t)(s->batch * (keys ? s->kv_heads : s->heads)) *
           clt_div_up((uint64_t)(keys ? s->tk : s->tq), (uint64_t)form_rows(f));
}

/* Whether a form fits. Two m16 tiles need small heads and, in backward, no dropout, whose random numbers
 * need registers too. */
static bool form_fits(const clt_call *call, const clt_attention *s, clt_attention_kernel kernel,
                      const mma_form *f, const ocl_device_desc *device)
{
    bool emulate = emulated(clt_call_dtype(call, call->in[0]), device);
    if (f->m_tiles > 1 &&
        (s->dim > WIDE_HEAD || (kernel != CLT_ATTENTION_FORWARD && clt_attention_drops(call))))
        return false;
    return form_items(f) <= clt_group_limit(device) &&
           local_bytes(s, kernel, f, emulate) <= device->local_bytes;
}

/* Whether a form suits the problem's size. A block that would be half empty or more is too large. Two m16
 * tiles per warp read local memory half as often, but pay only if there are enough blocks for all compute
 * units. */
static bool form_suits(const clt_attention *s, clt_attention_kernel kernel, const mma_form *f,
                       const ocl_device_desc *device)
{
    uint64_t units = device->compute_units ? device->compute_units : 1;
    int64_t rows = holds_keys(kernel) ? s->tk : s->tq;
    if (f->warps > FEWEST_WARPS && form_rows(f) / 2 >= rows)
        return false;
    return f->m_tiles == 1 || form_groups(s, kernel, f) >= GROUPS_A_UNIT * units;
}

static const mma_form *choose(const clt_call *call, const clt_attention *s, clt_attention_kernel kernel,
                              const ocl_device_desc *device)
{
    const mma_form *f = forms[kernel];
    while (f->warps && !(form_suits(s, kernel, f, device) && form_fits(call, s, kernel, f, device)))
        f++;
    return f;
}

/* The form that a tuning record names by its index in `forms`, or the standard choice; NULL: it does not
 * fit. */
static const mma_form *tuned(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                             clt_attention_kernel kernel, const char *name)
{
    const mma_form *f = choose(call, s, kernel, e->device);
    int tile = ocl_tuned(e, name, (int)(f - forms[kernel])), count = 0;
    while (forms[kernel][count].warps)
        count++;
    f = &forms[kernel][tile];
    return tile >= 0 && tile < count && form_fits(call, s, kernel, f, e->device) ? f : NULL;
}

static clt_status refuse_tile(const clt_attention *s)
{
    CLT_FAIL(CLT_EUNSUPPORTED,
             "the tile of the tuning record does not fit heads of %lld elements on this device",
             (long long)s->dim);
}

/* Checks the tiles of the backward kernels as well, so that the backward variant accepts the same problems,
 * except for the types of gradients, which only mma_accepts_backward checks. */
static bool mma_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    clt_dtype dtype = clt_call_dtype(call, call->in[0]);
    if (dtype != CLT_F16 && dtype != CLT_BF16)
        snprintf(reason, size, "matrix units multiply f16 or bf16, not %s", clt_dtype_name(dtype));
    else if (generation(dtype, device) == 0 && !ocl_mma_emulates(device))
        snprintf(reason, size, "the device has no matrix units for %s", clt_dtype_name(dtype));
    else if (emulated(dtype, device) && (device->quirks & OCL_QUIRK_NO_EMULATED_ATTENTION))
        snprintf(reason, size, "the driver's compiler fails at it (quirk %s)",
                 ocl_quirk_name(OCL_QUIRK_NO_EMULATED_ATTENTION));
    else if (s.dim > MMA_MAX_HEAD)
        snprintf(reason, size, "a head of %lld elements; registers hold %d", (long long)s.dim, MMA_MAX_HEAD);
    else if (!choose(call, &s, CLT_ATTENTION_FORWARD, device)->warps ||
             !choose(call, &s, CLT_ATTENTION_DQ, device)->warps ||
             !choose(call, &s, CLT_ATTENTION_DKV, device)->warps)
        snprintf(reason, size,
                 "no tile of heads of %lld elements fits work-groups of %llu items and %llu bytes of local "
                 "memory",
                 (long long)s.dim, (unsigned long long)clt_group_limit(device),
                 (unsigned long long)device->local_bytes);
    else
        return true;
    return false;
}

/* Whether a tensor has a type that the kernels can read or write: q's type or f32. */
static bool fits_type(const clt_call *call, int32_t tensor, char *reason, size_t size)
{
    clt_dtype dtype = clt_call_dtype(call, call->in[0]);
    if (tensor < 0)
        return true;
    clt_dtype other = clt_call_dtype(call, tensor);
    if (other == dtype || other == CLT_F32)
        return true;
    snprintf(reason, size, "gradients of type %s with values of type %s are not supported",
             clt_dtype_name(other), clt_dtype_name(dtype));
    return false;
}

static bool mma_accepts_backward(const void *problem, const ocl_device_desc *device, char *reason,
                                 size_t size)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    if (!mma_accepts(problem, device, reason, size) || !fits_type(call, call->dout[0], reason, size))
        return false;
    for (int i = 0; i < 3; i++)
        if (!fits_type(call, call->din[s.input[i]], reason, size))
            return false;
    return true;
}

static bool mma_one_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    if (!mma_accepts_backward(problem, device, reason, size))
        return false;
    if (emulated(clt_call_dtype(call, call->in[0]), device))
        snprintf(reason, size, "work-groups pass sums on in an order that only NVIDIA's instructions give");
    else if (generation(clt_call_dtype(call, call->in[0]), device) < 80)
        snprintf(reason, size, "without asynchronous copies the registers do not suffice");
    else if (!choose(call, &s, CLT_ATTENTION_BACKWARD, device)->warps)
        snprintf(reason, size, "no tile of heads of %lld elements fits %llu bytes of local memory",
                 (long long)s.dim, (unsigned long long)device->local_bytes);
    else
        return true;
    return false;
}

static void mma_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                      clt_attention_kernel kernel, const mma_form *f, const char *name)
{
    clt_dtype dtype = clt_call_dtype(call, call->in[0]);
    int sm = generation(dtype, e->device);
    clt_attention_begin(e, call, s, kernel == CLT_ATTENTION_BACKWARD ? "attention_mma_one" : "attention_mma",
                        kernel, name);
    ocl_define(e, "MMA_SM", sm ? sm : 80); /* matrix units are emulated on request, as on sm_80 */
    ocl_define(e, "WARPS", f->warps);
    ocl_define(e, "M_TILES", f->m_tiles);
    ocl_define(e, "COLS", f->cols);
    ocl_define(e, "MMA_BF16", dtype == CLT_BF16);
}

static void mma_end(ocl_emitter *e, const clt_attention *s, clt_attention_kernel kernel, const mma_form *f,
                    double flops)
{
    ocl_kernel_end_1d(e, form_groups(s, kernel, f) * form_items(f), form_items(f), flops);
}

static clt_status attention_fwd_mma(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    const mma_form *f = tuned(e, call, &s, CLT_ATTENTION_FORWARD, "tile");
    if (f == NULL)
        return refuse_tile(&s);
    mma_begin(e, call, &s, CLT_ATTENTION_FORWARD, f, "attention_fwd_mma");
    clt_attention_outputs(e, call, &s);
    clt_attention_inputs(e, call, &s);
    clt_attention_sizes(e, call, &s);
    mma_end(e, &s, CLT_ATTENTION_FORWARD, f, clt_attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

static void mma_backward(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                         const clt_attention_grads *g, clt_attention_kernel kernel, const mma_form *f)
{
    int first = kernel == CLT_ATTENTION_DKV;
    double flops = (first ? 8.0 : 6.0) * (double)s->dim + 5.0;
    mma_begin(e, call, s, kernel, f, first ? "attention_bwd_kv_mma" : "attention_bwd_q_mma");
    clt_attention_grad_types(e, call, g, first);
    for (int i = first; i < (first ? 3 : 1); i++)
        clt_attention_grad_arg(e, call, s, g, i, 1);
    clt_attention_backward_args(e, call, s, g);
    mma_end(e, s, kernel, f, clt_attention_pairs(call, s) * flops);
}

static clt_status attention_bwd_mma(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    clt_attention_grads g;
    if (!clt_attention_wants(call, &s, &g))
        return CLT_OK;
    const mma_form *dq = tuned(e, call, &s, CLT_ATTENTION_DQ, "dq_tile"),
                   *dkv = tuned(e, call, &s, CLT_ATTENTION_DKV, "dkv_tile");
    if (dq == NULL || dkv == NULL)
        return refuse_tile(&s);
    clt_attention_delta(e, call, &s, &g, true);
    if (g.tensor[0] >= 0)
        mma_backward(e, call, &s, &g, CLT_ATTENTION_DQ, dq);
    if (g.tensor[1] >= 0 || g.tensor[2] >= 0) {
        clt_attention_scratch_kv(e, call, &s, &g);
        mma_backward(e, call, &s, &g, CLT_ATTENTION_DKV, dkv);
    }
    return CLT_OK;
}

/* --- variant mma_one: dq, dk and dv in one kernel --- */

/* Number of tiles of queries of all heads. */
static uint64_t query_tiles(const clt_attention *s, const mma_form *f)
{
    return (uint64_t)(s->batch * s->heads) * clt_div_up((uint64_t)s->tq, (uint64_t)f->cols);
}

/* Number of partial sums of dq for one tile: each of the 32 items of a warp has eight of every n16 tile.
 * Warps share the n16 tiles of a head (attention_mma_one.cl). */
static uint64_t tile_sums(const clt_attention *s, const mma_form *f)
{
    uint64_t sharing = (uint64_t)(16 * f->warps / f->cols), parts = clt_div_up((uint64_t)s->dim, 16);
    return (uint64_t)f->warps * 32 * 8 * clt_div_up(parts, sharing);
}

static void mma_one_kernel(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                           const clt_attention_grads *g, const mma_form *f)
{
    uint64_t tiles = query_tiles(s, f), sums = tiles * tile_sums(s, f);
    int32_t partial = ocl_workspace(e, CLT_F32, sums, "attention.dq"),
            order = ocl_workspace(e, CLT_I32, 1 + tiles, "attention.order");
    ocl_emit_fill(e, ocl_ref(order), (1 + tiles) * sizeof(uint32_t), 0);
    mma_begin(e, call, s, CLT_ATTENTION_BACKWARD, f, "attention_bwd_mma_one");
    clt_attention_grad_types(e, call, g, 0);
    for (int i = 0; i < 3; i++)
        clt_attention_grad_arg(e, call, s, g, i, 1);
    ocl_arg_inout(e, partial, CLT_F32, sums);
    ocl_arg_inout(e, order, CLT_I32, 1 + tiles);
    clt_attention_backward_args(e, call, s, g);
    mma_end(e, s, CLT_ATTENTION_BACKWARD, f, clt_attention_pairs(call, s) * (10.0 * (double)s->dim + 5.0));
}

static clt_status attention_bwd_mma_one(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    clt_attention_grads g;
    if (!clt_attention_wants(call, &s, &g))
        return CLT_OK;
    int32_t other = g.tensor[1] >= 0 ? g.tensor[1] : g.tensor[2];
    /* if only dq, or only dk and dv are wanted, the separate kernels need fewer products; this kernel stores
     * only one type */
    if (g.tensor[0] < 0 || other < 0 || clt_call_dtype(call, g.tensor[0]) != clt_call_dtype(call, other))
        return attention_bwd_mma(e, problem);
    const mma_form *f = tuned(e, call, &s, CLT_ATTENTION_BACKWARD, "tile");
    if (f == NULL)
        return refuse_tile(&s);
    clt_attention_delta(e, call, &s, &g, true);
    clt_attention_scratch_kv(e, call, &s, &g);
    mma_one_kernel(e, call, &s, &g, f);
    return CLT_OK;
}

/* The tunables are indices in `forms`. */
static const ocl_tunable fwd_tiles[] = {{"tile", 4, {0, 1, 2, 3}}, {0}};
static const ocl_tunable one_tiles[] = {{"tile", 4, {0, 1, 2, 3}}, {0}};
static const ocl_tunable bwd_tiles[] = {{"dq_tile", 3, {0, 1, 2}}, {"dkv_tile", 3, {0, 1, 2}}, {0}};
const ocl_variant clt_attention_fwd_mma = {.name = "mma",
                                           .needs = OCL_CAP_LOCAL,
                                           .accepts = mma_accepts,
                                           .tunables = fwd_tiles,
                                           .emit = attention_fwd_mma,
                                           .style = OCL_KERNEL_UNITS};
const ocl_variant clt_attention_bwd_mma = {.name = "mma",
                                           .needs = OCL_CAP_LOCAL,
                                           .accepts = mma_accepts_backward,
                                           .tunables = bwd_tiles,
                                           .emit = attention_bwd_mma,
                                           .style = OCL_KERNEL_UNITS};
const ocl_variant clt_attention_bwd_mma_one = {.name = "mma_one",
                                               .needs = OCL_CAP_LOCAL,
                                               .accepts = mma_one_accepts,
                                               .tunables = one_tiles,
                                               .emit = attention_bwd_mma_one,
                                               .style = OCL_KERNEL_UNITS};
