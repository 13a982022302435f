/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds real text on this machine for the demo: licence texts, C headers, scripts. */
#ifndef CLI_DATA_DEMO_TEXT_H
#define CLI_DATA_DEMO_TEXT_H

#include <stddef.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

#define DEMO_MAX_FOLDERS 8

typedef struct demo_text {
    char **train, **eval; /* paths of the files */
    size_t n_train, n_eval, train_capacity, eval_capacity;
    size_t train_count[256], eval_count[256]; /* number of occurrences of each byte */
    size_t train_bytes, eval_bytes;
    const char *folder[DEMO_MAX_FOLDERS]; /* the places that the text comes from */
    size_t folder_bytes[DEMO_MAX_FOLDERS];
    int folder_files[DEMO_MAX_FOLDERS];
    int n_folders;
} demo_text;

/* Collects up to `limit` bytes; CLT_EDATA if there is too little for a demonstration. Every tenth file is
 * used for validation. */
clt_status demo_text_find(size_t limit, demo_text *out);
void demo_text_free(demo_text *text);
/* The loss of predicting each byte of the validation text by its frequency in the training text, in nats per
 * byte. */
double demo_text_unigram(const demo_text *text);

#endif
