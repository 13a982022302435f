/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and encodes the annotated texts of a split, numbers their classes, and lists their samples or
 * windows. */
#include "engine/data/annotated/annotated_samples.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/records/record_forms.h"
#include "engine/data/records/table_file.h"

#define RECORDS 64 /* fewest records that one thread reads */
#define MOST_CLASSES (1 << 20)

/* --- reading --- */

typedef struct reading {
    clt_annotated_samples *samples;
    pthread_mutex_t lock;
    clt_error error; /* the first failure whose cause is not a record */
} reading;

/* If `status` is CLT_EDATA, keeps the thread's error text as the reason why the record cannot be used.
 * Returns other errors. */
static clt_status keep_reason(clt_annotated *a, clt_status status)
{
    if (status != CLT_EDATA)
        return status;
    clt_annotated_free(a);
    a->why = strdup(clt_error_text());
    clt_error_clear();
    if (!a->why)
        CLT_FAIL(CLT_ENOMEM, "reading samples: out of host memory");
    return CLT_OK;
}

static void read_records(void *context, uint64_t first, uint64_t last)
{
    reading *r = context;
    clt_annotated_samples *s = r->samples;
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    CLT_SCOPED(clt_str) made = {0};
    clt_status status = clt_encoder_create(s->tokenizer, &encoder);
    for (uint64_t i = first; i < last && status == CLT_OK; i++) {
        const clt_document *d = &s->texts.documents[s->part.first + (int64_t)i];
        const char *line;
        size_t size;
        status = clt_record_json(&s->texts, d, &made, &line, &size);
        if (status == CLT_OK)
            status = clt_annotated_read(&s->rules, encoder, line, size,
                                        s->texts.files[d->file].form == CLT_RECORD_TABLE, &s->record[i]);
        status = keep_reason(&s->record[i], status);
    }
    if (status == CLT_OK)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->error.status == CLT_OK)
        clt_error_take(status, &r->error);
    pthread_mutex_unlock(&r->lock);
}

static clt_status read_all(clt_annotated_samples *s)
{
    reading r = {.samples = s};
    CLT_TRY(clt_alloc(&s->record, (size_t)s->part.count, sizeof *s->record, "the samples"));
    pthread_mutex_init(&r.lock, NULL);
    clt_for_ranges((uint64_t)s->part.count, RECORDS, "annotated", read_records, &r);
    pthread_mutex_destroy(&r.lock);
    CLT_TRY(clt_error_put(&r.error));
    for (int64_t i = 0; i < s->part.count; i++) {
        s->bad += s->record[i].why != NULL;
        s->cut += s->record[i].cut > 0;
    }
    return CLT_OK;
}

/* --- opening --- */

static clt_status need_tokens(const clt_annotated_samples *s)
{
    static const struct {
        clt_token_role role;
        const char *name;
    } needed[] = {{CLT_TOKEN_CLASS, "[CLS]"}, {CLT_TOKEN_SEPARATOR, "[SEP]"}, {CLT_TOKEN_PADDING, "[PAD]"}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (clt_tokenizer_role(s->tokenizer, needed[i].role) < 0)
            CLT_FAIL(CLT_EDATA, "opening the samples: the tokenizer (%s) has no %s token",
                     clt_tokenizer_description(s->tokenizer), needed[i].name);
    return CLT_OK;
}

/* A member's name from the config; NULL: the config gives none. */
static clt_status member_of(const clt_config *config, const char *key, clt_arena *arena, const char **out)
{
    const char *given = clt_config_string(config, key);
    *out = *given ? clt_arena_strdup(arena, given) : NULL;
    return !*given || *out ? CLT_OK : CLT_ENOMEM;
}

/* Takes the members' names for all records from the first record that has usual names. */
static clt_status choose_members(clt_annotated_samples *s)
{
    clt_error first = {0};
    CLT_SCOPED(clt_str) where = {0};
    CLT_SCOPED(clt_str) made = {0};
    for (int64_t i = 0; i < s->part.count; i++) {
        const char *line;
        size_t size;
        clt_status status =
            clt_record_json(&s->texts, &s->texts.documents[s->part.first + i], &made, &line, &size);
        if (status == CLT_OK)
            status = clt_annotated_members(&s->rules, line, size);
        if (status != CLT_EDATA)
            return status;
        if (i == 0)
            clt_error_take(status, &first);
        clt_error_clear();
    }
    if (s->part.count == 0)
        return CLT_OK;
    const clt_text_file *file = &s->texts.files[s->texts.documents[s->part.first].file];
    if (file->form == CLT_RECORD_TABLE) {
        clt_str_append(&where, " (a table with the columns ");
        clt_table_names(file, &where);
        clt_str_append(&where, "; data.column_names names columns if the first line does not)");
    } else if (s->texts.cut == clt_table_cut) {
        clt_str_append(&where, " (records of JSON; a table is a file named .csv or .tsv)");
    }
    clt_str_append(&where, ", but none can be used; the first one is ");
    clt_record_place(&s->texts, s->part.first, &where);
    CLT_TRY(clt_str_check(&where));
    return clt_fail_prefix(clt_error_put(&first), "reading the samples of %s%s", s->part.key, where.text);
}

static clt_status choose_rules(const clt_config *config, clt_split split, clt_annotated_samples *s)
{
    int64_t stride = clt_config_int(config, "data.stride"), context = clt_config_int(config, "model.context");
    s->rules = (clt_annotated_rules){.task = (clt_annotated_task)clt_config_choice(config, "data.task"),
                                     .tokenizer = s->tokenizer,
                                     .context = context,
                                     .stride = stride > 0 ? stride : context / 3,
                                     .truncate = clt_config_bool(config, "data.truncate"),
                                     .unanswerable = clt_config_bool(config, "data.unanswerable"),
                                     .labelled = split < CLT_SPLIT_INPUT};
    CLT_TRY(member_of(config, "data.text_member", s->arena, &s->rules.text));
    CLT_TRY(member_of(config, "data.second_member", s->arena, &s->rules.second));
    CLT_TRY(member_of(config, "data.label_member", s->arena, &s->rules.label));
    return choose_members(s);
}

clt_status clt_annotated_open(const clt_config *config, clt_split split, clt_annotated_samples *s)
{
    CLT_TRY(clt_tokenizer_open_config(config, &s->tokenizer));
    if (!s->tokenizer)
        CLT_FAIL(CLT_ECONFIG, "opening the samples: data.tokenizer names no tokenizer");
    CLT_TRY(need_tokens(s));
    CLT_TRY(clt_arena_create(&s->arena));
    const clt_annotated_task task = (clt_annotated_task)clt_config_choice(config, "data.task");
    s->texts.cut = task == CLT_ANNOTATED_SPAN    ? clt_squad_cut
                   : task == CLT_ANNOTATED_WORDS ? clt_columns_cut
                                                 : clt_table_cut;
    CLT_TRY(clt_records_open(config, split, &s->texts, &s->part));
    CLT_TRY(choose_rules(config, split, s));
    CLT_TRY(read_all(s));
    return clt_texts_check(&s->texts);
}

void clt_annotated_samples_free(clt_annotated_samples *s)
{
    for (int64_t i = 0; s->record && i < s->part.count; i++)
        clt_annotated_free(&s->record[i]);
    free(s->record);
    free(s->window);
    clt_tokenizer_close(s->tokenizer);
    clt_texts_free(&s->texts);
    clt_arena_destroy(s->arena);
    *s = (clt_annotated_samples){0};
}

/* --- classes --- */

static clt_status make_bad(clt_annotated_samples *s, int64_t record, clt_status status)
{
    s->cut -= s->record[record].cut > 0;
    s->bad++;
    return keep_reason(&s->record[record], status);
}

static int by_bytes(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Adds a record's labels to a list and finds the largest number. Negative numbers are not added: they mean
 * "no label". */
static clt_status collect(const clt_annotated *a, const char ***name, size_t *count, size_t *capacity,
                          int64_t *largest)
{
    for (size_t at = 0; at < a->labels.length; at += strlen(a->labels.text + at) + 1) {
        const char *label = a->labels.text + at;
        int64_t number = a->numbers ? strtoll(label, NULL, 10) : 0;
        *largest = number > *largest ? number : *largest;
        if (number < 0)
            continue;
        CLT_TRY(clt_grow(name, capacity, *count + 1, sizeof **name, "names of classes"));
        (*name)[(*count)++] = label;
    }
    return CLT_OK;
}

/* Sorts the list and removes duplicates; returns how many entries are left. */
static size_t each_once(const char **list, size_t count)
{
    size_t kept = 0;
    qsort(list, count, sizeof *list, by_bytes);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(list[kept - 1], list[i]) != 0)
            list[kept++] = list[i];
    return kept;
}

/* Checks that labels which are numbers can be classes: fails if there would be too many classes, and warns
 * if fewer than half of them occur, as with ids. `count`: number of classes, the largest label plus 1;
 * `seen`: how many of them occur. */
static clt_status check_numbers(const clt_annotated_samples *s, int64_t count, size_t seen)
{
    if (count > MOST_CLASSES)
        CLT_FAIL(
            CLT_EDATA,
            "reading the samples of %s: the largest label is %lld, and there may be %d class%s; number the "
            "classes from 0 on",
            s->part.key, (long long)count - 1, MOST_CLASSES, CLT_PLURAL_ES(MOST_CLASSES));
    if (count > 2 * (int64_t)seen)
        CLT_WARN("the labels of %s are numbers up to %lld, but only %zu of these occur; each number from 0 "
                 "on becomes a class",
                 s->part.key, (long long)count - 1, seen);
    return CLT_OK;
}

clt_status clt_annotated_learn(clt_annotated_samples *s, clt_arena *arena, clt_annotated_classes *out)
{
    CLT_FREED const char **all = NULL;
    size_t count = 0, capacity = 0;
    int64_t largest = -1, first = -1;
    *out = (clt_annotated_classes){0};
    for (int64_t i = 0; i < s->part.count; i++) {
        clt_annotated *a = &s->record[i];
        if (a->why || a->labels.length == 0)
            continue;
        first = first < 0 ? i : first;
        if (a->numbers != s->record[first].numbers)
            CLT_TRY(make_bad(s, i,
                             clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                      "its labels are %s, and the first sample has %s",
                                      a->numbers ? "numbers" : "names", a->numbers ? "names" : "numbers")));
        else
            CLT_TRY(collect(a, &all, &count, &capacity, &largest));
    }
    if (first >= 0 && s->record[first].numbers && largest < 0)
        CLT_FAIL(CLT_EDATA, "reading the samples of %s: no word has a label, a number from 0 on",
                 s->part.key);
    out->count = first < 0 ? 0 : largest + 1;
    if (first < 0)
        return CLT_OK;
    count = each_once(all, count);
    if (s->record[first].numbers)
        return check_numbers(s, out->count, count);
    out->name = clt_arena_alloc(arena, count * sizeof *out->name);
    for (size_t i = 0; out->name && i < count; i++)
        if (!(out->name[i] = clt_arena_strdup(arena, all[i])))
            return CLT_ENOMEM;
    out->count = (int64_t)count;
    return out->name ? CLT_OK : CLT_ENOMEM;
}

/* The number of a label. */
static clt_status number_of(const clt_annotated_classes *classes, const clt_annotated *a, const char *label,
                            int32_t *out)
{
    if (a->numbers) {
        int64_t number = strtoll(label, NULL, 10);
        *out = (int32_t)(number == CLT_ANNOTATED_IGNORED ? CLT_ANNOTATED_NONE : number);
        if (number != CLT_ANNOTATED_IGNORED && (number < 0 || number >= classes->count))
            CLT_FAIL(CLT_EDATA, "the label %s is not one of the %lld class%s, which are numbered from 0",
                     label, (long long)classes->count, CLT_PLURAL_ES(classes->count));
        return CLT_OK;
    }
    for (*out = 0; classes->name && *out < classes->count; ++*out)
        if (strcmp(classes->name[*out], label) == 0)
            return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "the label '%.60s' is not one of the training data's %lld classes%s; data.class_names lists "
             "classes in their order",
             label, (long long)classes->count, classes->name ? "" : ", which are numbers");
}

static clt_status number_record(const clt_annotated_classes *classes, clt_annotated *a)
{
    size_t n = 0, places = a->n_words > 0 ? (size_t)a->n_words : 1;
    CLT_TRY(clt_alloc(&a->label, places, sizeof *a->label, "labels"));
    for (size_t at = 0; at < a->labels.length; at += strlen(a->labels.text + at) + 1)
        CLT_TRY(number_of(classes, a, a->labels.text + at, &a->label[n++]));
    return CLT_OK;
}

clt_status clt_annotated_number(clt_annotated_samples *s, const clt_annotated_classes *classes)
{
    for (int64_t i = 0; i < s->part.count; i++) {
        clt_annotated *a = &s->record[i];
        if (a->why || a->labels.length == 0)
            continue;
        clt_status status = number_record(classes, a);
        if (status != CLT_OK)
            CLT_TRY(make_bad(s, i, status));
    }
    return CLT_OK;
}

clt_status clt_annotated_list(clt_annotated_samples *s)
{
    size_t capacity = 0;
    for (int64_t i = 0; i < s->part.count; i++) {
        const clt_annotated *a = &s->record[i];
        int64_t windows = a->why ? 0 : clt_annotated_windows(&s->rules, a), step = 0;
        if (windows > 1)
            step = clt_annotated_room(&s->rules, a) - s->rules.stride;
        CLT_TRY(
            clt_grow(&s->window, &capacity, (size_t)(s->n_windows + windows), sizeof *s->window, "samples"));
        for (int64_t w = 0; w < windows; w++)
            s->window[s->n_windows++] = (clt_annotated_window){i, w * step};
    }
    return CLT_OK;
}
