/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference of linear_cross_entropy, composed of the references of linear and
 * cross_entropy, and its test cases. */
#include <stdlib.h>

#include "engine/ops/case.h"

/* linear: x -> logits. cross_entropy: logits -> loss. Both allocate memory. If that fails, the results are
 * not written, which fails the check. */
typedef struct head_ref {
    clt_ref_call linear, loss;
    double *logits, *gradient;
} head_ref;

static bool head_ref_open(head_ref *h, const clt_ref_call *call)
{
    clt_ref_tensor logits = call->in[0];
    logits.shape.dim[logits.shape.ndim - 1] = call->param[0].shape.dim[0];
    size_t n = (size_t)clt_shape_elements(&logits.shape);
    h->logits = calloc(n, sizeof *h->logits);
    h->gradient = calloc(n, sizeof *h->gradient);
    h->linear = h->loss = *call;
    h->loss.n_saved = 0;
    logits.data = h->logits;
    h->linear.out[0] = h->loss.in[0] = logits;
    logits.data = h->gradient;
    h->linear.dout[0] = h->loss.din[0] = logits;
    return h->logits && h->gradient;
}

/* Rounds to the inputs' type, in which the kernels store logits and their gradients. Without that rounding,
 * the reference and the kernel could disagree about which of nearly equal logits is the largest. */
static void store_as(clt_dtype dtype, double *values, const clt_shape *shape)
{
    for (int64_t i = 0; i < clt_shape_elements(shape); i++) {
        if (dtype == CLT_BF16)
            values[i] = clt_bf16_to_f32(clt_f32_to_bf16((float)values[i]));
        else if (dtype == CLT_F16)
            values[i] = clt_f16_to_f32(clt_f32_to_f16((float)values[i]));
    }
}

static void head_ref_close(head_ref *h)
{
    free(h->logits);
    free(h->gradient);
}

static void head_forward(clt_ref_call *call)
{
    head_ref h;
    if (head_ref_open(&h, call)) {
        clt_op_linear_ref.forward(&h.linear);
        store_as(h.linear.out[0].dtype, h.logits, &h.linear.out[0].shape);
        clt_op_cross_entropy_ref.forward(&h.loss);
        for (int i = 0; i < 4; i++)
            call->loss_record[i] = h.loss.loss_record[i];
        for (int i = 0; i < 2; i++)
            call->loss_terms[i] = h.loss.loss_terms[i];
    }
    head_ref_close(&h);
}

static void head_backward(clt_ref_call *call)
{
    head_ref h;
    if (head_ref_open(&h, call)) {
        clt_op_linear_ref.forward(&h.linear);
        store_as(h.linear.out[0].dtype, h.logits, &h.linear.out[0].shape);
        clt_op_cross_entropy_ref.backward(&h.loss);
        store_as(h.linear.out[0].dtype, h.gradient, &h.linear.out[0].shape);
        clt_op_linear_ref.backward(&h.linear);
    }
    head_ref_close(&h);
}

/* Logits and their gradients are stored with 8 bits of mantissa, and there are few rows. */
#define BF16_LOGITS .tolerance = 1 << 15, .rounding = 0x1p-7

/* Covered: chunks that divide the rows, that do not, and one for all rows; odd numbers of classes; ignored
 * targets. */
static const clt_op_case head_cases[] = {
    {.name = "bf16",
     .attrs = "{\"out\":24,\"classes\":21,\"label_smoothing\":0.1,\"chunk\":3}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 4, 2, 12), CLT_CASE_INDEX(CLT_U16, 21, 4, 2)},
     BF16_LOGITS,
     .small = true},
    CLT_CASE("one", "{\"out\":1}", CLT_SMALL, CLT_CASE_F32(1, 1), CLT_CASE_INDEX(CLT_U8, 1, 1)),
    CLT_CASE("whole", "{\"out\":7}", CLT_SMALL, CLT_CASE_F32(5, 9), CLT_CASE_INDEX(CLT_U8, 7, 5)),
    CLT_CASE("chunks", "{\"out\":7,\"chunk\":2,\"bias\":false}", CLT_SMALL, CLT_CASE_F32(6, 5),
             CLT_CASE_INDEX(CLT_I32, 7, 6)),
    CLT_CASE("last_chunk", "{\"out\":19,\"chunk\":4,\"ignore_index\":2}", CLT_SMALL, CLT_CASE_F32(3, 5, 6),
             CLT_CASE_INDEX(CLT_U16, 19, 3, 5)),
    CLT_CASE("rows_apart", "{\"out\":5,\"chunk\":1}", CLT_SMALL, CLT_CASE_F32(3, 4),
             CLT_CASE_INDEX(CLT_U8, 5, 3)),
    CLT_CASE("padded", "{\"out\":40,\"classes\":37,\"label_smoothing\":0.1,\"chunk\":5,\"weight\":0.5}", 0,
             CLT_CASE_F32(4, 3, 24), CLT_CASE_INDEX(CLT_U16, 37, 4, 3)),
    {.name = "held",
     .attrs = "{\"out\":1204,\"classes\":1203,\"chunk\":6}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 13, 16), CLT_CASE_INDEX(CLT_U16, 1203, 13)},
     BF16_LOGITS,
     .small = true},
    {.name = "held_f16",
     .attrs = "{\"out\":1204,\"classes\":1201,\"label_smoothing\":0.1,\"chunk\":6}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_FLOAT(CLT_F16, 13, 16), CLT_CASE_INDEX(CLT_U16, 1201, 13)},
     .tolerance = 1 << 12,
     .rounding = 0x1p-10,
     .small = true},
    {.name = "held_50257",
     .attrs = "{\"out\":50304,\"classes\":50257,\"bias\":false,\"chunk\":4}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 5, 8), CLT_CASE_INDEX(CLT_U16, 50257, 5)},
     BF16_LOGITS},
    CLT_CASE("vocabulary", "{\"out\":5003,\"bias\":false,\"chunk\":64}", 0, CLT_CASE_F32(5, 29, 48),
             CLT_CASE_INDEX(CLT_U16, 5003, 5, 29)),
    CLT_CASE("many_rows", "{\"out\":3,\"chunk\":700}", 0, CLT_CASE_F32(2003, 8),
             CLT_CASE_INDEX(CLT_U8, 3, 2003)),
};

CLT_OP_REF(linear_cross_entropy, head_forward, head_backward, head_cases, .tolerance = 32);
