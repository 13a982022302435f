/* SPDX-License-Identifier: Apache-2.0
 *
 * Other training programs' names for our keys and values, and the line to write instead. Knows names and the
 * schema, but no config's values. */
#ifndef ENGINE_CONFIG_CONFIG_FOREIGN_H
#define ENGINE_CONFIG_CONFIG_FOREIGN_H

#include "engine/config/config_internal.h"

/* The way in which a value of another tool's key becomes a value of our key. */
typedef enum clt_foreign_carry {
    CLT_CARRY_SAME, /* unchanged, if our key takes it */
    CLT_CARRY_NONE, /* not at all: it means something else, which the note explains */
    CLT_CARRY_WORDS /* translated by the pairs in `words` */
} clt_foreign_carry;

typedef struct clt_foreign_key {
    const char *name;  /* the other tool's name, in lower case, with '_' */
    const char *path;  /* our key; NULL: there is none, for the reason in the note */
    const char *note;  /* what is different with our key, or NULL */
    const char *words; /* CLT_CARRY_WORDS: "cuda=gpu|cpu=cpu" */
    clt_foreign_carry carry;
} clt_foreign_key;

/* The entry for a name in any case, with '-' taken as '_'; NULL: not a known name of another tool. */
const clt_foreign_key *clt_foreign_find(const char *name);

/* Words that other tools, or people, use for a value of one of our keys. */
typedef struct clt_foreign_value {
    const char *path;  /* our key */
    const char *words; /* the other tools' words, in lower case, with '_': "transformer|gpt2" */
    const char *ours;  /* our word for it */
    const char *note;  /* what is different with our word, or NULL */
} clt_foreign_value;

/* All such values; the list ends with a NULL path. */
const clt_foreign_value *clt_foreign_values(void);
/* Our word for another tool's word (in any case) for a value of a key; NULL: unknown. *note says what is
 * different, or is NULL. The result may be stored in `buffer`. */
const char *clt_foreign_value_of(const char *path, const char *word, char buffer[64], const char **note);

/* Writes the text that sets `path` to the given value: optimizer.learning_rate=0.1, or in a file
 * "optimizer": {"learning_rate": 0.1}. `foreign` may be NULL. False, and an empty line, when our key does
 * not take that value. */
bool clt_foreign_line(const char *path, const clt_foreign_key *foreign, clt_given_value value, char *line,
                      size_t size);

#endif
