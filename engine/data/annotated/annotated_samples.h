/* SPDX-License-Identifier: Apache-2.0
 *
 * The annotated texts of a split, which all cores encode when they are opened; the numbers of their classes;
 * and the samples that are made of them: one for each record, or one for each window of a long context. */
#ifndef ENGINE_DATA_ANNOTATED_ANNOTATED_SAMPLES_H
#define ENGINE_DATA_ANNOTATED_ANNOTATED_SAMPLES_H

#include "engine/data/annotated/annotated_record.h"
#include "engine/data/data.h"
#include "engine/data/records/text_records.h"

/* A sample of a record: the tokens of its context from `begin` on. */
typedef struct clt_annotated_window {
    int64_t record, begin;
} clt_annotated_window;

typedef struct clt_annotated_samples {
    clt_texts texts;
    clt_record_part part;
    clt_tokenizer *tokenizer;
    clt_annotated_rules rules;
    clt_arena *arena;
    clt_annotated *record;        /* (part.count) */
    clt_annotated_window *window; /* (n_windows) windows of the records that can be used */
    int64_t n_windows;
    int64_t bad, cut; /* records that cannot be used; records that were cut */
} clt_annotated_samples;

/* The classes or labels: how many there are, and their names in order (NULL: labels are numbers). */
typedef struct clt_annotated_classes {
    const char **name;
    int64_t count;
} clt_annotated_classes;

/* Opens and encodes the records of a split. A record that cannot be used keeps the reason (`why`). CLT_EDATA:
 * a file cannot be read, or the tokenizer lacks [CLS], [SEP] or [PAD]. Free `out`, also after a failure. */
clt_status clt_annotated_open(const clt_config *config, clt_split split, clt_annotated_samples *out);
/* Learns the classes from the labels: the names sorted by bytes, or 0 to the largest number. A record whose
 * labels are of another kind than the first record's becomes bad. CLT_EDATA: no word has a label. */
clt_status clt_annotated_learn(clt_annotated_samples *s, clt_arena *arena, clt_annotated_classes *out);
/* Fills in the numbers of all labels; records whose label is none of the classes become bad. */
clt_status clt_annotated_number(clt_annotated_samples *s, const clt_annotated_classes *classes);
/* Lists the samples of all records that can be used. */
clt_status clt_annotated_list(clt_annotated_samples *s);
void clt_annotated_samples_free(clt_annotated_samples *s);
CLT_SCOPED_VALUE(clt_annotated_samples, clt_annotated_samples_free)

#endif
