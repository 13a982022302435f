/* SPDX-License-Identifier: Apache-2.0
 *
 * The op attention: scaled dot products of queries and keys, softmax, and the sum of values, without a
 * matrix of probabilities. Knows heads and rows, no model. */
#include "engine/ops/attention/attention.h"
#include "engine/ops/infer.h"

/* attention: y_i = sum_j keep_ij P_ij v_j, P_i = softmax over the visible keys of scale * q_i . k_j
 * shapes  qkv (N,T,(H+2G)D), or q (N,Tq,HD), k (N,Tk,GD), v (N,Tk,GD); then optionally length (N), or with
 *         the attribute documents (N,T) -> y (N,Tq,HD); saves lse (N,H,Tq), and with documents spans (N,T,2),
 *         where each token's document begins and ends. H heads, G kv_heads, D head size
 * dtypes  q,k,v,y f32|f16|bf16; length, documents, spans i32; lse f32; arithmetic f32
 * grads   dq, dk, dv (or dqkv): write or accumulate; probabilities are computed again from lse
 * units   lse: nats
 * memory  workspace of backward: row, group and mma 4*N*H*Tq bytes, mma_one also dq in f32; lane none, or up
 *         to 16 copies of dq where a device has more compute units than there are key heads; no matrix over
 *         Tq x Tk anywhere
 * errors  CLT_ESHAPE: widths that heads do not divide, causal with Tq > Tk, types, a window without causal,
 *         documents with Tq different from Tk
 * masks   keys at or beyond the sample's length are masked; causal: with L keys (L = length, else Tk) query i
 *         attends to keys j <= i + L - Tq, so the last query attends to all; a query without keys gives
 *         zeros. window w: only the last w of these keys; keys that no query attends to are never used and
 *         get gradients of zero. documents: a number for each token; neighbours with the same number are one
 *         document, whose queries attend to its keys alone. Any numbers will do. Finite values in another
 *         document of the row change no bit of a result: tiles with both documents multiply them by zero
 * source  Vaswani et al. 2017, arXiv:1706.03762; online softmax: Milakov and Gimelshein 2018,
 *         arXiv:1805.02867; backward from lse: Dao 2023, arXiv:2307.08691. keep_ij: as the op dropout, for
 *         element (n,h,i,j)
 * tested  verify -t 'attention*' */

#define GROUP_MAX_HEAD 256
#define GROUP_ITEMS CLT_ATTENTION_GROUP_ITEMS

static const clt_attr_spec attention_attrs[] = {
    CLT_SPEC_NEEDED(INT, "heads", 1, 65536, "query heads"),
    CLT_SPEC_INT("kv_heads", 0, 0, 65536,
                 "heads of keys and values, each shared by heads / kv_heads query heads; 0: equal to heads"),
    CLT_SPEC_BOOL("causal", true, "a query sees no later key; the last query sees the last key"),
    CLT_SPEC_INT("window", 0, 0, INT32_MAX,
                 "with causal: a query sees this many keys at most, its own and the ones before it; 0: all"),
    CLT_SPEC_BOOL(
        "documents", false,
        "the last input numbers the documents of a row, and a query sees only keys in the same document"),
    CLT_SPEC_FLOAT("scale", 0, 0, 1e6, "factor of the dot products; 0: 1 / sqrt(head size)"),
    CLT_SPEC_FLOAT("dropout", 0, 0, 0.999999, "probability that a weight is set to zero while training"),
};

static clt_status infer_lengths(clt_infer *ctx, const clt_attention *s)
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

static clt_status infer_documents(clt_infer *ctx, const clt_attention *s)
{
    if (!clt_node_attr(ctx->node, "documents")->b)
        return CLT_OK;
    if (s->documents < 0)
        return clt_infer_fail(ctx, "with documents the last input must number the documents of a row: a "
                                   "number for each token, (N, T) i32");
    if (s->tq != s->tk)
        return clt_infer_fail(
            ctx, "documents need queries and keys of the same tokens, not %lld queries and %lld keys",
            (long long)s->tq, (long long)s->tk);
    const clt_tensor *t = clt_infer_in(ctx, s->documents);
    char text[CLT_SHAPE_TEXT];
    if (t->dtype != CLT_I32 || t->shape.ndim != 2 || t->shape.dim[0] != s->batch || t->shape.dim[1] != s->tq)
        return clt_infer_fail(ctx,
                              "the documents '%s' must be one i32 number per token, (%lld, %lld), not %s %s",
                              t->name, (long long)s->batch, (long long)s->tq,
                              clt_shape_text(&t->shape, text, sizeof text), clt_dtype_name(t->dtype));
    return CLT_OK;
}

/* Checks that input i is (N, rows, heads * head size) and of the same floating type as the others. */
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
    clt_attention s = clt_attention_measure(ctx->graph, node);
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
    CLT_TRY(infer_documents(ctx, &s));
    if (clt_node_attr(node, "window")->i > 0 && !clt_node_attr(node, "causal")->b)
        return clt_infer_fail(ctx, "a window (%lld) needs causal: it ends at the query's own key",
                              (long long)clt_node_attr(node, "window")->i);
    if (clt_node_attr(node, "causal")->b && s.length < 0 && s.tq > s.tk)
        return clt_infer_fail(ctx,
                              "%lld queries over %lld keys: with causal the first queries would see no key",
                              (long long)s.tq, (long long)s.tk);
    clt_shape y = clt_shape3(s.batch, s.tq, s.heads * s.dim), lse = clt_shape3(s.batch, s.heads, s.tq);
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &y));
    CLT_TRY(clt_infer_saved(ctx, "lse", CLT_F32, &lse));
    clt_shape spans = clt_shape3(s.batch, s.tq, 2);
    return s.documents < 0 ? CLT_OK : clt_infer_saved(ctx, "spans", CLT_I32, &spans);
}

/* --- variant row: one item per query or key --- */

static clt_status attention_fwd_row(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    uint64_t rows = clt_attention_rows(&s);
    clt_attention_begin(e, call, &s, "attention", CLT_ATTENTION_FORWARD, "attention_fwd_row");
    clt_attention_outputs(e, call, &s);
    clt_attention_inputs(e, call, &s);
    clt_attention_sizes(e, call, &s);
    ocl_kernel_end_items(e, rows, clt_local_rows(e->device, rows),
                         clt_attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

/* Begins a backward kernel of the variant row (block 0) or group. `first` is its first gradient: 0 for dq; 1
 * for dk, which is computed together with dv. */
static void attention_bwd_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                                const clt_attention_grads *g, int first, int64_t block)
{
    const char *row = first ? "attention_bwd_kv_row" : "attention_bwd_q_row",
               *group = first ? "attention_bwd_kv_group" : "attention_bwd_q_group";
    clt_attention_begin(e, call, s, block ? "attention_group" : "attention",
                        first ? CLT_ATTENTION_DKV : CLT_ATTENTION_DQ, block ? group : row);
    if (block)
        ocl_define(e, "BLOCK", block);
    clt_attention_grad_types(e, call, g, first);
    for (int i = first; i < (first ? 3 : 1); i++)
        clt_attention_grad_arg(e, call, s, g, i, 1);
    clt_attention_backward_args(e, call, s, g);
}

static void attention_bwd_end(ocl_emitter *e, uint64_t heads, int64_t rows, int64_t block, double flops)
{
    uint64_t items = heads * (uint64_t)rows;
    if (block)
        ocl_kernel_end_1d(e, heads * clt_div_up((uint64_t)rows, (uint64_t)block) * GROUP_ITEMS, GROUP_ITEMS,
                          flops);
    else
        ocl_kernel_end_items(e, items, clt_local_rows(e->device, items), flops);
}

static clt_status attention_backward(ocl_emitter *e, const clt_call *call, int64_t block)
{
    clt_attention s = clt_attention_measure(call->graph, call->node);
    clt_attention_grads g;
    if (!clt_attention_wants(call, &s, &g))
        return CLT_OK;
    double pairs = clt_attention_pairs(call, &s), dim = (double)s.dim;
    bool q = g.tensor[0] >= 0, kv = g.tensor[1] >= 0 || g.tensor[2] >= 0;
    clt_attention_delta(e, call, &s, &g, block > 0);
    if (q) {
        attention_bwd_begin(e, call, &s, &g, 0, block);
        attention_bwd_end(e, (uint64_t)(s.batch * s.heads), s.tq, block, pairs * (6.0 * dim + 5.0));
    }
    if (kv) {
        clt_attention_scratch_kv(e, call, &s, &g);
        attention_bwd_begin(e, call, &s, &g, 1, block);
        attention_bwd_end(e, (uint64_t)(s.batch * s.kv_heads), s.tk, block, pairs * (8.0 * dim + 5.0));
    }
    return CLT_OK;
}

static clt_status attention_bwd_row(ocl_emitter *e, const void *problem)
{
    return attention_backward(e, problem, 0);
}
/* --- variant group: a work-group per block of queries or keys --- */

/* Bytes of local memory that a work-group needs in a kernel of attention_group.cl. Backward: four blocks of
 * rows and two of scores; forward: three blocks of rows, one of scores, and the values that the items of a
 * row exchange. */
static uint64_t group_bytes(const clt_attention *s, int64_t block, bool backward)
{
    int64_t vector = s->dim % 32 == 0 ? 4 : 2,
            pitch = (s->dim + 8 * vector - 1) / (8 * vector) * (8 * vector) + 4;
    int64_t scores = block * (block + 4);
    int64_t words = backward ? 4 * block * pitch + 2 * scores + 2 * block
                             : 3 * block * pitch + scores + block * 12 + 2 * block + GROUP_ITEMS;
    return (uint64_t)words * sizeof(float);
}

/* The standard number of rows of a block; 0: no block fits. */
static int64_t group_block(const clt_attention *s, const ocl_device_desc *device, bool backward)
{
    for (int64_t block = s->dim > 64 || backward ? 16 : 32; block >= 8; block /= 2)
        if (group_bytes(s, block, backward) <= device->local_bytes)
            return block;
    return 0;
}

/* The number of rows of a block that a tuning record asks for; 0: it does not fit. */
static int64_t group_tuned(ocl_emitter *e, const clt_attention *s, bool backward)
{
    int64_t block = ocl_tuned(e, "block", (int)group_block(s, e->device, backward));
    return group_bytes(s, block, backward) <= e->device->local_bytes ? block : 0;
}

static clt_status group_refuse(const clt_attention *s)
{
    CLT_FAIL(CLT_EUNSUPPORTED,
             "the tuning record's blocks, with rows of %lld elements, do not fit into local memory",
             (long long)s->dim);
}

static bool group_accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    /* both directions must fit, so that they get the same variant */
    if (s.dim <= GROUP_MAX_HEAD && group_block(&s, device, true) > 0 && group_block(&s, device, false) > 0)
        return true;
    snprintf(reason, size, "blocks of heads of %lld elements do not fit into %llu bytes of local memory",
             (long long)s.dim, (unsigned long long)device->local_bytes);
    return false;
}

static clt_status attention_fwd_group(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    int64_t block = group_tuned(e, &s, false);
    if (block == 0)
        return group_refuse(&s);
    clt_attention_begin(e, call, &s, "attention_group", CLT_ATTENTION_FORWARD, "attention_fwd_group");
    ocl_define(e, "BLOCK", block);
    clt_attention_outputs(e, call, &s);
    clt_attention_inputs(e, call, &s);
    clt_attention_sizes(e, call, &s);
    uint64_t groups = (uint64_t)(s.batch * s.heads) * clt_div_up((uint64_t)s.tq, (uint64_t)block);
    ocl_kernel_end_1d(e, groups * GROUP_ITEMS, GROUP_ITEMS,
                      clt_attention_pairs(call, &s) * (4.0 * (double)s.dim + 5.0));
    return CLT_OK;
}

static clt_status attention_bwd_group(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    clt_attention s = clt_attention_measure(call->graph, call->node);
    int64_t block = group_tuned(e, &s, true);
    return block == 0 ? group_refuse(&s) : attention_backward(e, call, block);
}

static const ocl_tunable fwd_blocks[] = {{"block", 3, {8, 16, 32}}, {0}};
static const ocl_tunable bwd_blocks[] = {{"block", 2, {8, 16}}, {0}};
static const ocl_variant fwd_group = {.name = "group",
                                      .needs = OCL_CAP_LOCAL,
                                      .accepts = group_accepts,
                                      .tunables = fwd_blocks,
                                      .emit = attention_fwd_group,
                                      .style = OCL_KERNEL_BLOCKS};
static const ocl_variant fwd_row = {
    .name = "row", .emit = attention_fwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const fwd_variants[] = {&clt_attention_fwd_mma, &fwd_group, &clt_attention_fwd_lane,
                                                  &fwd_row, NULL};
static const ocl_variant bwd_group = {.name = "group",
                                      .needs = OCL_CAP_LOCAL,
                                      .accepts = group_accepts,
                                      .tunables = bwd_blocks,
                                      .emit = attention_bwd_group,
                                      .style = OCL_KERNEL_BLOCKS};
static const ocl_variant bwd_row = {
    .name = "row", .emit = attention_bwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const bwd_variants[] = {
    &clt_attention_bwd_mma, &bwd_group, &clt_attention_bwd_lane, &clt_attention_bwd_mma_one, &bwd_row, NULL};

CLT_OP_DOC(
    attention,
    .text =
        "Scaled dot-product attention by heads. A single input holds queries, keys and values side by side, "
        "as one linear layer of three times the width gives them; or they are three inputs.",
    .inputs =
        "qkv: (N,T,3C), or with kv_heads (N,T,C+2*kv_heads*C/heads), f32, f16 or bf16\nor q: (N,Tq,C), k and "
        "v: (N,Tk,kv_heads*C/heads)\noptionally last, length: (N) i32, keys of each sample that count\nor "
        "with documents, documents: (N,T) "
        "i32, a number for each token, the same for neighbours of one document, such as its first token",
    .output = "y: (N,Tq,C), type of q", .example = "{\"op\": \"attention\", \"heads\": 4}",
    .before = "{\"op\": \"embedding\", \"vocab\": 256, \"dim\": 32}, {\"op\": \"positional\", \"positions\": "
              "64}, {\"op\": \"linear\", \"out\": 96}, ",
    .after = ", {\"op\": \"linear\", \"out\": 256}, {\"op\": \"cross_entropy\"}", .data = CLT_DOC_TEXT);

#define ATTENTION_FAMILY(way, word, ...)                                                                     \
    {                                                                                                        \
        .variants = way##_variants, .name = word, .sources = "attention", .variable = "CLTRAIN_ATTENTION",   \
        .problem = clt_attention_##way##_problem, .flops = clt_attention_##way##_flops,                      \
        .describe = clt_attention_##way##_describe, __VA_ARGS__                                              \
    }
CLT_OP_DEFINE(
    attention, "y = softmax(scale * q k^T) v by heads, causal or not", 1, 4, CLT_OP_ATTRS(attention_attrs),
    .flags = CLT_OP_RANDOM, .infer = attention_infer,
    .forward = ATTENTION_FAMILY(fwd, "attention.forward", .others = bwd_variants),
    .backward = ATTENTION_FAMILY(bwd, "attention.backward", .others = NULL), .no_grad_inputs = 1u << 3,
    /* P and dS are rounded, and dy where it has a wider type. Each error is relative to the terms of a sum,
     * which in short rows are larger than the result: errors up to 2.6 half units were seen in 2000 runs of
     * the smallest cases. Elements of a row share their errors, so that more than one in a hundred may be
     * above 2. */
    .rounding_variant = "mma", .roundings = 6);
