/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a byte-level BPE tokenizer on the user's own text: counts the words of all added texts, then
 * merges the most frequent pair of neighbours, again and again. The result is a pure function of the
 * text: among equally frequent pairs the one with the smaller ids is merged first. It knows nothing of
 * files. */
#ifndef ENGINE_DATA_TOKENIZER_BPE_TRAIN_H
#define ENGINE_DATA_TOKENIZER_BPE_TRAIN_H

#include "engine/data/tokenizer/tokenizer.h"

typedef struct clt_bpe_trainer clt_bpe_trainer;

clt_status clt_bpe_trainer_create(clt_bpe_trainer **out);
void clt_bpe_trainer_destroy(clt_bpe_trainer *trainer);
CLT_SCOPED_POINTER(clt_bpe_trainer, clt_bpe_trainer_destroy)
/* Counts the words of a text; cut long texts with clt_tokenize_cut. */
clt_status clt_bpe_trainer_add(clt_bpe_trainer *trainer, const char *text, size_t size);

/* Called regularly with the number of merges so far and their total; any status but CLT_OK ends the training
 * with that status. */
typedef clt_status (*clt_bpe_progress)(void *context, uint32_t merges, uint32_t of);
/* clt_bpe_trainer_run: makes a vocabulary of `vocab` tokens: the 256 bytes, vocab - 257 results of merges,
 * and "<|endoftext|>" as the last one. It has fewer tokens if at some point no pair occurs twice. Afterwards
 * the trainer can only be destroyed. CLT_EUSAGE: `vocab` is below 257 or above CLT_TOKENIZER_MAX_VOCAB.
 * CLT_EDATA: no text was added. */
clt_status clt_bpe_trainer_run(clt_bpe_trainer *trainer, int64_t vocab, clt_bpe_progress progress,
                               void *context, clt_tokenizer **out);

#endif
