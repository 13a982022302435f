/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files that write a run as a folder of transformers share: hf_export.c writes the
 * folder, and one file per family gives its tensors and settings. */
#ifndef ENGINE_PRETRAINED_HF_EXPORT_INTERNAL_H
#define ENGINE_PRETRAINED_HF_EXPORT_INTERNAL_H

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/json/json.h"
#include "engine/models/models.h"
#include "engine/pretrained/hf_export.h"

struct hf_family;

typedef struct hf_export {
    const clt_saved_run *saved;
    clt_merge *merge; /* gives the values of tensors */
    clt_dtype dtype;
    const struct hf_family *family;
    const clt_model_published *names;
    struct clt_tokenizer *tokenizer; /* NULL: the run has none */
    int64_t layers, heads, channels, context, vocab;
    bool bias, tied;
    const char *activation;                                 /* gpt: the activation's name in transformers */
    int64_t kv_heads, head_dim, inner, window, window_from; /* llama */
    const char *model_type, *architecture;                  /* llama: the class of transformers */
    clt_arena *arena;                                       /* owns names and zeros */
    clt_named_tensor *tensors;
    int count;
    size_t room;        /* number of tensors for which there is memory */
    const char *folder; /* the temporary folder that is written */
    clt_hf_exported *result;
} hf_export;

/* The functions that export a model family. */
typedef struct hf_family {
    const char *type;                       /* model.type */
    bool encoder;                           /* the family generates no text */
    clt_status (*read_model)(hf_export *x); /* CLT_EUNSUPPORTED: no class computes this model */
    clt_status (*gather)(hf_export *x);     /* adds all tensors */
    /* writes its settings of config.json, without the common ones */
    void (*settings)(const hf_export *x, clt_json_writer *w);
} hf_family;

extern const hf_family hf_family_gpt2, hf_family_llama, hf_family_bert;

/* Fails with CLT_EUNSUPPORTED and the reason. */
clt_status hf_refuse(const hf_export *x, const char *why);
/* The number of rows of a table of the checkpoint that has `channels` columns. */
clt_status hf_find_table(const hf_export *x, const char *name, int64_t *rows);
/* Adds a tensor of the checkpoint under its full name; its shape must be the one that the config implies. */
clt_status hf_add_tensor(hf_export *x, const char *name, const clt_shape *shape);
/* Adds a tensor of `size` zeros. */
clt_status hf_add_zeros(hf_export *x, const char *name, int64_t size);

/* Reads the model and its tokenizer and adds all tensors; the caller has set `saved`, `merge` and
 * `result`. */
clt_status hf_export_gather(hf_export *x);
void hf_export_free(hf_export *x);
CLT_SCOPED_VALUE(hf_export, hf_export_free)
/* The id of the token with a role; -1 if there is none or the model has no row for it. If no token begins
 * texts, the end-of-text token has that role, as in GPT-2. */
int64_t hf_id_of(const hf_export *x, clt_token_role role);
/* The end marker of answers, if it is not the end-of-text token; -1: it is, or there is none. */
int64_t hf_answer_end(const hf_export *x);
/* The ids at which generated texts end, as a list of entries: model.stop_tokens, then the tokenizer's end of
 * text and the end marker of answers. hf_end_at gives -1 if the entry has no id, the model has no row for it,
 * or an earlier entry has the same id. */
int hf_end_count(const hf_export *x);
int64_t hf_end_at(const hf_export *x, int i);
/* Appends the chat template if the run was trained on conversations. */
clt_status hf_print_chat(const hf_export *x, clt_str *out);

#endif
