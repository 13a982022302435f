/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects values in the bins of a curve, and makes the points that are drawn. Knows neither files
 * nor pages. */
#include "engine/report/read/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static void empty_bin(clt_curve_bin *bin)
{
    memset(bin, 0, sizeof *bin);
    bin->low_step = bin->high_step = bin->last_step = bin->bad_step = -1;
}

static void merge_bin(clt_curve_bin *into, const clt_curve_bin *from)
{
    if (from->bad > 0 && into->bad == 0)
        into->bad_step = from->bad_step;
    into->bad += from->bad;
    if (from->count == 0)
        return;
    if (into->count == 0 || from->low < into->low) {
        into->low = from->low;
        into->low_step = from->low_step;
    }
    if (into->count == 0 || from->high > into->high) {
        into->high = from->high;
        into->high_step = from->high_step;
    }
    into->last = from->last;
    into->last_step = from->last_step;
    into->sum += from->sum;
    into->count += from->count;
}

/* Doubles the width of the bins: each two neighbours are merged. */
static void widen(clt_curve *curve)
{
    size_t half = (curve->count + 1) / 2;
    for (size_t i = 0; i < half; i++) {
        clt_curve_bin pair = curve->bins[2 * i];
        if (2 * i + 1 < curve->count)
            merge_bin(&pair, &curve->bins[2 * i + 1]);
        curve->bins[i] = pair;
    }
    curve->count = half;
    curve->shift++;
}

static clt_status begin(clt_curve *curve, int64_t step)
{
    CLT_TRY(clt_alloc(&curve->bins, CLT_CURVE_BINS, sizeof *curve->bins, "a curve"));
    curve->first = step;
    curve->last = curve->low = curve->high = NAN;
    curve->last_step = curve->low_step = curve->high_step = -1;
    return CLT_OK;
}

static void note_finite(clt_curve *curve, int64_t step, double value)
{
    curve->values++;
    curve->last = value;
    curve->last_step = step;
    if (!(curve->low <= value)) {
        curve->low = value;
        curve->low_step = step;
    }
    if (!(curve->high >= value)) {
        curve->high = value;
        curve->high_step = step;
    }
}

clt_status clt_curve_add(clt_curve *curve, int64_t step, double value)
{
    if (!curve->bins)
        CLT_TRY(begin(curve, step));
    if (step < curve->first)
        return CLT_OK;
    while ((step - curve->first) >> curve->shift >= CLT_CURVE_BINS)
        widen(curve);
    size_t index = (size_t)((step - curve->first) >> curve->shift);
    for (; curve->count <= index; curve->count++)
        empty_bin(&curve->bins[curve->count]);
    bool finite = isfinite(value);
    clt_curve_bin one = {.low_step = step,
                         .high_step = step,
                         .last_step = step,
                         .bad_step = finite ? -1 : step,
                         .low = value,
                         .high = value,
                         .last = value,
                         .sum = value,
                         .count = finite,
                         .bad = !finite};
    merge_bin(&curve->bins[index], &one);
    if (finite)
        note_finite(curve, step, value);
    curve->bad += !finite;
    return CLT_OK;
}

void clt_curve_free(clt_curve *curve)
{
    free(curve->bins);
    memset(curve, 0, sizeof *curve);
}

/* Up to three points of a bin: its extremes in the order of their steps, and a gap for non-finite values. */
static size_t bin_points(const clt_curve_bin *bin, clt_point *out)
{
    size_t n = 0;
    bool low_first = bin->low_step <= bin->high_step;
    if (bin->count > 0)
        out[n++] = low_first ? (clt_point){(double)bin->low_step, bin->low}
                             : (clt_point){(double)bin->high_step, bin->high};
    if (bin->count > 0 && bin->low_step != bin->high_step)
        out[n++] = low_first ? (clt_point){(double)bin->high_step, bin->high}
                             : (clt_point){(double)bin->low_step, bin->low};
    if (bin->bad > 0)
        out[n++] = (clt_point){(double)bin->bad_step, NAN};
    return n;
}

static size_t points_of_group(const clt_curve *curve, size_t from, size_t group, clt_point *out)
{
    clt_curve_bin all;
    empty_bin(&all);
    for (size_t i = from; i < from + group && i < curve->count; i++)
        merge_bin(&all, &curve->bins[i]);
    return bin_points(&all, out);
}

/* The number of points if each group of `group` bins is drawn as one. */
static size_t count_points(const clt_curve *curve, size_t group)
{
    clt_point scratch[3];
    size_t count = 0;
    for (size_t i = 0; i < curve->count; i += group)
        count += points_of_group(curve, i, group, scratch);
    return count;
}

size_t clt_curve_points(const clt_curve *curve, size_t most, clt_point *points)
{
    size_t group = 1, count = 0;
    while (count_points(curve, group) > most)
        group++;
    for (size_t i = 0; i < curve->count; i += group)
        count += points_of_group(curve, i, group, points + count);
    return count;
}

size_t clt_curve_smooth(const clt_curve *curve, double spread, size_t most, clt_point *points)
{
    size_t group = 1, count = 0;
    double reach = spread * (double)curve->count; /* standard deviation of the weights, in bins */
    while (curve->count / group + 1 > most)
        group++;
    for (size_t i = group / 2; i < curve->count; i += group) {
        double sum = 0, weights = 0;
        int64_t nearest = -1;
        /* the beginning of a run is steep, so the weights are narrow there */
        double wide = reach < (double)i * 0.25 ? reach : (double)i * 0.25;
        size_t far = (size_t)(3 * wide) + 1;
        size_t from = i > far ? i - far : 0, to = i + far < curve->count ? i + far : curve->count - 1;
        for (size_t k = from; k <= to; k++) {
            const clt_curve_bin *bin = &curve->bins[k];
            double distance = ((double)k - (double)i) / (wide > 0.5 ? wide : 0.5);
            double weight = exp(-0.5 * distance * distance);
            if (bin->count == 0)
                continue;
            sum += weight * bin->sum / (double)bin->count;
            weights += weight;
            if (k <= i || nearest < 0)
                nearest = bin->last_step;
        }
        /* without any value nearby there is a gap */
        if (weights > 0.3 && nearest >= 0 && isfinite(sum))
            points[count++] =
                (clt_point){(double)(curve->first + ((int64_t)i << curve->shift)), sum / weights};
    }
    return count;
}

double clt_curve_tail(const clt_curve *curve, double share)
{
    size_t bins = (size_t)ceil(share * (double)curve->count);
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < curve->count; i++) {
        if (i + bins < curve->count)
            continue;
        sum += curve->bins[i].sum;
        count += curve->bins[i].count;
    }
    return count > 0 ? sum / (double)count : curve->values > 0 ? curve->last : NAN;
}

/* Maps doubles to integers that have the same order. */
static uint64_t order_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double value_of(uint64_t order)
{
    uint64_t bits = order >> 63 ? order & ~((uint64_t)1 << 63) : ~order;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t bins_below(const clt_curve *curve, uint64_t order)
{
    size_t count = 0;
    for (size_t i = 0; i < curve->count; i++)
        count +=
            curve->bins[i].count > 0 && order_of(curve->bins[i].sum / (double)curve->bins[i].count) < order;
    return count;
}

/* The greatest number that is above at most half of the means. It is found bit by bit, which needs no memory
 * for sorting. */
double clt_curve_median(const clt_curve *curve)
{
    size_t filled = 0;
    uint64_t median = 0;
    for (size_t i = 0; i < curve->count; i++)
        filled += curve->bins[i].count > 0;
    if (filled == 0)
        return NAN;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t higher = median | (uint64_t)1 << bit;
        if (bins_below(curve, higher) <= filled / 2)
            median = higher;
    }
    return value_of(median);
}

double clt_curve_mean(const clt_curve *curve, double from, double to)
{
    double width = ldexp(1, curve->shift), sum = 0;
    double begin = floor((from - (double)curve->first) / width),
           end = ceil((to - (double)curve->first) / width);
    int64_t count = 0;
    size_t last = end < 0 ? 0 : end < (double)curve->count ? (size_t)end : curve->count;
    for (size_t i = begin > 0 ? begin < (double)last ? (size_t)begin : last : 0; i < last; i++) {
        sum += curve->bins[i].sum;
        count += curve->bins[i].count;
    }
    return count > 0 ? sum / (double)count : NAN;
}
