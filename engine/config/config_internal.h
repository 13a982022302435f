/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of this room share: the values of a config and the list of problems found so
 * far. No other room includes it. */
#ifndef ENGINE_CONFIG_CONFIG_INTERNAL_H
#define ENGINE_CONFIG_CONFIG_INTERNAL_H

#include "engine/config/config.h"
#include "engine/config/part.h"

/* The value that the user gave to an unknown key. */
typedef struct clt_given_value {
    const char *text; /* NULL: unknown or not worth repeating */
    bool json;        /* JSON in a file; else as on a command line, where words need no quotes */
} clt_given_value;

typedef enum clt_config_from {
    CLT_FROM_DEFAULT,
    CLT_FROM_FILE,
    CLT_FROM_OVERRIDE,
    CLT_FROM_INIT
} clt_config_from;

typedef struct clt_config_value {
    clt_config_from from;
    bool present;         /* false: required and not given */
    bool bad;             /* given but invalid: already reported, so rules between keys skip it */
    int64_t i;            /* INT, AUTO_INT; LAYERS given as a number, 0 for a list */
    double f;             /* FLOAT, INT as a number, the first of FLOATS */
    bool b;               /* BOOL */
    const char *s;        /* STRING, CHOICE */
    int count;            /* INTS, FLOATS, STRINGS, LAYERS (list) */
    const int64_t *ints;  /* INTS */
    const double *floats; /* FLOATS */
    const char **strings; /* STRINGS */
    const clt_json *json; /* keys of the model section: the value as it was given, in config->given */
    const char *source;   /* name for messages: the file, or "override 'key=value'" */
    int line, column;     /* place where the value starts; 0: it has none */
} clt_config_value;

struct clt_config {
    clt_arena *arena;
    const char *source;
    clt_json_doc *given;      /* holds values of the model section with their positions in the file */
    clt_config_value *values; /* one value per schema key, in the schema's order */
    clt_json_doc *model;      /* {"model": {...}}, made from the values */
};

/* One problem. The list is sorted by position in the file before it is printed. */
typedef struct clt_config_problem {
    char *text;
    int line, column, order;
} clt_config_problem;

struct clt_config_problems {
    clt_config_problem *items;
    size_t count, capacity;
    bool failed; /* out of memory: count is still right, texts may be missing */
};

/* config_problem.c: adds a problem. `line` 0: no position in a file. */
void clt_config_report(clt_config_problems *list, const char *source, int line, int column,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Turns the list into CLT_ECONFIG with one problem per line (CLT_OK when it is empty), unless collecting it
 * has failed with `status`, which is then returned. Frees the list. */
clt_status clt_config_problems_finish(clt_status status, clt_config_problems *list);

/* config_value.c */
int clt_config_key_count(void);
int clt_config_key_index(const char *path); /* -1 */
bool clt_config_has_word(const char *choices, const char *word);
/* Reads and checks one JSON value; problems are added to the list. The caller sets source, line and column of
 * the value. */
clt_status clt_config_read_value(clt_config *config, const clt_config_key *key, const clt_json *json,
                                 clt_config_value *value, clt_config_problems *list);
clt_status clt_config_read_defaults(clt_config *config);

/* The place of something: the file with line and column, or "override 'key=value'" with line 0. */
typedef struct clt_place {
    const char *source;
    int line, column;
} clt_place;

/* config_suggest.c: reports an unknown key (`section` NULL: a name in place of a section), with what was
 * probably meant and the line to write. */
void clt_config_report_unknown(clt_config_problems *list, clt_place at, const char *section, const char *name,
                               clt_given_value value);

/* config_load.c: reads a value in the form of the command line; problems are added to the list. */
clt_status clt_config_read_given(clt_config *config, int index, const char *given, const char *source,
                                 clt_config_value *value, clt_config_problems *list);
/* config_preset.c */
clt_status clt_config_apply_presets(clt_config *config, const clt_config_presets *presets,
                                    clt_config_problems *list);

/* schema.c: the keys that belong to no part; ends with a NULL path. */
extern const clt_config_key clt_config_common[];

/* config_parts.c: true if all keys had room in the composed schema, which a unit test checks. */
bool clt_config_schema_whole(void);
/* Rules of the chosen parts. */
void clt_config_check_parts(clt_config_rules *rules);

/* config_print.c: writes the value as JSON, except a list of layers, which clt_config_print writes. */
void clt_config_write_value(clt_json_writer *w, const clt_config_key *key, const clt_config_value *value);

/* config_check.c: the rules between keys. */
void clt_config_check_rules(const clt_config *config, clt_config_problems *list);

/* config_model.c */
clt_status clt_config_build_model(clt_config *config);

const clt_config_value *clt_config_at(const clt_config *config, const char *key);

#endif
