/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the model that a folder describes from its config.json alone. The data fields that the model needs
 * are made up, with the smallest shapes that give every parameter its right shape. */
#include "engine/train/inspect/folder_check.h"

#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/data/chat/chat_template.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/models/models.h"
#include "engine/train/run/run.h"

/* The config of the model; its data are never opened. */
static clt_status config_of(const char *path, clt_pretrained *p, clt_config **out)
{
    static const char text[] = "{\"data\": {\"type\": \"npy\", \"path\": \"x.npy\", \"targets\": \"y.npy\", "
                               "\"micro_batch\": 1}, \"train\": {\"steps\": 1}}";
    return clt_config_parse_over(text, path, NULL, 0, clt_pretrained_presets(p, false), out);
}

static void add_field(clt_model_inputs *inputs, const char *name, clt_shape shape, int64_t max_value)
{
    inputs->field[inputs->n_fields++] = (clt_model_field){name, CLT_I32, shape, max_value};
}

/* Adds a target that is a number. */
static void add_number(clt_model_inputs *inputs)
{
    inputs->field[inputs->n_fields++] = (clt_model_field){"y", CLT_F32, clt_shape_make(0, NULL), -1};
}

/* Adds the fields that a bert's head needs. Only the weights tell how many classes a classifier has. */
static void bert_fields(const clt_config *config, const clt_safetensors *file, clt_model_inputs *inputs)
{
    const char *head = clt_config_string(config, "model.head");
    int64_t length = clt_config_int(config, "model.context");
    const clt_named_tensor *last = clt_safetensors_find(file, "classifier.weight");
    int64_t classes = last && last->shape.ndim == 2 ? last->shape.dim[0] : 1;
    if (strcmp(head, "class") == 0)
        add_field(inputs, "y", clt_shape_make(0, NULL), classes - 1);
    else if (strcmp(head, "number") == 0)
        add_number(inputs);
    else if (strcmp(head, "tokens") == 0)
        add_field(inputs, "y", clt_shape1(length), classes - 1);
    else if (strcmp(head, "span") == 0)
        add_field(inputs, "y", clt_shape1(2), length - 1);
    else
        add_field(inputs, "y", clt_shape1(1), clt_config_int(config, "model.vocab") - 1);
    add_field(inputs, "segments", clt_shape1(length), 1);
    add_field(inputs, "places", clt_shape1(1), length - 1);
    add_field(inputs, "follows", clt_shape_make(0, NULL), 1);
}

static clt_status graph_of(const clt_config *config, const clt_safetensors *file, clt_graph **out)
{
    clt_model_inputs inputs = {.scale = 1, .std = 1};
    CLT_SCOPED(clt_graph) *graph = NULL;
    const clt_json_doc *doc;
    const clt_json *model = clt_config_model(config, &doc);
    int64_t length = clt_config_int(config, "model.context"), vocab = clt_config_int(config, "model.vocab");
    *out = NULL;
    add_field(&inputs, "x", clt_shape1(length), vocab - 1);
    if (strcmp(clt_config_string(config, "model.type"), "bert") == 0)
        bert_fields(config, file, &inputs);
    else
        add_field(&inputs, "y", clt_shape1(length), vocab - 1);
    CLT_TRY(clt_graph_create(1, &graph));
    CLT_TRY(clt_model_build(model, doc, &inputs, graph));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

#define MAX_TYPES 8

/* Counts the tensors of each type, under any name that the file gives a type. */
static void list_types(const clt_safetensors *file, clt_folder_facts *out)
{
    const char *type[MAX_TYPES];
    int count[MAX_TYPES] = {0}, n = 0;
    size_t used = 0;
    for (int i = 0; i < out->tensors; i++) {
        const char *name = clt_safetensors_type(file, clt_safetensors_at(file, i));
        int at = 0;
        while (at < n && strcmp(type[at], name) != 0)
            at++;
        if (at == n && n < MAX_TYPES)
            type[n++] = name;
        count[at < n ? at : n - 1]++;
    }
    for (int i = 0; i < n && used < sizeof out->types; i++)
        used += (size_t)snprintf(out->types + used, sizeof out->types - used,
                                 n == 1 ? "%s%.12s" : "%s%.12s (%d)", i ? ", " : "", type[i], count[i]);
    for (char *c = out->types; *c; c++)
        *c = (char)((unsigned char)*c < 32 || *c == 127 ? '?' : *c);
}

static clt_status look_at_tokenizer(const char *path, const clt_pretrained *p, int64_t vocab,
                                    clt_folder_facts *out)
{
    CLT_SCOPED(clt_tokenizer) *own = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_SCOPED(clt_str) notes = {0};
    const clt_chat_template *chat;
    const char *why;
    CLT_TRY(clt_fail_prefix(clt_tokenizer_open(path, &own), "opening the tokenizer beside the weights"));
    CLT_TRY(clt_pretrained_check_own_tokenizer(p, own, vocab, &notes));
    snprintf(out->tokenizer, sizeof out->tokenizer, "%.299s", clt_tokenizer_description(own));
    out->unused_rows = vocab > clt_tokenizer_vocab(own) ? vocab - clt_tokenizer_vocab(own) : 0;
    if (notes.length > 2)
        snprintf(out->special_ids, sizeof out->special_ids, "%.599s", notes.text + 2);
    CLT_TRY(clt_arena_create(&arena));
    CLT_TRY(clt_chat_template_recognise(path, arena, &chat, &why));
    snprintf(out->chat, sizeof out->chat, "%.299s", chat ? chat->name : why);
    return CLT_OK;
}

static const clt_config_preset *preset_of(const clt_config_presets *presets, const char *key)
{
    for (int i = 0; i < presets->count; i++)
        if (strcmp(presets->items[i].key, key) == 0)
            return &presets->items[i];
    return NULL;
}

static void describe_model(const clt_config_presets *presets, clt_folder_facts *out)
{
    static const char *const keys[] = {"model.type",     "model.layers",  "model.heads",
                                       "model.channels", "model.context", "model.vocab"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && used < sizeof out->model; i++) {
        const clt_config_preset *one = preset_of(presets, keys[i]);
        if (one && one->value)
            used += (size_t)snprintf(out->model + used, sizeof out->model - used, "%s%s %.30s",
                                     used ? ", " : "", keys[i] + strlen("model."), one->value);
    }
}

clt_status clt_folder_look(const char *path, clt_pretrained *p, clt_folder_facts *out)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_safetensors) *file = NULL;
    CLT_SCOPED(clt_graph) *graph = NULL;
    const clt_config_presets *presets = clt_pretrained_presets(p, true);
    *out = (clt_folder_facts){.tokenizer = "none lies beside the weights"};
    out->has_tokenizer = preset_of(presets, "data.tokenizer") != NULL;
    CLT_TRY(config_of(path, p, &config));
    CLT_TRY(clt_weights_open(path, &file));
    CLT_TRY(graph_of(config, file, &graph));
    describe_model(presets, out);
    const clt_config_preset *stops = preset_of(presets, "model.stop_tokens");
    snprintf(out->stops, sizeof out->stops, "%.299s", stops ? stops->value : "");
    for (size_t i = 0; i < graph->n_params; i++) { /* count without the rows that pad a vocabulary */
        clt_shape shape = clt_param_file_shape(&graph->params[i]);
        out->parameters += clt_shape_elements(&shape);
    }
    out->files = clt_safetensors_files(file);
    out->tensors = clt_safetensors_count(file);
    list_types(file, out);
    return out->has_tokenizer ? look_at_tokenizer(path, p, clt_config_int(config, "model.vocab"), out)
                              : CLT_OK;
}

clt_status clt_folder_check(const char *path, clt_pretrained *p)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_safetensors) *file = NULL;
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_weights_taken taken = {0};
    CLT_TRY(config_of(path, p, &config));
    CLT_TRY(clt_weights_open(path, &file));
    CLT_TRY(graph_of(config, file, &graph));
    const clt_run_options options = {.init = path, .config = config};
    const clt_job job = {.model = graph};
    return clt_run_check_init(&options, &job, &taken);
}
