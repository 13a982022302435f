/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes files of pairs of texts, which `cltrain data prepare --mlm` writes and data.type mlm
 * reads: a header of CLT_PAIR_HEADER bytes, then records of equal size, all little-endian. A record holds
 * the tokens [CLS] A [SEP] B [SEP], the length of [CLS] A [SEP], the whole length, and whether B follows
 * A in the text. It knows nothing of masks. */
#ifndef ENGINE_DATA_TOKENS_PAIR_FILE_H
#define ENGINE_DATA_TOKENS_PAIR_FILE_H

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/status.h"

#define CLT_PAIR_HEADER 64
#define CLT_PAIR_LEAST 5       /* tokens of the shortest pair: [CLS] a [SEP] b [SEP] */
#define CLT_PAIR_CONTEXT 16384 /* the longest record, in tokens */
#define CLT_PAIR_ENDING ".pairs"

typedef struct clt_pair_header {
    int width;          /* bytes of a token: 2 or 4 */
    int64_t context;    /* room of a record, in tokens */
    int64_t records;    /* pairs */
    uint32_t vocab;     /* number of the tokenizer's tokens */
    uint64_t tokenizer; /* clt_tokenizer_hash */
} clt_pair_header;

typedef struct clt_pair {
    int64_t first;  /* number of tokens of [CLS] A [SEP] */
    int64_t length; /* number of tokens of the whole pair */
    bool random;    /* B does not follow A in the text */
    const uint8_t *tokens;
} clt_pair;

/* Reads the header and compares it with the file's size; the message of CLT_EDATA names file and reason. */
clt_status clt_pair_parse(const char *path, const uint8_t *bytes, uint64_t size, clt_pair_header *out);
/* Record `index` of the file whose first byte is at `bytes`; CLT_EDATA: its lengths are impossible. */
clt_status clt_pair_at(const char *path, const clt_pair_header *h, const uint8_t *bytes, int64_t index,
                       clt_pair *out);
/* Token `at` of a record. */
static inline uint32_t clt_pair_token(const clt_pair_header *h, const clt_pair *pair, int64_t at)
{
    const uint8_t *p = pair->tokens + (size_t)at * (size_t)h->width;
    uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    return h->width == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* Offset of a record in the file, in bytes. */
uint64_t clt_pair_offset(const clt_pair_header *h, int64_t index);

/* A writer. The header, which contains the number of records, is written last, so that an incomplete file
 * has no header. */
typedef struct clt_pair_writer clt_pair_writer;
clt_status clt_pair_writer_create(const char *path, const clt_pair_header *header, clt_pair_writer **out);
/* Appends a pair; `ids`: its `length` tokens. */
clt_status clt_pair_writer_put(clt_pair_writer *w, const uint32_t *ids, int64_t first, int64_t length,
                               bool random);
clt_status clt_pair_writer_finish(clt_pair_writer *w);
int64_t clt_pair_writer_count(const clt_pair_writer *w);
void clt_pair_writer_destroy(clt_pair_writer *w); /* NULL is fine */
CLT_SCOPED_POINTER(clt_pair_writer, clt_pair_writer_destroy)

#endif
