/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to questions from the logits of a bert with model.head span: the best part of the context over all
 * windows of a record, and its exact match and F1 against the answers that people gave. Source of both
 * figures: Rajpurkar et al. 2016, arXiv:1606.05250. */
#ifndef ENGINE_TRAIN_EVAL_ANSWERS_H
#define ENGINE_TRAIN_EVAL_ANSWERS_H

#include "engine/data/annotated/source_annotated.h"

typedef struct clt_answer {
    double score;        /* logits of the answer's first and last token, added; -INFINITY: no answer yet */
    double none;         /* smallest sum of [CLS]'s two logits in a window; INFINITY: no window yet */
    int64_t first, last; /* first and last token of the answer, as indices into the context */
} clt_answer;

void clt_answer_begin(clt_answer *answer);
/* Looks for a better answer in a window. logits: (2, context), the row of the window. most: the longest
 * answer allowed, in tokens. Ties go to the answer that was found first. */
void clt_answer_take(clt_answer *answer, const clt_annotated_place *place, const float *logits,
                     int64_t context, int64_t most);
/* Sets *text (borrowed) and *size to the part of the context that is the answer. unanswerable: the answer is
 * empty (size 0) if `none` is larger than the score. */
void clt_answer_text(const clt_answer *answer, const clt_annotated *record, bool unanswerable,
                     const char **text, size_t *size);
/* Compares an answer with the answers of a record as the evaluation script of SQuAD 2.0 does: in lower case
 * (of all scripts), ignoring ASCII punctuation, white space and the articles a, an and the. *exact is 1 if
 * it equals one of them. *f1 is the best harmonic mean of precision and recall of its words. If the record
 * has no answer with a word, an answer without words is right. */
clt_status clt_answer_compare(const char *text, size_t size, const clt_annotated *record, double *exact,
                              double *f1);

#endif
