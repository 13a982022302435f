/* SPDX-License-Identifier: Apache-2.0
 *
 * What linear and linear_cross_entropy share: attributes and parameters. Implemented in op_linear.c. */
#ifndef ENGINE_OPS_LINEAR_H
#define ENGINE_OPS_LINEAR_H

#include "engine/ops/op.h"

enum clt_linear_init { CLT_LINEAR_KAIMING_UNIFORM };

#define CLT_LINEAR_ATTRS                                                                                     \
    {.name = "out",                                                                                          \
     .type = CLT_ATTR_INT,                                                                                   \
     .required = true,                                                                                       \
     .min = 1,                                                                                               \
     .max = INT32_MAX,                                                                                       \
     .help = "output features"},                                                                             \
        {.name = "bias",                                                                                     \
         .type = CLT_ATTR_BOOL,                                                                              \
         .default_value = 1,                                                                                 \
         .min = 0,                                                                                           \
         .max = 1,                                                                                           \
         .help = "add a bias vector"},                                                                       \
        {.name = "init",                                                                                     \
         .type = CLT_ATTR_CHOICE,                                                                            \
         .default_value = CLT_LINEAR_KAIMING_UNIFORM,                                                        \
         .choices = "kaiming_uniform|kaiming_normal|xavier|normal|zeros",                                    \
         .help = "weights at the start; kaiming_uniform is torch's default, its bias U(+-1/sqrt(in)), else " \
                 "zero"},                                                                                    \
    {                                                                                                        \
        .name = "init_std", .type = CLT_ATTR_FLOAT, .default_value = 0.02, .min = 0, .max = 1000,            \
        .help = "standard deviation of init normal"                                                          \
    }

/* Checks input 0 and gives the shape of the product; the parameters come with clt_linear_params. */
clt_status clt_linear_shape(clt_infer *ctx, clt_shape *out);
clt_status clt_linear_params(clt_infer *ctx);

#endif
