/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens of a text are masked, and what stands in their place: a pure function of seed, epoch and
 * sample. It knows nothing of files. */
#ifndef ENGINE_DATA_TOKENS_MASKING_H
#define ENGINE_DATA_TOKENS_MASKING_H

#include "engine/data/data.h"
#include "engine/data/tokenizer/tokenizer.h"

typedef struct clt_masking {
    const clt_tokenizer *tokenizer;
    double share;                    /* of the tokens, [CLS] and [SEP] among them, that are masked */
    int64_t most;                    /* masked tokens of a sample, at most */
    bool whole_words;                /* the pieces of a word are masked together */
    uint32_t mask, begin, separator; /* ids of [MASK], [CLS], [SEP] */
} clt_masking;

/* How many tokens of a text of `length` tokens are masked: min(most, max(1, round(length * share))), halves
 * to the even number; with whole words perhaps fewer, and never more than the text has beside [CLS] and
 * [SEP]. */
int64_t clt_masking_count(const clt_masking *how, int64_t length);

/* Masks the text id[0] to id[length - 1]: of the chosen tokens 80 of 100 become [MASK], 10 a random token of
 * the whole vocabulary, and 10 stay. place, target: room for how->most numbers; the places in ascending order
 * and the tokens that stood there. scratch: room for `length` numbers. Returns the number of places. */
int64_t clt_mask_tokens(const clt_masking *how, clt_draw draw, int64_t sample, uint32_t *id, int64_t length,
                        int32_t *place, int32_t *target, int32_t *scratch);

#endif
