/* SPDX-License-Identifier: Apache-2.0
 *
 * What evaluation and prediction need from an open source of annotated texts: the records, and the places of
 * a sample's tokens in its row. */
#ifndef ENGINE_DATA_ANNOTATED_SOURCE_ANNOTATED_H
#define ENGINE_DATA_ANNOTATED_SOURCE_ANNOTATED_H

#include "engine/data/annotated/annotated_samples.h"

/* A sample: [CLS] A [SEP], or [CLS] A [SEP] and a part of B, then [SEP]. */
typedef struct clt_annotated_place {
    const clt_annotated *record;
    int64_t number;  /* number of the record */
    int64_t begin;   /* the first token of B (or of A if there is no B) in this sample */
    int64_t context; /* place of that first token in the row */
    int64_t tokens;  /* tokens of B (or of A if there is no B) in this sample */
    int64_t length;  /* number of tokens in the row without padding */
} clt_annotated_place;
clt_annotated_place clt_annotated_place_of(const clt_annotated_samples *samples, int64_t index);

/* True if the data are questions with answers in texts. */
bool clt_annotated_spans(const clt_config *config);

extern const clt_source_type clt_source_annotated;
/* The samples of an open source of this type. */
const clt_annotated_samples *clt_annotated_of(const clt_source *source);

#endif
