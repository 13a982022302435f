/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing by the clock: the median of batches so long that the costs of reading the clock and of the last
 * wait are negligible. This file must not know what runs. */
#ifndef CL_MEASURE_TIMING_H
#define CL_MEASURE_TIMING_H

#include "engine/base/status.h"

/* Runs something `runs` times, waits for the end, and returns the total time in seconds. */
typedef clt_status (*ocl_batch_fn)(void *context, int runs, double *seconds);

typedef struct ocl_timing {
    double median, best; /* seconds per run, in the median batch and in the shortest one */
} ocl_timing;

/* Times `batches` (at most 31) batches that take about `seconds` together, after `warm_up` seconds of
 * untimed runs (at least one run). */
clt_status ocl_time(ocl_batch_fn batch, void *context, double warm_up, double seconds, int batches,
                    ocl_timing *out);
/* Times one batch of at least `least` seconds: *runs, the initial number of runs, grows up to `most`.
 * *seconds: duration of the batch. */
clt_status ocl_time_batch(ocl_batch_fn batch, void *context, double least, int most, int *runs,
                          double *seconds);
/* Times a tuner's candidate by one batch of at least 4 ms. If *runs is 0, as in the first call, one untimed
 * run comes first. *ns: nanoseconds per run. */
clt_status ocl_time_trial(ocl_batch_fn batch, void *context, int most, int *runs, double *ns);
/* Median of n > 0 values (the mean of the middle two if n is even); sorts them. */
double ocl_median(double *values, int n);

#endif
