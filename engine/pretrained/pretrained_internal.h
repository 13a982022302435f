/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the readers of config.json share: pretrained.c opens a folder, and one file per kind of
 * model reads its settings with the functions here. */
#ifndef ENGINE_PRETRAINED_PRETRAINED_INTERNAL_H
#define ENGINE_PRETRAINED_PRETRAINED_INTERNAL_H

#include "engine/base/text.h"
#include "engine/config/part.h"
#include "engine/pretrained/pretrained.h"

#define CLT_PRETRAINED_MAX_KEYS 56
#define CLT_GENERATION_FILE "generation_config.json"

struct clt_pretrained {
    clt_arena *arena;
    const char *folder, *config_path; /* NULL for a file of weights */
    clt_json_doc *doc;
    const clt_json *root;
    clt_json_doc *generation; /* generation_config.json; NULL: there is none */
    clt_config_preset items[CLT_PRETRAINED_MAX_KEYS];
    int count;
    clt_config_presets presets;
    clt_str problems;
    int tensors; /* number of tensors in the weights */
};

/* Adds a value for one of our keys. A value or reason that is NULL means that memory ran out, which is
 * reported at the end. `data_type`: the value is only for this data.type; NULL: for any. */
void clt_pretrained_add(clt_pretrained *p, const char *key, const char *value, const char *reason,
                        clt_preset_kind kind, const char *data_type);
/* Notes that a setting cannot be represented; all such settings are reported together. */
void clt_pretrained_problem(clt_pretrained *p, const char *key, const char *why);

/* The value for one of our keys as JSON; NULL: there is none. */
const char *clt_pretrained_value(const clt_pretrained *p, const char *key);

/* True if the folder holds this file, or a vocabulary of any kind. */
bool clt_pretrained_holds(const char *folder, const char *name);
bool clt_pretrained_has_tokenizer(const char *folder);
/* Adds the ids at which generated texts end, if eos_token_id of generation_config.json, or of config.json, is
 * a list. CLT_ECHECKPOINT: generation_config.json cannot be read, or the list has more than 1000 ids. */
clt_status clt_pretrained_add_stops(clt_pretrained *p);

/* Functions that read one setting of `object`, which is config.json or a part of it. They return `preset` if
 * the setting is missing or null; a value of another type is a problem, and also gives `preset`. */
bool clt_pretrained_bool(clt_pretrained *p, const char *name, bool preset);
double clt_pretrained_number(clt_pretrained *p, const clt_json *object, const char *name, double preset);
/* Reads a whole number of at least 1 under the first of several names that is present. `preset` 0: one must
 * be present. *reason: for messages. */
int64_t clt_pretrained_count(clt_pretrained *p, const char *const *names, int64_t preset,
                             const char **reason);
/* The same; the number is also added as the value of one of our keys. */
int64_t clt_pretrained_add_count(clt_pretrained *p, const char *key, const char *const *names, int64_t preset,
                                 clt_preset_kind kind);
/* Adds a number. what: the name of the setting, for messages. */
void clt_pretrained_add_number(clt_pretrained *p, const char *key, double value, const char *what,
                               clt_preset_kind kind);
/* Reads whether the output layer is tied. The config's key decides, because the tensors of some known files
 * suggest otherwise; the tensors are compared later in any case. */
void clt_pretrained_tied(clt_pretrained *p, bool preset);
/* Our name for an activation, given its name in transformers; NULL: none of ours computes the same. */
const char *clt_pretrained_activation(const char *name);
/* Notes settings, common to all kinds of models, that make the model compute something else. */
void clt_pretrained_refuse_common(clt_pretrained *p);

static inline bool clt_pretrained_equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* A kind of model: the model_type in config.json, the family of ours that computes it, and its reader. */
typedef struct clt_pretrained_class {
    const char *model_type, *family;
    void (*read)(clt_pretrained *p, const struct clt_pretrained_class *c);
    /* llama: defaults of missing settings, as in the classes of transformers */
    int64_t kv_heads, head_dim; /* 0: the number of heads; the width divided by that number */
    int64_t window;             /* 0: none */
    const char *bias;           /* model.attention_bias; NULL: from the setting attention_bias */
    bool head_norm;
    bool window_is_optional; /* use_sliding_window switches the window on */
} clt_pretrained_class;

/* Adds the names of a classifier's classes in the order of its outputs, id2label of config.json, as
 * data.class_names of annotated texts; not if all are LABEL_0, LABEL_1, ... Problems are keys that are not
 * numbers, gaps between them, a name that two classes have, and contradicting numbers in label2id. */
void clt_pretrained_read_labels(clt_pretrained *p);

void clt_pretrained_read_gpt2(clt_pretrained *p, const clt_pretrained_class *c);
void clt_pretrained_read_bert(clt_pretrained *p, const clt_pretrained_class *c);
void clt_pretrained_read_llama(clt_pretrained *p, const clt_pretrained_class *c);

#endif
