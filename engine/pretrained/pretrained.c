/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens models of transformers: their config.json becomes keys of our model section. Settings that make a
 * model compute something that ours cannot are refused by name; settings that do not affect the computation
 * are ignored. Also finds weights, tokenizers and our own runs. */
#include "engine/pretrained/pretrained_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/files/fileio.h"

#define CONFIG_MAX_BYTES 16000000u

/* --- kinds of models --- */

static const clt_pretrained_class classes[] = {
    {.model_type = "gpt2", .family = "gpt", .read = clt_pretrained_read_gpt2},
    {.model_type = "llama", .family = "llama", .read = clt_pretrained_read_llama},
    {.model_type = "bert", .family = "bert", .read = clt_pretrained_read_bert},
    {.model_type = "mistral",
     .family = "llama",
     .read = clt_pretrained_read_llama,
     .kv_heads = 8,
     .window = 4096,
     .bias = "none"},
    {.model_type = "qwen2",
     .family = "llama",
     .read = clt_pretrained_read_llama,
     .kv_heads = 32,
     .window = 4096,
     .window_is_optional = true,
     .bias = "qkv"},
    {.model_type = "qwen3",
     .family = "llama",
     .read = clt_pretrained_read_llama,
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .window_is_optional = true,
     .head_norm = true},
};

static clt_status find_class(const clt_pretrained *p, const clt_pretrained_class **out)
{
    const char *name = clt_json_string(clt_json_get(p->root, "model_type"));
    CLT_SCOPED(clt_str) known = {0};
    if (clt_json_typeof(p->root) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it is not a JSON object, so not the config.json of a model",
                 p->config_path);
    size_t count = sizeof classes / sizeof classes[0];
    for (size_t i = 0; i < count; i++) {
        *out = &classes[i];
        if (strcmp(classes[i].model_type, name) == 0)
            return CLT_OK;
        clt_str_printf(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " and ", classes[i].model_type);
    }
    CLT_TRY(clt_str_check(&known));
    CLT_FAIL(CLT_EUNSUPPORTED, "reading '%s': model_type is '%.60s'; cltrain takes %s", p->config_path, name,
             known.text);
}

static clt_status read_model(clt_pretrained *p)
{
    const clt_pretrained_class *c;
    CLT_TRY(find_class(p, &c));
    clt_pretrained_add(p, "model.type", clt_arena_printf(p->arena, "\"%s\"", c->family),
                       clt_arena_printf(p->arena, "model_type is %s", c->model_type), CLT_PRESET_EQUAL, NULL);
    c->read(p, c);
    clt_pretrained_refuse_common(p);
    CLT_TRY(clt_str_check(&p->problems));
    if (p->problems.length)
        CLT_FAIL(CLT_EUNSUPPORTED, "'%.600s' describes a model that cltrain's %s cannot represent:%.3000s",
                 p->config_path, c->family, p->problems.text);
    return CLT_OK;
}

/* --- the folder --- */

bool clt_pretrained_is_folder(const char *path)
{
    return clt_is_directory(path) && clt_pretrained_holds(path, "config.json") && !clt_checkpoint_named(path);
}

bool clt_pretrained_holds(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    if (clt_path_join(folder, name, &path) == CLT_OK)
        return clt_is_regular(path);
    clt_error_clear();
    return false;
}

static clt_status add_tokenizer(clt_pretrained *p, const char *path, const char *reason)
{
    clt_str quoted = {0};
    clt_json_writer w = clt_json_writer_make(&quoted, 0);
    clt_jw_string(&w, path);
    const char *value = clt_str_check(&quoted) == CLT_OK ? clt_arena_strdup(p->arena, quoted.text) : NULL;
    clt_str_free(&quoted);
    if (!value)
        return CLT_ENOMEM;
    clt_pretrained_add(p, "data.tokenizer", value, reason, CLT_PRESET_DEFAULT, "text");
    return CLT_OK;
}

static clt_status read_folder(clt_pretrained *p)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *text = NULL;
    size_t size;
    CLT_TRY(clt_path_join(p->folder, "config.json", &path));
    p->config_path = clt_arena_strdup(p->arena, path);
    if (!p->config_path)
        return CLT_ENOMEM;
    if (!clt_is_regular(path))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "'%.600s' holds no config.json, so it is not a folder that save_pretrained wrote; to read "
                 "only weights, name their file, such as %.600s/model.safetensors",
                 p->folder, p->folder);
    CLT_TRY(clt_file_read(p->config_path, false, CONFIG_MAX_BYTES, CLT_ECHECKPOINT, &text, &size));
    CLT_TRY(clt_json_parse(text, size, p->config_path, CLT_ECHECKPOINT, &p->doc));
    p->root = clt_json_root(p->doc);
    CLT_TRY(read_model(p));
    CLT_TRY(clt_pretrained_add_stops(p));
    return clt_pretrained_has_tokenizer(p->folder)
               ? add_tokenizer(p, p->folder, "the tokenizer lies beside the weights")
               : CLT_OK;
}

/* --- checkpoints of our own --- */

/* Distinguishes keys that decide which parameters exist from keys that decide what is computed with them. */
static clt_preset_kind kind_of(const clt_config *config, const char *key, const char *value)
{
    static const char *const fixed[] = {"model.type",
                                        "model.activation",
                                        "model.bias",
                                        "model.embedding",
                                        "model.outputs",
                                        "model.heads",
                                        "model.vocab",
                                        "model.channels",
                                        "model.tied",
                                        "model.kv_heads",
                                        "model.head_dim",
                                        "model.inner",
                                        "model.norm_eps",
                                        "model.layernorm_eps",
                                        "model.segments",
                                        "model.padding",
                                        "model.head_norm",
                                        "model.mlp_bias",
                                        "model.rope_base",
                                        "model.rope_low",
                                        "model.rope_scaling",
                                        "model.rope_factor",
                                        "model.rope_high",
                                        "model.window",
                                        "model.window_from",
                                        "model.rope_original",
                                        "model.attention_bias",
                                        "model.rope_attention",
                                        "model.lora_rank",
                                        "model.lora_alpha",
                                        "model.lora_rs",
                                        "model.lora_targets",
                                        "model.lora_rank_pattern",
                                        "model.lora_alpha_pattern"};
    /* if the number of positions is a separate setting, it limits the context */
    bool positions = clt_config_part_has(clt_config_chosen(config, "model.type"), "model.positions") &&
                     clt_config_int(config, "model.positions") > 0;
    if (strcmp(key, "model.context") == 0)
        return positions ? CLT_PRESET_DEFAULT : CLT_PRESET_AT_MOST;
    if (strcmp(key, "model.layers") == 0 && *value != '[')
        return CLT_PRESET_EQUAL;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(fixed[i], key) == 0)
            return CLT_PRESET_EQUAL;
    return CLT_PRESET_DEFAULT;
}

/* Reads the keys that are set in the model section of the run. If the run has no adapters, keys that describe
 * adapters are skipped. */
static clt_status read_section(clt_pretrained *p, const clt_config *config)
{
    const clt_json *model = clt_config_model(config, NULL);
    bool adapted = clt_json_number(clt_json_get(model, "lora_rank")) > 0;
    for (const clt_json *value = clt_json_first(model); value; value = clt_json_next(value)) {
        if (!adapted && strncmp(clt_json_key(value), "lora_", 5) == 0)
            continue;
        CLT_SCOPED(clt_str) text = {0};
        clt_json_writer w = clt_json_writer_make(&text, 0);
        clt_jw_value(&w, value);
        CLT_TRY(clt_str_check(&text));
        bool open =
            strcmp(text.text, "0") == 0 || strcmp(text.text, "\"auto\"") == 0 || strcmp(text.text, "[]") == 0;
        const char *key = clt_arena_printf(p->arena, "model.%s", clt_json_key(value));
        if (!key)
            CLT_FAIL(CLT_ENOMEM, "reading '%s': out of host memory", p->config_path);
        if (!open)
            clt_pretrained_add(p, key, clt_arena_strdup(p->arena, text.text),
                               clt_arena_printf(p->arena, "%s is %.60s", key, text.text),
                               kind_of(config, key, text.text), NULL);
    }
    return CLT_OK;
}

static clt_status read_checkpoint(clt_pretrained *p, const char *path)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    CLT_TRY(clt_saved_run_open(path, NULL, &saved));
    p->config_path = clt_arena_printf(p->arena, "%s/config.json", saved->path);
    CLT_TRY(p->config_path ? read_section(p, saved->config) : CLT_ENOMEM);
    const char *tokenizer = clt_config_string(saved->config, "data.tokenizer");
    return *tokenizer ? add_tokenizer(p, tokenizer, "the run has a tokenizer") : CLT_OK;
}

/* Fails if a text is NULL because memory for it ran out. */
static clt_status check_texts(const clt_pretrained *p)
{
    for (int i = 0; i < p->count; i++)
        if (!p->items[i].reason || (!p->items[i].value && p->items[i].kind != CLT_PRESET_MISSING))
            CLT_FAIL(CLT_ENOMEM, "reading '%s': out of host memory", p->config_path);
    return CLT_OK;
}

clt_status clt_pretrained_open(const char *path, clt_pretrained **out)
{
    CLT_SCOPED(clt_pretrained) *p = NULL;
    CLT_SCOPED(clt_safetensors) *weights = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "pretrained weights"));
    CLT_TRY(clt_arena_create(&p->arena));
    if (clt_checkpoint_named(path)) {
        CLT_TRY(read_checkpoint(p, path));
    } else {
        /* a folder without weights is the wrong path, whatever else it contains */
        CLT_TRY(clt_weights_open(path, &weights));
        p->tensors = clt_safetensors_count(weights);
        if (clt_is_directory(path)) {
            p->folder = clt_arena_strdup(p->arena, path);
            CLT_TRY(p->folder ? read_folder(p) : CLT_ENOMEM);
        }
    }
    CLT_TRY(check_texts(p));
    *out = CLT_TAKE(p);
    return CLT_OK;
}

void clt_pretrained_close(clt_pretrained *p)
{
    if (!p)
        return;
    clt_str_free(&p->problems);
    clt_json_destroy(p->doc);
    clt_json_destroy(p->generation);
    clt_arena_destroy(p->arena);
    free(p);
}

const clt_config_presets *clt_pretrained_presets(clt_pretrained *p, bool training)
{
    int kept = 0;
    for (int i = 0; i < p->count; i++) /* evaluation has no dropout, so its rate is not preset */
        if (training || p->items[i].kind != CLT_PRESET_MISSING)
            p->items[kept++] = p->items[i];
    p->count = kept;
    p->presets = (clt_config_presets){p->config_path ? p->config_path : "", p->items, p->count};
    return &p->presets;
}

const char *clt_pretrained_value(const clt_pretrained *p, const char *key)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->items[i].key, key) == 0)
            return p->items[i].value;
    return NULL;
}

bool clt_pretrained_generates(const clt_pretrained *p)
{
    const char *type = clt_pretrained_value(p, "model.type");
    return type && strcmp(type, "\"bert\"") != 0;
}

void clt_pretrained_drop_names(clt_pretrained *p)
{
    int kept = 0;
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->items[i].key, "data.class_names") != 0)
            p->items[kept++] = p->items[i];
    p->count = kept;
}

clt_status clt_pretrained_add_adapter(clt_pretrained *p, const clt_config_presets *adapter)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->items[i].key, "model.lora_rank") == 0)
            CLT_FAIL(CLT_EUSAGE, "--adapter: the weights of --init have adapters already (%s, '%.600s')",
                     p->items[i].reason, p->config_path);
    for (int i = 0; i < adapter->count; i++)
        clt_pretrained_add(p, adapter->items[i].key, adapter->items[i].value, adapter->items[i].reason,
                           adapter->items[i].kind, NULL);
    return CLT_OK;
}

/* --- a config --- */

/* Appends a data section that suits the model: by the head of a bert, else text. */
static void append_data(const clt_pretrained *p, clt_str *out)
{
    const char *tokenizer = clt_pretrained_value(p, "data.tokenizer");
    const char *head = clt_pretrained_value(p, "model.head");
    bool bert = !clt_pretrained_generates(p);
    bool annotated = bert && head && strcmp(head, "\"pretrain\"") != 0 && strcmp(head, "\"masked\"") != 0;
    clt_str_append(out, "\n  },\n  \"data\": {\n");
    if (annotated)
        clt_str_printf(out, "    \"type\": \"annotated\",\n    \"task\": %s,\n    \"path\": \"train.jsonl\"",
                       head);
    else
        clt_str_append(out, bert ? "    \"type\": \"mlm\",\n    \"path\": \"pairs\""
                                 : "    \"type\": \"text\",\n    \"path\": \"text.txt\"");
    if (tokenizer && (annotated || !bert))
        clt_str_printf(out, ",\n    \"tokenizer\": %s", tokenizer);
    const char *names = annotated ? clt_pretrained_value(p, "data.class_names") : NULL;
    if (names)
        clt_str_printf(out, ",\n    \"class_names\": %s", names);
}

clt_status clt_pretrained_config(const clt_pretrained *p, clt_str *out)
{
    if (!p->folder)
        CLT_FAIL(
            CLT_EUSAGE,
            "a config can be made from a folder that save_pretrained wrote, not from a file of weights; a "
            "run has its own, config.resolved.json");
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_str_append(out, "{\n  \"model\": {\n    \"init\": ");
    clt_jw_string(&w, p->folder);
    for (int i = 0; i < p->count; i++) {
        const clt_config_preset *preset = &p->items[i];
        bool model = strncmp(preset->key, "model.", 6) == 0;
        if (model)
            clt_str_printf(out, ",\n    \"%s\": %s", preset->key + 6, preset->value ? preset->value : "0.1");
    }
    append_data(p, out);
    clt_str_append(out,
                   ",\n    \"micro_batch\": 8\n  },\n"
                   "  \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 5e-05, \"weight_decay\": 0.01, "
                   "\"clip\": 1},\n"
                   "  \"schedule\": {\"type\": \"linear\"},\n"
                   "  \"train\": {\"steps\": 1000, \"eval_every\": 100}\n}\n");
    return clt_str_check(out);
}
