/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions of a trained classifier or regression: the evaluation plan over the weights of a saved run,
 * whose prediction (the input of the first loss) is read after each micro-batch. */
#ifndef ENGINE_TRAIN_PREDICT_H
#define ENGINE_TRAIN_PREDICT_H

#include "engine/train/run/run.h"
#include "engine/checkpoint/saved_run.h"

typedef enum clt_predict_kind {
    CLT_PREDICT_CLASSES, /* one of `outputs` classes: probabilities that add up to 1 */
    CLT_PREDICT_YES_NO,  /* each output by itself: the probability of yes */
    CLT_PREDICT_VALUES   /* numbers in the unit of the targets */
} clt_predict_kind;

typedef struct clt_predictor {
    clt_predict_kind kind;
    clt_shape input;     /* of one sample, as the run was trained */
    clt_dtype dtype;     /* of the field x */
    int64_t bound;       /* integers of x are indices below it; 0: they are numbers */
    bool flattens;       /* the model takes any shape with as many elements */
    int64_t elements;    /* of one input sample */
    int64_t rows;        /* predictions of one sample: 1 but for models that predict places of a sample */
    int64_t outputs;     /* numbers of a prediction */
    int64_t micro_batch; /* samples computed at once */
    /* private */
    const clt_saved_run *saved;
    clt_source *shapes;
    clt_run_options options;
    clt_run *run;
    int64_t padded; /* numbers of a prediction as the model gives them */
    void *x;
    float *y;
} clt_predictor;

/* Opens no device: what the run predicts. saved: opened with its tensors, borrowed. CLT_EUSAGE for language
 * models, which generate. */
clt_status clt_predictor_open(const clt_saved_run *saved, clt_predictor **out);
/* Opens the device, builds the evaluation plan and loads the weights. */
clt_status clt_predictor_start(clt_predictor *p, const char *device_spec, uint32_t caps,
                               const clt_observer *observer);
void clt_predictor_close(clt_predictor *p); /* NULL is fine */
/* The name of a class, as the training data had it; NULL: it has none. */
const char *clt_predictor_class(const clt_predictor *p, int64_t index);
/* x: `samples` (any number) times elements numbers, as they are stored: data.scale, mean and std of the run
 * apply here. out: samples times rows times outputs probabilities or values. first: number of the first
 * sample, for messages. CLT_EDATA for a number that the run's type of input cannot hold. */
clt_status clt_predictor_run(clt_predictor *p, const double *x, int64_t samples, int64_t first, float *out);

/* One micro-batch of the evaluation plan: x as the field of that name holds it, out the prediction as f32.
 * The run was made with options->predicts. */
clt_status clt_run_predict(clt_run *run, const void *x, float *out);

#endif
