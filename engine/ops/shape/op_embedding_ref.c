/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of embedding. */
#include <math.h>

#include "engine/ops/case.h"

/* The row of w for position p. If the index is out of range it is clamped, and the result is NaN. */
static int64_t row_of(const clt_ref_call *call, int64_t p, bool *in_range)
{
    int64_t index = (int64_t)call->in[0].data[p], vocab = call->param[0].shape.dim[0];
    *in_range = index >= 0 && index < vocab;
    return index < 0 ? 0 : index < vocab ? index : vocab - 1;
}

static void embedding_forward(clt_ref_call *call)
{
    int64_t positions = clt_shape_elements(&call->in[0].shape), dim = call->param[0].shape.dim[1];
    for (int64_t p = 0; p < positions; p++) {
        bool in_range;
        int64_t row = row_of(call, p, &in_range);
        for (int64_t d = 0; d < dim; d++)
            call->out[0].data[p * dim + d] = in_range ? call->param[0].data[row * dim + d] : (double)NAN;
    }
}

static void embedding_backward(clt_ref_call *call)
{
    int64_t positions = clt_shape_elements(&call->in[0].shape), dim = call->param[0].shape.dim[1];
    if (!call->dparam[0].data)
        return;
    for (int64_t p = 0; p < positions; p++) {
        bool in_range;
        int64_t row = row_of(call, p, &in_range);
        for (int64_t d = 0; row != clt_node_attr(call->node, "padding")->i && d < dim; d++)
            call->dparam[0].data[row * dim + d] += call->dout[0].data[p * dim + d];
    }
}

/* Forward copies: no error. The gradient of a row is a sum over the positions with its index, up to 2000
 * here ("one_row"), with an error of about sqrt(2000) = 45 eps. */
static const clt_op_case embedding_cases[] = {
    CLT_CASE("one", "{\"vocab\":1,\"dim\":1}", CLT_SMALL | CLT_EXACT, CLT_CASE_INDEX(CLT_U8, 1, 1, 1)),
    CLT_CASE("odd", "{\"vocab\":5,\"dim\":3}", CLT_SMALL | CLT_EXACT, CLT_CASE_INDEX(CLT_U8, 5, 3, 7)),
    CLT_CASE("unused_rows", "{\"vocab\":300,\"dim\":18}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_INDEX(CLT_U16, 300, 2, 9)),
    CLT_CASE("per_sample", "{\"vocab\":10,\"dim\":33}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_INDEX(CLT_I32, 10, 13)),
    CLT_CASE("out_of_range", "{\"vocab\":11,\"dim\":20}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_STRAY(CLT_I32, 11, 3, 19)),
    CLT_CASE("bytes", "{\"vocab\":256,\"dim\":24}", CLT_EXACT, CLT_CASE_INDEX(CLT_U8, 256, 16, 65)),
    CLT_CASE("vectors", "{\"vocab\":40,\"dim\":48}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_INDEX(CLT_U16, 40, 3, 17)),
    CLT_CASE("u32", "{\"vocab\":1000,\"dim\":16}", CLT_EXACT, CLT_CASE_INDEX(CLT_U32, 1000, 7, 31)),
    CLT_CASE("one_row", "{\"vocab\":70,\"dim\":5}", CLT_EXACT, CLT_CASE_INDEX(CLT_I32, 1, 2, 1000)),
    CLT_CASE_DEEP("equal", "{\"vocab\":1,\"dim\":19}", CLT_CASE_INDEX(CLT_U8, 1, 2, 10000)),
    CLT_CASE("big_table", "{\"vocab\":50257,\"dim\":7}", CLT_EXACT, CLT_CASE_INDEX(CLT_U16, 50257, 4, 129)),
    /* the gradient of the row `padding` is zero by definition, so finite differences do not apply */
    CLT_CASE("padding", "{\"vocab\":5,\"dim\":19,\"padding\":0}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_STRAY(CLT_I32, 5, 3, 7)),
    CLT_CASE("padding_last", "{\"vocab\":3,\"dim\":4,\"padding\":2}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_STRAY(CLT_U16, 3, 2, 9)),
    CLT_CASE("image_of_indices", "{\"vocab\":4,\"dim\":2,\"init_std\":0.5}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_INDEX(CLT_U8, 4, 2, 3, 4)),
    {.name = "bf16",
     .attrs = "{\"vocab\":7,\"dim\":20}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_U16, 7, 3, 9)},
     .small = true,
     .retyped = 1 + CLT_BF16},
    {.name = "f16",
     .attrs = "{\"vocab\":7,\"dim\":13}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_I32, 7, 3, 9)},
     .small = true,
     .retyped = 1 + CLT_F16},
};

static const clt_op_case embedding_timed[] = {
    CLT_CASE("gpt2", "{\"vocab\":50257,\"dim\":768}", 0, CLT_CASE_INDEX(CLT_U16, 50257, 4, 64)),
    CLT_CASE("large", "{\"vocab\":50257,\"dim\":768}", 0, CLT_CASE_INDEX(CLT_U16, 50257, 64, 1024)),
};

CLT_OP_REF(embedding, embedding_forward, embedding_backward, embedding_cases, .tolerance = 64,
           CLT_TIMED(embedding_timed));
