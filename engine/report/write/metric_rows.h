/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a step and of an evaluation as one list each, in the order in which they are written to
 * metrics.jsonl and to TensorBoard's file: a new number is a member of the record and a row here. */
#ifndef ENGINE_REPORT_WRITE_METRIC_ROWS_H
#define ENGINE_REPORT_WRITE_METRIC_ROWS_H

#include "engine/json/json.h"
#include "engine/report/write/metrics.h"

/* The type of the member. CLASSES: the Dice of each class of a volume's mask. */
typedef enum clt_metric_kind { CLT_REAL, CLT_INT, CLT_INT32, CLT_FLAG, CLT_CLASSES } clt_metric_kind;

/* When a number is written. One that is written although it is not finite is null in metrics.jsonl. */
typedef enum clt_metric_when {
    CLT_ALWAYS,
    CLT_MARKED,  /* always; "nonfinite": true follows a value that is not finite */
    CLT_TAGGED,  /* written to metrics.jsonl always, to TensorBoard's file unless it is NAN */
    CLT_KNOWN,   /* written unless it is NAN or false */
    CLT_POSITIVE /* written if it is finite and above 0 */
} clt_metric_when;

/* The condition under which the number has a meaning: the kind of figures that the evaluation has counted,
 * or a property of the step. */
typedef enum clt_metric_needs {
    CLT_ANY,
    CLT_CLASSED,
    CLT_TOP_K,
    CLT_VALUES,
    CLT_ANSWERS,
    CLT_ENTITIES,
    CLT_VOLUMES,
    CLT_SAMPLED /* the device was sampled since the step before */
} clt_metric_needs;

typedef struct clt_metric_row {
    const char *key, *tag; /* names in metrics.jsonl, in TensorBoard's file; NULL: not written */
    size_t at;             /* offset of the member in the record */
    clt_metric_kind kind;
    clt_metric_when when;
    clt_metric_needs needs;
    double parts; /* the number is rounded to a multiple of 1 / parts; 0: it is not */
} clt_metric_row;

/* Rows of clt_step_metrics and of clt_eval_metrics; a row without a key ends each list. */
extern const clt_metric_row clt_step_rows[], clt_eval_rows[];

/* Writes the numbers of a record as members of the object that is open. */
void clt_metric_rows_write(const clt_metric_row *rows, const void *record, clt_json_writer *w);
/* Gets a number for TensorBoard's file; false: it is not written there. */
bool clt_metric_scalar(const clt_metric_row *row, const void *record, double *value);
/* Dice by class of an evaluation of volumes, as a list (null: no volume has the class). */
void clt_volume_dice_write(const clt_eval_metrics *metrics, clt_json_writer *w, const char *key);

#endif
