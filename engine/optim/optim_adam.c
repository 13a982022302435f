/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam and AdamW, as in torch.optim. They differ in weight decay: Adam adds it to the gradient, AdamW
 * subtracts it from the parameter directly (decoupled). */
#include <math.h>

#include "engine/optim/optimizer.h"

enum { BETA1, BETA2, EPS };
static const clt_config_key keys[] = {CLT_KEY_BETA1, CLT_KEY_BETA2, CLT_KEY_EPS, CLT_KEY_END};

static int states(const double *value)
{
    (void)value;
    return 2;
}

static void define_adam(ocl_emitter *e, const double *value)
{
    (void)value;
    ocl_define(e, "DECOUPLED", 0);
}

static void define_adamw(ocl_emitter *e, const double *value)
{
    (void)value;
    ocl_define(e, "DECOUPLED", 1);
}

/* Adds the scalars. 1 - beta is computed in double: 1.0f - 0.999f has a relative error of 1e-5. */
static void arguments(ocl_emitter *e, const double *value)
{
    ocl_arg_f32(e, (float)(1.0 - value[BETA1]));
    ocl_arg_f32(e, (float)value[BETA2]);
    ocl_arg_f32(e, (float)(1.0 - value[BETA2]));
    ocl_arg_f32(e, (float)value[EPS]);
}

static void corrections(const double *value, int64_t t, double correction[CLT_OPTIMIZER_CORRECTIONS])
{
    correction[0] = 1.0 - pow(value[BETA1], (double)t);
    correction[1] = 1.0 - pow(value[BETA2], (double)t);
}

static void moments(const double *value, const clt_update_factors *f, double g, double *p, double *state)
{
    state[0] = value[BETA1] * state[0] + (1.0 - value[BETA1]) * g;
    state[1] = value[BETA2] * state[1] + (1.0 - value[BETA2]) * g * g;
    *p -= f->lr * (state[0] / f->correction[0]) / (sqrt(state[1] / f->correction[1]) + value[EPS]);
}

static void reference_adam(const double *value, const clt_update_factors *f, double gradient, double *p,
                           double *state)
{
    moments(value, f, gradient * f->gradient + f->decay * *p, p, state);
}

static void reference_adamw(const double *value, const clt_update_factors *f, double gradient, double *p,
                            double *state)
{
    *p *= 1.0 - f->lr * f->decay;
    moments(value, f, gradient * f->gradient, p, state);
}

static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    (void)g;
    (void)before;
    return error / f->correction[0] / (sqrt(after[1] / f->correction[1]) + value[EPS]);
}

const clt_config_part clt_config_optimizer_adam = {
    .name = "adam", .help = "Adam; weight decay is added to the gradient", .keys = keys};

const clt_optimizer clt_optimizer_adam = {.config = &clt_config_optimizer_adam,
                                          .program = "adam",
                                          .kernel = "update_adam",
                                          .flops = 14,
                                          .states = states,
                                          .define = define_adam,
                                          .arguments = arguments,
                                          .corrections = corrections,
                                          .reference = reference_adam,
                                          .spread = spread};

const clt_config_part clt_config_optimizer_adamw = {
    .name = "adamw",
    .help =
        "Adam with decoupled weight decay: each update multiplies the parameter by 1 - learning rate x decay",
    .keys = keys};

const clt_optimizer clt_optimizer_adamw = {.config = &clt_config_optimizer_adamw,
                                           .program = "adam",
                                           .kernel = "update_adam",
                                           .flops = 14,
                                           .states = states,
                                           .define = define_adamw,
                                           .arguments = arguments,
                                           .corrections = corrections,
                                           .reference = reference_adamw,
                                           .spread = spread};
