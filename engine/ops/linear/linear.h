/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes and parameters that linear and linear_cross_entropy share; implemented in op_linear.c. */
#ifndef ENGINE_OPS_LINEAR_LINEAR_H
#define ENGINE_OPS_LINEAR_LINEAR_H

#include "engine/ops/op.h"

/* Choices of the attribute `init`, in this order; other ops may have more after them. */
#define CLT_LINEAR_INITS "kaiming_uniform|kaiming_normal|xavier|normal|zeros"
enum clt_linear_init {
    CLT_LINEAR_KAIMING_UNIFORM,
    CLT_LINEAR_KAIMING_NORMAL,
    CLT_LINEAR_XAVIER,
    CLT_LINEAR_NORMAL,
    CLT_LINEAR_ZEROS
};
/* Initial values of a weight by the attributes `init` and `init_std`. */
clt_init clt_linear_init(const clt_node *node);

#define CLT_LINEAR_ATTRS                                                                                     \
    CLT_SPEC_NEEDED(INT, "out", 1, INT32_MAX, "output features"),                                            \
        CLT_SPEC_BOOL("bias", true, "add a bias vector"),                                                    \
        CLT_SPEC_CHOICE("init", CLT_LINEAR_KAIMING_UNIFORM, CLT_LINEAR_INITS,                                \
                        "weights at the start; kaiming_uniform is torch's default, its bias "                \
                        "U(+-1/sqrt(in)), else zero"),                                                       \
        CLT_SPEC_FLOAT("init_std", 0.02, 0, 1000, "standard deviation of init normal")

/* Checks input 0 and gives the product's shape; clt_linear_params declares the parameters. */
clt_status clt_linear_shape(clt_infer *ctx, clt_shape *out);
clt_status clt_linear_params(clt_infer *ctx);

#endif
