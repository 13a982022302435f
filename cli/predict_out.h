/* SPDX-License-Identifier: Apache-2.0
 *
 * Where predictions go: csv, JSON lines or npy, to a file that appears when it is whole, or to the standard
 * output. Knows numbers and names of columns, no model. */
#ifndef CLI_PREDICT_OUT_H
#define CLI_PREDICT_OUT_H

#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/train/run/predict.h"

typedef enum predict_format { PREDICT_CSV, PREDICT_JSONL, PREDICT_NPY } predict_format;

typedef struct predict_out {
    const clt_predictor *of;
    predict_format format;
    int64_t top;      /* only so many classes, the most likely first; 0: all, in order */
    bool files;       /* several inputs: each line names its own */
    const char *path; /* NULL: the standard output */
    char *partial;    /* where it is written until it is whole; NULL: in place */
    FILE *file;
    int64_t samples;
    int64_t not_finite; /* predictions with a number that is none */
    int64_t *order;     /* scratch of `top` */
} predict_out;

/* The format of --format (NULL: by the ending of path; csv for the standard output). CLT_EUSAGE. */
clt_status predict_format_choose(const char *format, const char *path, predict_format *out);
clt_status predict_out_open(predict_out *o);
/* scores: of `samples` samples, as clt_predictor_run gives them. input: the file they come from. */
clt_status predict_out_write(predict_out *o, const char *input, const float *scores, int64_t samples);
/* Makes the file whole; or, when `failed`, removes what there is of it. */
clt_status predict_out_close(predict_out *o, bool failed);

#endif
