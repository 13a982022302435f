/* SPDX-License-Identifier: Apache-2.0
 *
 * LAMB (You and others, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020):
 * Adam's step with decoupled weight decay, scaled by a trust ratio so that its length follows the norm of
 * the parameter. By default only parameters that decay have a trust ratio, as in NVIDIA's apex; with
 * trust_all all parameters have one, as in apex's NVLAMB. */
#include <math.h>

#include "engine/optim/optimizer.h"

enum { BETA1, BETA2, EPS, TRUST_ALL, TRUST_LIMIT };
static const clt_config_key keys[] = {
    CLT_KEY_BETA1,
    CLT_KEY_BETA2,
    CLT_KEY_EPS,
    CLT_KEY_TRUST_ALL,
    CLT_KEY_FLOAT("optimizer.trust_limit", 0, 1e30, "0", "",
                  "upper limit of a parameter's norm in its trust ratio (the paper's phi); 0: none"),
    CLT_KEY_END};

static int states(const double *value)
{
    (void)value;
    return 2;
}

static void arguments(ocl_emitter *e, const double *value)
{
    ocl_arg_f32(e, (float)(1.0 - value[BETA1]));
    ocl_arg_f32(e, (float)value[BETA2]);
    ocl_arg_f32(e, (float)(1.0 - value[BETA2]));
    ocl_arg_f32(e, (float)value[EPS]);
    ocl_arg_f32(e, (float)value[TRUST_LIMIT]);
}

static void corrections(const double *value, int64_t t, double correction[CLT_OPTIMIZER_CORRECTIONS])
{
    correction[0] = 1.0 - pow(value[BETA1], (double)t);
    correction[1] = 1.0 - pow(value[BETA2], (double)t);
}

static bool adapts(const double *value, bool decays, bool matrix)
{
    (void)matrix;
    return value[TRUST_ALL] > 0 || decays;
}

/* Updates the states and returns the step of an element for a learning rate and a trust ratio of 1. */
static double step_of(const double *value, const clt_update_factors *f, double gradient, double p,
                      double *state)
{
    double g = gradient * f->gradient;
    state[0] = value[BETA1] * state[0] + (1.0 - value[BETA1]) * g;
    state[1] = value[BETA2] * state[1] + (1.0 - value[BETA2]) * g * g;
    return state[0] / f->correction[0] / (sqrt(state[1] / f->correction[1]) + value[EPS]) + f->decay * p;
}

static double second(const double *value, const clt_update_factors *f, double gradient, double p,
                     const double *state)
{
    double own[CLT_OPTIMIZER_STATES] = {state[0], state[1]};
    return step_of(value, f, gradient, p, own);
}

static double trust(const double *value, const clt_update_factors *f, double norm, double step_norm)
{
    (void)f;
    double counted = value[TRUST_LIMIT] > 0 ? fmin(norm, value[TRUST_LIMIT]) : norm;
    return counted > 0 && step_norm > 0 ? counted / step_norm : 1.0;
}

static void reference(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state)
{
    *p -= f->lr * f->trust * step_of(value, f, gradient, *p, state);
}

static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    (void)g;
    (void)before;
    return error / f->correction[0] / (sqrt(after[1] / f->correction[1]) + value[EPS]);
}

const clt_config_part clt_config_optimizer_lamb = {
    .name = "lamb",
    .help = "LAMB: Adam's step with decoupled weight decay, scaled by a trust ratio, for large batches; "
            "optimizer.eps 1e-06 is usual, and optimizer.clip 1",
    .keys = keys};

const clt_optimizer clt_optimizer_lamb = {.config = &clt_config_optimizer_lamb,
                                          .program = "lamb",
                                          .kernel = "update_lamb",
                                          .norms = "lamb_norms",
                                          .ratio = "lamb_ratio",
                                          .flops = 16,
                                          .states = states,
                                          .arguments = arguments,
                                          .corrections = corrections,
                                          .reference = reference,
                                          .adapts = adapts,
                                          .second = second,
                                          .trust = trust,
                                          .spread = spread};
