/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes pairs of texts from documents of sentences, as in the training of BERT: about half of the second
 * texts, or more, come from another document. It knows nothing of files or masks. */
#ifndef ENGINE_DATA_TOKENS_SENTENCE_PAIRS_H
#define ENGINE_DATA_TOKENS_SENTENCE_PAIRS_H

#include "engine/data/texts/texts.h"
#include "engine/data/tokenizer/tokenizer.h"

/* Documents consist of sentences, and sentences of tokens. Sentence s is id[begin[s]] to id[begin[s + 1] -
 * 1]; document d has the sentences first[d] to first[d + 1] - 1. No document and no sentence is empty. */
typedef struct clt_sentences {
    clt_ids ids;
    size_t *begin, *first;
    size_t n_sentences, n_documents, begin_capacity, first_capacity;
} clt_sentences;

/* Encodes texts with one sentence on each line and an empty line between two documents; the end of a file
 * ends a document, too. `tell`, which may be NULL, gets the number of bytes of text that are done. */
typedef clt_status (*clt_sentences_tell)(void *context, uint64_t bytes);
clt_status clt_sentences_read(const clt_texts *texts, const clt_tokenizer *tokenizer, clt_sentences_tell tell,
                              void *context, clt_sentences *out);
void clt_sentences_free(clt_sentences *s);
CLT_SCOPED_VALUE(clt_sentences, clt_sentences_free)

typedef struct clt_pairing {
    int64_t context;           /* limit of tokens in [CLS] A [SEP] B [SEP] */
    double shorter;            /* share of documents whose pairs get a random, shorter length */
    int64_t copies;            /* number of times that the text is paired, each time differently */
    uint64_t seed;             /* pairs depend only on the seed, the copy and the document */
    uint32_t begin, separator; /* ids of [CLS] and [SEP] */
} clt_pairing;

/* Calls `put` for each pair made from the documents [from, to), at least two. `ids` has `length` tokens,
 * [CLS] A [SEP] B [SEP]; the first `first` of them are [CLS] A [SEP]. `random`: B does not follow A; it
 * comes from one of these documents, nearly always another one. */
typedef clt_status (*clt_pair_sink)(void *context, const uint32_t *ids, int64_t first, int64_t length,
                                    bool random);
clt_status clt_pairs_make(const clt_sentences *s, const clt_pairing *how, size_t from, size_t to,
                          clt_pair_sink put, void *context);

#endif
