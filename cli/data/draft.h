/* SPDX-License-Identifier: Apache-2.0
 *
 * A config that the program writes for a user: keys with values, in the sections and in the order in which
 * people write them, other sections last. It knows nothing of data. */
#ifndef CLI_DATA_DRAFT_H
#define CLI_DATA_DRAFT_H

#include "engine/base/mem.h"

#define DRAFT_MAX 320

typedef struct draft_entry {
    const char *key;   /* "model.type" */
    const char *value; /* JSON */
} draft_entry;

typedef struct draft {
    clt_arena *arena;
    draft_entry entry[DRAFT_MAX];
    int count;
    bool failed; /* out of memory: draft_write says so */
} draft;

clt_status draft_open(draft *d);
void draft_close(draft *d);
CLT_SCOPED_VALUE(draft, draft_close)

/* Each of the functions below sets a key, or replaces its value. */
void draft_text(draft *d, const char *key, const char *value);
void draft_int(draft *d, const char *key, int64_t value);
void draft_number(draft *d, const char *key, double value);
void draft_bool(draft *d, const char *key, bool value);
void draft_ints(draft *d, const char *key, const int64_t *values, int count);
void draft_numbers(draft *d, const char *key, const double *values, int count);
void draft_texts(draft *d, const char *key, const char *const *values, int count);
/* Sets a key to the JSON text `json`, which must live as long as the draft. */
void draft_json(draft *d, const char *key, const char *json);
/* Removes a key. */
void draft_remove(draft *d, const char *key);

/* The JSON of a key, "" if it is not set. */
const char *draft_value(const draft *d, const char *key);

/* Sets the keys of a small GPT that trains in minutes on a CPU: model, batch, optimizer, schedule and steps.
 * tokens: size of the training text; the number of steps lets the training read the text at most 50 times,
 * but is never below 100. */
void draft_gpt(draft *d, uint64_t tokens, bool has_eval);

/* Appends the config. probe: appends only the section `data`, with a model that accepts any data, to find
 * out what the data holds; sequences of text then have model.context tokens, or 16 without it. */
clt_status draft_write(const draft *d, bool probe, clt_str *out);
/* CLT_EUSAGE if there is a file or folder at the path: a config is never overwritten. */
clt_status draft_place(const char *path);
/* Writes the config to a file that does not exist yet; CLT_EUSAGE if it does. */
clt_status draft_save(const draft *d, const char *path);

#endif
