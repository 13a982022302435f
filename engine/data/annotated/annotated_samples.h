/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the annotated texts of a split, numbers their classes, and lists their samples: one for each record,
 * or one for each window of a long context. All cores encode the texts when they are opened. */
#ifndef ENGINE_DATA_ANNOTATED_ANNOTATED_SAMPLES_H
#define ENGINE_DATA_ANNOTATED_ANNOTATED_SAMPLES_H

#include "engine/data/annotated/annotated_record.h"
#include "engine/data/data.h"
#include "engine/data/records/text_records.h"

/* A sample: a record, and the token of its context with which the sample's window begins. */
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

/* The classes or labels: their number, and their names in order (NULL: labels are numbers). */
typedef struct clt_annotated_classes {
    const char **name;
    int64_t count;
} clt_annotated_classes;

/* Opens and encodes the records of a split. The member `why` of a record that cannot be used gets the
 * reason. CLT_EDATA: a file cannot be read, or the tokenizer lacks [CLS], [SEP] or [PAD]. Free `out`, also
 * after a failure. */
clt_status clt_annotated_open(const clt_config *config, clt_split split, clt_annotated_samples *out);
/* Learns the classes from the labels: all names, sorted by bytes, or the numbers from 0 to the largest one.
 * A record becomes bad if its labels are names and the first record's are numbers, or the reverse.
 * CLT_EDATA: no word has a label, or the largest number is too large. */
clt_status clt_annotated_learn(clt_annotated_samples *s, clt_arena *arena, clt_annotated_classes *out);
/* Fills in the numbers of all labels; a record with a label that is not one of the classes becomes bad. */
clt_status clt_annotated_number(clt_annotated_samples *s, const clt_annotated_classes *classes);
/* Lists the samples of all records that can be used. */
clt_status clt_annotated_list(clt_annotated_samples *s);
void clt_annotated_samples_free(clt_annotated_samples *s);
CLT_SCOPED_VALUE(clt_annotated_samples, clt_annotated_samples_free)

#endif
