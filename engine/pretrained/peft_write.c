/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the adapters of a run as PEFT does: the tensors of adapters and of parts trained whole, in f32, with
 * the names that they have in the model of transformers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/models/models.h"
#include "engine/pretrained/merge.h"
#include "engine/pretrained/new_folder.h"
#include "engine/pretrained/peft.h"

#define WRAPPER "base_model.model."

typedef struct peft_export {
    const clt_saved_run *saved;
    clt_values values;
    const char *base;
    const clt_model_published *family;
    clt_arena *arena;
    clt_named_tensor *tensors;
    size_t room;
    int count;
    /* paths of adapted layers and of parts trained whole, without the family's prefix */
    const char **layers, **parts;
    int n_layers, n_parts;
    clt_peft_exported *result;
} peft_export;

static void peft_export_free(peft_export *x)
{
    clt_arena_destroy(x->arena);
    free(x->tensors);
    free(x->layers);
    free(x->parts);
}
CLT_SCOPED_VALUE(peft_export, peft_export_free)

/* The path of a layer in the model of transformers. */
static const char *path_of(const peft_export *x, const char *layer)
{
    return clt_arena_printf(x->arena, "%s%s", clt_model_prefix(x->family, layer), layer);
}

/* Adds a name to a list of *count names, which has room for it, unless it is there already. */
static void note(const char **list, int *count, const char *name)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i], name) == 0)
            return;
    list[(*count)++] = name;
}

/* Adds a tensor of the checkpoint if it belongs to an adapter or to a part that was trained whole. */
static clt_status take(peft_export *x, const char *name)
{
    bool of_a;
    size_t length = clt_adapter_layer(name, &of_a);
    const bool adapter = length > 0;
    clt_named_tensor t;
    if (!adapter && clt_lora_trains_whole(clt_config_model(x->saved->config, NULL), name))
        length = (size_t)(strrchr(name, '.') - name);
    if (length == 0 || !clt_checkpoint_values(x->saved->checkpoint, name, x->values, &t))
        return CLT_OK;
    const char *layer = clt_arena_printf(x->arena, "%.*s", (int)length, name);
    t.name = layer ? clt_arena_printf(x->arena, WRAPPER "%s%s", path_of(x, layer), name + length) : NULL;
    if (!t.name)
        return CLT_ENOMEM;
    if (adapter)
        note(x->layers, &x->n_layers, layer);
    else
        note(x->parts, &x->n_parts, layer);
    x->result->idle &= adapter && (!clt_adapter_starts_zero(name) || clt_named_tensor_is_zero(&t));
    CLT_TRY(clt_grow(&x->tensors, &x->room, (size_t)x->count + 1, sizeof *x->tensors, "adapters"));
    x->tensors[x->count++] = t;
    return CLT_OK;
}

static clt_status gather(peft_export *x)
{
    const clt_safetensors *model = x->saved->checkpoint->model;
    int n = clt_safetensors_count(model);
    CLT_TRY(clt_alloc(&x->layers, (size_t)n + 1, sizeof *x->layers, "adapted layers"));
    CLT_TRY(clt_alloc(&x->parts, (size_t)n + 1, sizeof *x->parts, "parts trained whole"));
    for (int i = 0; i < n; i++)
        CLT_TRY(take(x, clt_safetensors_at(model, i)->name));
    x->result->layers = x->n_layers;
    x->result->parts = x->n_parts;
    if (x->count == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': its file holds no adapters", x->saved->path);
    return CLT_OK;
}

/* --- adapter_config.json --- */

static const char *last_part(const char *layer)
{
    const char *dot = strrchr(layer, '.');
    return dot ? dot + 1 : layer;
}

static bool is_adapted(const peft_export *x, const char *layer, size_t length)
{
    for (int i = 0; i < x->n_layers; i++)
        if (strlen(x->layers[i]) == length && strncmp(x->layers[i], layer, length) == 0)
            return true;
    return false;
}

/* True if no other layer has the last part of an adapted layer's name. */
static bool parts_suffice(const peft_export *x)
{
    const clt_safetensors *model = x->saved->checkpoint->model;
    for (int i = 0; i < clt_safetensors_count(model); i++) {
        const clt_named_tensor *t = clt_safetensors_at(model, i);
        size_t length = clt_stem(t->name, ".weight");
        if (length == 0 || t->shape.ndim != 2 || strstr(t->name, ".lora_") || is_adapted(x, t->name, length))
            continue;
        for (int k = 0; k < x->n_layers; k++) {
            const char *part = last_part(x->layers[k]);
            size_t ends = strlen(part);
            if (ends < length && t->name[length - ends - 1] == '.' &&
                strncmp(t->name + length - ends, part, ends) == 0)
                return false;
        }
    }
    return true;
}

static void write_targets(const peft_export *x, clt_json_writer *w)
{
    bool parts = parts_suffice(x);
    clt_jw_karray(w, "target_modules");
    for (int i = 0; i < x->n_layers; i++) {
        const char *name = parts ? last_part(x->layers[i]) : path_of(x, x->layers[i]);
        bool again = false;
        for (int k = 0; k < i && parts; k++)
            again |= strcmp(last_part(x->layers[k]), name) == 0;
        if (name && !again)
            clt_jw_string(w, name);
    }
    clt_jw_end_array(w);
}

static void write_number(clt_json_writer *w, const char *key, double value)
{
    if (value < 1e6 && value - (double)(int64_t)value <= 0)
        clt_jw_kint(w, key, (int64_t)value);
    else
        clt_jw_kdouble(w, key, value);
}

static void write_parts(const peft_export *x, clt_json_writer *w)
{
    if (x->n_parts == 0)
        return;
    clt_jw_karray(w, "modules_to_save");
    for (int i = 0; i < x->n_parts; i++)
        clt_jw_string(w, path_of(x, x->parts[i]));
    clt_jw_end_array(w);
}

/* PEFT's name for the task of the model's head; NULL: it has none. */
static const char *task_of(const clt_config *c)
{
    static const char *const tasks[][2] = {
        {"class", "SEQ_CLS"}, {"number", "SEQ_CLS"}, {"tokens", "TOKEN_CLS"}, {"span", "QUESTION_ANS"}};
    if (!clt_config_part_has(clt_config_chosen(c, "model.type"), "model.head"))
        return "CAUSAL_LM";
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(clt_config_string(c, "model.head"), tasks[i][0]) == 0)
            return tasks[i][1];
    return NULL;
}

/* Writes ranks, or alphas, of the layers where they differ from the model's. */
static void write_pattern(const peft_export *x, const char *key, bool alphas, clt_json_writer *w)
{
    const clt_json *model = clt_config_model(x->saved->config, NULL);
    clt_jw_kobject(w, key);
    for (int i = 0; i < x->n_layers; i++) {
        const clt_lora_size size = clt_lora_size_of(model, x->layers[i]);
        const char *path = path_of(x, x->layers[i]);
        bool other = alphas ? fabs(size.alpha - clt_config_float(x->saved->config, "model.lora_alpha")) > 0
                            : size.rank != x->result->rank;
        if (path && other)
            write_number(w, path, alphas ? size.alpha : (double)size.rank);
    }
    clt_jw_end_object(w);
}

static clt_status write_config(const peft_export *x, const char *folder)
{
    const clt_config *c = x->saved->config;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "peft_type", "LORA");
    clt_jw_kstring(&w, "task_type", task_of(c));
    clt_jw_kstring(&w, "base_model_name_or_path", x->base);
    clt_jw_kint(&w, "r", x->result->rank);
    write_number(&w, "lora_alpha", clt_config_float(c, "model.lora_alpha"));
    clt_jw_kdouble(&w, "lora_dropout", clt_config_float(c, "model.lora_dropout"));
    clt_jw_kbool(&w, "use_rslora", clt_config_bool(c, "model.lora_rs"));
    write_targets(x, &w);
    write_parts(x, &w);
    write_pattern(x, "rank_pattern", false, &w);
    write_pattern(x, "alpha_pattern", true, &w);
    clt_jw_kbool(&w, "fan_in_fan_out", x->family->transposed);
    clt_jw_kstring(&w, "bias", "none");
    clt_jw_kbool(&w, "init_lora_weights", true);
    clt_jw_kbool(&w, "inference_mode", true);
    clt_jw_end_object(&w);
    return clt_new_folder_text(folder, "adapter_config.json", &text);
}

static clt_status write_folder(void *context, const char *folder)
{
    peft_export *x = context;
    CLT_FREED char *path = NULL;
    CLT_TRY(write_config(x, folder));
    CLT_TRY(clt_path_join(folder, "adapter_model.safetensors", &path));
    clt_status status = clt_export_tensors(x->tensors, x->count, CLT_F32, path, &x->result->weights);
    /* fails, too, if a mapping was truncated while it was read */
    CLT_TRY(clt_checkpoint_whole(x->saved->checkpoint));
    return status;
}

clt_status clt_peft_export(const clt_saved_run *saved, clt_values values, const char *base,
                           const char *folder, clt_peft_exported *result)
{
    CLT_SCOPED(peft_export) x = {.saved = saved, .values = values, .base = base, .result = result};
    memset(result, 0, sizeof *result);
    result->idle = true;
    result->rank = clt_config_int(saved->config, "model.lora_rank");
    x.family = clt_model_family_of(saved->config)->published;
    if (result->rank < 1 || !x.family)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "exporting '%s' for PEFT: the run has no adapters; train with model.lora_rank to have some",
                 saved->path);
    CLT_TRY(clt_new_folder_place(folder));
    CLT_TRY(clt_arena_create(&x.arena));
    CLT_TRY(gather(&x));
    CLT_TRY(clt_new_folder(folder, write_folder, &x));
    snprintf(result->weights.from, sizeof result->weights.from, "%s", saved->path);
    result->weights.averaged = values == CLT_VALUES_AVERAGED && clt_checkpoint_averages(saved->checkpoint);
    return CLT_OK;
}
