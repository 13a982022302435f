/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares runs: their losses step by step, their results, their configs. Knows nothing of presentation. */
#include "engine/report/read/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STRETCHES 100
#define SIGMAS 3

/* Sums over a range of common steps. */
typedef struct stretch {
    int64_t first_step, count;
    double a, b, difference, squares;
    bool one_is_bad; /* a loss of exactly one of the runs was not finite */
} stretch;

typedef struct comparison {
    stretch stretches[STRETCHES];
    double begin, width; /* first step and length of a range */
    clt_divergence *out;
} comparison;

static void add_pair(void *context, const clt_metrics_line *x, const clt_metrics_line *y)
{
    comparison *c = context;
    clt_divergence *out = c->out;
    int64_t step = x->step;
    double a = x->value[CLT_METRIC_LOSS], b = y->value[CLT_METRIC_LOSS];
    double at = c->width > 0 ? floor(((double)step - c->begin) / c->width) : 0;
    stretch *s = &c->stretches[at < 0 ? 0 : at < STRETCHES ? (int)at : STRETCHES - 1];
    bool same = a == b || (isnan(a) && isnan(b));
    out->common++;
    out->last_common = step;
    if (!same && out->first_different < 0)
        out->first_different = step;
    if (s->first_step < 0)
        s->first_step = step;
    if (!isfinite(a) || !isfinite(b)) {
        s->one_is_bad |= !same;
        return;
    }
    if (fabs(a - b) > out->largest) {
        out->largest = fabs(a - b);
        out->largest_step = step;
    }
    s->count++;
    s->a += a;
    s->b += b;
    s->difference += a - b;
    s->squares += (a - b) * (a - b);
}

static bool apart(const stretch *s, double tolerance)
{
    double n = (double)s->count;
    if (s->count == 0)
        return s->one_is_bad;
    double mean = s->difference / n;
    double scatter = n > 1 ? (s->squares - n * mean * mean) / (n - 1) : 0;
    double noise = scatter > 0 ? SIGMAS * sqrt(scatter / n) : 0;
    return s->one_is_bad ||
           (fabs(mean) > noise && fabs(mean) > tolerance * fmax(fabs(s->a / n), fabs(s->b / n)));
}

static void judge(const comparison *c, double tolerance, clt_divergence *out)
{
    bool ended = false; /* the loop runs backwards, and has reached a range in which the runs agree */
    double a = 0, b = 0, n = 0;
    for (int i = STRETCHES - 1; i >= 0; i--) {
        const stretch *s = &c->stretches[i];
        if (s->first_step < 0)
            continue;
        if (n < 1 && s->count > 0) {
            n = (double)s->count;
            a = s->a;
            b = s->b;
        }
        bool is_apart = apart(s, tolerance);
        ended = ended || !is_apart;
        if (is_apart)
            out->apart_once = s->first_step;
        if (is_apart && !ended)
            out->apart_from = s->first_step;
    }
    /* the range may begin with steps whose losses are still equal */
    if (out->apart_from >= 0 && out->apart_from < out->first_different)
        out->apart_from = out->first_different;
    if (out->apart_once >= 0 && out->apart_once < out->first_different)
        out->apart_once = out->first_different;
    out->end_a = n > 0 ? a / n : NAN;
    out->end_b = n > 0 ? b / n : NAN;
}

/* The next training step of a run, or *more = false. */
static clt_status next_step(clt_history *history, clt_metrics_line *line, bool *more)
{
    do {
        CLT_TRY(clt_history_next(history, line, NULL, NULL, more));
    } while (*more && line->kind != CLT_LINE_STEP);
    return CLT_OK;
}

clt_status clt_compare_steps(const clt_run_record *a, const clt_run_record *b, clt_step_pair each,
                             void *context)
{
    CLT_SCOPED(clt_history) *left = NULL, *right = NULL;
    clt_metrics_line x, y;
    bool more_x, more_y;
    CLT_TRY(clt_history_open(a->metrics_path, &left));
    CLT_TRY(clt_history_open(b->metrics_path, &right));
    CLT_TRY(next_step(left, &x, &more_x));
    CLT_TRY(next_step(right, &y, &more_y));
    while (more_x && more_y) {
        if (x.step == y.step)
            each(context, &x, &y);
        bool step_x = x.step <= y.step, step_y = y.step <= x.step;
        if (step_x)
            CLT_TRY(next_step(left, &x, &more_x));
        if (step_y)
            CLT_TRY(next_step(right, &y, &more_y));
    }
    return CLT_OK;
}

clt_status clt_compare_losses(const clt_run_record *a, const clt_run_record *b, double tolerance,
                              clt_divergence *out)
{
    CLT_FREED comparison *c = NULL;
    *out = (clt_divergence){.last_common = -1,
                            .first_different = -1,
                            .largest_step = -1,
                            .apart_from = -1,
                            .apart_once = -1,
                            .end_a = NAN,
                            .end_b = NAN};
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "the comparison of two runs"));
    for (int i = 0; i < STRETCHES; i++)
        c->stretches[i].first_step = -1;
    c->begin = fmax((double)a->counts.first, (double)b->counts.first);
    c->width = (fmin((double)a->last_step, (double)b->last_step) + 1 - c->begin) / STRETCHES;
    c->out = out;
    CLT_TRY(clt_compare_steps(a, b, add_pair, c));
    judge(c, tolerance, out);
    return CLT_OK;
}

/* --- differences --- */

static clt_status add_difference(clt_differences *list, const char *key, const char *a, const char *b,
                                 bool environment)
{
    CLT_TRY(
        clt_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items, "differences of runs"));
    clt_difference *d = &list->items[list->count++];
    *d = (clt_difference){
        .key = strdup(key), .a = a ? strdup(a) : NULL, .b = b ? strdup(b) : NULL, .environment = environment};
    if (!d->key || (a && !d->a) || (b && !d->b))
        CLT_FAIL(CLT_ENOMEM, "comparing configs: out of host memory");
    return CLT_OK;
}

static clt_status differing_keys(const clt_config_entries *x, const clt_config_entries *y,
                                 clt_differences *out)
{
    for (size_t i = 0; i < x->count; i++) {
        const char *other = clt_run_config_value(y, x->items[i].key);
        if (!other || strcmp(other, x->items[i].value) != 0)
            CLT_TRY(add_difference(out, x->items[i].key, x->items[i].value, other, false));
    }
    for (size_t i = 0; i < y->count; i++)
        if (!clt_run_config_value(x, y->items[i].key))
            CLT_TRY(add_difference(out, y->items[i].key, NULL, y->items[i].value, false));
    return CLT_OK;
}

static clt_status differing_environment(const clt_run_record *a, const clt_run_record *b,
                                        clt_differences *out)
{
    static const char *const keys[] = {"device", "driver", "precision", "ranks", "host", "version", "init"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        CLT_SCOPED(clt_str) x = {0}, y = {0};
        clt_run_member(clt_run_start(a), keys[i], &x);
        clt_run_member(clt_run_start(b), keys[i], &y);
        CLT_TRY(clt_str_check(&x));
        CLT_TRY(clt_str_check(&y));
        if (strcmp(x.text ? x.text : "", y.text ? y.text : "") != 0)
            CLT_TRY(add_difference(out, keys[i], x.text, y.text, true));
    }
    return CLT_OK;
}

clt_status clt_run_differences(const clt_run_record *a, const clt_run_record *b, clt_differences *out)
{
    CLT_SCOPED(clt_config_entries) x = {0}, y = {0};
    *out = (clt_differences){0};
    CLT_TRY(clt_run_config_entries(a, &x));
    CLT_TRY(clt_run_config_entries(b, &y));
    if (a->config && b->config) /* otherwise every key of the other run would seem to differ */
        CLT_TRY(differing_keys(&x, &y, out));
    return differing_environment(a, b, out);
}

void clt_run_differences_free(clt_differences *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].a);
        free(list->items[i].b);
    }
    free(list->items);
    *list = (clt_differences){0};
}
