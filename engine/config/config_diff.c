/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference between two resolved configs, for resuming: keys that change what is computed must be equal.
 * Knows only names of keys and JSON. */
#include <string.h>

#include "engine/config/config.h"

/* Keys that may change in a resumed run: they change where and how fast it runs, not what it computes. */
static bool may_change(const char *path)
{
    static const char *const keys[] = {
        "device.spec",      "device.tune",        "device.tune_seconds", "device.timestamps",
        "data.workers",     "data.prefetch",      "checkpoint.every",    "checkpoint.minutes",
        "checkpoint.keep",  "checkpoint.final",   "checkpoint.best",     "checkpoint.major",
        "log.level",        "log.tensorboard",    "log.histograms",      "train.log_every",
        "train.eval_every", "train.eval_batches", "train.max_nonfinite", "train.recompute"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], path) == 0)
            return true;
    return false;
}

/* A key that the older program did not know had what is now the default. */
static const char *unset_text(const char *path)
{
    for (int i = 0; clt_config_schema[i].path; i++)
        if (strcmp(clt_config_schema[i].path, path) == 0 && clt_config_schema[i].default_text)
            return clt_config_schema[i].default_text;
    return "(unset)";
}

static void value_text(const char *path, const clt_json *value, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 0);
    if (value)
        clt_jw_value(&w, value);
    else
        clt_str_append(out, unset_text(path));
}

static void compare_key(const char *section, const char *key, const clt_json *was, const clt_json *is,
                        clt_str *out)
{
    clt_str path = {0}, a = {0}, b = {0};
    clt_str_printf(&path, "%s.%s", section, key);
    value_text(path.text ? path.text : "", was, &a);
    value_text(path.text ? path.text : "", is, &b);
    if (path.text && a.text && b.text && strcmp(a.text, b.text) != 0 && !may_change(path.text))
        clt_str_printf(out, "%s%s: was %s, is %s", out->length ? "\n" : "", path.text, a.text, b.text);
    clt_str_free(&path);
    clt_str_free(&a);
    clt_str_free(&b);
}

static void compare(const clt_json *was, const clt_json *is, clt_str *out)
{
    for (const clt_json *section = clt_json_first(is); section; section = clt_json_next(section)) {
        const char *name = clt_json_key(section);
        const clt_json *old = clt_json_get(was, name);
        if (clt_json_typeof(section) != CLT_JSON_OBJECT || name[0] == '_')
            continue;
        for (const clt_json *v = clt_json_first(section); v; v = clt_json_next(v))
            compare_key(name, clt_json_key(v), old ? clt_json_get(old, clt_json_key(v)) : NULL, v, out);
        for (const clt_json *v = old ? clt_json_first(old) : NULL; v; v = clt_json_next(v))
            if (!clt_json_get(section, clt_json_key(v)))
                compare_key(name, clt_json_key(v), v, NULL, out);
    }
}

clt_status clt_config_diff(const char *resolved_path, const clt_config *config, clt_str *out)
{
    clt_json_doc *was = NULL, *is = NULL;
    clt_str text = {0};
    clt_status status = clt_config_print(config, false, &text);
    CLT_TRY_GOTO(status, done);
    CLT_TRY_GOTO(clt_json_parse(text.text, text.length, "config", CLT_ECONFIG, &is), done);
    CLT_TRY_GOTO(clt_json_parse_file(resolved_path, CLT_ECONFIG, &was), done);
    compare(clt_json_root(was), clt_json_root(is), out);
    status = clt_str_check(out);
done:
    clt_json_destroy(was);
    clt_json_destroy(is);
    clt_str_free(&text);
    return status;
}
