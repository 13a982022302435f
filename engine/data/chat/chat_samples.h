/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of JSON as samples of tokens, which all cores encode when files are opened. It knows nothing of
 * rows and batches. */
#ifndef ENGINE_DATA_CHAT_CHAT_SAMPLES_H
#define ENGINE_DATA_CHAT_CHAT_SAMPLES_H

#include "engine/config/config.h"
#include "engine/data/chat/chat_text.h"
#include "engine/data/data.h"
#include "engine/data/records/text_records.h"

#define CLT_CHAT_TRAINED 0x80000000u /* a bit in a token: the token is a target of the training */

typedef struct clt_chat_sample {
    int64_t document; /* number of its document in the texts */
    int64_t begin;    /* index of its first token in the list of all tokens */
    int64_t count;    /* number of tokens, at most context + 1 */
    int64_t targets;  /* number of trained tokens, without the first token */
    int64_t cut;      /* number of tokens that were cut, since it was too long */
    char *why;        /* why it cannot be used as a sample; NULL: it can */
} clt_chat_sample;

typedef struct clt_chat_samples {
    clt_texts texts;
    clt_tokenizer *tokenizer;
    clt_chat_rules rules;
    clt_arena *arena;
    int64_t context;         /* the longest sample has context + 1 tokens: the last one is a target only */
    bool truncate;           /* samples that are too long are cut; false: they are refused */
    clt_record_part part;    /* the records of this split */
    clt_chat_sample *sample; /* (part.count) */
    uint32_t *tokens;        /* tokens of all samples, each with CLT_CHAT_TRAINED if it is trained */
    int64_t n_tokens;
    int64_t bad, cut; /* samples that cannot be used; samples that were cut */
    int64_t special;  /* samples whose text contains the name of a special token as plain text */
} clt_chat_samples;

/* Opens and encodes the records of a split. The member `why` of a record that cannot be used gets the
 * reason. CLT_EDATA: a file cannot be read, or the tokenizer does not suit the template. Free `out`, also
 * after a failure. */
clt_status clt_chat_samples_open(const clt_config *config, clt_split split, clt_chat_samples *out);
void clt_chat_samples_free(clt_chat_samples *samples);
CLT_SCOPED_VALUE(clt_chat_samples, clt_chat_samples_free)

#endif
