/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the readers of config.json: pretrained.c opens a folder, one file per kind of model reads its
 * settings with the functions here. */
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

/* Adds a value for one of our keys. A value or reason that is NULL means that memory ran out; it is reported
 * at the end. data_type: the value is for this data.type only; NULL: for any. */
void clt_pretrained_add(clt_pretrained *p, const char *key, const char *value, const char *reason,
                        clt_preset_kind kind, const char *data_type);
/* Notes that a setting cannot be represented; all of them are reported together. */
void clt_pretrained_problem(clt_pretrained *p, const char *key, const char *why);

/* The value for one of our keys as JSON; NULL: there is none. */
const char *clt_pretrained_value(const clt_pretrained *p, const char *key);

/* True if the folder holds this file, or a vocabulary of any kind. */
bool clt_pretrained_holds(const char *folder, const char *name);
bool clt_pretrained_has_tokenizer(const char *folder);
/* Adds the ids at which generated texts end, if eos_token_id of generation_config.json, or of config.json, is
 * a list. CLT_ECHECKPOINT: generation_config.json cannot be read, or the list has more than 1000 ids. */
clt_status clt_pretrained_add_stops(clt_pretrained *p);

/* Reads of one setting of `object`, which is config.json or a part of it. Left out or null: `preset`. A value
 * of another type is a problem, and `preset` is returned. */
bool clt_pretrained_bool(clt_pretrained *p, const char *name, bool preset);
double clt_pretrained_number(clt_pretrained *p, const clt_json *object, const char *name, double preset);
/* The value if it is there and not null, else NULL. */
const clt_json *clt_pretrained_get(const clt_json *object, const char *name);
/* Reads a whole number of at least 1 under the first of several names that is there. preset 0: it has to be
 * there. *reason: for messages. */
int64_t clt_pretrained_count(clt_pretrained *p, const char *const *names, int64_t preset,
                             const char **reason);
/* The same, added as the value of a key of ours. */
int64_t clt_pretrained_add_count(clt_pretrained *p, const char *key, const char *const *names, int64_t preset,
                                 clt_preset_kind kind);
/* Adds a number. what: the name of the setting, for messages. */
void clt_pretrained_add_number(clt_pretrained *p, const char *key, double value, const char *what,
                               clt_preset_kind kind);
/* Reads whether the output layer is tied. The config's key decides, because the tensors of some known files
 * suggest otherwise; the tensors are compared later in any case. */
void clt_pretrained_tied(clt_pretrained *p, bool preset);
/* Our word for an activation by its name in transformers; NULL: we have none that computes the same. */
const char *clt_pretrained_activation(const char *name);
/* Notes settings with which the model computes something else, whatever its kind. */
void clt_pretrained_refuse_common(clt_pretrained *p);

static inline bool clt_pretrained_equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* A kind of model: the model_type in config.json, the family of ours that computes it, and its reader. */
typedef struct clt_pretrained_class {
    const char *model_type, *family;
    void (*read)(clt_pretrained *p, const struct clt_pretrained_class *c);
    /* llama: values of settings that are left out, as in the classes of transformers */
    int64_t kv_heads, head_dim; /* 0: as many as heads; the width divided by the heads */
    int64_t window;             /* 0: none */
    const char *bias;           /* model.attention_bias; NULL: the setting attention_bias says */
    bool head_norm;
    bool window_is_optional; /* use_sliding_window switches the window on */
} clt_pretrained_class;

/* Adds the names of a classifier's classes in the order of its outputs, id2label of config.json, as
 * data.class_names of annotated texts; not if all are LABEL_0, LABEL_1, ... Numbers that are none or have
 * gaps, names that two classes have, and numbers of label2id that contradict are problems. */
void clt_pretrained_read_labels(clt_pretrained *p);

void clt_pretrained_read_gpt2(clt_pretrained *p, const clt_pretrained_class *c);
void clt_pretrained_read_bert(clt_pretrained *p, const clt_pretrained_class *c);
void clt_pretrained_read_llama(clt_pretrained *p, const clt_pretrained_class *c);

#endif
