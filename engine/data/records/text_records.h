/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that a config names as its samples, in JSON or another form (record_forms.h): their files,
 * the part of them that belongs to a split, and what happens with records that cannot be used. It knows
 * nothing of the content of records. */
#ifndef ENGINE_DATA_RECORDS_TEXT_RECORDS_H
#define ENGINE_DATA_RECORDS_TEXT_RECORDS_H

#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/data/texts/texts.h"

typedef struct clt_record_part {
    const char *key;      /* the config key that names the files */
    int64_t first, count; /* the split's documents */
} clt_record_part;

/* Opens the files of a split: data.eval_path, or a part of data.path (data.split): the last part for
 * evaluation, the rest for training. Each line that is not blank is a document. `texts` must be zero except
 * for `cut`, a function that gets the config as `cut_with`; the caller frees `texts`, also after a failure.
 * CLT_ECONFIG: the config names no file for the split. */
clt_status clt_records_open(const clt_config *config, clt_split split, clt_texts *texts,
                            clt_record_part *part);
/* The key that names the files of a split. */
const char *clt_records_key(const clt_config *config, clt_split split);
/* Appends "'chats.jsonl', line 17", or for SQuAD's JSON "'dev.json', byte 90210, question 3". */
void clt_record_place(const clt_texts *texts, int64_t document, clt_str *out);
/* Decides what happens with a part in which `bad` records cannot be used. The first of them is `document`,
 * for the reason `why`. Warns that they are skipped if data.on_bad_sample is skip and other records remain,
 * else fails with CLT_EDATA. Does nothing if `bad` is 0. */
clt_status clt_records_judge(const clt_config *config, const clt_texts *texts, const clt_record_part *part,
                             int64_t bad, int64_t document, const char *why);
/* True if evaluation data is a part of data.path. */
bool clt_records_has_eval(const clt_config *config);

#endif
