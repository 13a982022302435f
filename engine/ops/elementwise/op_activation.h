/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of activations without attributes, from which their op records, references and cases are made;
 * one line is one op. gelu has an attribute and is written out in both files. Knows names and formulas
 * only. */
#ifndef ENGINE_OPS_ELEMENTWISE_OP_ACTIVATION_H
#define ENGINE_OPS_ELEMENTWISE_OP_ACTIVATION_H

#include "engine/ops/op.h"

/* The columns: name, formula, text of the documentation, kernel function, kernel derivative, whether the
 * derivative takes y (else x), flops forward and backward of one element (an exp, tanh or division counts as
 * one), epilogue, y in double from x, dy/dx in double from x and y, tolerance, whether it is exact on
 * integers. Tolerances: OpenCL allows errors of 5 ulp for tanh, 3 ulp for exp and 2.5 ulp for division;
 * errors are relative to a magnitude of at least |y|. */
#define CLT_ACTIVATION_MAP(X)                                                                                \
    X(relu, "y = max(x, 0)", "Negative numbers become zero.", "clt_relu", "clt_drelu", false, 1, 2,          \
      OCL_ACT_RELU, (x < 0 ? 0 : x), (x > 0 ? 1 : 0), 1, true)                                               \
    X(tanh, "y = tanh(x)", "The hyperbolic tangent: results lie between -1 and 1.", "clt_tanh",              \
      "clt_dtanh_y", true, 1, 3, OCL_ACT_NONE, tanh(x), 1 - y * y, 16, false)                                \
    X(sigmoid, "y = 1 / (1 + exp(-x))",                                                                      \
      "Results lie between 0 and 1. Do not put it before the loss bce_with_logits, which includes it.",      \
      "clt_sigmoid", "clt_dsigmoid_y", true, 4, 3, OCL_ACT_NONE, 1 / (1 + exp(-x)), y * (1 - y), 8, false)   \
    X(silu, "y = x / (1 + exp(-x))", "Also called swish.", "clt_silu", "clt_dsilu", false, 5, 9,             \
      OCL_ACT_NONE, x / (1 + exp(-x)), activation_dsilu(x), 16, false)

#endif
