/* SPDX-License-Identifier: Apache-2.0
 *
 * LARS (You and others, "Large Batch Training of Convolutional Networks", 2017): SGD whose step for a
 * parameter is scaled by a trust ratio. Parameters without one are updated as by SGD. */
#include "engine/optim/optimizer.h"

enum { MOMENTUM, NESTEROV, COEFFICIENT, EPS, TRUST_ALL };
static const clt_config_key keys[] = {
    CLT_KEY_MOMENTUM,
    CLT_KEY_NESTEROV,
    CLT_KEY_FLOAT_OPEN("optimizer.trust_coefficient", 0, true, 1e3, false, "0.001", "",
                       "length of a step as a fraction of the parameter's norm, at learning rate 1"),
    CLT_KEY_FLOAT_OPEN("optimizer.eps", CLT_LEAST_EPS, false, 1, false, "1e-08", "",
                       "added to the norm of the gradient"),
    CLT_KEY_TRUST_ALL,
    CLT_KEY_END};

static int states(const double *value)
{
    (void)value;
    return 1;
}

static void define(ocl_emitter *e, const double *value)
{
    ocl_define(e, "NESTEROV", value[NESTEROV] > 0);
}

static void arguments(ocl_emitter *e, const double *value)
{
    ocl_arg_f32(e, (float)value[MOMENTUM]);
    ocl_arg_f32(e, (float)value[COEFFICIENT]);
    ocl_arg_f32(e, (float)value[EPS]);
}

static bool adapts(const double *value, bool decays, bool matrix)
{
    (void)matrix;
    return value[TRUST_ALL] > 0 || decays;
}

static double second(const double *value, const clt_update_factors *f, double gradient, double p,
                     const double *state)
{
    (void)value;
    (void)p;
    (void)state;
    return gradient * f->gradient;
}

static double trust(const double *value, const clt_update_factors *f, double norm, double gradient_norm)
{
    if (norm <= 0)
        return 1.0;
    return gradient_norm > 0 ? value[COEFFICIENT] * norm / (gradient_norm + f->decay * norm + value[EPS])
                             : 0.0;
}

static void reference(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state)
{
    double d = (gradient * f->gradient + f->decay * *p) * f->trust;
    state[0] = value[MOMENTUM] * state[0] + d;
    *p -= f->lr * (value[NESTEROV] > 0 ? d + value[MOMENTUM] * state[0] : state[0]);
}

/* The caller multiplies the result by the trust ratio. The momentum buffer contains the ratio already, so
 * the buffer's rounding error is divided by the ratio here. */
static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    (void)value;
    (void)g;
    (void)before;
    return error + (f->trust > 0 ? 0x1p-19 * (after[0] < 0 ? -after[0] : after[0]) / f->trust : 0.0);
}

const clt_config_part clt_config_optimizer_lars = {
    .name = "lars",
    .help = "LARS: SGD whose steps are scaled by a trust ratio, for large batches; weight decay is added to "
            "the gradient",
    .keys = keys};

const clt_optimizer clt_optimizer_lars = {.config = &clt_config_optimizer_lars,
                                          .program = "lars",
                                          .kernel = "update_lars",
                                          .norms = "lars_norms",
                                          .ratio = "lars_ratio",
                                          .flops = 6,
                                          .states = states,
                                          .define = define,
                                          .arguments = arguments,
                                          .reference = reference,
                                          .adapts = adapts,
                                          .second = second,
                                          .trust = trust,
                                          .spread = spread};
