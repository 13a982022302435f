/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies presets (values that follow from the weights that a run starts from): they fill keys that the
 * config leaves open, and a config that contradicts them is reported like any other problem. Knows nothing
 * of weights. */
#include <string.h>

#include "engine/config/config_internal.h"

/* True if the config omits the key, or sets it to a value (0, "auto", "") that leaves it to be derived. */
static bool is_open(const clt_config_key *key, const clt_config_value *value)
{
    if (!value->present || value->from == CLT_FROM_DEFAULT)
        return true;
    switch (key->type) {
    case CLT_CFG_INT:
        return value->i == 0 && key->default_text && strcmp(key->default_text, "0") == 0;
    case CLT_CFG_CHOICE:
        return key->default_text && strcmp(key->default_text, "\"auto\"") == 0 &&
               strcmp(value->s, "auto") == 0;
    case CLT_CFG_STRING:
        return !*value->s;
    case CLT_CFG_LAYERS:
        return value->i == 0 && value->count == 0;
    default:
        return false;
    }
}

static bool agrees(const clt_config_key *key, const clt_config_value *said, const clt_config_value *preset,
                   clt_preset_kind kind)
{
    if (kind == CLT_PRESET_DEFAULT || kind == CLT_PRESET_MISSING)
        return true;
    switch (key->type) {
    case CLT_CFG_INT:
    case CLT_CFG_LAYERS:
        return said->count == 0 &&
               (said->i == preset->i || (kind == CLT_PRESET_AT_MOST && said->i < preset->i));
    case CLT_CFG_BOOL:
        return said->b == preset->b;
    case CLT_CFG_CHOICE:
    case CLT_CFG_STRING:
        return strcmp(said->s, preset->s) == 0;
    case CLT_CFG_FLOAT:
        return !(said->f < preset->f) && !(said->f > preset->f);
    default:
        return true;
    }
}

static const char *value_text(clt_config *config, const clt_config_key *key, const clt_config_value *value)
{
    const char *text;
    if (key->type == CLT_CFG_INT || (key->type == CLT_CFG_LAYERS && value->count == 0))
        text = clt_arena_printf(config->arena, "%lld", (long long)value->i);
    else if (key->type == CLT_CFG_BOOL)
        text = value->b ? "true" : "false";
    else if (key->type == CLT_CFG_FLOAT)
        text = clt_arena_printf(config->arena, "%g", value->f);
    else
        text = value->s && *value->s ? value->s : "this value";
    return text ? text : "";
}

static clt_status apply(clt_config *config, const char *source, const clt_config_preset *preset,
                        clt_config_problems *list)
{
    int index = clt_config_key_index(preset->key);
    if (index < 0)
        CLT_FAIL(CLT_EINTERNAL, "presets of '%s': there is no key %s", source, preset->key);
    const clt_config_key *key = &clt_config_schema()[index];
    clt_config_value *said = &config->values[index], value;
    bool open = is_open(key, said);
    if (said->bad)
        return CLT_OK;
    if (preset->kind == CLT_PRESET_MISSING) {
        if (said->from == CLT_FROM_DEFAULT)
            clt_config_report(list, config->source, 0, 0, "%s: has to be given: %s ('%s')", preset->key,
                              preset->reason, source);
        return CLT_OK;
    }
    const char *kept = clt_arena_printf(config->arena, "'%s', where %s", source, preset->reason);
    if (!kept)
        CLT_FAIL(CLT_ENOMEM, "reading config %s: out of host memory", config->source);
    CLT_TRY(clt_config_read_given(config, index, preset->value, kept, &value, list));
    value.from = CLT_FROM_INIT;
    if (open)
        *said = value;
    else if (!value.bad && !agrees(key, said, &value, preset->kind))
        clt_config_report(
            list, said->source, said->line, said->column,
            "%s: %s contradicts the weights: %s in '%s'; remove the key to take its value from there",
            preset->key, value_text(config, key, said), preset->reason, source);
    return CLT_OK;
}

clt_status clt_config_apply_presets(clt_config *config, const clt_config_presets *presets,
                                    clt_config_problems *list)
{
    const clt_config_value *type = clt_config_at(config, "data.type");
    for (int i = 0; i < presets->count; i++) {
        const clt_config_preset *preset = &presets->items[i];
        bool other = preset->data_type && (!type->present || strcmp(type->s, preset->data_type) != 0);
        size_t before = list->count;
        if (!other)
            CLT_TRY(apply(config, presets->source, preset, list));
        if (list->count > before && strcmp(preset->key, "model.type") == 0)
            break; /* messages about the other keys would only repeat that the kind of model differs */
    }
    return CLT_OK;
}
