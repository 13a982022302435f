/* SPDX-License-Identifier: Apache-2.0
 *
 * A curve over steps in bounded memory, for any number of values. Neighbouring steps share a bin, which
 * keeps the least and the greatest value, so that no spike is lost. While there are few steps, each has its
 * own bin; the width of bins doubles as the run grows. */
#ifndef ENGINE_REPORT_READ_CURVE_H
#define ENGINE_REPORT_READ_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define CLT_CURVE_BINS 4096
#define CLT_CURVE_POINTS 1500 /* most points that are drawn */

typedef struct clt_curve_bin {
    int64_t low_step, high_step, last_step; /* steps of the least, the greatest and the last value */
    int64_t bad_step;                       /* step of the first value that was not finite */
    double low, high, last, sum;
    int64_t count, bad; /* number of finite values; number of others */
} clt_curve_bin;

/* Initialise it with zeros. */
typedef struct clt_curve {
    clt_curve_bin *bins; /* bins in the order of steps, including bins without values */
    size_t count;        /* number of bins, up to and including the last bin with values */
    int64_t first;       /* first step of the first bin */
    int shift;           /* a bin has 2^shift steps */
    int64_t values, bad; /* number of finite values; number of others */
    double last;         /* the last finite value, NAN without one */
    int64_t last_step;
    double low, high; /* over all finite values */
    int64_t low_step, high_step;
} clt_curve;

/* Adds a value. Values of steps before the first one are ignored. */
clt_status clt_curve_add(clt_curve *curve, int64_t step, double value);
void clt_curve_free(clt_curve *curve);

/* A point of a line; `value` NAN: a gap, because a value at `step` was not finite. */
typedef struct clt_point {
    double step, value;
} clt_point;

/* Writes at most `most` points (`most` is 8 or more) in the order of steps: all values if they are not more
 * than that, else the least and the greatest value of bins of equal width. Returns the number of points. */
size_t clt_curve_points(const clt_curve *curve, size_t most, clt_point *points);
/* The curve without its noise: means over neighbouring bins with Gaussian weights, whose standard deviation
 * is the fraction `spread` of the run (0.02). At most `most` points. */
size_t clt_curve_smooth(const clt_curve *curve, double spread, size_t most, clt_point *points);
/* Mean over the steps from `from` to `to` - 1, as exactly as the bins allow. NAN if they have no values. */
double clt_curve_mean(const clt_curve *curve, double from, double to);
/* Median of the means of the bins; single outliers do not change it. NAN without values. */
double clt_curve_median(const clt_curve *curve);
/* Value of the smoothed curve at its end: the mean over the last fraction `share` of the steps. NAN without
 * values. */
double clt_curve_tail(const clt_curve *curve, double share);

#endif
