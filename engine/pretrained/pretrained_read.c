/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads single settings of a config.json. The file comes from a stranger, so every type is checked. */
#include "engine/pretrained/pretrained_internal.h"

#include <string.h>

void clt_pretrained_problem(clt_pretrained *p, const char *key, const char *why)
{
    clt_str_printf(&p->problems, "\n  %s: %s", key, why);
}

/* The value of a setting that has several names: of the first name that is present and not null. */
static const clt_json *find(const clt_pretrained *p, const char *const *names, const char **name)
{
    for (int i = 0; names[i]; i++) {
        const clt_json *value = clt_json_given(p->root, names[i]);
        *name = names[i];
        if (value)
            return value;
    }
    *name = names[0];
    return NULL;
}

void clt_pretrained_add(clt_pretrained *p, const char *key, const char *value, const char *reason,
                        clt_preset_kind kind, const char *data_type)
{
    if (p->count < CLT_PRETRAINED_MAX_KEYS)
        p->items[p->count++] = (clt_config_preset){key, value, reason, kind, data_type};
}

int64_t clt_pretrained_count(clt_pretrained *p, const char *const *names, int64_t preset, const char **reason)
{
    const char *name;
    const clt_json *value = find(p, names, &name);
    int64_t number = preset;
    if (value && !clt_json_int_within(value, 1, INT32_MAX, &number))
        clt_pretrained_problem(p, name, "is not a whole number of at least 1");
    if (!value && preset == 0)
        clt_pretrained_problem(p, name, "is missing");
    *reason = value ? clt_arena_printf(p->arena, "%s is %lld", name, (long long)number)
                    : clt_arena_printf(p->arena, "%s is missing, which means %lld", name, (long long)number);
    return number;
}

int64_t clt_pretrained_add_count(clt_pretrained *p, const char *key, const char *const *names, int64_t preset,
                                 clt_preset_kind kind)
{
    const char *reason;
    int64_t number = clt_pretrained_count(p, names, preset, &reason);
    clt_pretrained_add(p, key, clt_arena_printf(p->arena, "%lld", (long long)number), reason, kind, NULL);
    return number;
}

bool clt_pretrained_bool(clt_pretrained *p, const char *name, bool preset)
{
    const clt_json *value = clt_json_given(p->root, name);
    if (value && clt_json_typeof(value) != CLT_JSON_BOOL)
        clt_pretrained_problem(p, name, "is neither true nor false");
    return clt_json_typeof(value) == CLT_JSON_BOOL ? clt_json_bool(value) : preset;
}

double clt_pretrained_number(clt_pretrained *p, const clt_json *object, const char *name, double preset)
{
    const clt_json *value = clt_json_given(object, name);
    if (value && clt_json_typeof(value) != CLT_JSON_NUMBER)
        clt_pretrained_problem(p, name, "is not a number");
    return clt_json_number_or(value, preset);
}

void clt_pretrained_add_number(clt_pretrained *p, const char *key, double value, const char *what,
                               clt_preset_kind kind)
{
    char buffer[CLT_NUMBER_TEXT];
    const char *text = clt_double_text(value, buffer);
    clt_pretrained_add(p, key, clt_arena_strdup(p->arena, text),
                       clt_arena_printf(p->arena, "%s is %s", what, text), kind, NULL);
}

void clt_pretrained_tied(clt_pretrained *p, bool preset)
{
    bool tied = clt_pretrained_bool(p, "tie_word_embeddings", preset);
    clt_pretrained_add(p, "model.tied", tied ? "true" : "false",
                       tied ? "tie_word_embeddings is true" : "tie_word_embeddings is false",
                       CLT_PRESET_DEFAULT, NULL);
}

void clt_pretrained_refuse_common(clt_pretrained *p)
{
    if (clt_json_given(p->root, "quantization_config"))
        clt_pretrained_problem(p, "quantization_config",
                               "the weights are quantised; save them as floating-point numbers");
    if (clt_json_given(p->root, "auto_map"))
        clt_pretrained_problem(p, "auto_map", "the model brings its own code, which may compute anything");
}

/* Transformers' "gelu" is the exact function; "gelu_new" is the tanh approximation that GPT-2 was trained
 * with. */
const char *clt_pretrained_activation(const char *name)
{
    static const char *const names[][2] = {{"gelu_new", "gelu_tanh"},  {"gelu_pytorch_tanh", "gelu_tanh"},
                                           {"gelu_fast", "gelu_tanh"}, {"gelu_accurate", "gelu_tanh"},
                                           {"gelu", "gelu"},           {"gelu_python", "gelu"},
                                           {"relu", "relu"},           {"silu", "silu"},
                                           {"swish", "silu"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    return NULL;
}
