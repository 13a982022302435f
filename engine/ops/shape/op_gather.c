/* SPDX-License-Identifier: Apache-2.0
 *
 * The op gather: copies rows of each sample, which it selects by their index, such as the masked positions
 * of a text. Knows rows and indices, no model. */
#include "engine/ops/emit_util.h"

/* gather: y[n,p] = x[n, index[n,p]]
 * shapes  x (N,T,C), index (N,P) -> y (N,P,C)
 * dtypes  x,y f32|f16|bf16; index u8|u16|i32|u32
 * grads   dx: rows of dy, added in the order of p where an index occurs twice; other rows zero; write or
 *         accumulate
 * units   none                                                  memory  no workspace
 * errors  CLT_ESHAPE for other shapes and types; an index out of range (the loader refuses it) gives NaN and
 *         has no gradient
 * source  -                                                     tested  verify -t 'gather*', exact */

typedef struct gather_sizes {
    uint64_t rows, places; /* N*T rows of x, N*P rows of y */
    int64_t t, p, c;
    clt_dtype dtype, index_dtype;
} gather_sizes;

static clt_status gather_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0), *index = clt_infer_in(ctx, 1);
    clt_dtype type = index->dtype;
    char text[CLT_SHAPE_TEXT];
    if (x->shape.ndim != 3)
        return clt_infer_fail(ctx, "the input %s must be (N, rows, features)",
                              clt_shape_text(&x->shape, text, sizeof text));
    if ((type != CLT_U8 && type != CLT_U16 && type != CLT_I32 && type != CLT_U32) || index->shape.ndim != 2 ||
        index->shape.dim[0] != x->shape.dim[0])
        return clt_infer_fail(ctx,
                              "the numbers of rows '%s' are %s %s; they must be (N, rows to take), of type "
                              "u8, u16, i32 or u32",
                              index->name, clt_dtype_name(type),
                              clt_shape_text(&index->shape, text, sizeof text));
    clt_infer_bound(ctx, 1, x->shape.dim[1], false, 0);
    clt_shape shape = clt_shape3(x->shape.dim[0], index->shape.dim[1], x->shape.dim[2]);
    return clt_infer_out(ctx, x->dtype, &shape);
}

static gather_sizes gather_measure(const clt_call *call)
{
    const clt_node *node = call->node;
    const clt_shape *x = &clt_graph_tensor(call->graph, node->in[0])->shape;
    const clt_tensor *index = clt_graph_tensor(call->graph, node->in[1]);
    int64_t p = index->shape.dim[1];
    return (gather_sizes){.rows = (uint64_t)(x->dim[0] * x->dim[1]),
                          .places = (uint64_t)(x->dim[0] * p),
                          .t = x->dim[1],
                          .p = p,
                          .c = x->dim[2],
                          .index_dtype = index->dtype};
}

/* Adds the last arguments, which both directions share, and ends the kernel, which writes `rows` rows. */
static void gather_end(ocl_emitter *e, const clt_call *call, const gather_sizes *s, uint64_t rows,
                       bool by_row)
{
    ocl_arg_in(e, call->in[1], s->index_dtype, s->places);
    ocl_arg_u64(e, rows);
    clt_arg_size32(e, s->t, "rows of a sample");
    clt_arg_size32(e, s->p, "rows to take");
    clt_arg_size32(e, s->c, "features");
    if (by_row)
        ocl_kernel_end_items(e, rows, clt_local_rows(e->device, rows), 0.0);
    else
        ocl_kernel_end_items(e, rows * (uint64_t)s->c, clt_local_flat(e->device), 0.0);
}

static void gather_define(ocl_emitter *e, clt_dtype dtype, const gather_sizes *s)
{
    clt_define_dtype(e, "DT", dtype);
    clt_define_dtype(e, "IT", s->index_dtype);
}

static clt_status gather_forward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    gather_sizes s = gather_measure(call);
    clt_dtype dtype = clt_call_dtype(call, call->out[0]);
    uint64_t most = s.places < s.rows ? s.places : s.rows; /* rows of x that are read, at most */
    ocl_kernel_begin(e, "gather", by_row ? "gather_fwd_row" : "gather_fwd_flat");
    gather_define(e, dtype, &s);
    ocl_arg_out(e, call->out[0], dtype, s.places * (uint64_t)s.c);
    ocl_arg_in(e, call->in[0], dtype, most * (uint64_t)s.c);
    gather_end(e, call, &s, s.places, by_row);
    return CLT_OK;
}

static clt_status gather_backward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    if (call->din[0] < 0)
        return CLT_OK;
    gather_sizes s = gather_measure(call);
    clt_dtype dtype = clt_call_dtype(call, call->din[0]);
    ocl_kernel_begin(e, "gather", by_row ? "gather_bwd_row" : "gather_bwd_flat");
    gather_define(e, clt_call_dtype(call, call->dout[0]), &s);
    clt_define_dtype(e, "GT", dtype);
    ocl_arg_grad(e, call->din[0], dtype, s.rows * (uint64_t)s.c, call->din_accumulate[0]);
    ocl_arg_in(e, call->dout[0], clt_call_dtype(call, call->dout[0]), s.places * (uint64_t)s.c);
    gather_end(e, call, &s, s.rows, by_row);
    return CLT_OK;
}

CLT_FLAT_ROW_VARIANTS(gather_forward)
CLT_FLAT_ROW_VARIANTS(gather_backward)

CLT_OP_DOC(gather,
           .text = "Takes rows of each sample by their numbers, so that the layers after it compute only "
                   "these rows, such as the masked positions of a text. A number that is not below T is "
                   "refused when the data is read.",
           .inputs = "x: (N,T,C), f32, f16 or bf16\nindex: (N,P), u8, u16, i32 or u32",
           .output = "y: (N,P,C), type of x",
           .example = "{\"op\": \"gather\", \"inputs\": [\"rows\", \"position\"]}",
           .before = "{\"op\": \"embedding\", \"name\": \"rows\", \"vocab\": 256, \"dim\": 32}, ",
           .after = ", {\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}",
           .data = CLT_DOC_DECODE);

CLT_OP_DEFINE(gather, "y[n,p] = x[n, index[n,p]]: rows of each sample by their numbers", 2, 2,
              .infer = gather_infer, CLT_OP_VARIANTS(gather), .no_grad_inputs = 1u << 1);
