/* SPDX-License-Identifier: Apache-2.0
 *
 * SGD with momentum, as in torch.optim.SGD: weight decay joins the gradient; the momentum buffer starts at 0
 * without dampening. */
#include "engine/optim/optimizer.h"

enum { MOMENTUM, NESTEROV };
static const char *const keys[] = {"momentum", "nesterov", NULL};

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

static double spread(const double *value, const clt_update_factors *f, double error, const double *state)
{
    (void)f;
    return error + (value[MOMENTUM] > 0 ? 0x1p-21 * (state[0] < 0 ? -state[0] : state[0]) : 0.0);
}

const clt_optimizer clt_optimizer_sgd = {.name = "sgd",
                                         .keys = keys,
                                         .kernel = "update_sgd",
                                         .flops = 4,
                                         .states = states,
                                         .define = define,
                                         .arguments = arguments,
                                         .reference = reference,
                                         .spread = spread};
