/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of gather. */
#include <math.h>

#include "engine/ops/case.h"

/* Number of the row of x that row `place` of y copies; -1 if the index is out of range. */
static int64_t row_of(const clt_ref_call *call, int64_t place)
{
    int64_t rows = call->in[0].shape.dim[1], per_sample = call->in[1].shape.dim[1];
    int64_t index = (int64_t)call->in[1].data[place];
    return index < 0 || index >= rows ? -1 : place / per_sample * rows + index;
}

static void gather_forward(clt_ref_call *call)
{
    int64_t places = clt_shape_elements(&call->in[1].shape), width = call->in[0].shape.dim[2];
    for (int64_t place = 0; place < places; place++)
        for (int64_t c = 0, row = row_of(call, place); c < width; c++)
            call->out[0].data[place * width + c] = row < 0 ? (double)NAN : call->in[0].data[row * width + c];
}

static void gather_backward(clt_ref_call *call)
{
    int64_t places = clt_shape_elements(&call->in[1].shape), width = call->in[0].shape.dim[2];
    for (int64_t place = 0; call->din[0].data && place < places; place++)
        for (int64_t c = 0, row = row_of(call, place); row >= 0 && c < width; c++)
            call->din[0].data[row * width + c] += call->dout[0].data[place * width + c];
}

static const clt_op_case gather_cases[] = {
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1, 1), CLT_CASE_INDEX(CLT_I32, 1, 1, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 7, 5), CLT_CASE_INDEX(CLT_U8, 7, 3, 4)),
    CLT_CASE("repeated", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 33),
             CLT_CASE_INDEX(CLT_U16, 3, 2, 19)),
    CLT_CASE("out_of_range", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 11, 20),
             CLT_CASE_STRAY(CLT_I32, 11, 2, 23)),
    CLT_CASE("vectors", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 17, 48),
             CLT_CASE_INDEX(CLT_U32, 17, 2, 6)),
    CLT_CASE("f16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 3, 9, 40),
             CLT_CASE_INDEX(CLT_I32, 9, 3, 5)),
    CLT_CASE("bf16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 3, 9, 24),
             CLT_CASE_INDEX(CLT_I32, 9, 3, 5)),
    CLT_CASE("bert", NULL, CLT_EXACT, CLT_CASE_F32(4, 128, 96), CLT_CASE_INDEX(CLT_I32, 128, 4, 20)),
};

static const clt_op_case gather_timed[] = {
    CLT_CASE("bert", NULL, 0, CLT_CASE_F32(4, 128, 768), CLT_CASE_INDEX(CLT_I32, 128, 4, 20)),
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(32, 512, 1024), CLT_CASE_INDEX(CLT_I32, 512, 32, 80)),
};

CLT_OP_REF(gather, gather_forward, gather_backward, gather_cases, .tolerance = 8, CLT_TIMED(gather_timed));
