/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the tokens of a text that are masked, and their replacements: a pure function of seed, epoch and
 * sample. It knows nothing of files. */
#ifndef ENGINE_DATA_TOKENS_MASKING_H
#define ENGINE_DATA_TOKENS_MASKING_H

#include "engine/data/data.h"
#include "engine/data/tokenizer/tokenizer.h"

typedef struct clt_masking {
    const clt_tokenizer *tokenizer;
    double share;                    /* share of the tokens, including [CLS] and [SEP], that is masked */
    int64_t most;                    /* limit of masked tokens in a sample */
    bool whole_words;                /* the pieces of a word are masked together */
    uint32_t mask, begin, separator; /* ids of [MASK], [CLS], [SEP] */
} clt_masking;

/* Number of masked tokens in a text of `length` tokens: min(most, max(1, round(length * share))), where
 * halves round to even. Whole words can make it smaller, and it is never more than the number of tokens
 * other than [CLS] and [SEP]. */
int64_t clt_masking_count(const clt_masking *how, int64_t length);

/* Masks the text id[0] to id[length - 1]: of the chosen tokens 80 % become [MASK], 10 % a random token of
 * the whole vocabulary, and 10 % stay. `place` and `target`, each with room for how->most numbers, get the
 * places in ascending order and the original tokens there. `scratch`: room for `length` numbers. Returns the
 * number of places. */
int64_t clt_mask_tokens(const clt_masking *how, clt_draw draw, int64_t sample, uint32_t *id, int64_t length,
                        int32_t *place, int32_t *target, int32_t *scratch);

#endif
