/* SPDX-License-Identifier: Apache-2.0
 *
 * Access to the values of a config by key path. A key that is not in the schema is a programming error. */
#include <assert.h>
#include <string.h>

#include "engine/config/config_internal.h"

const clt_config_value *clt_config_at(const clt_config *config, const char *key)
{
    int index = clt_config_key_index(key);
    static const clt_config_value nothing = {.s = ""};
    assert(index >= 0 && "the key is not in the schema");
    return index >= 0 ? &config->values[index] : &nothing;
}

int64_t clt_config_int(const clt_config *config, const char *key)
{
    return clt_config_at(config, key)->i;
}

double clt_config_float(const clt_config *config, const char *key)
{
    return clt_config_at(config, key)->f;
}

bool clt_config_bool(const clt_config *config, const char *key)
{
    return clt_config_at(config, key)->b;
}

const char *clt_config_string(const clt_config *config, const char *key)
{
    const char *s = clt_config_at(config, key)->s;
    return s ? s : "";
}

int clt_config_choice(const clt_config *config, const char *key)
{
    const char *chosen = clt_config_string(config, key);
    int index = 0;
    for (const char *word = clt_config_schema()[clt_config_key_index(key)].choices; *word; index++) {
        size_t n = strcspn(word, "|");
        if (strlen(chosen) == n && strncmp(word, chosen, n) == 0)
            return index;
        word += n + (word[n] == '|');
    }
    assert(!"the key is not a choice, or its value is not one of the words");
    return 0;
}

int clt_config_list_count(const clt_config *config, const char *key)
{
    return clt_config_at(config, key)->count;
}

int64_t clt_config_list_int(const clt_config *config, const char *key, int index)
{
    const clt_config_value *value = clt_config_at(config, key);
    assert(index >= 0 && index < value->count);
    return value->ints[index];
}

double clt_config_list_float(const clt_config *config, const char *key, int index)
{
    const clt_config_value *value = clt_config_at(config, key);
    assert(index >= 0 && index < value->count);
    return value->floats[index];
}

const char *clt_config_list_string(const clt_config *config, const char *key, int index)
{
    const clt_config_value *value = clt_config_at(config, key);
    assert(index >= 0 && index < value->count);
    return value->strings[index];
}

const char *clt_config_origin(const clt_config *config, const char *key)
{
    static const char *const names[] = {"default", "file", "override", "init"};
    return names[clt_config_at(config, key)->from];
}

bool clt_config_is_set(const clt_config *config, const char *key)
{
    return clt_config_at(config, key)->from != CLT_FROM_DEFAULT;
}
