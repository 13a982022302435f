/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the names of a classifier's classes, id2label of config.json, in the order of its outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pretrained/pretrained_internal.h"

typedef struct label {
    const char *name;
    int64_t id;
} label;

/* Notes a problem "'NAME' WHAT" with a label; the name is cut to 60 bytes. */
static void problem(clt_pretrained *p, const char *key, const char *name, const char *what)
{
    const char *text = clt_arena_printf(p->arena, "'%.60s' %s", name, what);
    clt_pretrained_problem(p, key, text ? text : what);
}

/* The number of a class, as transformers writes it as text; -1: the text is not a number below `count`. */
static int64_t number_of(const char *text, int64_t count)
{
    int64_t number = 0;
    if (!*text || (text[0] == '0' && text[1]))
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || number >= count)
            return -1;
        number = number * 10 + (*text - '0');
    }
    return number < count ? number : -1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const label *)a)->name, ((const label *)b)->name);
}

/* Reads the names, in their order, into `list`. Keys of an object differ, so `count` keys that are numbers
 * below `count` are all of these numbers. */
static bool read_names(clt_pretrained *p, const clt_json *names, label *list, int64_t count)
{
    for (const clt_json *one = clt_json_first(names); one; one = clt_json_next(one)) {
        int64_t id = number_of(clt_json_key(one), count);
        const char *name = clt_json_string(one);
        if (id < 0)
            problem(p, "id2label", clt_json_key(one),
                    "is not the number of a class: classes are numbered from 0 to one less than the number "
                    "of names");
        else if (!*name)
            problem(p, "id2label", clt_json_key(one), "has no name: it must be a text that is not empty");
        else
            list[id] = (label){name, id};
        if (id < 0 || !*name)
            return false;
    }
    return true;
}

/* Sorts the labels by their names, which must be unique. */
static bool sort_names(clt_pretrained *p, label *list, int64_t count)
{
    qsort(list, (size_t)count, sizeof *list, by_name);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(list[i - 1].name, list[i].name) == 0) {
            problem(p, "id2label", list[i].name, "names two classes");
            return false;
        }
    return true;
}

/* Checks label2id: it may name other labels, which transformers does not read, but must not give a class
 * another number. */
static bool check_numbers(clt_pretrained *p, const label *sorted, int64_t count)
{
    const clt_json *numbers = clt_json_given(p->root, "label2id");
    if (numbers && clt_json_typeof(numbers) != CLT_JSON_OBJECT) {
        clt_pretrained_problem(p, "label2id", "is not an object of names and their numbers");
        return false;
    }
    for (const clt_json *one = clt_json_first(numbers); one; one = clt_json_next(one)) {
        const label wanted = {.name = clt_json_key(one)};
        const label *found = bsearch(&wanted, sorted, (size_t)count, sizeof wanted, by_name);
        int64_t id;
        bool number = clt_json_int(one, &id);
        if (!number)
            problem(p, "label2id", wanted.name, "has no whole number");
        else if (found && found->id != id)
            problem(p, "label2id", wanted.name, "has another number than in id2label");
        if (!number || (found && found->id != id))
            return false;
    }
    return true;
}

/* True if a label has transformers' default name. */
static bool is_default(const label *l)
{
    char text[32];
    (void)snprintf(text, sizeof text, "LABEL_%lld", (long long)l->id);
    return strcmp(text, l->name) == 0;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const label *)a)->id, y = ((const label *)b)->id;
    return (x > y) - (x < y);
}

/* Adds the names as the classes of the data, unless all are defaults. */
static void add_names(clt_pretrained *p, label *list, int64_t count)
{
    CLT_SCOPED(clt_str) text = {0};
    int64_t defaults = 0;
    clt_json_writer w = clt_json_writer_make(&text, 0);
    qsort(list, (size_t)count, sizeof *list, by_number);
    clt_jw_array(&w);
    for (int64_t i = 0; i < count; i++) {
        clt_jw_string(&w, list[i].name);
        defaults += is_default(&list[i]);
    }
    clt_jw_end_array(&w);
    if (defaults == count)
        return;
    clt_pretrained_add(p, "data.class_names", text.failed ? NULL : clt_arena_strdup(p->arena, text.text),
                       "id2label names the classes", CLT_PRESET_DEFAULT, "annotated");
}

void clt_pretrained_read_labels(clt_pretrained *p)
{
    const clt_json *names = clt_json_given(p->root, "id2label");
    int64_t count = clt_json_typeof(names) == CLT_JSON_OBJECT ? (int64_t)clt_json_count(names) : 0;
    if (names && clt_json_typeof(names) != CLT_JSON_OBJECT)
        clt_pretrained_problem(p, "id2label", "is not an object of numbers and the names of their classes");
    if (count == 0)
        return;
    label *list = clt_arena_alloc(p->arena, (size_t)count * sizeof *list);
    if (!list)
        clt_pretrained_problem(p, "id2label", "there is no memory for its names");
    else if (read_names(p, names, list, count) && sort_names(p, list, count) && check_numbers(p, list, count))
        add_names(p, list, count);
}
