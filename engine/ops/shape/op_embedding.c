/* SPDX-License-Identifier: Apache-2.0
 *
 * The op embedding: rows of a table by index. Knows positions and table rows, no model. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

/* embedding: y[p] = w[index[p]]
 * shapes  index (N,...), w (V,D) -> y (N,...,D)
 * dtypes  index u8|u16|i32|u32; y f32; w f32|f16|bf16
 * grads   dw: write (unused rows become zero) or accumulate; ordered sums, no float atomics. The row
 *         `padding` gets none, as with padding_idx of torch.nn.Embedding, and starts at zero
 * memory  workspace of dw: 4*(positions+V+1) bytes (row), 4*(2*positions+3*V+1) (group)
 * errors  CLT_ESHAPE for a float index; an index out of range (the loader refuses it) gives NaN
 * source  initialisation N(0,1) as torch.nn.Embedding
 * tested  verify -t 'embedding*', exact on integers */

static const clt_attr_spec embedding_attrs[] = {
    CLT_SPEC_NEEDED(INT, "vocab", 1, INT32_MAX, "rows of the table"),
    CLT_SPEC_NEEDED(INT, "dim", 1, INT32_MAX, "features of a row"),
    CLT_SPEC_FLOAT("init_std", 1.0, 0, 1000, "standard deviation of the table at the start"),
    CLT_SPEC_INT("padding", -1, -1, INT32_MAX,
                 "a row that starts at zero and to which lookups give no gradient; -1: none"),
};

static clt_status embedding_infer(clt_infer *ctx)
{
    const clt_tensor *index = clt_infer_in(ctx, 0);
    clt_shape shape = index->shape;
    char text[CLT_SHAPE_TEXT];
    if (index->dtype != CLT_U8 && index->dtype != CLT_U16 && index->dtype != CLT_I32 &&
        index->dtype != CLT_U32)
        return clt_infer_fail(ctx, "input '%s' has type %s; indices must be u8, u16, i32 or u32", index->name,
                              clt_dtype_name(index->dtype));
    if (shape.ndim >= CLT_MAX_DIMS)
        return clt_infer_fail(ctx,
                              "input %s leaves no room for the feature dimension (at most %d dimensions)",
                              clt_shape_text(&shape, text, sizeof text), CLT_MAX_DIMS);
    int64_t vocab = clt_node_attr(ctx->node, "vocab")->i, dim = clt_node_attr(ctx->node, "dim")->i;
    shape.dim[shape.ndim++] = dim;
    clt_shape w = clt_shape2(vocab, dim);
    clt_init init = {CLT_INIT_NORMAL, (float)clt_node_attr(ctx->node, "init_std")->f, 0, 0};
    int64_t padding = clt_node_attr(ctx->node, "padding")->i;
    if (padding >= vocab)
        return clt_infer_fail(ctx, "\"padding\": %lld is not a row of a table of %lld rows",
                              (long long)padding, (long long)vocab);
    clt_infer_bound(ctx, 0, vocab, false, 0);
    CLT_TRY(clt_infer_out(ctx, CLT_F32, &shape));
    CLT_TRY(clt_infer_param(ctx, "weight", &w, init));
    if (ctx->node->share < 0)
        ctx->graph->params[ctx->node->param[0]].zero_row = padding + 1;
    return CLT_OK;
}

typedef struct embedding_sizes {
    int64_t positions, vocab, dim;
    clt_dtype index_dtype;
} embedding_sizes;

static embedding_sizes embedding_measure(const clt_call *call)
{
    const clt_tensor *index = clt_call_tensor(call, call->in[0]);
    embedding_sizes s = {clt_shape_elements(&index->shape), clt_node_attr(call->node, "vocab")->i,
                         clt_node_attr(call->node, "dim")->i, index->dtype};
    return s;
}

/* Defines NT (non-temporal stores) and AHEAD (prefetch) for the variant row, which writes `elements`
 * elements of `dtype` in whole rows of `dim`. */
static void embedding_define_row(ocl_emitter *e, clt_dtype dtype, int64_t elements, int64_t dim,
                                 bool accumulate)
{
    clt_define_ahead(e);
    if (dim % 16 == 0)
        clt_define_stores(e, CLT_STYLE_LANE, dtype, (uint64_t)elements, accumulate);
}

static clt_status embedding_forward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    embedding_sizes s = embedding_measure(call);
    uint64_t elements = (uint64_t)(s.positions * s.dim);
    clt_dtype dtype = clt_call_dtype(call, call->out[0]), w_dtype = clt_call_dtype(call, call->param[0]);
    ocl_kernel_begin(e, "embedding", by_row ? "embedding_fwd_row" : "embedding_fwd_flat");
    clt_define_dtype(e, "DT", dtype);
    clt_define_dtype(e, "WT", w_dtype);
    clt_define_dtype(e, "IT", s.index_dtype);
    clt_define_wide(e, elements);
    if (by_row)
        embedding_define_row(e, dtype, (int64_t)elements, s.dim, false);
    ocl_arg_out(e, call->out[0], dtype, elements);
    ocl_arg_in(e, call->in[0], s.index_dtype, (uint64_t)s.positions);
    /* at most one row of the table is read per position */
    ocl_arg_in(e, call->param[0], w_dtype,
               (uint64_t)((s.positions < s.vocab ? s.positions : s.vocab) * s.dim));
    ocl_arg_u64(e, (uint64_t)s.positions);
    clt_arg_size32(e, s.vocab, "table rows");
    clt_arg_size32(e, s.dim, "features");
    if (by_row)
        ocl_kernel_end_items(e, (uint64_t)s.positions, clt_local_rows(e->device, (uint64_t)s.positions), 0.0);
    else
        ocl_kernel_end_items(e, elements, clt_local_flat(e->device), 0.0);
    return CLT_OK;
}
/* Emits dw from the positions sorted by index. */
static void embedding_sum(ocl_emitter *e, const clt_call *call, const embedding_sizes *s, int32_t start,
                          int32_t order, bool by_row)
{
    uint64_t elements = (uint64_t)(s->vocab * s->dim), read = (uint64_t)(s->positions * s->dim);
    clt_dtype dtype = clt_call_dtype(call, call->dout[0]), w_dtype = clt_call_dtype(call, call->dparam[0]);
    ocl_kernel_begin(e, "embedding", by_row ? "embedding_bwd_w_row" : "embedding_bwd_w_group");
    clt_define_dtype(e, "DT", dtype);
    clt_define_dtype(e, "GT", w_dtype);
    clt_define_wide(e, elements);
    if (by_row)
        embedding_define_row(e, w_dtype, (int64_t)elements, s->dim, call->dparam_accumulate[0]);
    /* accumulating touches at most one row of the table per position */
    if (call->dparam_accumulate[0] && s->positions < s->vocab)
        elements = read;
    ocl_arg_grad(e, call->dparam[0], w_dtype, elements, call->dparam_accumulate[0]);
    ocl_arg_in(e, call->dout[0], dtype, read);
    ocl_arg_in(e, start, CLT_U32, (uint64_t)s->vocab + 1);
    ocl_arg_in(e, order, CLT_U32, (uint64_t)s->positions);
    clt_arg_size32(e, s->positions, "positions");
    clt_arg_size32(e, s->vocab, "table rows");
    clt_arg_size32(e, s->dim, "features");
    ocl_arg_u32(e, (uint32_t)clt_node_attr(call->node, "padding")->i);
    if (by_row)
        ocl_kernel_end_items(e, (uint64_t)s->vocab, clt_local_rows(e->device, (uint64_t)s->vocab),
                             (double)read);
    else
        ocl_kernel_end_items(e, (uint64_t)(s->vocab * s->dim), clt_local_flat(e->device), (double)read);
}

static void embedding_index_args(ocl_emitter *e, const clt_call *call, const embedding_sizes *s)
{
    ocl_arg_in(e, call->in[0], s->index_dtype, (uint64_t)s->positions);
    clt_arg_size32(e, s->positions, "positions");
    clt_arg_size32(e, s->vocab, "table rows");
}

static clt_status embedding_bwd_row(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    if (call->dparam[0] < 0)
        return CLT_OK;
    embedding_sizes s = embedding_measure(call);
    uint64_t starts = (uint64_t)s.vocab + 1, positions = (uint64_t)s.positions;
    int32_t start = ocl_workspace(e, CLT_U32, starts, "embedding.start");
    int32_t order = ocl_workspace(e, CLT_U32, positions, "embedding.order");
    ocl_kernel_begin(e, "embedding", "embedding_bwd_w_sort_row");
    clt_define_dtype(e, "IT", s.index_dtype);
    ocl_arg_out(e, start, CLT_U32, starts);
    ocl_arg_out(e, order, CLT_U32, positions);
    embedding_index_args(e, call, &s);
    ocl_kernel_end_1d(e, 1, 1, 0.0);
    embedding_sum(e, call, &s, start, order, true);
    return CLT_OK;
}

static clt_status embedding_bwd_group(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    if (call->dparam[0] < 0)
        return CLT_OK;
    embedding_sizes s = embedding_measure(call);
    uint64_t vocab = (uint64_t)s.vocab, positions = (uint64_t)s.positions, flat = clt_local_flat(e->device);
    uint64_t wg = clt_local_group(e->device, vocab);
    int32_t count = ocl_workspace(e, CLT_U32, vocab, "embedding.count");
    int32_t start = ocl_workspace(e, CLT_U32, vocab + 1, "embedding.start");
    int32_t cursor = ocl_workspace(e, CLT_U32, vocab, "embedding.cursor");
    int32_t slots = ocl_workspace(e, CLT_U32, positions, "embedding.slots");
    int32_t order = ocl_workspace(e, CLT_U32, positions, "embedding.order");

    ocl_emit_fill(e, ocl_ref(count), vocab * 4, 0);
    ocl_kernel_begin(e, "embedding", "embedding_bwd_w_count_group");
    clt_define_dtype(e, "IT", s.index_dtype);
    ocl_arg_inout(e, count, CLT_U32, vocab);
    embedding_index_args(e, call, &s);
    ocl_kernel_end_items(e, positions, flat, 0.0);

    ocl_kernel_begin(e, "embedding", "embedding_bwd_w_scan_group");
    ocl_define(e, "WG", (int64_t)wg);
    ocl_arg_out(e, start, CLT_U32, vocab + 1);
    ocl_arg_out(e, cursor, CLT_U32, vocab);
    ocl_arg_in(e, count, CLT_U32, vocab);
    clt_arg_size32(e, s.vocab, "table rows");
    ocl_kernel_end_1d(e, wg, wg, 0.0);

    ocl_kernel_begin(e, "embedding", "embedding_bwd_w_scatter_group");
    clt_define_dtype(e, "IT", s.index_dtype);
    ocl_arg_out(e, slots, CLT_U32, positions);
    ocl_arg_inout(e, cursor, CLT_U32, vocab);
    embedding_index_args(e, call, &s);
    ocl_kernel_end_items(e, positions, flat, 0.0);

    ocl_kernel_begin(e, "embedding", "embedding_bwd_w_rank_group");
    clt_define_dtype(e, "IT", s.index_dtype);
    ocl_arg_out(e, order, CLT_U32, positions);
    ocl_arg_in(e, slots, CLT_U32, positions);
    ocl_arg_in(e, start, CLT_U32, vocab + 1);
    embedding_index_args(e, call, &s);
    ocl_kernel_end_items(e, positions, flat, 0.0);
    embedding_sum(e, call, &s, start, order, false);
    return CLT_OK;
}

CLT_FLAT_ROW_VARIANTS(embedding_forward)
static const ocl_variant bwd_group = {
    .name = "group", .needs = OCL_CAP_LOCAL, .emit = embedding_bwd_group, .style = OCL_KERNEL_GROUPS};
static const ocl_variant bwd_row = {
    .name = "row", .emit = embedding_bwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const bwd_variants[] = {&bwd_group, &bwd_row, NULL};

CLT_OP_DOC(
    embedding,
    .text = "Looks up a learned row for each index: tokens become vectors. An index that is not below vocab "
            "is refused when the data is read.",
    .inputs = "index: (N,...), u8, u16, i32 or u32", .output = "y: (N,...,dim), f32",
    .params = "weight: (vocab,dim)", .example = "{\"op\": \"embedding\", \"vocab\": 256, \"dim\": 32}",
    .before = "", .after = ", {\"op\": \"linear\", \"out\": 256}, {\"op\": \"cross_entropy\"}",
    .data = CLT_DOC_TEXT);

CLT_OP_DEFINE(embedding, "y[p] = w[index[p]]", 1, 1, CLT_OP_ATTRS(embedding_attrs),
              .flags = CLT_OP_ROWS | CLT_OP_RETYPES, .infer = embedding_infer,
              .forward = {.variants = embedding_forward_variants}, .backward = {.variants = bwd_variants},
              .no_grad_inputs = 1, .narrow_params = 1);
