/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions for texts in JSON Lines by a run that was trained on annotated texts: a class for each text,
 * labels for words, or answers to questions. Records need no labels or answers. */
#ifndef ENGINE_TRAIN_EVAL_PREDICT_TEXTS_H
#define ENGINE_TRAIN_EVAL_PREDICT_TEXTS_H

#include "engine/data/annotated/annotated_record.h"
#include "engine/train/eval/predict.h"

typedef struct clt_text_prediction {
    clt_annotated_task task;
    int64_t number; /* number of the record in the file, from 0 */
    const clt_annotated *record;
    /* class: (outputs) probabilities. tokens: (n_words, outputs); words without a token have NAN */
    const float *scores;
    const char *answer; /* span: borrowed, not terminated */
    size_t answer_size;
    double answer_score; /* span: the sum of two logits; -INFINITY: there is no answer */
} clt_text_prediction;

/* Calls `tell` for each record of the file, in order, with a started predictor whose `texts` is true.
 * CLT_EDATA names the file and the line of a record that cannot be read. */
typedef clt_status (*clt_text_tell)(void *context, const clt_text_prediction *prediction);
clt_status clt_predictor_texts(clt_predictor *p, const char *path, clt_text_tell tell, void *context);

#endif
