/* SPDX-License-Identifier: Apache-2.0
 *
 * What the losses that are a sum over elements share: mse, l1, bce_with_logits. */
#ifndef ENGINE_OPS_POINTWISE_LOSS_H
#define ENGINE_OPS_POINTWISE_LOSS_H

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

/* The double reference of both directions (pointwise_loss_ref.c). */
void clt_pointwise_loss_ref_forward(clt_ref_call *call, clt_pointwise_kind kind);
void clt_pointwise_loss_ref_backward(clt_ref_call *call, clt_pointwise_kind kind);
/* Cases, for the initialiser of an array; TARGET(dims...): the input of f32 targets. clt_pointwise_cases are
 * those of the losses whose targets are any numbers. */
#define CLT_POINTWISE_CASES 9
#define CLT_POINTWISE_CASE_LIST(TARGET)                                                                      \
    {.name = "one", .n_inputs = 2, .inputs = {CLT_CASE_F32(1, 1), TARGET(1, 1)}, .small = true},             \
        {.name = "scalar_per_sample",                                                                        \
         .n_inputs = 2,                                                                                      \
         .inputs = {CLT_CASE_F32(7, 1), TARGET(7)},                                                          \
         .small = true},                                                                                     \
        {.name = "bf16",                                                                                     \
         .n_inputs = 2,                                                                                      \
         .inputs = {CLT_CASE_FLOAT(CLT_BF16, 5, 36), TARGET(5, 36)},                                         \
         .small = true},                                                                                     \
        {.name = "odd", .n_inputs = 2, .inputs = {CLT_CASE_F32(5, 7), TARGET(5, 7)}, .small = true},         \
        {.name = "byte_targets",                                                                             \
         .n_inputs = 2,                                                                                      \
         .inputs = {CLT_CASE_F32(3, 11), CLT_CASE_BINARY(CLT_U8, 3, 11)},                                    \
         .small = true},                                                                                     \
        {.name = "weight",                                                                                   \
         .attrs = "{\"weight\":2.5}",                                                                        \
         .n_inputs = 2,                                                                                      \
         .inputs = {CLT_CASE_F32(4, 3, 5), TARGET(4, 3, 5)},                                                 \
         .small = true},                                                                                     \
        {.name = "one_block", .n_inputs = 2, .inputs = {CLT_CASE_F32(2, 512), TARGET(2, 512)}},              \
        {.name = "block_tail",                                                                               \
         .n_inputs = 2,                                                                                      \
         .inputs = {CLT_CASE_F32(3, 1371), TARGET(3, 1371)},                                                 \
         .small = true},                                                                                     \
    {                                                                                                        \
        .name = "two_stage", .n_inputs = 2, .inputs = {CLT_CASE_F32(70, 1001), TARGET(70, 1001)},            \
        .small = true                                                                                        \
    }
extern const clt_op_case clt_pointwise_cases[CLT_POINTWISE_CASES], clt_pointwise_timed[1];

#endif
