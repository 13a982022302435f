/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of multiple-choice tasks as rows of tokens. Included by multiple_choice.c alone. */
#ifndef ENGINE_TRAIN_EVAL_CHOICE_ITEMS_H
#define ENGINE_TRAIN_EVAL_CHOICE_ITEMS_H

#include "engine/data/tokenizer/tokenizer.h"

#define CLT_CHOICES_TASKS "hellaswag, choices"

/* One choice of an item: the tokens of the item's text, followed by the tokens of the choice. */
typedef struct clt_choice_row {
    size_t begin, count; /* the row's tokens in clt_choice_items.ids */
    size_t scored;       /* number of its last tokens that belong to the choice */
    double characters;   /* length of the choice's text */
} clt_choice_row;

typedef struct clt_choice_item {
    size_t first, count; /* rows */
    int64_t gold;        /* number of the right choice */
} clt_choice_item;

typedef struct clt_choice_items {
    clt_choice_item *item;
    size_t n_items, items_capacity;
    clt_choice_row *row;
    size_t n_rows, rows_capacity;
    clt_ids ids;
} clt_choice_items;

clt_status clt_choices_read(const char *task, const char *path, int64_t most, const clt_tokenizer *tokenizer,
                            clt_choice_items *out);
void clt_choice_items_free(clt_choice_items *items);
CLT_SCOPED_VALUE(clt_choice_items, clt_choice_items_free)

#endif
