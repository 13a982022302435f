/* SPDX-License-Identifier: Apache-2.0
 *
 * The record that describes an optimizer, and the list of all of them. An optimizer is a file optim_<name>.c
 * that defines one record, a kernel, and a line in optimizers.def. Everything around it is common to all:
 * gradient norm, clipping, skipped steps, loss scale (engine/plan/emit_update.c). */
#ifndef ENGINE_OPTIM_OPTIMIZER_H
#define ENGINE_OPTIM_OPTIMIZER_H

#include "cl/command/command.h"
#include "engine/config/part.h"

/* The most keys, states (arrays as large as the parameters) and corrections (numbers that depend on the
 * number of the update, such as Adam's 1 - beta^t) of one optimizer. */
#define CLT_OPTIMIZER_VALUES 8
#define CLT_OPTIMIZER_STATES 2
#define CLT_OPTIMIZER_CORRECTIONS 2

/* Matrices of one shape that lie side by side: `count` of them, rows x cols of f32, each `stride` elements
 * after the one before. The gaps between them are zero and stay zero. */
typedef struct clt_matrix_batch {
    int64_t rows, cols, count, stride;
    int32_t x, y; /* two tensors with room for the matrices; x holds them */
    bool plain;   /* compute products only by operations that every device does in the same order */
} clt_matrix_batch;

/* The values that are the same for all elements of a parameter in one update. */
typedef struct clt_update_factors {
    double gradient;  /* factor on gradients: clip factor divided by the loss scale */
    double lr, decay; /* learning rate and weight decay of this parameter */
    double correction[CLT_OPTIMIZER_CORRECTIONS]; /* the corrections of this update */
    double trust;                                 /* trust ratio of this parameter; 1 where it has none */
} clt_update_factors;

typedef struct clt_optimizer {
    /* An optimizer as the config sees it: its name, keys and rules. `value` in all functions below holds the
     * values of these keys, in their order; true is 1. */
    const clt_config_part *config;
    const char *program, *kernel; /* "adam" for engine/optim/adam.cl, which includes update.clh */
    /* Names of the two kernels that compute trust ratios, for an optimizer that needs norms of each
     * parameter (update.clh). NULL: it needs none. */
    const char *norms, *ratio;
    double flops;                                        /* per element */
    int (*states)(const double *value);                  /* number of states */
    void (*define)(ocl_emitter *e, const double *value); /* adds macros to the program; NULL: none */
    /* adds scalars after the arguments common to all */
    void (*arguments)(ocl_emitter *e, const double *value);
    /* Corrections of update t, which counts from 1. NULL: it has none, and they are 0. */
    void (*corrections)(const double *value, int64_t t, double correction[CLT_OPTIMIZER_CORRECTIONS]);
    /* Updates one element in double precision: *p and its states, in place. The checker and the tests of
     * training compare with it. */
    void (*reference)(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state);
    /* Only with norms. adapts: does a parameter get a trust ratio, or is it updated as a matrix? decays: it
     * has weight decay; matrix: it is the weight matrix of a hidden layer (no embedding, and not the last
     * layer). second: a value of each element whose norm is needed besides the parameter's norm. trust: the
     * trust ratio from both norms. */
    bool (*adapts)(const double *value, bool decays, bool matrix);
    double (*second)(const double *value, const clt_update_factors *f, double gradient, double p,
                     const double *state);
    double (*trust)(const double *value, const clt_update_factors *f, double norm, double second_norm);
    /* Returns an upper bound, in units of the learning rate, of the error of the updated parameter. The
     * update is computed in f32 from the gradient g (with weight decay where that is added to it), whose
     * error is `error`. before, after: the states before and after the update. */
    double (*spread)(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after);
    /* Only for an optimizer that updates whole matrices, namely the parameters for which `adapts` is true
     * (update.clh has the kernels' parameters). `gather` writes the matrices that are made orthogonal, side
     * by side; `orthogonalise` emits the products (*result is x or y, to be multiplied by *factor); `apply`
     * subtracts the result from the parameters, times the learning rate and `matrix_rate`. NULL: every
     * parameter is updated element by element. */
    const char *gather, *apply;
    int matrix_states; /* number of states that a matrix has */
    /* key with patterns of parameters that are updated element by element although they are matrices */
    const char *elementwise;
    clt_status (*orthogonalise)(ocl_emitter *e, const clt_matrix_batch *batch, int32_t *result,
                                double *factor);
    double (*matrix_rate)(const double *value, int64_t rows, int64_t cols);
    /* Updates one matrix in double precision. */
    clt_status (*matrix_reference)(const double *value, const clt_update_factors *f, int64_t rows,
                                   int64_t cols, const double *gradient, double *p, double *momentum);
    double matrix_error; /* error of an element of the result, in f32 roundings, at rate 1 */
} clt_optimizer;

/* All optimizers; NULL after the last. */
extern const clt_optimizer *const clt_optimizers[];
/* Returns NULL if there is no optimizer with this name. */
const clt_optimizer *clt_optimizer_find(const char *name);
/* Reads the values of the optimizer's keys from a config. */
void clt_optimizer_read(const clt_optimizer *optimizer, const clt_config *config,
                        double value[CLT_OPTIMIZER_VALUES]);

/* Keys that several optimizers have. */
#define CLT_KEY_MOMENTUM CLT_KEY_FLOAT_OPEN("optimizer.momentum", 0, false, 1, true, "0", "", "momentum")
#define CLT_KEY_NESTEROV CLT_KEY_BOOL("optimizer.nesterov", "false", "Nesterov momentum")
#define CLT_KEY_TRUST_ALL                                                                                    \
    CLT_KEY_BOOL("optimizer.trust_all", "false",                                                             \
                 "every parameter has a trust ratio; false: only the parameters that optimizer.decay names")
#define CLT_KEY_BETA1                                                                                        \
    CLT_KEY_FLOAT_OPEN("optimizer.beta1", 0, false, 1, true, "0.9", "", "decay of the first moment")
#define CLT_KEY_BETA2                                                                                        \
    CLT_KEY_FLOAT_OPEN("optimizer.beta2", 0, false, 1, true, "0.999", "", "decay of the second moment")
/* The least eps: a normal number of f32, because 0 would divide the zeros of padding by zero. */
#define CLT_LEAST_EPS 1e-37
#define CLT_KEY_EPS                                                                                          \
    CLT_KEY_FLOAT_OPEN("optimizer.eps", CLT_LEAST_EPS, false, 1, false, "1e-08", "",                         \
                       "added to the root of the second moment")

/* The factor that clips gradients with the norm `norm` to `limit`; 1 if `limit` is 0 (no clipping). The
 * kernel update_finish has the same formula. */
double clt_clip_reference(double limit, double norm);

#define CLT_OPTIMIZER(name) extern const clt_optimizer clt_optimizer_##name;
#include "engine/config/optimizers.def"
#undef CLT_OPTIMIZER

#endif
