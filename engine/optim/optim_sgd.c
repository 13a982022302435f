/* SPDX-License-Identifier: Apache-2.0
 *
 * SGD with momentum, as in torch.optim.SGD: weight decay is added to the gradient; the momentum buffer
 * starts at 0, and there is no dampening. */
#include "engine/optim/optimizer.h"

enum { MOMENTUM, NESTEROV };
static const clt_config_key keys[] = {CLT_KEY_MOMENTUM, CLT_KEY_NESTEROV, CLT_KEY_END};

static void check(clt_config_rules *rules)
{
    bool momentum =
        !clt_rules_usable(rules, "optimizer.momentum") || !clt_rules_empty(rules, "optimizer.momentum");
    bool nesterov =
        clt_rules_usable(rules, "optimizer.nesterov") && !clt_rules_empty(rules, "optimizer.nesterov");
    if (nesterov && !momentum)
        clt_rules_broken(rules, "optimizer.nesterov", "needs optimizer.momentum above 0");
}

static int states(const double *value)
{
    return value[MOMENTUM] > 0 ? 1 : 0;
}

static void define(ocl_emitter *e, const double *value)
{
    ocl_define(e, "MOMENTUM", value[MOMENTUM] > 0);
    ocl_define(e, "NESTEROV", value[NESTEROV] > 0);
}

static void arguments(ocl_emitter *e, const double *value)
{
    if (value[MOMENTUM] > 0)
        ocl_arg_f32(e, (float)value[MOMENTUM]);
}

static void reference(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state)
{
    double g = gradient * f->gradient + f->decay * *p;
    if (value[MOMENTUM] > 0) {
        state[0] = value[MOMENTUM] * state[0] + g;
        g = value[NESTEROV] > 0 ? g + value[MOMENTUM] * state[0] : state[0];
    }
    *p -= f->lr * g;
}

static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    (void)f;
    (void)g;
    (void)before;
    return error + (value[MOMENTUM] > 0 ? 0x1p-21 * (after[0] < 0 ? -after[0] : after[0]) : 0.0);
}

const clt_config_part clt_config_optimizer_sgd = {
    .name = "sgd",
    .help = "stochastic gradient descent; weight decay is added to the gradient",
    .keys = keys,
    .check = check};

const clt_optimizer clt_optimizer_sgd = {.config = &clt_config_optimizer_sgd,
                                         .program = "sgd",
                                         .kernel = "update_sgd",
                                         .flops = 4,
                                         .states = states,
                                         .define = define,
                                         .arguments = arguments,
                                         .reference = reference,
                                         .spread = spread};
