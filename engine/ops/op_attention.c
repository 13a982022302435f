/* SPDX-License-Identifier: Apache-2.0
 *
 * The op attention: scaled dot products of queries and keys, softmax, and the sum of values, without a matrix
 * of probabilities. Knows heads and rows, no model. */
#include <math.h>
#include <string.h>

#include "engine/ops/emit_util.h"

/* attention: y_i = sum_j keep_ij P_ij v_j, P_i = softmax over the visible keys of scale * q_i . k_j
 * shapes  qkv (N,T,(H+2G)D), or q (N,Tq,HD), k (N,Tk,GD), v (N,Tk,GD); then optionally length (N)
 *         -> y (N,Tq,HD); saves lse (N,H,Tq). H heads, G kv_heads, D head size
 * dtypes  q,k,v,y f32|f16|bf16; length i32; lse f32; arithmetic f32
 * grads   dq, dk, dv (or dqkv): write or accumulate; probabilities are computed again from lse
 * units   lse: nats
 * memory  workspace of backward: row and group 4*N*H*Tq bytes; lane none, or up to 16 copies of dq where a
 *         device has more compute units than there are key heads; no matrix over Tq x Tk anywhere
 * errors  CLT_ESHAPE: widths that heads do not divide, causal with Tq > Tk, types
 * masks   keys at or beyond the sample's length are not seen; causal: with L keys (L = length, else Tk) query
 * i sees keys j <= i + L - Tq, so the last query sees all of them; a query that sees none gives zeros source
 * Vaswani et al. 2017, arXiv:1706.03762; online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867;
 *         backward from lse: Dao 2023, arXiv:2307.08691. keep_ij: as the op dropout, for element (n,h,i,j)
 * tested  verify -t 'attention*' */

#define LANE_MAX_HEAD 256 /* the lane form keeps its tiles in private memory */
#define LANE_MAX_SHARES 16
#define LANE_SUM_ROWS 4 /* SUM_ROWS of attention_lane.cl */
#define GROUP_MAX_HEAD 256
#define GROUP_ITEMS 64 /* of a work-group of the group form */

static const clt_attr_spec attention_attrs[] = {
    {.name = "heads", .type = CLT_ATTR_INT, .required = true, .min = 1, .max = 65536, .help = "query heads"},
    {.name = "kv_heads",
     .type = CLT_ATTR_INT,
     .min = 0,
     .max = 65536,
     .help = "heads of keys and values, each shared by heads / kv_heads query heads; 0: as many as heads"},
    {.name = "causal",
     .type = CLT_ATTR_BOOL,
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "a query sees no later key; the last query sees the last key"},
    {.name = "scale",
     .type = CLT_ATTR_FLOAT,
     .min = 0,
     .max = 1e6,
     .help = "factor of the dot products; 0: 1 / sqrt(head size)"},
    {.name = "dropout",
     .type = CLT_ATTR_FLOAT,
     .min = 0,
     .max = 0.999999,
     .help = "probability that a weight is set to zero while training"},
};

typedef struct attention_sizes {
    int64_t batch, tq, tk, heads, kv_heads, dim;
    bool packed;
    int length; /* input that holds the lengths, -1 */
    /* of q, k, v: input, first element in a row, elements of a row */
    int input[3];
    int64_t start[3], ld[3];
} attention_sizes;

/* The part that needs no check. */
static void attention_rows(const clt_node *node, attention_sizes *s)
{
    int64_t widths[3] = {s->heads * s->dim, s->kv_heads * s->dim, s->kv_heads * s->dim};
    s->packed = node->n_in < 3;
    s->length = s->packed ? (node->n_in == 2 ? 1 : -1) : (node->n_in == 4 ? 3 : -1);
    for (int i = 0; i < 3; i++) {
        s->input[i] = s->packed ? 0 : i;
        s->start[i] = s->packed && i > 0 ? s->start[i - 1] + widths[i - 1] : 0;
        s->ld[i] = s->packed ? widths[0] + 2 * widths[1] : widths[i];
    }
}

static attention_sizes attention_measure(const clt_graph *graph, const clt_node *node)
{
    attention_sizes s = {.heads = clt_node_attr(node, "heads")->i,
                         .kv_heads = clt_node_attr(node, "kv_heads")->i};
    const clt_shape *q = &clt_graph_tensor(graph, node->in[0])->shape;
    if (s.kv_heads == 0)
        s.kv_heads = s.heads;
    s.batch = q->dim[0];
    s.tq = s.tk = q->dim[1];
    if (node->n_in >= 3)
        s.tk = clt_graph_tensor(graph, node->in[1])->shape.dim[1];
    s.dim = q->dim[2] / (node->n_in < 3 ? s.heads + 2 * s.kv_heads : s.heads);
    attention_rows(node, &s);
    return s;
}

static clt_status infer_lengths(clt_infer *ctx, const attention_sizes *s)
{
    if (s->length < 0)
        return CLT_OK;
    const clt_tensor *t = clt_infer_in(ctx, s->length);
    char text[CLT_SHAPE_TEXT];
    if (t->dtype != CLT_I32 || clt_shape_elements(&t->shape) != s->batch)
        return clt_infer_fail(ctx, "the lengths '%s' must be one i32 number per sample, not %s %s", t->name,
                              clt_shape_text(&t->shape, text, sizeof text), clt_dtype_name(t->dtype));
    clt_infer_bound(ctx, s->length, s->tk + 1, false, 0);
    return CLT_OK;
}

/* Input i is (N, rows, heads * head size) of a floating type, the same for all. */
static clt_status infer_rows(const clt_infer *ctx, int i, int64_t heads, const char *what)
{
    CLT_TRY(clt_infer_need_float(ctx, i));
    const clt_tensor *t = clt_infer_in(ctx, i), *first = clt_infer_in(ctx, 0);
    char text[CLT_SHAPE_TEXT];
    if (t->shape.ndim != 3 || t->shape.dim[0] != first->shape.dim[0] || t->shape.dim[2] % heads != 0)
        return clt_infer_fail(ctx, "input %d %s must be (N, T, width), the width a multiple of the %lld %s",
                              i, clt_shape_text(&t->shape, text, sizeof text), (long long)heads, what);
    if (t->dtype != first->dtype)
        return clt_infer_fail(ctx, "input %d has type %s and input 0 %s; they must be equal", i,
                              clt_dtype_name(t->dtype), clt_dtype_name(first->dtype));
    return CLT_OK;
}

static clt_status attention_infer(clt_infer *ctx)
{
    const clt_node *node = ctx->node;
    int64_t heads = clt_node_attr(node, "heads")->i, kv_heads = clt_node_attr(node, "kv_heads")->i;
    if (kv_heads == 0)
        kv_heads = heads;
    if (heads % kv_heads != 0)
        return clt_infer_fail(ctx, "heads (%lld) must be a multiple of kv_heads (%lld)", (long long)heads,
                              (long long)kv_heads);
    CLT_TRY(infer_rows(ctx, 0, node->n_in < 3 ? heads + 2 * kv_heads : heads,
                       node->n_in < 3 ? "heads of queries, keys and values" : "query heads"));
    for (int i = 1; node->n_in >= 3 && i < 3; i++)
        CLT_TRY(infer_rows(ctx, i, kv_heads, "heads of keys and values"));
    attention_sizes s = attention_measure(ctx->graph, node);
    for (int i = 1; !s.packed && i < 3; i++) {
        const clt_shape *shape = &clt_infer_in(ctx, i)->shape;
        if (shape->dim[1] != s.tk || shape->dim[2] != s.kv_heads * s.dim)
            return clt_infer_fail(
                ctx,
                "keys and values must both be (N, Tk, kv_heads * %lld), the head size of the "
                "queries; input %d is %lld rows of %lld",
                (long long)s.dim, i, (long long)shape->dim[1], (long long)shape->dim[2]);
    }
    CLT_TRY(infer_lengths(ctx, &s));
    if (clt_node_attr(node, "causal")->b && s.length < 0 && s.tq > s.tk)
        return clt_infer_fail(ctx,
                              "%lld queries over %lld keys: with causal the first queries would see no key",
                              (long long)s.tq, (long long)s.tk);
    clt_shape y = clt_shape3(s.batch, s.tq, s.heads * s.dim), lse = clt_shape3(s.batch, s.heads, s.tq);
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &y));
    return clt_infer_saved(ctx, "lse", CLT_F32, &lse);
}

/* --- emission --- */

static uint64_t query_rows(const attention_sizes *s)
{
    return (uint64_t)(s->batch * s->heads * s->tq);
}

/* Pairs of a query and a key it sees, when all lengths are full. */
static double attention_pairs(const clt_call *call, const attention_sizes *s)
{
    double hidden = 0;
    if (clt_node_attr(call->node, "causal")->b)
        hidden = 0.5 * (double)s->tq * (double)(s->tq - 1);
    return (double)(s->batch * s->heads) * ((double)s->tq * (double)s->tk - hidden);
}

static bool attention_drops(const clt_call *call)
{
    return call->training && clt_node_attr(call->node, "dropout")->f > 0;
}

static void attention_begin(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                            const char *family, const char *kernel)
{
    ocl_kernel_begin(e, family, kernel);
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", s->heads);
    ocl_define(e, "KV_HEADS", s->kv_heads);
    ocl_define(e, "CAUSAL", clt_node_attr(call->node, "causal")->b);
    ocl_define(e, "HAS_LENGTHS", s->length >= 0);
    ocl_define(e, "DROPOUT", attention_drops(call));
    clt_define_dtype(e, "DT", clt_call_dtype(call, call->in[0]));
}

static ocl_tensor_ref attention_ref(int32_t tensor, int64_t start, clt_dtype dtype)
{
    ocl_tensor_ref ref = {tensor, (uint64_t)start * clt_dtype_bytes(dtype)};
    return ref;
}

/* ATTENTION_INPUTS of attention.clh. */
static void attention_inputs(ocl_emitter *e, const clt_call *call, const attention_sizes *s)
{
    clt_dtype dtype = clt_call_dtype(call, call->in[0]);
    for (int i = 0; i < 3; i++) {
        int64_t rows = s->batch * (i ? s->tk : s->tq), width = (i ? s->kv_heads : s->heads) * s->dim;
        ocl_arg_tensor(e, OCL_READ, attention_ref(call->in[s->input[i]], s->start[i], dtype), dtype,
                       (uint64_t)(rows * width));
    }
}

/* ATTENTION_SIZES of attention.clh. */
static void attention_size_args(ocl_emitter *e, const clt_call *call, const attention_sizes *s)
{
    double scale = clt_node_attr(call->node, "scale")->f, p = clt_node_attr(call->node, "dropout")->f;
    if (s->length >= 0)
        ocl_arg_in(e, call->in[s->length], CLT_I32, (uint64_t)s->batch);
    clt_arg_step(e, call);
    clt_arg_size32(e, s->batch, "samples");
    clt_arg_size32(e, s->tq, "queries");
    clt_arg_size32(e, s->tk, "keys");
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, s->ld[i], "elements of a row");
    ocl_arg_f32(e, (float)(scale > 0 ? scale : 1.0 / sqrt((double)s->dim)));
    ocl_arg_u32(e, (uint32_t)call->node->id);
    ocl_arg_f32(e, (float)p);
    ocl_arg_f32(e, (float)(1.0 / (1.0 - p)));
}

static void attention_outputs(ocl_emitter *e, const clt_call *call, const attention_sizes *s)
{
    ocl_arg_out(e, call->out[0], clt_call_dtype(call, call->out[0]), query_rows(s) * (uint64_t)s->dim);
    ocl_arg_out(e, call->saved[0], CLT_F32, query_rows(s));
}

/* Gradients of q, k and v: where they go. Unwanted ones go to scratch memory, so that kernels need no form
 * for each combination. */
typedef struct attention_gradients {
    int32_t tensor[3];
    int64_t start[3], ld[3];
    bool accumulate[3];
    int32_t delta; /* workspace (N,H,Tq) f32 */
} attention_gradients;

static bool attention_wants(const clt_call *call, const attention_sizes *s, attention_gradients *g)
{
    bool any = false;
    for (int i = 0; i < 3; i++) {
        g->tensor[i] = call->din[s->input[i]];
        g->start[i] = s->start[i];
        g->ld[i] = s->ld[i];
        g->accumulate[i] = call->din_accumulate[s->input[i]];
        any = any || g->tensor[i] >= 0;
    }
    return any;
}

static void attention_scratch(ocl_emitter *e, const attention_sizes *s, attention_gradients *g, int i)
{
    if (g->tensor[i] >= 0)
        return;
    g->start[i] = 0;
    g->ld[i] = (i ? s->kv_heads : s->heads) * s->dim;
    g->accumulate[i] = false;
    g->tensor[i] =
        ocl_workspace(e, CLT_F32, (uint64_t)(s->batch * (i ? s->tk : s->tq) * g->ld[i]), "attention.unused");
}

static void attention_delta(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                            attention_gradients *g)
{
    uint64_t rows = query_rows(s), elements = rows * (uint64_t)s->dim;
    clt_dtype dy = clt_call_dtype(call, call->dout[0]), y = clt_call_dtype(call, call->out[0]);
    g->delta = ocl_workspace(e, CLT_F32, rows, "attention.delta");
    ocl_kernel_begin(e, "attention", "attention_bwd_delta");
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", s->heads);
    clt_define_dtype(e, "DT", y);
    clt_define_dtype(e, "DYT", dy);
    ocl_arg_out(e, g->delta, CLT_F32, rows);
    ocl_arg_in(e, call->dout[0], dy, elements);
    ocl_arg_in(e, call->out[0], y, elements);
    clt_arg_size32(e, s->batch, "samples");
    clt_arg_size32(e, s->tq, "queries");
    ocl_kernel_end_1d(e, rows, clt_local_rows(e->device, rows), 2.0 * (double)elements);
}

/* One gradient's buffer, row size and flag; `copies` of it lie one behind the other. */
static void attention_gradient_arg(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                                   const attention_gradients *g, int i, int64_t copies)
{
    clt_dtype dtype = clt_call_dtype(call, g->tensor[i]);
    int64_t rows = copies * s->batch * (i ? s->tk : s->tq), width = (i ? s->kv_heads : s->heads) * s->dim;
    ocl_arg_tensor(e, g->accumulate[i] ? OCL_READ_WRITE : OCL_WRITE,
                   attention_ref(g->tensor[i], g->start[i], dtype), dtype, (uint64_t)(rows * width));
    clt_arg_size32(e, g->ld[i], "elements of a gradient's row");
    ocl_arg_i32(e, g->accumulate[i]);
}

/* Types of the gradients; those of one kernel are equal, as all gradients of activations are. */
static void attention_gradient_types(ocl_emitter *e, const clt_call *call, const attention_gradients *g,
                                     int i)
{
    clt_define_dtype(e, "DYT", clt_call_dtype(call, call->dout[0]));
    clt_define_dtype(e, "GT", clt_call_dtype(call, g->tensor[i]));
}

/* What all backward kernels read and end with. */
static void attention_backward_args(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                                    const attention_gradients *g)
{
    ocl_arg_in(e, call->dout[0], clt_call_dtype(call, call->dout[0]), query_rows(s) * (uint64_t)s->dim);
    ocl_arg_in(e, call->saved[0], CLT_F32, query_rows(s));
    ocl_arg_in(e, g->delta, CLT_F32, query_rows(s));
    attention_inputs(e, call, s);
    attention_size_args(e, call, s);
}

/* --- row: one item per query or key --- */

static clt_status attention_fwd_row(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    uint64_t rows = query_rows(&s);
    attention_begin(e, call, &s, "attention", "attention_fwd_row");
    attention_outputs(e, call, &s);
    attention_inputs(e, call, &s);
    attention_size_args(e, call, &s);
    ocl_kernel_end_1d(e, rows, clt_local_rows(e->device, rows),
                      attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

/* Begins one of the two backward kernels of the row (block 0) and group forms; `first` is its first gradient:
 * 0 for dq, 1 for dk, to which dv belongs. */
static void attention_bwd_begin(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                                const attention_gradients *g, int first, int64_t block)
{
    const char *row = first ? "attention_bwd_kv_row" : "attention_bwd_q_row",
               *group = first ? "attention_bwd_kv_group" : "attention_bwd_q_group";
    attention_begin(e, call, s, block ? "attention_group" : "attention", block ? group : row);
    if (block)
        ocl_define(e, "BLOCK", block);
    attention_gradient_types(e, call, g, first);
    for (int i = first; i < (first ? 3 : 1); i++)
        attention_gradient_arg(e, call, s, g, i, 1);
    attention_backward_args(e, call, s, g);
}

static void attention_bwd_end(ocl_emitter *e, uint64_t heads, int64_t rows, int64_t block, double flops)
{
    uint64_t items = heads * (uint64_t)rows;
    if (block)
        ocl_kernel_end_1d(e, heads * clt_div_up((uint64_t)rows, (uint64_t)block) * GROUP_ITEMS, GROUP_ITEMS,
                          flops);
    else
        ocl_kernel_end_1d(e, items, clt_local_rows(e->device, items), flops);
}

static clt_status attention_backward(ocl_emitter *e, const clt_call *call, int64_t block)
{
    attention_sizes s = attention_measure(call->graph, call->node);
    attention_gradients g;
    if (!attention_wants(call, &s, &g))
        return CLT_OK;
    double pairs = attention_pairs(call, &s), dim = (double)s.dim;
    bool q = g.tensor[0] >= 0, kv = g.tensor[1] >= 0 || g.tensor[2] >= 0;
    attention_delta(e, call, &s, &g);
    if (q) {
        attention_bwd_begin(e, call, &s, &g, 0, block);
        attention_bwd_end(e, (uint64_t)(s.batch * s.heads), s.tq, block, pairs * (6.0 * dim + 5.0));
    }
    if (kv) {
        attention_scratch(e, &s, &g, 1);
        attention_scratch(e, &s, &g, 2);
        attention_bwd_begin(e, call, &s, &g, 1, block);
        attention_bwd_end(e, (uint64_t)(s.batch * s.kv_heads), s.tk, block, pairs * (8.0 * dim + 5.0));
    }
    return CLT_OK;
}

static clt_status attention_bwd_row(ocl_emitter *e, const void *problem)
{
    return attention_backward(e, problem, 0);
}

/* --- lane: one item per block of queries, or per share of a key head --- */

/* Sizes of the lane kernels' products and tiles (attention_lane.cl), and into how many shares backward splits
 * the tiles of a key head. */
typedef struct lane_form {
    int64_t rows, vectors, bq, bk, qb, kb, shares;
} lane_form;

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The size of equal tiles of `total`, at most `most`, both multiples of `unit`. */
static int64_t even_tile(int64_t total, int64_t most, int64_t unit)
{
    int64_t tiles = (total + most - 1) / most;
    return round_up((total + tiles - 1) / tiles, unit);
}

/* The fewest shares that keep all compute units busy for nearly all of the time: with `heads` equal pieces of
 * work on `units`, the time is proportional to ceil(heads * shares / units) / shares. */
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

/* Accumulators of a product, its operands and a broadcast fill the registers: 32 of sixteen lanes hold 16
 * accumulators and more, 16 of eight lanes (or 32 of four) hold 6. Tiles stay within the nearest caches and
 * are smaller where large ones would leave compute units without work. */
static lane_form lane_measure(const attention_sizes *s, const ocl_device_desc *device)
{
    bool large = device->vector_floats >= 16;
    int64_t units = device->compute_units ? (int64_t)device->compute_units : 1;
    int64_t queries = s->dim <= 64 ? 96 : s->dim <= 128 ? 64 : 32, keys = queries;
    lane_form f = {.vectors = large && round_up(s->dim, 16) % 32 == 0 ? 2 : 1};
    f.rows = large ? 16 / f.vectors : 6;
    while (queries > 32 && s->batch * s->heads * ((s->tq + queries - 1) / queries) < 2 * units)
        queries -= 32;
    while (keys > 32 && s->batch * s->kv_heads * ((s->tk + keys - 1) / keys) < 2 * units)
        keys -= 32;
    f.bq = even_tile(s->tq, queries, 16 * f.vectors);
    f.kb = even_tile(s->tk, keys, 16 * f.vectors);
    f.bk = f.qb = round_up(s->dim <= 128 ? 64 : 32, f.rows);
    f.shares = lane_shares(s->batch * s->kv_heads, (s->tk + f.kb - 1) / f.kb, units);
    return f;
}

static bool lane_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    if (!device->is_cpu && !(device->quirks & OCL_QUIRK_ANY_STYLE))
        snprintf(reason, size, "large private tiles suit CPU devices only");
    else if (s.dim > LANE_MAX_HEAD)
        snprintf(reason, size, "a head of %lld elements; tiles hold %d", (long long)s.dim, LANE_MAX_HEAD);
    else
        return true;
    return false;
}

static bool lane_accepts_backward(const void *problem, const ocl_device_desc *device, char *reason,
                                  size_t size)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    if (!lane_accepts(problem, device, reason, size))
        return false;
    for (int i = 0; i < 3; i++) {
        int32_t gradient = call->din[s.input[i]];
        if (gradient >= 0 && clt_call_dtype(call, gradient) != CLT_F32) {
            snprintf(reason, size, "gradients of type %s; it adds to f32 only",
                     clt_dtype_name(clt_call_dtype(call, gradient)));
            return false;
        }
    }
    return true;
}

static void lane_begin(ocl_emitter *e, const clt_call *call, const attention_sizes *s, const lane_form *f,
                       const char *kernel)
{
    attention_begin(e, call, s, "attention_lane", kernel);
    ocl_define(e, "ROWS", f->rows);
    ocl_define(e, "VECTORS", f->vectors);
    ocl_define(e, "SHUFFLES", (e->device->quirks & OCL_QUIRK_NO_SHUFFLES) == 0);
}

static clt_status attention_fwd_lane(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    lane_form f = lane_measure(&s, e->device);
    lane_begin(e, call, &s, &f, "attention_fwd_lane");
    ocl_define(e, "BQ", f.bq);
    ocl_define(e, "BK", f.bk);
    attention_outputs(e, call, &s);
    attention_inputs(e, call, &s);
    attention_size_args(e, call, &s);
    ocl_kernel_end_1d(e, (uint64_t)(s.batch * s.heads) * clt_div_up((uint64_t)s.tq, (uint64_t)f.bq), 1,
                      attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

/* A gradient (+)= the sum of its copies. */
static void lane_sum(ocl_emitter *e, const clt_call *call, const attention_sizes *s,
                     const attention_gradients *g, int i, int32_t copies, int64_t shares)
{
    uint64_t rows = (uint64_t)(s->batch * (i ? s->tk : s->tq));
    uint64_t elements = rows * (uint64_t)((i ? s->kv_heads : s->heads) * s->dim);
    ocl_kernel_begin(e, "attention_lane", "attention_bwd_sum_lane");
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", i ? s->kv_heads : s->heads);
    clt_define_dtype(e, "GT", clt_call_dtype(call, g->tensor[i]));
    attention_gradient_arg(e, call, s, g, i, 1);
    ocl_arg_in(e, copies, CLT_F32, (uint64_t)shares * elements);
    ocl_arg_u64(e, rows);
    clt_arg_size32(e, shares, "shares");
    ocl_kernel_end_1d(e, clt_div_up(rows, LANE_SUM_ROWS), 1, (double)shares * (double)elements);
}

/* The kernel adds to f32 alone: gradients of other types, and those of queries that several items make, get
 * copies of their own first. */
static bool lane_apart(const clt_call *call, const lane_form *f, const attention_gradients *g, int i)
{
    return (i == 0 && f->shares > 1) || (g->tensor[i] >= 0 && clt_call_dtype(call, g->tensor[i]) != CLT_F32);
}

static clt_status attention_bwd_lane(ocl_emitter *e, const void *problem)
{
    static const char *const names[3] = {"attention.dq", "attention.dk", "attention.dv"};
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    lane_form f = lane_measure(&s, e->device);
    attention_gradients g, to;
    if (!attention_wants(call, &s, &g))
        return CLT_OK;
    to = g;
    for (int i = 0; i < 3; i++) {
        int64_t rows = s.batch * (i ? s.tk : s.tq), width = (i ? s.kv_heads : s.heads) * s.dim;
        if (!lane_apart(call, &f, &g, i)) {
            attention_scratch(e, &s, &to, i);
            continue;
        }
        to.tensor[i] = ocl_workspace(e, CLT_F32, (uint64_t)((i ? 1 : f.shares) * rows * width), names[i]);
        to.start[i] = 0;
        to.ld[i] = width;
        to.accumulate[i] = false;
    }
    lane_begin(e, call, &s, &f, "attention_bwd_lane");
    ocl_define(e, "QB", f.qb);
    ocl_define(e, "KB", f.kb);
    clt_define_dtype(e, "DYT", clt_call_dtype(call, call->dout[0]));
    for (int i = 0; i < 3; i++)
        attention_gradient_arg(e, call, &s, &to, i, i ? 1 : f.shares);
    ocl_arg_in(e, call->dout[0], clt_call_dtype(call, call->dout[0]), query_rows(&s) * (uint64_t)s.dim);
    ocl_arg_in(e, call->out[0], clt_call_dtype(call, call->out[0]), query_rows(&s) * (uint64_t)s.dim);
    ocl_arg_in(e, call->saved[0], CLT_F32, query_rows(&s));
    clt_arg_size32(e, f.shares, "shares");
    attention_inputs(e, call, &s);
    attention_size_args(e, call, &s);
    ocl_kernel_end_1d(e, (uint64_t)(s.batch * s.kv_heads * f.shares), 1,
                      attention_pairs(call, &s) * (10.0 * (double)s.dim + 5.0));
    for (int i = 0; i < 3; i++)
        if (g.tensor[i] >= 0 && lane_apart(call, &f, &g, i))
            lane_sum(e, call, &s, &g, i, to.tensor[i], i ? 1 : f.shares);
    return CLT_OK;
}

/* --- group: a work-group per block of queries or keys --- */

/* Block of a kernel with `blocks` blocks of rows and `squares` blocks of scores in local memory; 0: none
 * fits. */
static int64_t group_block(const attention_sizes *s, const ocl_device_desc *device, int64_t blocks,
                           int64_t squares)
{
    int64_t pitch = (s->dim + 7) / 8 * 8 + 1;
    for (int64_t block = s->dim > 64 || blocks > 3 ? 16 : 32; block >= 8; block /= 2) {
        int64_t floats = blocks * block * pitch + squares * block * (block + 1) + 2 * block;
        if ((uint64_t)floats * sizeof(float) <= device->local_bytes)
            return block;
    }
    return 0;
}

static bool group_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    if (!clt_accepts_group(problem, device, reason, size))
        return false;
    /* the same answer for both directions */
    if (s.dim <= GROUP_MAX_HEAD && group_block(&s, device, 4, 2) > 0)
        return true;
    snprintf(reason, size, "blocks of heads of %lld elements do not fit into %llu bytes of local memory",
             (long long)s.dim, (unsigned long long)device->local_bytes);
    return false;
}

static clt_status attention_fwd_group(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    int64_t block = group_block(&s, e->device, 3, 1);
    attention_begin(e, call, &s, "attention_group", "attention_fwd_group");
    ocl_define(e, "BLOCK", block);
    attention_outputs(e, call, &s);
    attention_inputs(e, call, &s);
    attention_size_args(e, call, &s);
    uint64_t groups = (uint64_t)(s.batch * s.heads) * clt_div_up((uint64_t)s.tq, (uint64_t)block);
    ocl_kernel_end_1d(e, groups * GROUP_ITEMS, GROUP_ITEMS,
                      attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

static clt_status attention_bwd_group(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    attention_sizes s = attention_measure(call->graph, call->node);
    return attention_backward(e, call, group_block(&s, e->device, 4, 2));
}

static const ocl_variant fwd_group = {"group", OCL_CAP_LOCAL, group_accepts, NULL, attention_fwd_group};
static const ocl_variant fwd_lane = {"lane", 0, lane_accepts, NULL, attention_fwd_lane};
static const ocl_variant fwd_row = {"row", 0, NULL, NULL, attention_fwd_row};
static const ocl_variant *const fwd_variants[] = {&fwd_group, &fwd_lane, &fwd_row, NULL};
static const ocl_variant bwd_group = {"group", OCL_CAP_LOCAL, group_accepts, NULL, attention_bwd_group};
static const ocl_variant bwd_lane = {"lane", 0, lane_accepts_backward, NULL, attention_bwd_lane};
static const ocl_variant bwd_row = {"row", 0, NULL, NULL, attention_bwd_row};
static const ocl_variant *const bwd_variants[] = {&bwd_group, &bwd_lane, &bwd_row, NULL};

extern const clt_op_ref clt_op_attention_ref;
extern const clt_op clt_op_attention;
const clt_op clt_op_attention = {
    .name = "attention",
    .summary = "y = softmax(scale * q k^T) v by heads, causal or not",
    .attrs = attention_attrs,
    .n_attrs = sizeof attention_attrs / sizeof attention_attrs[0],
    .min_in = 1,
    .max_in = 4,
    .flags = CLT_OP_RANDOM,
    .infer = attention_infer,
    .forward = fwd_variants,
    .backward = bwd_variants,
    .no_grad_inputs = 1u << 3,
    .ref = &clt_op_attention_ref,
};
