/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a case of the update's check: an optimizer with its values, storage type, steps and
 * sizes. Knows plans. */
#ifndef ENGINE_VERIFY_CASES_VERIFY_UPDATE_CASES_H
#define ENGINE_VERIFY_CASES_VERIFY_UPDATE_CASES_H

#include "engine/plan/plan.h"

/* The steps of a case are a string with one letter per step: a good step, or one that must be skipped. */
#define GOOD 'g'
#define INFINITE 'i' /* the last gradient of the last parameter is infinite */
#define GRAD_NAN 'n' /* the first gradient is NaN */
#define LOSS_NAN 'l' /* the last loss is NaN, the gradients are not */
/* A step with a large loss or large gradients, which is a spike if there are enough earlier steps. */
#define HIGH_LOSS 'L'
#define HUGE_LOSS 'H' /* its square is infinite in f32 */
#define HIGH_NORM 'N'
#define HUGE_NORM 'M' /* its square is infinite in f32 if the loss scale is 2^-20 */
/* '1' to '9': loss and gradient norm are exactly this number */
#define IS_EXACT(kind) ((kind) >= '1' && (kind) <= '9')
#define ENTRIES 4 /* entries of the schedule: fewer than steps, so the last entry is used again */

typedef struct clt_update_case {
    const char *name;
    clt_update_spec spec;
    clt_dtype storage;
    float loss_scale;
    const char *steps;
    int64_t rows, cols;  /* of the first layer's weight */
    uint64_t slab_bytes; /* size of the largest buffer; 0: as the device allows */
    double gradients;    /* size of gradients before the loss scale; 0: 0.1 */
    bool deeper;         /* the net has more layers (verify_update.c) */
    bool small;
    /* After the weight's first chunk, gradients are so small that adding the sum of a chunk to an f32 total
     * would not change it, unless rounding errors are compensated. */
    bool steep;
    enum {
        ZERO_NOTHING,
        ZERO_VALUES,
        ZERO_GRADIENTS
    } zero; /* all 0 in the first weight (gradients: with moments), so that a norm is 0 */
} clt_update_case;

#define STEEP 0x1.6a09p-13 /* its square is less than half a unit in the last place of 1 */

/* Ends with a case whose name is NULL. */
extern const clt_update_case clt_update_cases[];

#endif
