/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects keys and values of a config, and writes them in the order in which people write configs. */
#include "cli/data/draft.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

clt_status draft_open(draft *d)
{
    *d = (draft){.count = 0};
    return clt_arena_create(&d->arena);
}

void draft_close(draft *d)
{
    clt_arena_destroy(d->arena);
    *d = (draft){.count = 0};
}

const char *draft_value(const draft *d, const char *key)
{
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->entry[i].key, key) == 0)
            return d->entry[i].value;
    return "";
}

/* Sets a key. value: JSON; NULL: memory for it ran out. */
static void set(draft *d, const char *key, const char *value)
{
    int at = 0;
    while (at < d->count && strcmp(d->entry[at].key, key) != 0)
        at++;
    if (!value || at == DRAFT_MAX) {
        d->failed = true;
        return;
    }
    d->entry[at] = (draft_entry){key, value};
    d->count += at == d->count;
}

/* Sets a key to the JSON text in `written`, and frees `written`. */
static void set_written(draft *d, const char *key, clt_str *written)
{
    set(d, key, written->failed || !written->text ? NULL : clt_arena_strdup(d->arena, written->text));
    clt_str_free(written);
}

void draft_text(draft *d, const char *key, const char *value)
{
    clt_str text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_jw_string(&w, value);
    set_written(d, key, &text);
}

void draft_int(draft *d, const char *key, int64_t value)
{
    set(d, key, clt_arena_printf(d->arena, "%lld", (long long)value));
}

void draft_number(draft *d, const char *key, double value)
{
    draft_numbers(d, key, &value, 0);
}

void draft_bool(draft *d, const char *key, bool value)
{
    set(d, key, value ? "true" : "false");
}

void draft_ints(draft *d, const char *key, const int64_t *values, int count)
{
    clt_str text = {0};
    for (int i = 0; i < count; i++)
        clt_str_printf(&text, "%s%lld", i ? ", " : "[", (long long)values[i]);
    clt_str_append(&text, count ? "]" : "[]");
    set_written(d, key, &text);
}

void draft_texts(draft *d, const char *key, const char *const *values, int count)
{
    clt_str text = {0};
    clt_str_append(&text, "[");
    for (int i = 0; i < count; i++) {
        clt_json_writer w = clt_json_writer_make(&text, 0);
        clt_str_append(&text, i ? ", " : "");
        clt_jw_string(&w, values[i]);
    }
    clt_str_append(&text, "]");
    set_written(d, key, &text);
}

void draft_json(draft *d, const char *key, const char *json)
{
    set(d, key, json);
}

void draft_remove(draft *d, const char *key)
{
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->entry[i].key, key) == 0) {
            memmove(&d->entry[i], &d->entry[i + 1], (size_t)(d->count - i - 1) * sizeof *d->entry);
            d->count--;
            return;
        }
}

/* count 0: sets a single number instead of a list. */
void draft_numbers(draft *d, const char *key, const double *values, int count)
{
    clt_str text = {0};
    char number[CLT_NUMBER_TEXT];
    for (int i = 0; i < (count > 0 ? count : 1); i++)
        clt_str_printf(&text, "%s%s", i ? ", " : count > 0 ? "[" : "", clt_double_text(values[i], number));
    if (count > 0)
        clt_str_append(&text, "]");
    set_written(d, key, &text);
}

void draft_gpt(draft *d, uint64_t tokens, bool has_eval)
{
    const int64_t micro_batch = 8;
    int64_t context = 128, steps = 2000;
    while (context > 1 && tokens < 16 * (uint64_t)context)
        context /= 2;
    uint64_t most = 50 * tokens / (uint64_t)(micro_batch * context);
    if (most < (uint64_t)steps)
        steps = most > 100 ? (int64_t)most : 100;
    draft_text(d, "model.type", "gpt");
    draft_int(d, "model.layers", 4);
    draft_int(d, "model.heads", 4);
    draft_int(d, "model.channels", 128);
    draft_int(d, "model.context", context);
    draft_int(d, "data.micro_batch", micro_batch);
    draft_number(d, "optimizer.learning_rate", 1e-3);
    draft_number(d, "optimizer.clip", 1);
    draft_text(d, "schedule.type", "cosine");
    draft_int(d, "schedule.warmup", steps / 20);
    draft_int(d, "train.steps", steps);
    if (has_eval)
        draft_int(d, "train.eval_every", steps / 4);
}

/* True if entry i is the first entry of its section, and the list `sections` lacks that section. */
static bool begins_section(const draft *d, int i, const char *const *sections, size_t count, size_t length)
{
    const char *key = d->entry[i].key;
    for (size_t k = 0; k < count; k++)
        if (strlen(sections[k]) == length && strncmp(sections[k], key, length) == 0)
            return false;
    for (int k = 0; k < i; k++)
        if (strncmp(d->entry[k].key, key, length + 1) == 0)
            return false;
    return true;
}

/* Appends the keys of a section, as an object that ends without a line break. */
static void write_section(const draft *d, const char *section, bool first, clt_str *out)
{
    size_t n = strlen(section);
    bool any = false;
    for (int i = 0; i < d->count; i++) {
        const char *key = d->entry[i].key;
        if (strncmp(key, section, n) != 0 || key[n] != '.')
            continue;
        if (!any)
            clt_str_printf(out, "%s  \"%s\": {\n", first ? "" : ",\n", section);
        clt_str_printf(out, "%s    \"%s\": %s", any ? ",\n" : "", key + n + 1, d->entry[i].value);
        any = true;
    }
    if (any)
        clt_str_append(out, "\n  }");
}

clt_status draft_write(const draft *d, bool probe, clt_str *out)
{
    static const char *const sections[] = {"model", "data", "optimizer", "schedule", "train", "checkpoint"};
    const char *type = draft_value(d, "data.type"), *context = draft_value(d, "model.context");
    if (d->failed)
        CLT_FAIL(CLT_ENOMEM, "writing a config: out of host memory");
    bool text = strcmp(type, "\"text\"") == 0 || strcmp(type, "\"tokens\"") == 0;
    clt_str_append(out, "{\n");
    if (probe)
        clt_str_printf(out,
                       "  \"model\": {\"type\": \"graph\", \"context\": %s, \"layers\": [{\"op\": \"mse\"}]}",
                       !text      ? "0"
                       : *context ? context
                                  : "16");
    for (size_t i = probe ? 1 : 0; i < (probe ? 2 : sizeof sections / sizeof sections[0]); i++)
        write_section(d, sections[i], i == 0, out);
    for (int i = 0; i < d->count && !probe; i++) {
        char section[32];
        size_t length = strcspn(d->entry[i].key, ".");
        (void)snprintf(section, sizeof section, "%.*s", (int)length, d->entry[i].key);
        if (begins_section(d, i, sections, sizeof sections / sizeof sections[0], length))
            write_section(d, section, false, out);
    }
    clt_str_append(out, "\n}\n");
    return clt_str_check(out);
}

clt_status draft_place(const char *path)
{
    if (clt_file_exists(path) || clt_is_directory(path))
        CLT_FAIL(CLT_EUSAGE,
                 "writing a config: '%s' exists already and is not overwritten; name another file "
                 "with --out FILE",
                 path);
    return CLT_OK;
}

clt_status draft_save(const draft *d, const char *path)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(draft_place(path));
    CLT_TRY(draft_write(d, false, &text));
    return clt_file_write(path, text.text, text.length);
}
