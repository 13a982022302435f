/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts targets, predictions and hits of each class, with several threads, and computes precision, recall,
 * F1 and Dice from the counts. */
#include "engine/report/write/class_counts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/report/write/lines.h"

#define PER_CLASS 4           /* counts of a class beside the confusion matrix */
#define LEAST_PER_THREAD 4096 /* logits */

clt_status clt_class_counts_create(int64_t classes, int32_t top_k, clt_class_counts **out)
{
    CLT_SCOPED(clt_class_counts) *c = NULL;
    size_t n = (size_t)classes;
    *out = NULL;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "counts of classes"));
    c->classes = classes;
    c->top_k = top_k < classes ? top_k : 0;
    c->n_all = 2 + PER_CLASS * n + (classes <= CLT_CONFUSION_CLASSES ? n * n : 0);
    CLT_TRY(clt_alloc(&c->all, c->n_all, sizeof *c->all, "counts of classes"));
    CLT_TRY(clt_alloc(&c->dice_sum, n, sizeof *c->dice_sum, "counts of classes"));
    CLT_TRY(clt_alloc(&c->tally, 3 * n, sizeof *c->tally, "counts of classes"));
    c->targets = c->all;
    c->top_hits = c->all + 1;
    c->support = c->all + 2;
    c->predicted = c->support + n;
    c->hit = c->predicted + n;
    c->samples = c->hit + n;
    c->confusion = classes <= CLT_CONFUSION_CLASSES ? c->samples + n : NULL;
    *out = CLT_TAKE(c);
    return CLT_OK;
}

static void free_names(clt_class_counts *c)
{
    for (int64_t i = 0; i < c->n_names; i++)
        free(c->names[i]);
    free(c->names);
    c->names = NULL;
    c->n_names = 0;
}

void clt_class_counts_destroy(clt_class_counts *c)
{
    if (!c)
        return;
    free_names(c);
    clt_entities_destroy(c->entities);
    free(c->all);
    free(c->dice_sum);
    free(c->tally);
    free(c->predicted_at);
    free(c->top);
    free(c);
}

void clt_class_counts_reset(clt_class_counts *c)
{
    memset(c->all, 0, c->n_all * sizeof *c->all);
    memset(c->dice_sum, 0, (size_t)c->classes * sizeof *c->dice_sum);
    if (c->entities)
        clt_entities_reset(c->entities);
}

clt_status clt_class_counts_take_names(clt_class_counts *c, const char *const *names, int64_t n)
{
    free_names(c);
    n = n < c->classes ? n : c->classes;
    if (!names || n < 1)
        return CLT_OK;
    CLT_TRY(clt_alloc(&c->names, (size_t)n, sizeof *c->names, "names of classes"));
    for (; c->n_names < n; c->n_names++) {
        c->names[c->n_names] = strdup(names[c->n_names]);
        if (!c->names[c->n_names])
            CLT_FAIL(CLT_ENOMEM, "names of classes: out of host memory");
    }
    return CLT_OK;
}

clt_status clt_class_counts_take_entities(clt_class_counts *c)
{
    clt_entities_destroy(c->entities);
    return clt_entities_create((const char *const *)c->names, c->n_names, &c->entities);
}

/* --- counting --- */

typedef struct work {
    const clt_class_counts *counts;
    const clt_class_batch *batch;
    int32_t *predicted_at; /* for each place the prediction, -1: none */
    uint8_t *top;
} work;

/* Class number of a target; -1: the target does not count. */
static int64_t target_of(const clt_class_counts *c, const clt_class_batch *b, int64_t at)
{
    int64_t t = -1;
    switch (b->target_dtype) {
    case CLT_U8:
        t = ((const uint8_t *)b->targets)[at];
        break;
    case CLT_U16:
        t = ((const uint16_t *)b->targets)[at];
        break;
    case CLT_I32:
        t = ((const int32_t *)b->targets)[at];
        break;
    case CLT_F32:
        t = ((const float *)b->targets)[at] > 0.5f;
        break;
    default:
        break;
    }
    if (b->has_ignore && t == b->ignore)
        return -1;
    t = b->binary ? t > 0 : t;
    return t >= 0 && t < c->classes ? t : -1;
}

static void predict_place(const work *w, int64_t at)
{
    const clt_class_batch *b = w->batch;
    const float *x = b->logits + at / b->places * b->sample_stride + at % b->places * b->place_stride;
    int64_t target = target_of(w->counts, b, at), classes = w->counts->classes, best = 0, before = 0;
    w->predicted_at[at] = -1;
    w->top[at] = 0;
    if (target < 0)
        return;
    if (b->binary) {
        w->predicted_at[at] = isnan(x[0]) ? -1 : x[0] > 0;
        return;
    }
    float largest = x[0], own = x[target * b->class_stride];
    for (int64_t c = 0; c < classes; c++) {
        float value = x[c * b->class_stride];
        if (isnan(value))
            return;
        if (value > largest) {
            largest = value;
            best = c;
        }
        before += value > own || (c < target && !(value < own));
    }
    w->predicted_at[at] = (int32_t)best;
    w->top[at] = before < w->counts->top_k;
}

static void predict_places(void *context, uint64_t first, uint64_t last)
{
    for (uint64_t at = first; at < last; at++)
        predict_place(context, (int64_t)at);
}

/* Adds the predictions for places first..last - 1; the counts of each class go to the three arrays. */
static void add_places(clt_class_counts *c, const clt_class_batch *b, int64_t first, int64_t last,
                       int64_t *support, int64_t *predicted, int64_t *hit)
{
    for (int64_t at = first; at < last; at++) {
        int64_t target = target_of(c, b, at), guess = c->predicted_at[at];
        if (target < 0)
            continue;
        c->targets[0]++;
        c->top_hits[0] += c->top[at];
        support[target]++;
        if (guess < 0)
            continue;
        predicted[guess]++;
        hit[target] += guess == target;
        if (c->confusion)
            c->confusion[target * c->classes + guess]++;
    }
}

/* Adds one sample of a segmentation, and its Dice. */
static void add_sample(clt_class_counts *c, const clt_class_batch *b, int64_t sample)
{
    int64_t *support = c->tally, *predicted = support + c->classes, *hit = predicted + c->classes;
    memset(c->tally, 0, 3 * (size_t)c->classes * sizeof *c->tally);
    add_places(c, b, sample * b->places, (sample + 1) * b->places, support, predicted, hit);
    for (int64_t k = 0; k < c->classes; k++) {
        c->support[k] += support[k];
        c->predicted[k] += predicted[k];
        c->hit[k] += hit[k];
        if (support[k] == 0)
            continue;
        c->samples[k]++;
        c->dice_sum[k] += 2.0 * (double)hit[k] / (double)(support[k] + predicted[k]);
    }
}

static void add_sentence(clt_class_counts *c, const clt_class_batch *b, int64_t sample)
{
    for (int64_t at = sample * b->places; at < (sample + 1) * b->places; at++) {
        int64_t target = target_of(c, b, at);
        if (target >= 0)
            clt_entities_word(c->entities, (int32_t)target, c->predicted_at[at]);
    }
    clt_entities_end(c->entities);
}

clt_status clt_class_counts_add(clt_class_counts *c, const clt_class_batch *b)
{
    size_t n = (size_t)(b->samples * b->places);
    if (n > c->room) {
        free(c->predicted_at);
        free(c->top);
        c->predicted_at = NULL;
        c->top = NULL;
        c->room = 0;
        CLT_TRY(clt_alloc(&c->predicted_at, n, sizeof *c->predicted_at, "predicted classes"));
        CLT_TRY(clt_alloc(&c->top, n, sizeof *c->top, "predicted classes"));
        c->room = n;
    }
    work w = {c, b, c->predicted_at, c->top};
    clt_for_ranges(n, (uint64_t)(LEAST_PER_THREAD / c->classes + 1), "classes", predict_places, &w);
    if (!c->spatial)
        add_places(c, b, 0, (int64_t)n, c->support, c->predicted, c->hit);
    for (int64_t s = 0; c->spatial && s < b->samples; s++)
        add_sample(c, b, s);
    for (int64_t s = 0; c->entities && s < b->samples; s++)
        add_sentence(c, b, s);
    return CLT_OK;
}

/* --- figures --- */

static double ratio(int64_t a, int64_t b)
{
    return b > 0 ? (double)a / (double)b : NAN;
}

double clt_class_precision(const clt_class_counts *c, int64_t k)
{
    return ratio(c->hit[k], c->predicted[k]);
}

double clt_class_recall(const clt_class_counts *c, int64_t k)
{
    return ratio(c->hit[k], c->support[k]);
}

double clt_class_f1(const clt_class_counts *c, int64_t k)
{
    return ratio(2 * c->hit[k], c->support[k] + c->predicted[k]);
}

double clt_class_sample_dice(const clt_class_counts *c, int64_t k)
{
    return c->samples[k] > 0 ? c->dice_sum[k] / (double)c->samples[k] : NAN;
}

double clt_class_top_k(const clt_class_counts *c)
{
    return c->top_k > 0 ? ratio(c->top_hits[0], c->targets[0]) : NAN;
}

static double mean(const clt_class_counts *c, bool all,
                   double (*figure)(const clt_class_counts *counts, int64_t k))
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t k = all || c->classes == 1 ? 0 : 1; k < c->classes; k++) {
        double value = figure(c, k);
        sum += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    return n > 0 ? sum / (double)n : NAN;
}

double clt_class_macro_f1(const clt_class_counts *c)
{
    return mean(c, true, clt_class_f1);
}

double clt_class_mean_dice(const clt_class_counts *c)
{
    return c->spatial ? mean(c, c->background, clt_class_f1) : NAN;
}

double clt_class_mean_sample_dice(const clt_class_counts *c)
{
    return c->spatial ? mean(c, c->background, clt_class_sample_dice) : NAN;
}

/* --- as text --- */

const char *clt_class_name(const clt_class_counts *c, int64_t k, char buffer[24])
{
    if (k < c->n_names)
        return c->names[k];
    snprintf(buffer, 24, "%lld", (long long)k);
    return buffer;
}

static void write_class(const clt_class_counts *c, int64_t k, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kint(w, "class", k);
    if (k < c->n_names)
        clt_jw_kstring(w, "name", c->names[k]);
    clt_jw_kint(w, "targets", c->support[k]);
    clt_jw_kint(w, "predicted", c->predicted[k]);
    clt_jw_kint(w, "correct", c->hit[k]);
    clt_jw_kdouble(w, "precision", clt_class_precision(c, k));
    clt_jw_kdouble(w, "recall", clt_class_recall(c, k));
    clt_jw_kdouble(w, "f1", clt_class_f1(c, k));
    if (c->spatial) {
        clt_jw_kdouble(w, "dice", clt_class_f1(c, k));
        clt_jw_kdouble(w, "sample_dice", clt_class_sample_dice(c, k));
        clt_jw_kint(w, "samples", c->samples[k]);
    }
    clt_jw_end_object(w);
}

static void write_entities(const clt_entities *e, clt_json_writer *w)
{
    for (int64_t type = -1; type < e->n_types; type++) {
        clt_entity_figures f = clt_entities_figures(e, type);
        if (type >= 0) {
            clt_jw_object(w);
            clt_jw_kstring(w, "type", e->type[type]);
            clt_jw_kint(w, "entities", f.there);
            clt_jw_kint(w, "predicted", f.predicted);
            clt_jw_kint(w, "correct", f.right);
        }
        clt_jw_kdouble(w, type < 0 ? "entity_precision" : "precision", f.precision);
        clt_jw_kdouble(w, type < 0 ? "entity_recall" : "recall", f.recall);
        clt_jw_kdouble(w, type < 0 ? "entity_f1" : "f1", f.f1);
        if (type >= 0)
            clt_jw_end_object(w);
        else
            clt_jw_karray(w, "entities");
    }
    clt_jw_end_array(w);
}

void clt_class_counts_write(const clt_class_counts *c, clt_json_writer *w)
{
    if (c->top_k > 0) {
        clt_jw_kint(w, "top_k", c->top_k);
        clt_jw_kdouble(w, "top_k_accuracy", clt_class_top_k(c));
    }
    clt_jw_kdouble(w, "macro_f1", clt_class_macro_f1(c));
    if (c->spatial) {
        clt_jw_kdouble(w, "mean_dice", clt_class_mean_dice(c));
        clt_jw_kdouble(w, "mean_sample_dice", clt_class_mean_sample_dice(c));
    }
    if (c->entities)
        write_entities(c->entities, w);
    clt_jw_karray(w, "classes");
    for (int64_t k = 0; k < c->classes; k++)
        write_class(c, k, w);
    clt_jw_end_array(w);
    if (!c->confusion)
        return;
    clt_jw_karray(w, "confusion");
    for (int64_t t = 0; t < c->classes; t++) {
        int indent = w->indent;
        clt_jw_array(w);
        w->indent = 0; /* each row of the matrix is one line */
        for (int64_t p = 0; p < c->classes; p++)
            clt_jw_int(w, c->confusion[t * c->classes + p]);
        clt_jw_end_array(w);
        w->indent = indent;
    }
    clt_jw_end_array(w);
}

/* Appends a cell in the quoting of RFC 4180. */
static void cell(clt_str *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n"))
        clt_csv_quoted(out, text);
    else
        clt_str_append(out, text);
}

clt_status clt_class_counts_csv(const clt_class_counts *c, clt_str *out)
{
    char buffer[24];
    if (!c->confusion)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "a confusion matrix of %lld classes is too large; it is written for at most %d",
                 (long long)c->classes, CLT_CONFUSION_CLASSES);
    clt_str_append(out, "target\\prediction");
    for (int64_t p = 0; p < c->classes; p++) {
        clt_str_append(out, ",");
        cell(out, clt_class_name(c, p, buffer));
    }
    clt_str_append(out, "\n");
    for (int64_t t = 0; t < c->classes; t++) {
        cell(out, clt_class_name(c, t, buffer));
        for (int64_t p = 0; p < c->classes; p++)
            clt_str_printf(out, ",%lld", (long long)c->confusion[t * c->classes + p]);
        clt_str_append(out, "\n");
    }
    return clt_str_check(out);
}
