/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions of a trained classifier or regression: runs the evaluation plan with the weights of a saved
 * run and reads the prediction (the input of the first loss) after each micro-batch. */
#ifndef ENGINE_TRAIN_EVAL_PREDICT_H
#define ENGINE_TRAIN_EVAL_PREDICT_H

#include "engine/checkpoint/saved_run.h"
#include "engine/train/run/run.h"

typedef enum clt_predict_kind {
    CLT_PREDICT_CLASSES, /* probabilities of the classes, which add up to 1 */
    CLT_PREDICT_YES_NO,  /* each output is the probability of yes, independently of the others */
    CLT_PREDICT_VALUES   /* numbers in the unit of the targets */
} clt_predict_kind;

typedef struct clt_predictor {
    clt_predict_kind kind;
    clt_shape input;  /* shape of one sample, as in training */
    clt_dtype dtype;  /* type of the field x */
    int64_t bound;    /* integers of x are indices below this bound; 0: they are numbers */
    bool texts;       /* the samples are annotated texts: use predict_texts.h instead of clt_predictor_run */
    bool flattens;    /* the model accepts samples of any shape with the same number of elements */
    int64_t elements; /* numbers of one input sample */
    /* predictions per sample: 1, except for models that predict positions of a sequence */
    int64_t rows;
    int64_t outputs;     /* numbers per prediction */
    int64_t micro_batch; /* samples of a micro-batch */
    /* private */
    const clt_saved_run *saved;
    clt_source *shapes;
    clt_run_options options;
    clt_run *run;
    int64_t padded;     /* outputs of the model, including padding */
    double *mean, *std; /* each number of a sample becomes (number - mean) / std */
    bool classes_first; /* the outputs are dimension 1 of the model's prediction, before the positions */
    void *x;
    float *y, *row; /* the model's prediction; with classes_first, the outputs of one row */
} clt_predictor;

/* Finds out what the run predicts, without a device. saved: must be open with its tensors; borrowed.
 * CLT_EUSAGE for language models, which generate text instead. */
clt_status clt_predictor_open(const clt_saved_run *saved, clt_predictor **out);
/* Opens the device, builds the evaluation plan and loads the weights. */
clt_status clt_predictor_start(clt_predictor *p, const char *device_spec, uint32_t caps,
                               const clt_observer *observer);
void clt_predictor_close(clt_predictor *p); /* NULL is fine */
CLT_SCOPED_POINTER(clt_predictor, clt_predictor_close)
/* The name of a class in the training data; NULL if it has none. */
const char *clt_predictor_class(const clt_predictor *p, int64_t index);
/* To be called when the input file `path` holds bytes. CLT_ECONFIG: the run was trained on floats and leaves
 * data.scale to the data, so it is not known whether the bytes need a scale. */
clt_status clt_predictor_check_bytes(const clt_predictor *p, const char *path);
/* The scale by which the run multiplies integers before mean and std; 1: none, or its inputs are floats or
 * indices. */
double clt_predictor_scale(const clt_predictor *p);
/* x: (samples, elements) numbers as the data holds them; data.scale, mean and std of the run are applied
 * here. out: (samples, rows, outputs) probabilities or values. first: number of the first sample, for
 * messages. CLT_EDATA for a number that the input type of the run cannot represent. */
clt_status clt_predictor_run(clt_predictor *p, const double *x, int64_t samples, int64_t first, float *out);

/* Sets out[0] to out[n - 1] to the softmax of the logits. */
void clt_softmax(const float *logits, int64_t n, float *out);
/* Runs one micro-batch of the evaluation plan. x: in the type of the field x. out: the prediction as f32.
 * The run must have been created with options->predicts. */
clt_status clt_run_predict(clt_run *run, const void *x, float *out);

#endif
