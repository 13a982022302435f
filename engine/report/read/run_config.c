/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the config of a run into a flat list of keys with the schema's defaults, and gives runs names that
 * differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config/config.h"
#include "engine/files/fileio.h"
#include "engine/report/read/run_record.h"

static const char *preset_of(const char *key)
{
    for (int i = 0; clt_config_schema()[i].path; i++)
        if (strcmp(clt_config_schema()[i].path, key) == 0)
            return clt_config_schema()[i].default_text;
    return NULL;
}

static clt_status as_plain_text(const clt_json *value, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_value(&w, value);
    return clt_str_check(out);
}

/* Compares two JSON texts. Numbers are compared by value: 1e-3 and 0.001 are equal. */
static clt_status same_json(const char *a, const char *b, bool *same)
{
    CLT_SCOPED(clt_json_doc) *x = NULL, *y = NULL;
    CLT_SCOPED(clt_str) p = {0}, q = {0};
    *same = strcmp(a, b) == 0;
    if (*same)
        return CLT_OK;
    CLT_TRY(clt_json_parse(a, strlen(a), "value", CLT_EDATA, &x));
    CLT_TRY(clt_json_parse(b, strlen(b), "default", CLT_EDATA, &y));
    const clt_json *v = clt_json_root(x), *w = clt_json_root(y);
    CLT_TRY(as_plain_text(v, &p));
    CLT_TRY(as_plain_text(w, &q));
    bool numbers = clt_json_typeof(v) == CLT_JSON_NUMBER && clt_json_typeof(w) == CLT_JSON_NUMBER;
    *same = numbers ? clt_json_number(v) == clt_json_number(w) : strcmp(p.text, q.text) == 0;
    return CLT_OK;
}

static clt_status add_entry(clt_config_entries *out, const char *section, const char *key,
                            const clt_json *value)
{
    CLT_SCOPED(clt_str) path = {0}, text = {0};
    clt_str_printf(&path, "%s%s%s", section, *section ? "." : "", key);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(as_plain_text(value, &text));
    CLT_TRY(clt_grow(&out->items, &out->capacity, out->count + 1, sizeof *out->items, "a run's config"));
    const char *preset = preset_of(path.text);
    bool same = false;
    if (preset)
        CLT_TRY(same_json(text.text, preset, &same));
    out->items[out->count++] =
        (clt_config_entry){CLT_TAKE(path.text), CLT_TAKE(text.text), preset, .changed = !same};
    return CLT_OK;
}

clt_status clt_run_config_entries(const clt_run_record *record, clt_config_entries *out)
{
    *out = (clt_config_entries){0};
    const clt_json *root = clt_json_root(record->config);
    if (clt_json_typeof(root) != CLT_JSON_OBJECT)
        return CLT_OK;
    for (const clt_json *section = clt_json_first(root); section; section = clt_json_next(section)) {
        const char *name = clt_json_key(section);
        if (name[0] == '_')
            continue;
        if (clt_json_typeof(section) != CLT_JSON_OBJECT)
            CLT_TRY(add_entry(out, "", name, section));
        else
            for (const clt_json *v = clt_json_first(section); v; v = clt_json_next(v))
                CLT_TRY(add_entry(out, name, clt_json_key(v), v));
    }
    return CLT_OK;
}

void clt_run_config_entries_free(clt_config_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        free(entries->items[i].key);
        free(entries->items[i].value);
    }
    free(entries->items);
    *entries = (clt_config_entries){0};
}

const char *clt_run_config_value(const clt_config_entries *entries, const char *key)
{
    for (size_t i = 0; i < entries->count; i++)
        if (strcmp(entries->items[i].key, key) == 0)
            return entries->items[i].value;
    return NULL;
}

/* --- names --- */

/* The last `parts` components of a path. */
static const char *tail_of(const char *path, int parts)
{
    const char *at = path + strlen(path);
    while (at > path) {
        if (at[-1] == '/' && --parts == 0)
            break;
        at--;
    }
    return at;
}

static clt_status rename_run(clt_run_record *record, int parts)
{
    CLT_FREED char *real = clt_path_real(record->folder);
    char *name = real ? strdup(tail_of(real, parts)) : NULL;
    if (!name)
        CLT_FAIL(CLT_ENOMEM, "naming runs: out of host memory");
    free(record->name);
    record->name = name;
    return CLT_OK;
}

clt_status clt_run_names(clt_run_record *const *records, int count)
{
    CLT_FREED bool *twice = NULL;
    CLT_TRY(clt_alloc(&twice, (size_t)count, sizeof *twice, "names of runs"));
    for (int parts = 2; parts < 16; parts++) {
        for (int i = 0; i < count; i++)
            for (int k = 0; k < i; k++)
                if (strcmp(records[i]->name, records[k]->name) == 0 &&
                    !clt_same_folder(records[i]->folder, records[k]->folder))
                    twice[i] = twice[k] = true;
        for (int i = 0; i < count; i++)
            if (twice[i])
                CLT_TRY(rename_run(records[i], parts));
        memset(twice, 0, (size_t)count * sizeof *twice);
    }
    return CLT_OK;
}
