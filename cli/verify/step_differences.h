/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the losses and gradient norms of two trainings of the same model, step by step, and judges the
 * differences. The limits are those that cltrain promises between devices: in f32 one limit for the first
 * ten steps and one for later steps, in 16 bits one limit for all steps. */
#ifndef CLI_VERIFY_STEP_DIFFERENCES_H
#define CLI_VERIFY_STEP_DIFFERENCES_H

#include <stdbool.h>
#include <stdint.h>

/* The largest relative difference of a number (loss or norm) over steps. */
typedef struct step_difference {
    double relative, a, b; /* relative to the larger number; INFINITY if only one is finite */
    int64_t step;          /* -1: the numbers never differ */
} step_difference;

enum { STEP_LOSS, STEP_NORM, STEP_NUMBERS };

typedef struct step_differences {
    bool wide;                                /* the values are f32 */
    double tolerance;                         /* limit for losses; 0: the promised limits */
    int64_t before;                           /* the step before the first one */
    step_difference largest[STEP_NUMBERS][2]; /* [..][0]: in the first ten steps; [..][1]: later */
} step_differences;

step_differences step_differences_make(bool wide, double tolerance, int64_t before);
/* Compares loss and norm of a step in the two trainings: a[STEP_LOSS] with b[STEP_LOSS], and so on. */
void step_differences_add(step_differences *d, int64_t step, const double a[STEP_NUMBERS],
                          const double b[STEP_NUMBERS]);
/* The relative difference that is allowed. Norms may differ ten times as much as losses, since they are not
 * means over a batch. */
double step_differences_limit(const step_differences *d, int number, bool later);
/* True if any difference is larger than allowed. */
bool step_differences_apart(const step_differences *d);
/* The last of the first ten steps. */
int64_t step_differences_early(const step_differences *d);

#endif
