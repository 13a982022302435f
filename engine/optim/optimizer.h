/* SPDX-License-Identifier: Apache-2.0
 *
 * The record that describes an optimizer, and the list of all of them. An optimizer is a file optim_<name>.c
 * that defines one record, its kernel, and a line in optimizers.def. What surrounds it is common to all:
 * gradient norm, clipping, skipped steps, loss scale (engine/plan/emit_update.c). */
#ifndef ENGINE_OPTIM_OPTIMIZER_H
#define ENGINE_OPTIM_OPTIMIZER_H

#include "cl/command/command.h"
#include "engine/config/part.h"

#define CLT_OPTIMIZER_VALUES 8      /* most keys of one optimizer */
#define CLT_OPTIMIZER_STATES 2      /* most states: arrays as large as the parameters */
#define CLT_OPTIMIZER_CORRECTIONS 2 /* numbers that follow from the number of the update */

/* What every element of a parameter shares in one update. */
typedef struct clt_update_factors {
    double gradient;  /* factor on gradients: the inverse loss scale times clipping */
    double lr, decay; /* learning rate and weight decay of this parameter */
    double correction[CLT_OPTIMIZER_CORRECTIONS]; /* of this update */
    double trust;                                 /* trust ratio of this parameter; 1 where it has none */
} clt_update_factors;

typedef struct clt_optimizer {
    const clt_config_part *config; /* what the config knows of it: name, keys, rules. `value` in all functions
                                      below has the values of its keys, in their order; true is 1 */
    const char *program, *kernel;  /* "adam" for engine/optim/adam.cl, which includes update.clh */
    /* Kernels of an optimizer whose learning rate for a parameter depends on the parameter's norms
     * (update.clh); NULL: it needs none. */
    const char *norms, *ratio;
    double flops;                                           /* for one element */
    int (*states)(const double *value);                     /* how many it keeps */
    void (*define)(ocl_emitter *e, const double *value);    /* of its program; NULL: nothing */
    void (*arguments)(ocl_emitter *e, const double *value); /* scalars behind the arguments that all share */
    /* Of update t, the first one being 1. NULL: it has none, they are 0. */
    void (*corrections)(const double *value, int64_t t, double correction[CLT_OPTIMIZER_CORRECTIONS]);
    /* The update of one element in double precision: *p and its states, in place. What the checker and the
     * tests of training compare with. */
    void (*reference)(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state);
    /* With norms: whether they matter to a parameter, which decays or not; the value of an element whose norm
     * over the parameter is wanted besides the parameter's own; the trust ratio. */
    bool (*adapts)(const double *value, bool decays);
    double (*second)(const double *value, const clt_update_factors *f, double gradient, double p,
                     const double *state);
    double (*trust)(const double *value, const clt_update_factors *f, double norm, double second_norm);
    /* How far the parameter may be off when the gradient g, with the decay that joined it, is off by `error`
     * and was rounded as often as f32 does: in units of the learning rate. Its states before and after. */
    double (*spread)(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after);
} clt_optimizer;

/* NULL-terminated. */
extern const clt_optimizer *const clt_optimizers[];
/* NULL: there is none of that name. */
const clt_optimizer *clt_optimizer_find(const char *name);
/* The values of its keys in a config. */
void clt_optimizer_read(const clt_optimizer *optimizer, const clt_config *config,
                        double value[CLT_OPTIMIZER_VALUES]);

/* Keys that several optimizers bring. */
#define CLT_KEY_MOMENTUM CLT_KEY_FLOAT_OPEN("optimizer.momentum", 0, false, 1, true, "0", "", "momentum")
#define CLT_KEY_NESTEROV CLT_KEY_BOOL("optimizer.nesterov", "false", "Nesterov momentum")
#define CLT_KEY_TRUST_ALL                                                                                    \
    CLT_KEY_BOOL("optimizer.trust_all", "false",                                                             \
                 "every parameter has a trust ratio; false: those that optimizer.decay names")
#define CLT_KEY_BETA1                                                                                        \
    CLT_KEY_FLOAT_OPEN("optimizer.beta1", 0, false, 1, true, "0.9", "", "decay of the first moment")
#define CLT_KEY_BETA2                                                                                        \
    CLT_KEY_FLOAT_OPEN("optimizer.beta2", 0, false, 1, true, "0.999", "", "decay of the second moment")
#define CLT_KEY_EPS                                                                                          \
    CLT_KEY_FLOAT_OPEN("optimizer.eps", 0, true, 1, false, "1e-08", "",                                      \
                       "added to the root of the second moment")

/* The factor that clips gradients of that norm to the limit; 1 without a limit (0). What update_finish
 * computes. */
double clt_clip_reference(double limit, double norm);

#define CLT_OPTIMIZER(name) extern const clt_optimizer clt_optimizer_##name;
#include "engine/config/optimizers.def"
#undef CLT_OPTIMIZER

#endif
