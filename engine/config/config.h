/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: one schema table (key, type, unit, range, default, help) drives parsing, validation,
 * overrides, printing and the documentation. All problems are reported together, each with file, line,
 * column, key path and the nearest valid key. It knows nothing of devices or graphs; the model builder checks
 * the model's list of layers. */
#ifndef ENGINE_CONFIG_CONFIG_H
#define ENGINE_CONFIG_CONFIG_H

#include "engine/base/scope.h"
#include "engine/base/status.h"
#include "engine/json/json.h"

typedef enum clt_config_type {
    CLT_CFG_INT,
    CLT_CFG_FLOAT,
    CLT_CFG_BOOL,
    CLT_CFG_STRING,
    CLT_CFG_CHOICE,   /* one of choices "a|b|c" */
    CLT_CFG_INTS,     /* list of integers */
    CLT_CFG_STRINGS,  /* a string or a list of strings */
    CLT_CFG_AUTO_INT, /* integer or the word "auto" (value -1) */
    CLT_CFG_LAYERS,   /* list of layer objects (model.type graph) or a number of layers */
    CLT_CFG_FLOATS    /* a number or a list of numbers */
} clt_config_type;

typedef struct clt_config_key {
    const char *path; /* "optimizer.learning_rate" */
    clt_config_type type;
    const char *choices;      /* CHOICE */
    const char *for_bool[2];  /* CHOICE: the words that replace false and true of older configs; or NULL */
    const char *default_text; /* JSON text; NULL: required */
    /* the value in printed configs that are older than the key; NULL: the default */
    const char *older_text;
    double min, max; /* numbers (each element of INTS, FLOATS), inclusive unless said otherwise */
    bool min_exclusive, max_exclusive;
    const char *unit; /* "samples", "steps", "" */
    const char *help;
} clt_config_key;

/* The schema, composed of the common keys and the keys of the parts: model families, data formats,
 * optimizers (part.h). Ends with a NULL path. */
const clt_config_key *clt_config_schema(void);

typedef struct clt_config clt_config;

/* clt_config_load: reads a file and applies `overrides` ("key.sub=value"; a value that is not JSON is taken
 * as a string). CLT_ECONFIG lists every problem, one per line. */
clt_status clt_config_load(const char *path, const char *const *overrides, int n_overrides, clt_config **out);
clt_status clt_config_parse(const char *text, const char *source, const char *const *overrides,
                            int n_overrides, clt_config **out);

/* Presets: values of keys that follow from the weights with which a run starts (model.init). A key that the
 * config leaves out, or leaves to be derived (0, "auto", ""), takes the preset, with the origin "init". A
 * key with a value that the preset's kind does not allow is reported like any other problem, with the
 * reason. */
typedef enum clt_preset_kind {
    CLT_PRESET_DEFAULT, /* only a default: the config may set any value */
    CLT_PRESET_EQUAL,   /* the config may only set the same value */
    CLT_PRESET_AT_MOST, /* an integer: the config may set the same value or a smaller one */
    CLT_PRESET_MISSING  /* there is no value: the config must set the key */
} clt_preset_kind;

typedef struct clt_config_preset {
    const char *key, *value; /* JSON; NULL: MISSING */
    const char *reason;      /* "n_layer is 12" */
    clt_preset_kind kind;
    const char *data_type; /* the preset is only for this data.type; NULL: for any */
} clt_config_preset;

typedef struct clt_config_presets {
    const char *source; /* the file that the presets come from */
    const clt_config_preset *items;
    int count;
} clt_config_presets;

/* clt_config_load with presets (NULL: none), which are copied. */
clt_status clt_config_load_over(const char *path, const char *const *overrides, int n_overrides,
                                const clt_config_presets *presets, clt_config **out);
clt_status clt_config_parse_over(const char *text, const char *source, const char *const *overrides,
                                 int n_overrides, const clt_config_presets *presets, clt_config **out);
/* Presets of weights that the config may name itself. When all keys are read, `open` is called with the
 * value of model.init, and gives the presets of these weights (NULL: none), which are copied. */
typedef struct clt_config_start {
    const char *init; /* --init, which takes the place of model.init; NULL: it was not given */
    clt_status (*open)(void *context, const char *init, const clt_config_presets **out);
    void *context;
} clt_config_start;
clt_status clt_config_load_from(const char *path, const char *const *overrides, int n_overrides,
                                const clt_config_start *start, clt_config **out);
clt_status clt_config_parse_from(const char *text, const char *source, const char *const *overrides,
                                 int n_overrides, const clt_config_start *start, clt_config **out);
void clt_config_destroy(clt_config *config);
CLT_SCOPED_POINTER(clt_config, clt_config_destroy)

/* Values by key path; the key must be in the schema (anything else is a programming error and asserts). */
int64_t clt_config_int(const clt_config *config, const char *key);  /* AUTO_INT: -1 for "auto" */
double clt_config_float(const clt_config *config, const char *key); /* FLOATS: the first number */
bool clt_config_bool(const clt_config *config, const char *key);
const char *clt_config_string(const clt_config *config, const char *key); /* STRING, CHOICE; "" when unset */
/* CHOICE: the index of the chosen word in the key's list, from 0; choices.h has enumerators for it. */
int clt_config_choice(const clt_config *config, const char *key);
int clt_config_list_count(const clt_config *config, const char *key); /* INTS, FLOATS, STRINGS */
int64_t clt_config_list_int(const clt_config *config, const char *key, int index);
double clt_config_list_float(const clt_config *config, const char *key, int index);
const char *clt_config_list_string(const clt_config *config, const char *key, int index);
/* The origin of the value: "default", "file", "override" or "init". */
const char *clt_config_origin(const clt_config *config, const char *key);
bool clt_config_is_set(const clt_config *config, const char *key); /* origin is not "default" */
/* The resolved model section (defaults filled in, overrides applied) for the model builder, with its
 * document. */
const clt_json *clt_config_model(const clt_config *config, const clt_json_doc **doc);
/* Sets one value from code (the public API, the demo), with the checks of that key; on failure the old value
 * stays. After all values are set, clt_config_check checks the rules between keys. A relative path is
 * relative to the current folder. */
clt_status clt_config_set(clt_config *config, const char *key, const char *json_value);
/* clt_config_set for a key that takes a string. */
clt_status clt_config_set_text(clt_config *config, const char *key, const char *text);
/* A copy of a config with other values: overrides as in clt_config_parse. `source` names the copy in
 * messages. Every value of the copy counts as given. */
clt_status clt_config_with(const clt_config *config, const char *source, const char *const *overrides,
                           int n_overrides, clt_config **out);
/* Appends the override KEY="text", with the text quoted as JSON. */
clt_status clt_config_override_text(const char *key, const char *text, clt_str *out);
/* Checks the rules between keys (load and parse have done so): CLT_ECONFIG lists every problem. */
clt_status clt_config_check(const clt_config *config);

/* The resolved config as JSON; with_origin adds a sibling object "_origin": {key: origin}. A printed config
 * parses again (the "_origin" key is ignored on input). */
clt_status clt_config_print(const clt_config *config, bool with_origin, clt_str *out);
/* The schema as JSON (config --schema) and as Markdown (docs/config.md). */
clt_status clt_config_print_schema(clt_str *out);
clt_status clt_config_print_markdown(clt_str *out);

/* For a word that is not a command-line option: writes "; did you mean 'optimizer.learning_rate'? write:
 * optimizer.learning_rate=0.1" if it is the name of a config key, ours or another tool's; false if not.
 * value: the text after the word's '=', or NULL. */
bool clt_config_hint(const char *name, const char *value, char *buffer, size_t size);

/* Kinds of keys, which decide what a resumed run may change. */
enum {
    CLT_KEYS_FIXED = 1 << 0,  /* keys that change what is computed */
    CLT_KEYS_LENGTH = 1 << 1, /* the length of the training and its schedule */
    CLT_KEYS_DATA = 1 << 2,   /* where the training data and its tokenizer are */
    CLT_KEYS_TABLE = 1 << 3,  /* how a table of data is read, which a run keeps; these keys are fixed as
                               * well */
    CLT_KEYS_RATE = 1 << 4,   /* learning rate and weight decay, which a resumed run may change */
    CLT_KEYS_START = 1 << 5,  /* the weights that a new run starts from, which a resumed run does not read */
    CLT_KEYS_FREE = 1 << 6    /* where, how fast or how often something is done */
};
/* Keys of these kinds whose values differ between the text of a resolved config and `config`, one per line:
 * "train.seed: was 1, is 2"; "" when there is none. */
clt_status clt_config_diff(const char *resolved, const clt_config *config, unsigned kinds, clt_str *out);
/* For a run that continues from `from`: CLT_ECONFIG if keys of CLT_KEYS_FIXED differ; the message lists them.
 * If an older program that did not know a key wrote the resolved config, the message names the value that
 * repeats that program's behaviour. */
clt_status clt_config_check_fixed(const char *resolved, const clt_config *config, const char *from);

#endif
