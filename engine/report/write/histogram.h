/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of many values: bins of equal width between the smallest and the largest finite one. */
#ifndef ENGINE_REPORT_WRITE_HISTOGRAM_H
#define ENGINE_REPORT_WRITE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define CLT_HISTOGRAM_BINS 30

typedef struct clt_histogram {
    double low, high; /* range of the finite values; both 0 if there are none */
    uint64_t count[CLT_HISTOGRAM_BINS];
    /* number of values in the bins; number of infinities and NaNs, which are in no bin */
    uint64_t finite, other;
} clt_histogram;

/* Counts values[i] * scale, computed in double. Bin b contains the values from edge(b) up to, but
 * without, edge(b + 1); the last bin also contains its upper edge. If all values are equal, they are in
 * the last bin. */
void clt_histogram_of(const float *values, size_t n, double scale, clt_histogram *out);
double clt_histogram_edge(const clt_histogram *histogram, int index); /* 0 to CLT_HISTOGRAM_BINS */

#endif
