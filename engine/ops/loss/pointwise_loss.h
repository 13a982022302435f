/* SPDX-License-Identifier: Apache-2.0
 *
 * What the losses that are a sum over elements (mse, l1, bce_with_logits) have in common. */
#ifndef ENGINE_OPS_LOSS_POINTWISE_LOSS_H
#define ENGINE_OPS_LOSS_POINTWISE_LOSS_H

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/loss/loss.h"
#include "engine/ops/loss/loss_shared.clh"

typedef enum clt_pointwise_kind {
    CLT_POINTWISE_MSE = POINTWISE_MSE,
    CLT_POINTWISE_L1 = POINTWISE_L1,
    CLT_POINTWISE_BCE = POINTWISE_BCE
} clt_pointwise_kind;

extern const clt_attr_spec clt_pointwise_loss_attrs[1]; /* weight */

clt_status clt_pointwise_loss_infer(clt_infer *ctx);
clt_status clt_pointwise_loss_forward(ocl_emitter *e, const clt_call *call, clt_pointwise_kind kind,
                                      bool group);
clt_status clt_pointwise_loss_backward(ocl_emitter *e, const clt_call *call, clt_pointwise_kind kind,
                                       clt_style style);

/* name_forward_variants and name_backward_variants of such a loss. */
#define CLT_POINTWISE_VARIANTS(name, kind)                                                                   \
    static clt_status name##_forward(ocl_emitter *e, const clt_call *call, bool group)                       \
    {                                                                                                        \
        return clt_pointwise_loss_forward(e, call, kind, group);                                             \
    }                                                                                                        \
    static clt_status name##_backward(ocl_emitter *e, const clt_call *call, clt_style style)                 \
    {                                                                                                        \
        return clt_pointwise_loss_backward(e, call, kind, style);                                            \
    }                                                                                                        \
    CLT_GROUP_ROW_VARIANTS(name##_forward, NULL, NULL)                                                       \
    CLT_ELEMENTWISE_VARIANTS(name##_backward)

/* The double-precision references (pointwise_loss_ref.c). */
void clt_pointwise_loss_ref_forward(clt_ref_call *call, clt_pointwise_kind kind);
void clt_pointwise_loss_ref_backward(clt_ref_call *call, clt_pointwise_kind kind);
/* Cases for the initialiser of an array; TARGET(dims...) is the input of f32 targets. clt_pointwise_cases
 * are the cases for losses whose targets are any numbers. */
#define CLT_POINTWISE_CASES 11
#define CLT_POINTWISE_CASE_LIST(TARGET)                                                                      \
    CLT_CASE("one", NULL, CLT_SMALL, CLT_CASE_F32(1, 1), TARGET(1, 1)),                                      \
        CLT_CASE("scalar_per_sample", NULL, CLT_SMALL, CLT_CASE_F32(7, 1), TARGET(7)),                       \
        CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 5, 36), TARGET(5, 36)),                   \
        CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(5, 7), TARGET(5, 7)),                                  \
        CLT_CASE("byte_targets", NULL, CLT_SMALL, CLT_CASE_F32(3, 11), CLT_CASE_BINARY(CLT_U8, 3, 11)),      \
        CLT_CASE("zeros", NULL, CLT_SMALL, CLT_CASE_WHOLE(CLT_F32, 3, 37), CLT_CASE_BINARY(CLT_F32, 3, 37)), \
        CLT_CASE("weight", "{\"weight\":2.5}", CLT_SMALL, CLT_CASE_F32(4, 3, 5), TARGET(4, 3, 5)),           \
        CLT_CASE("one_block", NULL, 0, CLT_CASE_F32(2, 512), TARGET(2, 512)),                                \
        CLT_CASE("block_tail", NULL, CLT_SMALL, CLT_CASE_F32(3, 1371), TARGET(3, 1371)),                     \
        CLT_CASE("two_stage", NULL, CLT_SMALL, CLT_CASE_F32(70, 1001), TARGET(70, 1001))
extern const clt_op_case clt_pointwise_cases[CLT_POINTWISE_CASES], clt_pointwise_timed[1];

#endif
