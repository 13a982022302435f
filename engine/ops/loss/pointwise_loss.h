/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas of the losses that are a sum over elements (mse, l1, bce_with_logits). */
#ifndef ENGINE_OPS_LOSS_POINTWISE_LOSS_H
#define ENGINE_OPS_LOSS_POINTWISE_LOSS_H

#include "engine/ops/loss/loss_shared.clh"
#include "engine/ops/op.h"

/* The formula of a node of one of these ops. */
static inline int clt_pointwise_kind(const clt_node *node)
{
    return node->op == &clt_op_mse ? POINTWISE_MSE : node->op == &clt_op_l1 ? POINTWISE_L1 : POINTWISE_BCE;
}

#endif
