/* SPDX-License-Identifier: Apache-2.0
 *
 * A curve over steps in bounded memory, however many values it is given: neighbouring steps share a bin that
 * keeps the least and the greatest value, so that no spike is lost. Bins widen by themselves as the run
 * grows; while there are few steps, every value is kept. */
#ifndef ENGINE_REPORT_CURVE_H
#define ENGINE_REPORT_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define CLT_CURVE_BINS 4096
#define CLT_CURVE_POINTS 1500 /* drawn at most */

typedef struct clt_curve_bin {
    int64_t low_step, high_step, last_step; /* where the least, the greatest and the last value are */
    int64_t bad_step;                       /* of the first value that was not finite */
    double low, high, last, sum;
    int64_t count, bad; /* finite values; values that are not */
} clt_curve_bin;

/* Zero-initialise to start. */
typedef struct clt_curve {
    clt_curve_bin *bins; /* in order of steps, those without values too */
    size_t count;        /* up to and with the last one that has values */
    int64_t first;       /* first step of the first bin */
    int shift;           /* a bin has 2^shift steps */
    int64_t values, bad; /* finite values; those that are not */
    double last;         /* finite value given last, NAN without one */
    int64_t last_step;
    double low, high; /* over all finite values */
    int64_t low_step, high_step;
} clt_curve;

/* Adds a value; steps must not go below the first one (such values are left out). */
clt_status clt_curve_add(clt_curve *curve, int64_t step, double value);
void clt_curve_free(clt_curve *curve);

/* A point of a line; `value` NAN: the line is broken here, because something was not finite at `step`. */
typedef struct clt_point {
    double step, value;
} clt_point;

/* At most `most` points (from 8 on) in order of steps: all values where there are so few, else the least and
 * the greatest of bins of equal width. Writes them to points, which holds `most`; returns how many. */
size_t clt_curve_points(const clt_curve *curve, size_t most, clt_point *points);
/* The curve's course without its noise: means over neighbouring bins, weighted by a bell about `spread` of
 * the run wide on either side (0.02). At most `most` points. */
size_t clt_curve_smooth(const clt_curve *curve, double spread, size_t most, clt_point *points);
/* Mean over the steps from `from` up to and without `to`, as far as bins can tell. NAN without values there.
 */
double clt_curve_mean(const clt_curve *curve, double from, double to);
/* Median of the bins' means: a value that single odd steps do not move. NAN without values. */
double clt_curve_median(const clt_curve *curve);
/* Value of the smoothed curve at its end: the mean over the last `share` of the steps. NAN without values. */
double clt_curve_tail(const clt_curve *curve, double share);

#endif
