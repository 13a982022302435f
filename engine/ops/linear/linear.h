/* SPDX-License-Identifier: Apache-2.0
 *
 * What linear and linear_cross_entropy share: attributes and parameters. Implemented in op_linear.c. */
#ifndef ENGINE_OPS_LINEAR_H
#define ENGINE_OPS_LINEAR_H

#include "engine/ops/op.h"

enum clt_linear_init { CLT_LINEAR_KAIMING_UNIFORM };

#define CLT_LINEAR_ATTRS                                                                                     \
    CLT_SPEC_NEEDED(INT, "out", 1, INT32_MAX, "output features"),                                            \
        CLT_SPEC_BOOL("bias", true, "add a bias vector"),                                                    \
        CLT_SPEC_CHOICE("init", CLT_LINEAR_KAIMING_UNIFORM,                                                  \
                        "kaiming_uniform|kaiming_normal|xavier|normal|zeros",                                \
                        "weights at the start; kaiming_uniform is torch's default, its bias "                \
                        "U(+-1/sqrt(in)), else zero"),                                                       \
        CLT_SPEC_FLOAT("init_std", 0.02, 0, 1000, "standard deviation of init normal")

/* Checks input 0 and gives the shape of the product; the parameters come with clt_linear_params. */
clt_status clt_linear_shape(clt_infer *ctx, clt_shape *out);
clt_status clt_linear_params(clt_infer *ctx);

#endif
