/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that other training programs use for what our keys say, and the line to write instead. Knows names
 * and the schema; nothing of a config's values. */
#ifndef ENGINE_CONFIG_CONFIG_FOREIGN_H
#define ENGINE_CONFIG_CONFIG_FOREIGN_H

#include "engine/config/config_internal.h"

/* How a value of the other key becomes one of ours. */
typedef enum clt_foreign_carry {
    CLT_CARRY_SAME, /* as it is, if our key takes it */
    CLT_CARRY_NONE, /* not at all: it means something else, which the note explains */
    CLT_CARRY_WORDS /* translated by the pairs in `words` */
} clt_foreign_carry;

typedef struct clt_foreign_key {
    const char *name;  /* in lower case, with '_' */
    const char *path;  /* our key, or NULL: there is none, the note says why */
    const char *note;  /* what is different, or NULL */
    const char *words; /* CLT_CARRY_WORDS: "cuda=gpu|cpu=cpu" */
    clt_foreign_carry carry;
} clt_foreign_key;

/* The entry for a name, whatever its case, with '-' as '_'; NULL: not a name of another tool that we know. */
const clt_foreign_key *clt_foreign_find(const char *name);

/* Writes the text that sets `path` to the given value: optimizer.learning_rate=0.1, or in a file "optimizer":
 * {"learning_rate": 0.1}. `foreign` may be NULL. False, and an empty line, when our key does not take that
 * value. */
bool clt_foreign_line(const char *path, const clt_foreign_key *foreign, clt_given_value value, char *line,
                      size_t size);

#endif
