/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of predictions as csv, JSON lines or npy, to the standard output or to a file, which appears only
 * when it is complete. Knows numbers and names of columns, no model. */
#ifndef CLI_SCREEN_PREDICT_OUT_H
#define CLI_SCREEN_PREDICT_OUT_H

#include <stdio.h>

#include "engine/base/mem.h"
#include "engine/train/eval/predict.h"

typedef enum predict_format { PREDICT_CSV, PREDICT_JSONL, PREDICT_NPY } predict_format;

typedef struct predict_out {
    const clt_predictor *of;
    predict_format format;
    int64_t top;      /* only this many of the most likely classes; 0: all, in their order */
    bool files;       /* there are several inputs, or a folder of them, so each line names its own */
    const char *path; /* NULL: the standard output */
    char *partial;    /* temporary name until the file is complete; NULL: written in place */
    FILE *file;
    int64_t samples;
    int64_t not_finite; /* number of predictions with a NaN or infinity */
    int64_t *order;     /* scratch of `top` */
} predict_out;

/* Chooses the format: that of --format (NULL: by the ending of path; csv for the standard output).
 * CLT_EUSAGE. */
clt_status predict_format_choose(const char *format, const char *path, predict_format *out);
clt_status predict_out_open(predict_out *o);
/* scores: of `samples` samples, as clt_predictor_run returns them. input: the file that the samples come
 * from. */
clt_status predict_out_write(predict_out *o, const char *input, const float *scores, int64_t samples);
/* Completes the file; if `failed`, removes it instead. */
clt_status predict_out_close(predict_out *o, bool failed);

#endif
