/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads keys of a config's model section with their types, for the model families. The keys of a config file
 * have been checked against the schema before; for a graph that is built without a file these are the only
 * checks. Knows JSON values, but no family. */
#include <stdio.h>
#include <string.h>

#include "engine/models/models_internal.h"

clt_status clt_model_key_fail(const clt_model_builder *b, const char *key, const char *why)
{
    const clt_json *value = clt_json_get(b->model, key);
    return clt_model_at(b->doc, value ? value : b->model,
                        clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "model.%s: %s", key, why));
}

clt_status clt_model_read_int(const clt_model_builder *b, const char *key, int64_t least, int64_t *out)
{
    const clt_json *value = clt_json_given(b->model, key);
    char why[96];
    if (!value || clt_json_int_within(value, least, INT32_MAX, out))
        return CLT_OK;
    snprintf(why, sizeof why, "must be an integer of at least %lld", (long long)least);
    return clt_model_key_fail(b, key, why);
}

clt_status clt_model_read_share(const clt_model_builder *b, const char *key, double *out)
{
    const clt_json *value = clt_json_given(b->model, key);
    if (!value)
        return CLT_OK;
    if (clt_json_typeof(value) != CLT_JSON_NUMBER)
        return clt_model_key_fail(b, key, "must be a number");
    *out = clt_json_number(value);
    return *out >= 0 && *out < 1 ? CLT_OK : clt_model_key_fail(b, key, "must be at least 0 and below 1");
}

clt_status clt_model_read_number(const clt_model_builder *b, const char *key, double least, double most,
                                 double *out)
{
    const clt_json *value = clt_json_given(b->model, key);
    char why[96];
    if (!value)
        return CLT_OK;
    snprintf(why, sizeof why, "must be a number from %g to %g", least, most);
    if (clt_json_typeof(value) != CLT_JSON_NUMBER)
        return clt_model_key_fail(b, key, why);
    *out = clt_json_number(value);
    return *out >= least && *out <= most ? CLT_OK : clt_model_key_fail(b, key, why);
}

/* Reads a list of numbers >= 0 into the graph's memory. For an empty list or an absent key, *out and *count
 * keep their values. */
static clt_status read_numbers(const clt_model_builder *b, const char *key, const double **out,
                               int64_t *count)
{
    static const char why[] = "must be a list of numbers of at least 0";
    const clt_json *value = clt_json_given(b->model, key);
    if (!value)
        return CLT_OK;
    if (clt_json_typeof(value) != CLT_JSON_ARRAY || clt_json_count(value) > CLT_MAX_LIST)
        return clt_model_key_fail(b, key, why);
    size_t n = clt_json_count(value);
    double *numbers = clt_arena_alloc(b->graph->arena, n * sizeof *numbers + 1);
    if (!numbers)
        return CLT_ENOMEM;
    n = 0;
    for (const clt_json *e = clt_json_first(value); e; e = clt_json_next(e)) {
        numbers[n] = clt_json_number_or(e, -1);
        if (!(numbers[n] >= 0 && numbers[n] <= 1e6))
            return clt_model_key_fail(b, key, why);
        n++;
    }
    if (n > 0) {
        *out = numbers;
        *count = (int64_t)n;
    }
    return CLT_OK;
}

clt_status clt_model_read_class_weights(const clt_model_builder *b, const char *noun, int64_t classes,
                                        const double **out)
{
    int64_t count = 0;
    char why[128];
    CLT_TRY(read_numbers(b, "class_weights", out, &count));
    if (count == classes || count == 0)
        return CLT_OK;
    (void)snprintf(why, sizeof why, "%s has %lld classes, but the list has %lld weights; give one for each",
                   noun, (long long)classes, (long long)count);
    return clt_model_key_fail(b, "class_weights", why);
}

clt_status clt_model_read_bool(const clt_model_builder *b, const char *key, bool *out)
{
    const clt_json *value = clt_json_get(b->model, key);
    if (value && clt_json_typeof(value) != CLT_JSON_BOOL)
        return clt_model_key_fail(b, key, "must be true or false");
    if (value)
        *out = clt_json_bool(value);
    return CLT_OK;
}

clt_status clt_model_read_word(const clt_model_builder *b, const char *key, const char *choices,
                               const char **out)
{
    const clt_json *value = clt_json_given(b->model, key);
    char why[160], framed[64], list[128];
    if (!value)
        return CLT_OK;
    snprintf(why, sizeof why, "must be one of %s", choices);
    if (clt_json_typeof(value) != CLT_JSON_STRING)
        return clt_model_key_fail(b, key, why);
    snprintf(framed, sizeof framed, "|%.60s|", clt_json_string(value));
    snprintf(list, sizeof list, "|%s|", choices);
    *out = clt_json_string(value);
    return strchr(*out, '|') == NULL && strstr(list, framed) ? CLT_OK : clt_model_key_fail(b, key, why);
}
