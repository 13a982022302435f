/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiple choice with a language model: the model chooses the most likely of several continuations of a
 * text. Tasks are read from JSON Lines and scored as lm-evaluation-harness does. */
#ifndef ENGINE_TRAIN_EVAL_MULTIPLE_CHOICE_H
#define ENGINE_TRAIN_EVAL_MULTIPLE_CHOICE_H

#include "engine/train/job/run_options.h"

typedef struct clt_choices_result {
    int64_t items;
    int64_t right;            /* items whose right choice has the largest log-likelihood */
    int64_t right_normalised; /* items whose right choice has the largest log-likelihood per character */
    int64_t cut;              /* rows whose beginning did not fit into the context */
    int32_t *chosen; /* (2, items): the choice with the largest log-likelihood; the same per character */
    double seconds;
} clt_choices_result;
void clt_choices_result_free(clt_choices_result *result);
CLT_SCOPED_VALUE(clt_choices_result, clt_choices_result_free)

/* Evaluates the parameters of options->init or options->saved on the items of a file. Tasks:
 *   hellaswag  {"activity_label", "ctx_a", "ctx_b", "endings": [...], "label"} (Zellers et al. 2019,
 *              arXiv:1905.07830), with the brackets and spaces of WikiHow texts removed
 *   choices    {"query": TEXT, "choices": [TEXT, ...], "gold": number of the right one, from 0}
 * A choice follows its text after one space; no token is put before the text. most: items, 0: all.
 * The result must be freed after a success. CLT_EUSAGE: the task is unknown, or the model is not a language
 * model with a tokenizer; CLT_EDATA names file and line of an item that cannot be read. */
clt_status clt_evaluate_choices(const clt_run_options *options, const char *task, const char *path,
                                int64_t most, clt_choices_result *result);

#endif
