/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to questions from the logits of a bert with model.head span: the best part of the context over all
 * windows of a record, and its exact match and F1 against the answers that people gave. Source of both
 * figures: Rajpurkar et al. 2016, arXiv:1606.05250. */
#ifndef ENGINE_TRAIN_EVAL_ANSWERS_H
#define ENGINE_TRAIN_EVAL_ANSWERS_H

#include "engine/data/annotated/source_annotated.h"

typedef struct clt_answer {
    double score;        /* sum of the logits of the first and the last token; -INFINITY: there is none */
    double none;         /* the lowest sum of both logits of [CLS] over the windows; INFINITY: no window */
    int64_t first, last; /* first and last token, as indices into the context */
} clt_answer;

void clt_answer_begin(clt_answer *answer);
/* Looks for a better answer in a window. logits: (2, context) of the row. most: the longest answer allowed,
 * in tokens. Ties go to the answer that was found first. */
void clt_answer_take(clt_answer *answer, const clt_annotated_place *place, const float *logits,
                     int64_t context, int64_t most);
/* Sets *text, borrowed, and *size to the answer's part of the context. unanswerable: gives the empty answer
 * (size 0) if `none` is larger than the score. */
void clt_answer_text(const clt_answer *answer, const clt_annotated *record, bool unanswerable,
                     const char **text, size_t *size);
/* Compares an answer with the answers of a record as the evaluation script of SQuAD 2.0 does: in lower case
 * (of all scripts), ignoring ASCII punctuation, white space and the articles a, an and the. *exact is 1 if
 * it equals one of them, *f1 the best harmonic mean of the shares of words that both have. A record without
 * answers, or whose answers have no word left, expects an answer without words. */
clt_status clt_answer_compare(const char *text, size_t size, const clt_annotated *record, double *exact,
                              double *f1);

#endif
