/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the schema: the keys that one word of a choice such as data.type brings, and the rules between
 * them. A part is defined beside the code that does the work (engine/data/tables/csv_config.c) and listed by
 * name (families.def, formats.def); the schema is composed of the common keys (schema.c) and all parts.
 * Several parts may bring the same key, with the same type and default in each. The schema then accepts every
 * value that any of them accepts, and the rules of the chosen part decide. */
#ifndef ENGINE_CONFIG_PART_H
#define ENGINE_CONFIG_PART_H

#include "engine/config/config.h"

/* Rows of a table of keys. `u` is the unit. `low` and `high` are allowed values unless the flags of
 * FLOAT_OPEN exclude them. The words of a CHOICE whose `words` are NULL are the names of its parts. */
#define CLT_KEY_CHOICE(key, words, preset, text)                                                             \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_CHOICE, .choices = words, .default_text = preset, .unit = "",           \
        .help = text                                                                                         \
    }
#define CLT_KEY_INT(key, low, high, preset, u, text)                                                         \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_INT, .default_text = preset, .min = low, .max = high, .unit = u,        \
        .help = text                                                                                         \
    }
#define CLT_KEY_FLOAT(key, low, high, preset, u, text)                                                       \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_FLOAT, .default_text = preset, .min = low, .max = high, .unit = u,      \
        .help = text                                                                                         \
    }
#define CLT_KEY_FLOAT_OPEN(key, low, open_low, high, open_high, preset, u, text)                             \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_FLOAT, .default_text = preset, .min = low, .max = high,                 \
        .min_exclusive = open_low, .max_exclusive = open_high, .unit = u, .help = text                       \
    }
#define CLT_KEY_BOOL(key, preset, text)                                                                      \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_BOOL, .default_text = preset, .unit = "", .help = text                  \
    }
#define CLT_KEY_STRING(key, preset, text)                                                                    \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_STRING, .default_text = preset, .unit = "", .help = text                \
    }
#define CLT_KEY_STRINGS(key, preset, text)                                                                   \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_STRINGS, .default_text = preset, .unit = "", .help = text               \
    }
#define CLT_KEY_INTS(key, low, high, preset, text)                                                           \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_INTS, .default_text = preset, .min = low, .max = high, .unit = "",      \
        .help = text                                                                                         \
    }
#define CLT_KEY_FLOATS(key, low, open_low, high, preset, text)                                               \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_FLOATS, .default_text = preset, .min = low, .max = high,                \
        .min_exclusive = open_low, .unit = "", .help = text                                                  \
    }
/* A key that takes a list of layers, or their number. */
#define CLT_KEY_LAYERS(text)                                                                                 \
    {                                                                                                        \
        .path = "model.layers", .type = CLT_CFG_LAYERS, .default_text = "[]", .min = 1, .max = 100000,       \
        .unit = "", .help = text                                                                             \
    }
/* The same key for a family that takes only the number. */
#define CLT_KEY_BLOCKS                                                                                       \
    {                                                                                                        \
        .path = "model.layers", .type = CLT_CFG_LAYERS, .default_text = "[]", .min = 1, .max = 100000,       \
        .unit = "blocks", .help = "number of blocks"                                                         \
    }
#define CLT_KEY_END                                                                                          \
    {                                                                                                        \
        .path = NULL                                                                                         \
    }

#define CLT_KEY_MANY 1e12     /* upper limit of counts of samples */
#define CLT_KEY_WIDE 16777216 /* upper limit of widths and dimensions */

typedef struct clt_config_problems clt_config_problems;

/* A config whose rules are being checked, and the problems found. */
typedef struct clt_config_rules {
    const clt_config *config;
    clt_config_problems *list;
} clt_config_rules;

typedef struct clt_config_part {
    const char *name; /* the word of the choice: "csv" */
    const char *help;
    const clt_config_key *keys; /* ends with CLT_KEY_END; NULL: none */
    const char *const
        *required; /* paths of keys that must not be left empty (0, "", []), ends with NULL; NULL: none */
    /* Further rules, checked when the part is chosen; NULL: none. They use values, never where a value came
     * from, so that a printed config, which names every key, passes the same checks. */
    void (*check)(clt_config_rules *rules);
    /* language: the data format's samples and targets are tokens; the model family predicts the next token */
    bool language;
} clt_config_part;

/* The parts of a choice, as a list that ends with NULL; NULL: it has none. */
const clt_config_part *const *clt_config_parts(const char *choice);
/* The part of a choice with this name, NULL: there is none. */
const clt_config_part *clt_config_part_find(const char *choice, const char *name);
/* The part that the config chose: never NULL for a config that passed its checks. */
const clt_config_part *clt_config_chosen(const clt_config *config, const char *choice);
/* True if a part brings a key; false if `part` is NULL. */
bool clt_config_part_has(const clt_config_part *part, const char *key);

/* --- for rules --- */

/* True if the key has a valid value, given or by default. Rules skip keys that are missing or already
 * reported as invalid, since a second message would only confuse. */
bool clt_rules_usable(const clt_config_rules *rules, const char *key);
/* True if a choice or string is usable and equals `word`. */
bool clt_rules_is(const clt_config_rules *rules, const char *key, const char *word);
/* True if a value is usable and empty: 0, "", []. */
bool clt_rules_empty(const clt_config_rules *rules, const char *key);
/* True if the chosen part of a choice brings a key. */
bool clt_rules_takes(const clt_config_rules *rules, const char *choice, const char *key);
/* Reports a key whose value breaks a rule, at its place in the file. */
void clt_rules_broken(clt_config_rules *rules, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
