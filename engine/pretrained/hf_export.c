/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trained language model in the form of transformers. Checkpoints hold its tensors with the
 * published names and layouts and without padding; this file adds the prefix of the names and the other files
 * of the folder. */
#include "engine/pretrained/hf_export_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/chat/chat_text.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/pretrained/new_folder.h"

/* --- the model --- */

static const hf_family *const families[] = {&hf_family_gpt2, &hf_family_llama, &hf_family_bert};

clt_status hf_refuse(const hf_export *x, const char *why)
{
    CLT_FAIL(
        CLT_EUNSUPPORTED,
        "exporting '%s' for transformers: %s; only its weights can be exported, with --format safetensors",
        x->saved->path, why);
}

clt_status hf_find_table(const hf_export *x, const char *name, int64_t *rows)
{
    const clt_named_tensor *t = clt_safetensors_find(x->saved->checkpoint->model, name);
    if (!t || t->shape.ndim != 2 || t->shape.dim[0] < 1 || t->shape.dim[1] != x->channels)
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': it holds no table %s with the %lld columns of its config",
                 x->saved->path, name, (long long)x->channels);
    *rows = t->shape.dim[0];
    return CLT_OK;
}

static clt_status read_model(hf_export *x)
{
    const clt_config *c = x->saved->config;
    const char *type = clt_config_string(c, "model.type");
    char why[200];
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i]->type, type) == 0)
            x->family = families[i];
    x->names = clt_model_family_of(x->saved->config)->published;
    if (!x->family) {
        snprintf(why, sizeof why,
                 "it is %s %s, and only a gpt, a llama and a bert are models that transformers knows",
                 strcmp(type, "mlp") == 0 ? "an" : "a", type);
        return hf_refuse(x, why);
    }
    x->layers = clt_config_int(c, "model.layers");
    x->heads = clt_config_int(c, "model.heads");
    x->channels = clt_config_int(c, "model.channels");
    x->tied = clt_config_bool(c, "model.tied");
    x->result->loader = "AutoModelForCausalLM";
    CLT_TRY(x->family->read_model(x));
    if (x->family->encoder)
        x->result->loader = x->architecture;
    return CLT_OK;
}

/* Opens the run's tokenizer, if it has one. */
static clt_status open_tokenizer(hf_export *x)
{
    CLT_TRY(clt_fail_prefix(clt_tokenizer_open_config(x->saved->config, &x->tokenizer), "exporting '%s'",
                            x->saved->path));
    if (!x->tokenizer)
        return CLT_OK;
    CLT_SCOPED(clt_str) surplus = {0};
    if (!clt_tokenizer_surplus(x->tokenizer, x->vocab, &surplus))
        CLT_FAIL(CLT_EDATA,
                 "exporting '%s': its tokenizer (%s) has %u tokens, its model %lld; name the one that it was "
                 "trained with by --tokenizer",
                 x->saved->path, clt_tokenizer_description(x->tokenizer), clt_tokenizer_vocab(x->tokenizer),
                 (long long)x->vocab);
    snprintf(x->result->tokenizer, sizeof x->result->tokenizer, "%s",
             clt_tokenizer_description(x->tokenizer));
    return CLT_OK;
}

/* --- the weights --- */

static clt_status no_memory(const hf_export *x)
{
    CLT_FAIL(CLT_ENOMEM, "exporting '%s': out of host memory", x->saved->path);
}

static clt_status push(hf_export *x, const clt_named_tensor *tensor)
{
    if (!tensor->name || !tensor->data)
        return no_memory(x);
    CLT_TRY(clt_grow(&x->tensors, &x->room, (size_t)x->count + 1, sizeof *x->tensors, "exported weights"));
    x->tensors[x->count++] = *tensor;
    return CLT_OK;
}

clt_status hf_add_tensor(hf_export *x, const char *name, const clt_shape *shape)
{
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    clt_named_tensor t;
    bool found;
    CLT_TRY(clt_merge_values(x->merge, name, &t, &found));
    if (!found)
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': it has no tensor %s, which its config asks for",
                 x->saved->path, name);
    if (!clt_shape_equal(&t.shape, shape))
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': its tensor %s is %s, its config asks for %s",
                 x->saved->path, name, clt_shape_text(&t.shape, a, sizeof a),
                 clt_shape_text(shape, b, sizeof b));
    t.name = clt_arena_printf(x->arena, "%s%s", clt_model_prefix(x->names, name), name);
    return push(x, &t);
}

clt_status hf_add_zeros(hf_export *x, const char *name, int64_t size)
{
    clt_named_tensor t = {clt_arena_printf(x->arena, "%s%s", clt_model_prefix(x->names, name), name), CLT_F32,
                          clt_shape1(size), clt_arena_alloc(x->arena, (size_t)size * sizeof(float))};
    x->result->zero_biases = true;
    return push(x, &t);
}

/* --- the files --- */

int64_t hf_id_of(const hf_export *x, clt_token_role role)
{
    int64_t id = x->tokenizer ? clt_tokenizer_role(x->tokenizer, role) : -1;
    if (id < 0 && role == CLT_TOKEN_BEGIN)
        return hf_id_of(x, CLT_TOKEN_END_OF_TEXT);
    return id < x->vocab ? id : -1;
}

int64_t hf_answer_end(const hf_export *x)
{
    int64_t id = -1;
    const clt_chat_rules rules = {.tokenizer = x->tokenizer,
                                  .chat = clt_chat_template_find(x->saved->facts.chat)};
    bool failed = x->tokenizer && rules.chat && clt_chat_end_token(&rules, &id) != CLT_OK;
    return failed || id == hf_id_of(x, CLT_TOKEN_END_OF_TEXT) ? -1 : id;
}

/* The id of entry i, which an earlier entry may have, too, and which may have no row in the model. */
static int64_t entry_at(const hf_export *x, int i)
{
    const clt_config *c = x->saved->config;
    int stops = clt_config_list_count(c, "model.stop_tokens");
    return i < stops    ? clt_config_list_int(c, "model.stop_tokens", i)
           : i == stops ? hf_id_of(x, CLT_TOKEN_END_OF_TEXT)
                        : hf_answer_end(x);
}

int hf_end_count(const hf_export *x)
{
    return clt_config_list_count(x->saved->config, "model.stop_tokens") + 2;
}

int64_t hf_end_at(const hf_export *x, int i)
{
    int64_t id = entry_at(x, i);
    for (int earlier = 0; earlier < i && id >= 0; earlier++)
        id = entry_at(x, earlier) == id ? -1 : id;
    return id < x->vocab ? id : -1;
}

/* Writes a number, a list if there are several ids, or null. */
static void all_ends(const hf_export *x, clt_json_writer *w)
{
    int entries = hf_end_count(x), count = 0;
    for (int i = 0; i < entries; i++)
        count += hf_end_at(x, i) >= 0;
    if (count == 0)
        clt_jw_null(w);
    if (count > 1)
        clt_jw_array(w);
    for (int i = 0; i < entries; i++)
        if (hf_end_at(x, i) >= 0)
            clt_jw_int(w, hf_end_at(x, i));
    if (count > 1)
        clt_jw_end_array(w);
}

/* `ends`: writes all tokens at which a generation stops, instead of only the tokenizer's. */
static void token_ids(const hf_export *x, bool ends, clt_json_writer *w)
{
    static const struct {
        const char *key;
        clt_token_role role;
    } ids[] = {{"bos_token_id", CLT_TOKEN_BEGIN},
               {"eos_token_id", CLT_TOKEN_END_OF_TEXT},
               {"pad_token_id", CLT_TOKEN_PADDING}};
    for (int i = 0; i < 3; i++) {
        int64_t id = hf_id_of(x, ids[i].role);
        if (id < 0 && ids[i].role == CLT_TOKEN_PADDING)
            continue;
        clt_jw_key(w, ids[i].key);
        if (ends && ids[i].role == CLT_TOKEN_END_OF_TEXT)
            all_ends(x, w);
        else if (id >= 0)
            clt_jw_int(w, id);
        else
            clt_jw_null(w);
    }
}

static clt_status write_config(const hf_export *x)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    const char *dtype = x->dtype == CLT_F16 ? "float16" : x->dtype == CLT_BF16 ? "bfloat16" : "float32";
    clt_jw_object(&w);
    x->family->settings(x, &w);
    clt_jw_kbool(&w, "tie_word_embeddings", x->tied);
    if (!x->family->encoder) {
        clt_jw_kbool(&w, "use_cache", true);
        token_ids(x, false, &w);
    }
    clt_jw_kstring(&w, "dtype", dtype);
    clt_jw_kstring(&w, "torch_dtype", dtype); /* older versions of transformers read this name */
    clt_jw_end_object(&w);
    return clt_new_folder_text(x->folder, "config.json", &text);
}

static clt_status write_generation_config(const hf_export *x)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kbool(&w, "_from_model_config", true);
    token_ids(x, true, &w);
    clt_jw_end_object(&w);
    return clt_new_folder_text(x->folder, "generation_config.json", &text);
}

clt_status hf_print_chat(const hf_export *x, clt_str *out)
{
    const clt_config *c = x->saved->config;
    const clt_chat_template *chat = clt_chat_template_find(x->saved->facts.chat);
    return chat ? clt_chat_template_print(chat, clt_config_string(c, "data.system"),
                                          clt_config_string(c, "data.date"), out)
                : CLT_OK;
}

static clt_status write_chat(const hf_export *x)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(hf_print_chat(x, &text));
    return text.length ? clt_new_folder_text(x->folder, "chat_template.jinja", &text) : CLT_OK;
}

/* Names the general tokenizer class, which uses tokenizer.json unchanged. GPT-2's own class would add an
 * end-of-text token to a vocabulary that has none. */
static clt_status write_tokenizer(const hf_export *x)
{
    return x->tokenizer ? clt_tokenizer_save_folder(x->tokenizer, x->context, x->folder) : CLT_OK;
}

static clt_status write_weights(hf_export *x)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(x->folder, "model.safetensors", &path));
    return clt_export_tensors(x->tensors, x->count, x->dtype, path, &x->result->weights);
}

static clt_status write_all(hf_export *x)
{
    CLT_TRY(write_config(x));
    if (!x->family->encoder)
        CLT_TRY(write_generation_config(x));
    CLT_TRY(write_tokenizer(x));
    CLT_TRY(write_chat(x));
    return write_weights(x);
}

/* --- the folder --- */

static clt_status write_folder(void *context, const char *folder)
{
    hf_export *x = context;
    x->folder = folder;
    clt_status status = write_all(x);
    /* fails, too, if a mapping was truncated while it was read */
    CLT_TRY(clt_checkpoint_whole(x->saved->checkpoint));
    return status;
}

clt_status hf_export_gather(hf_export *x)
{
    memset(x->result, 0, sizeof *x->result);
    CLT_TRY(clt_arena_create(&x->arena));
    CLT_TRY(read_model(x));
    CLT_TRY(open_tokenizer(x));
    return x->family->gather(x);
}

void hf_export_free(hf_export *x)
{
    clt_tokenizer_close(x->tokenizer);
    clt_arena_destroy(x->arena);
    free(x->tensors);
}
clt_status clt_hf_export(const clt_saved_run *saved, clt_merge *merge, clt_values values, clt_dtype dtype,
                         const char *folder, clt_hf_exported *result)
{
    CLT_SCOPED(hf_export) x = {.saved = saved, .merge = merge, .dtype = dtype, .result = result};
    CLT_TRY(clt_new_folder_place(folder));
    CLT_TRY(hf_export_gather(&x));
    CLT_TRY(clt_new_folder(folder, write_folder, &x));
    snprintf(result->weights.from, sizeof result->weights.from, "%s", saved->path);
    result->weights.averaged = values == CLT_VALUES_AVERAGED && clt_checkpoint_averages(saved->checkpoint);
    return CLT_OK;
}
