/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of losses and norms between two trainings, and their limits. */
#include "cli/verify/step_differences.h"

#include <math.h>

enum { FIRST_STEPS = 10 };
#define FIRST_F32 1e-5
#define LATER_F32 1e-4
#define ANY_16_BITS 5e-2
#define NORM_FACTOR 10

step_differences step_differences_make(bool wide, double tolerance, int64_t before)
{
    step_differences d = {.wide = wide, .tolerance = tolerance, .before = before};
    for (int number = 0; number < STEP_NUMBERS; number++)
        d.largest[number][0].step = d.largest[number][1].step = -1;
    return d;
}

int64_t step_differences_early(const step_differences *d)
{
    return d->before + FIRST_STEPS;
}

static void compare(step_difference *largest, int64_t step, double a, double b)
{
    bool same = a == b || (isnan(a) && isnan(b));
    double relative = same                         ? 0
                      : isfinite(a) && isfinite(b) ? fabs(a - b) / fmax(fabs(a), fabs(b))
                                                   : (double)INFINITY;
    if (same || relative <= largest->relative)
        return;
    *largest = (step_difference){relative, a, b, step};
}

void step_differences_add(step_differences *d, int64_t step, const double a[STEP_NUMBERS],
                          const double b[STEP_NUMBERS])
{
    bool later = step > step_differences_early(d);
    for (int number = 0; number < STEP_NUMBERS; number++)
        compare(&d->largest[number][later], step, a[number], b[number]);
}

double step_differences_limit(const step_differences *d, int number, bool later)
{
    double loss = d->tolerance > 0 ? d->tolerance : !d->wide ? ANY_16_BITS : later ? LATER_F32 : FIRST_F32;
    return number == STEP_NORM ? NORM_FACTOR * loss : loss;
}

bool step_differences_apart(const step_differences *d)
{
    bool apart = false;
    for (int number = 0; number < STEP_NUMBERS; number++)
        for (int later = 0; later < 2; later++)
            apart = apart || d->largest[number][later].relative > step_differences_limit(d, number, later);
    return apart;
}
