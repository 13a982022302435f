/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing: which samples share a row of a batch. A pure function of the samples' lengths; it knows no
 * tokens. */
#ifndef ENGINE_DATA_CHAT_CHAT_ROWS_H
#define ENGINE_DATA_CHAT_CHAT_ROWS_H

#include "engine/base/mem.h"
#include "engine/base/scope.h"

typedef enum clt_chat_packing {
    /* best fit decreasing: the longest sample first, each into the fullest row that has room */
    CLT_CHAT_BEST,
    CLT_CHAT_NEXT, /* samples in their order: one that does not fit into the current row begins the next */
    CLT_CHAT_NONE  /* one sample in each row */
} clt_chat_packing;

/* Row r holds the samples sample[first[r]] to sample[first[r + 1] - 1]. */
typedef struct clt_chat_rows {
    int64_t count;
    int64_t *first;  /* (count + 2), the last one unused */
    int64_t *sample; /* (samples) */
} clt_chat_rows;

/* Packs n samples of length[i] <= room tokens into rows of `room` tokens. The result depends only on the
 * lengths. Free it with clt_chat_rows_free. */
clt_status clt_chat_pack(const int64_t *length, int64_t n, int64_t room, clt_chat_packing how,
                         clt_chat_rows *out);
void clt_chat_rows_free(clt_chat_rows *rows);
CLT_SCOPED_VALUE(clt_chat_rows, clt_chat_rows_free)

#endif
