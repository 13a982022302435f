/* SPDX-License-Identifier: Apache-2.0
 *
 * Lion (Chen and others, "Symbolic Discovery of Optimization Algorithms", 2023): every element moves by the
 * learning rate, in the direction of the sign of an average of momentum and gradient. Weight decay is
 * decoupled. */
#include <math.h>

#include "engine/optim/optimizer.h"

enum { BETA1, BETA2 };
static const clt_config_key keys[] = {
    CLT_KEY_FLOAT_OPEN("optimizer.beta1", 0, false, 1, true, "0.9", "",
                       "weight of the momentum in the direction of an update"),
    CLT_KEY_FLOAT_OPEN("optimizer.beta2", 0, false, 1, true, "0.999", "",
                       "decay of the momentum; the paper has 0.99, for language models 0.98"),
    CLT_KEY_END};

static int states(const double *value)
{
    (void)value;
    return 1;
}

static void arguments(ocl_emitter *e, const double *value)
{
    ocl_arg_f32(e, (float)(1.0 - value[BETA1]));
    ocl_arg_f32(e, (float)(1.0 - value[BETA2]));
}

static double mixed(double m, double beta, double g)
{
    return beta * m + (1.0 - beta) * g;
}

static void reference(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state)
{
    double g = gradient * f->gradient, direction = mixed(state[0], value[BETA1], g);
    *p *= 1.0 - f->lr * f->decay;
    *p -= f->lr * (direction > 0 ? 1.0 : direction < 0 ? -1.0 : 0.0);
    state[0] = mixed(state[0], value[BETA2], g);
}

/* Where the average is smaller than its error, its sign can be either one. */
static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    (void)f;
    (void)after;
    return fabs(mixed(before[0], value[BETA1], g)) <= error ? 2.0 : 0.0;
}

const clt_config_part clt_config_optimizer_lion = {
    .name = "lion",
    .help = "Lion: steps in the direction of the sign of momentum and gradient; compared with adamw it needs "
            "a learning rate 3 to 10 times smaller, and a decoupled weight decay larger by the same factor",
    .keys = keys};

const clt_optimizer clt_optimizer_lion = {.config = &clt_config_optimizer_lion,
                                          .program = "lion",
                                          .kernel = "update_lion",
                                          .flops = 9,
                                          .states = states,
                                          .arguments = arguments,
                                          .reference = reference,
                                          .spread = spread};
