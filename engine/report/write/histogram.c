/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes histograms: a first pass over the values finds the range, a second one counts. */
#include "engine/report/write/histogram.h"

#include <math.h>
#include <string.h>

static void find_ends(const float *values, size_t n, double scale, clt_histogram *h)
{
    for (size_t i = 0; i < n; i++) {
        double v = (double)values[i] * scale;
        if (!isfinite(v)) {
            h->other++;
            continue;
        }
        if (h->finite == 0 || v < h->low)
            h->low = v;
        if (h->finite == 0 || v > h->high)
            h->high = v;
        h->finite++;
    }
}

double clt_histogram_edge(const clt_histogram *h, int index)
{
    if (index == CLT_HISTOGRAM_BINS)
        return h->high;
    return h->low + (h->high - h->low) * index / CLT_HISTOGRAM_BINS;
}

/* The bin of a value. A computed index can be off by one because of rounding, so it is corrected by the
 * edges. */
static int bin_of(const clt_histogram *h, double v)
{
    double share = (v - h->low) / (h->high - h->low);
    int b = share > 0 ? (int)(share * CLT_HISTOGRAM_BINS) : 0;
    if (b > CLT_HISTOGRAM_BINS - 1)
        b = CLT_HISTOGRAM_BINS - 1;
    while (b > 0 && v < clt_histogram_edge(h, b))
        b--;
    while (b < CLT_HISTOGRAM_BINS - 1 && v >= clt_histogram_edge(h, b + 1))
        b++;
    return b;
}

void clt_histogram_of(const float *values, size_t n, double scale, clt_histogram *out)
{
    memset(out, 0, sizeof *out);
    find_ends(values, n, scale, out);
    if (!(out->high > out->low)) {
        out->count[CLT_HISTOGRAM_BINS - 1] = out->finite;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double v = (double)values[i] * scale;
        if (isfinite(v))
            out->count[bin_of(out, v)]++;
    }
}
