/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts per class, on the host, from the logits and targets of an evaluation: confusion matrix, top-k hits
 * and Dice; and the figures computed from the counts. Counts are whole numbers, so their sums over ranks are
 * the same for any number of threads. Knows nothing of models, devices or data. */
#ifndef ENGINE_REPORT_WRITE_CLASS_COUNTS_H
#define ENGINE_REPORT_WRITE_CLASS_COUNTS_H

#include "engine/base/dtype.h"
#include "engine/base/mem.h"
#include "engine/data/annotated/entities.h"
#include "engine/json/json.h"

/* With more classes than this there is no confusion matrix, which grows with their square. */
#define CLT_CONFUSION_CLASSES 2048

typedef struct clt_class_counts {
    int64_t classes;
    int32_t top_k;   /* 0: not counted, since every target would be among the top k */
    bool spatial;    /* a sample has many targets, as in segmentation: Dice means something */
    bool background; /* class 0 counts in the mean Dice too */
    /* one array that holds all counts below, for sums over ranks */
    int64_t *all;
    size_t n_all;
    double *dice_sum;   /* for each class: the sum over samples of their Dice */
    int64_t *targets;   /* one number: targets that count */
    int64_t *top_hits;  /* one number: targets among the top_k largest logits */
    int64_t *support;   /* for each class: number of targets */
    int64_t *predicted; /* for each class: how often it was predicted */
    int64_t *hit;       /* for each class: how often its prediction was right */
    int64_t *samples;   /* for each class: number of samples that have targets of it (spatial) */
    int64_t *confusion; /* [target * classes + prediction]; NULL: too many classes */
    char **names;       /* names of the classes; NULL: the classes have no names */
    int64_t n_names;
    clt_entities *entities; /* entities, if samples are sentences; NULL: not counted */
    /* private */
    int32_t *predicted_at;
    uint8_t *top;
    int64_t *tally;
    size_t room;
} clt_class_counts;

/* Samples with one logit per class and place. Strides count elements. */
typedef struct clt_class_batch {
    const float *logits;
    int64_t samples, places; /* places: targets of a sample */
    int64_t sample_stride, place_stride, class_stride;
    /* binary: one logit for each place, which predicts class 1 if it is above 0; a target above 0.5 is class
     * 1 */
    bool binary;
    const void *targets; /* samples times places, u8, u16, i32 or f32 */
    clt_dtype target_dtype;
    bool has_ignore; /* targets that equal `ignore` do not count */
    int64_t ignore;
} clt_class_batch;

/* top_k: 0: do not count it. `classes` or more is taken as 0. */
clt_status clt_class_counts_create(int64_t classes, int32_t top_k, clt_class_counts **out);
void clt_class_counts_destroy(clt_class_counts *counts); /* NULL is fine */
CLT_SCOPED_POINTER(clt_class_counts, clt_class_counts_destroy)
void clt_class_counts_reset(clt_class_counts *counts);
/* Copies the names of the classes 0, 1, ... */
clt_status clt_class_counts_take_names(clt_class_counts *counts, const char *const *names, int64_t n);
/* Counts entities from the next batch on: each sample is a sentence, without the targets that do not count.
 * The names must be names of entities (clt_entities_named). */
clt_status clt_class_counts_take_entities(clt_class_counts *counts);
/* Adds a batch. The prediction is the largest logit, and the first of equal ones; a row that contains NaN
 * predicts nothing. A target is among the top k if fewer than k logits are larger, or equal and before it.
 * Uses several cores. */
clt_status clt_class_counts_add(clt_class_counts *counts, const clt_class_batch *batch);

/* Figures of a class. NAN: precision of a class that was never predicted, recall of a class without targets,
 * F1 and Dice of a class with neither. F1 and Dice over all targets are the same number. */
double clt_class_precision(const clt_class_counts *counts, int64_t c);
double clt_class_recall(const clt_class_counts *counts, int64_t c);
double clt_class_f1(const clt_class_counts *counts, int64_t c);
/* Mean of the Dice of single samples, over the samples that have targets of the class. */
double clt_class_sample_dice(const clt_class_counts *counts, int64_t c);
double clt_class_top_k(const clt_class_counts *counts);
/* Means over the classes whose figure is not NAN. Means of Dice skip class 0, unless `background` is set or
 * there is only one class. */
double clt_class_macro_f1(const clt_class_counts *counts);
double clt_class_mean_dice(const clt_class_counts *counts);
double clt_class_mean_sample_dice(const clt_class_counts *counts);

/* The name of a class, or its number in `buffer`. */
const char *clt_class_name(const clt_class_counts *counts, int64_t c, char buffer[24]);
/* Writes members into an object that is open: top_k, top_k_accuracy, macro_f1, mean_dice, mean_sample_dice,
 * entity_precision, entity_recall, entity_f1, entities, classes, confusion. */
void clt_class_counts_write(const clt_class_counts *counts, clt_json_writer *w);
/* Writes the confusion matrix as CSV: a line for each target class, a column for each predicted class, the
 * names in the first line and column. CLT_EUNSUPPORTED: too many classes. */
clt_status clt_class_counts_csv(const clt_class_counts *counts, clt_str *out);

#endif
