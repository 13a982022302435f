/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a range: points at equal distances, or equal ratios, and a number at a given share of the way.
 * They are rounded to few digits, so that they are short and the same with every C library. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/sweep/sweep_internal.h"

/* The number with `digits` significant decimal digits. */
static double rounded(double x, int digits)
{
    if (x == 0 || !isfinite(x))
        return x;
    int power = digits - 1 - (int)floor(log10(fabs(x)));
    double scale = pow(10, abs(power));
    return power >= 0 ? round(x * scale) / scale : round(x / scale) * scale;
}

static char *number_text(clt_arena *arena, double x, bool whole)
{
    char text[CLT_NUMBER_TEXT];
    if (whole)
        return clt_arena_printf(arena, "%lld", (long long)x);
    return clt_arena_strdup(arena, clt_double_text(x, text));
}

/* Point i of `count` points; the first and the last are the ends themselves. */
static double point(const clt_sweep_range *r, int64_t i, int64_t count)
{
    double share = (double)i / (double)(count - 1), x;
    if (r->step > 0)
        x = rounded(r->from + (double)i * r->step, 12);
    else if (i == 0 || i == count - 1)
        x = i == 0 ? r->from : r->to;
    else
        x = r->log ? rounded(r->from * pow(r->to / r->from, share), 6)
                   : rounded(r->from + (r->to - r->from) * share, 12);
    return r->whole ? round(x) : x;
}

clt_status clt_sweep_points(clt_arena *arena, const clt_sweep_range *range, const char ***values, int *count)
{
    /* the sum of steps may end a rounding error before the end of the range */
    int64_t points =
        range->step > 0 ? (int64_t)floor((range->to - range->from) / range->step + 1e-9) + 1 : range->count;
    *count = 0;
    *values = clt_arena_alloc(arena, (size_t)points * sizeof **values);
    for (int64_t i = 0; *values && i < points; i++) {
        const char *text = number_text(arena, point(range, i, points), range->whole);
        if (!text)
            return CLT_ENOMEM;                                       /* the arena has recorded it */
        if (*count == 0 || strcmp((*values)[*count - 1], text) != 0) /* integers of a log scale repeat */
            (*values)[(*count)++] = text;
    }
    return *values ? CLT_OK : CLT_ENOMEM;
}

char *clt_sweep_point(clt_arena *arena, const clt_sweep_key *key, double share)
{
    double x =
        key->log ? key->from * pow(key->to / key->from, share) : key->from + (key->to - key->from) * share;
    if (key->whole && !key->log) /* every integer is as likely */
        x = key->from + floor(share * (key->to - key->from + 1));
    else if (key->whole)
        x = round(x);
    else
        x = rounded(x, 6);
    x = x < key->from ? key->from : x > key->to ? key->to : x;
    return number_text(arena, x, key->whole);
}
