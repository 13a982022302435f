/* SPDX-License-Identifier: Apache-2.0
 *
 * Times batches of runs and takes the median over them. This file must not know what runs. */
#include "cl/measure/timing.h"

#include <stdlib.h>

#include "engine/base/thread.h"

#define MAX_BATCHES 31

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ocl_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

clt_status ocl_time_batch(ocl_batch_fn batch, void *context, double least, int most, int *runs,
                          double *seconds)
{
    CLT_TRY(batch(context, *runs, seconds));
    while (*seconds < least && *runs < most) {
        double more = *seconds > 0.0 ? 1.5 * least / *seconds : 100.0;
        double wanted = (double)*runs * (more < 100.0 ? more : 100.0) + 1.0;
        *runs = wanted < most ? (int)wanted : most;
        CLT_TRY(batch(context, *runs, seconds));
    }
    return CLT_OK;
}

clt_status ocl_time_trial(ocl_batch_fn batch, void *context, int most, int *runs, double *ns)
{
    double seconds;
    if (*runs == 0) {
        *runs = 1;
        CLT_TRY(batch(context, 1, &seconds));
    }
    CLT_TRY(ocl_time_batch(batch, context, 0.004, most, runs, &seconds));
    *ns = seconds * 1e9 / *runs;
    return CLT_OK;
}

clt_status ocl_time(ocl_batch_fn batch, void *context, double warm_up, double seconds, int batches,
                    ocl_timing *out)
{
    double each[MAX_BATCHES], took, until = clt_now() + warm_up;
    int runs = 1, n = batches < MAX_BATCHES ? batches : MAX_BATCHES;
    do
        CLT_TRY(batch(context, 1, &took));
    while (clt_now() < until);
    CLT_TRY(ocl_time_batch(batch, context, 0.6 * seconds / n, 100000, &runs, &took));
    for (int i = 0; i < n; i++) {
        CLT_TRY(batch(context, runs, &took));
        each[i] = took / runs;
    }
    out->median = ocl_median(each, n);
    out->best = each[0];
    return CLT_OK;
}
