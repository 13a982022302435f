/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes predictions as csv, JSON lines, npy or one object of JSON to the standard output, or to a file
 * that appears only when it is complete. */
#ifndef CLI_SCREEN_PREDICT_OUT_H
#define CLI_SCREEN_PREDICT_OUT_H

#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/train/eval/predict.h"

/* The message of an error when PREDICT_JSON is chosen for anything but answers. */
#define PREDICT_JSON_SPANS                                                                                   \
    "cltrain predict: the format json, {id: answer}, is for answers to questions; choose csv or jsonl"

typedef enum predict_format { PREDICT_CSV, PREDICT_JSONL, PREDICT_NPY, PREDICT_JSON } predict_format;

typedef struct predict_out {
    const clt_predictor *of;
    predict_format format;
    int64_t top; /* writes only this many of the most likely classes; 0: all classes, in order */
    bool files;  /* several inputs, or a folder: each line names its file */
    bool lines;  /* each output line names the sample's line in its table, `line` */
    int64_t line;
    const char *path; /* NULL: the standard output */
    char *partial;    /* temporary path until the file is complete; NULL: written in place */
    FILE *file;
    int64_t samples;
    int64_t left_out;   /* samples that could not be read, whose rows have no prediction */
    int commas;         /* csv: commas in each line */
    int64_t not_finite; /* number of predictions with a NaN or infinity */
    int64_t *order;     /* scratch: the `top` most likely classes of a row */
} predict_out;

/* Chooses the format: the one that --format names; if `format` is NULL, by the ending of `path`, and csv for
 * the standard output (`path` is NULL). CLT_EUSAGE for an unknown name or ending. */
clt_status predict_format_choose(const char *format, const char *path, predict_format *out);
clt_status predict_out_open(predict_out *o);
/* scores: the result of clt_predictor_run for `samples` samples. input: the path of the samples' file. */
clt_status predict_out_write(predict_out *o, const char *input, const float *scores, int64_t samples);
/* Writes the row of a sample that could not be read: in csv with empty cells, in jsonl with "error". */
clt_status predict_out_leave_out(predict_out *o, const char *input);
/* Writes a finished line, for a prediction of another form, such as an answer; it counts as one sample. With
 * PREDICT_JSON the line is a member of the object, without comma and line break. */
clt_status predict_out_line(predict_out *o, const clt_str *line);
/* Completes the file; if `failed`, removes it instead. */
clt_status predict_out_close(predict_out *o, bool failed);

#endif
