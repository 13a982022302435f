/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, compares, writes and reads the facts of a table. Reading checks every member, since a checkpoint
 * may come from anywhere. */
#include "engine/data/facts/table_facts.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "engine/base/text.h"

#define MOST_ELEMENTS (1 << 24)

int64_t clt_table_elements(const clt_table_column *column)
{
    return column->n_words > 0 ? column->n_words : 1;
}

int64_t clt_table_count(const clt_table *table)
{
    int64_t count = 0;
    for (int i = 0; i < table->n_columns; i++)
        count += clt_table_elements(&table->columns[i]);
    return count;
}

void clt_table_norm(const clt_table *table, double *mean, double *std)
{
    int64_t at = 0;
    for (int i = 0; i < table->n_columns; i++) {
        const clt_table_column *c = &table->columns[i];
        for (int64_t k = 0; k < clt_table_elements(c); k++, at++) {
            mean[at] = c->n_words > 0 ? 0 : c->mean;
            std[at] = c->n_words > 0 ? 1 : c->std;
        }
    }
}

double clt_table_number(const clt_table *table, double value)
{
    return table && table->target_scaled ? value * table->target_std + table->target_mean : value;
}

/* --- comparing --- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool same_column(const clt_table_column *a, const clt_table_column *b)
{
    if (a->n_words != b->n_words || (a->name && b->name && strcmp(a->name, b->name) != 0))
        return false;
    for (int64_t i = 0; i < a->n_words; i++)
        if (strcmp(a->words[i], b->words[i]) != 0)
            return false;
    return a->n_words > 0 || (near(a->mean, b->mean) && near(a->std, b->std));
}

bool clt_table_same(const clt_table *a, const clt_table *b)
{
    bool same =
        a->n_columns == b->n_columns && a->target_scaled == b->target_scaled &&
        (!a->target_scaled || (near(a->target_mean, b->target_mean) && near(a->target_std, b->target_std)));
    for (int i = 0; same && i < a->n_columns; i++)
        same = same_column(&a->columns[i], &b->columns[i]);
    return same;
}

/* --- copies --- */

static clt_status copy_column(clt_table_column *column, clt_arena *arena)
{
    const char **words = clt_arena_alloc(arena, (size_t)(column->n_words + 1) * sizeof *words);
    if (!words)
        return CLT_ENOMEM;
    for (int64_t i = 0; i < column->n_words; i++)
        if (!(words[i] = clt_arena_strdup(arena, column->words[i])))
            return CLT_ENOMEM;
    column->words = words;
    if (column->name && !(column->name = clt_arena_strdup(arena, column->name)))
        return CLT_ENOMEM;
    return CLT_OK;
}

clt_status clt_table_copy(const clt_table *table, clt_arena *arena, clt_table **out)
{
    clt_table *t = clt_arena_alloc(arena, sizeof *t);
    if (!t)
        return CLT_ENOMEM;
    *t = *table;
    t->columns = clt_arena_alloc(arena, (size_t)(t->n_columns + 1) * sizeof *t->columns);
    if (!t->columns)
        return CLT_ENOMEM;
    for (int i = 0; i < t->n_columns; i++) {
        t->columns[i] = table->columns[i];
        CLT_TRY(copy_column(&t->columns[i], arena));
    }
    if (t->target && !(t->target = clt_arena_strdup(arena, t->target)))
        return CLT_ENOMEM;
    *out = t;
    return CLT_OK;
}

/* --- as text --- */

static void write_column(const clt_table_column *c, clt_json_writer *w)
{
    clt_jw_object(w);
    if (c->name)
        clt_jw_kstring(w, "name", c->name);
    clt_jw_kint(w, "number", c->number);
    if (c->n_words > 0) {
        clt_jw_karray(w, "words");
        for (int64_t i = 0; i < c->n_words; i++)
            clt_jw_string(w, c->words[i]);
        clt_jw_end_array(w);
        if (!c->fills)
            clt_jw_kbool(w, "no_blanks", true);
    } else {
        if (c->fills)
            clt_jw_kdouble(w, "fill", c->fill);
        clt_jw_kdouble(w, "mean", c->mean);
        clt_jw_kdouble(w, "std", c->std);
    }
    clt_jw_end_object(w);
}

void clt_table_write(const clt_table *table, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kint(w, "width", table->width);
    clt_jw_karray(w, "columns");
    for (int i = 0; i < table->n_columns; i++)
        write_column(&table->columns[i], w);
    clt_jw_end_array(w);
    clt_jw_kobject(w, "target");
    if (table->target)
        clt_jw_kstring(w, "name", table->target);
    clt_jw_kint(w, "number", table->target_number);
    if (table->target_scaled) {
        clt_jw_kdouble(w, "mean", table->target_mean);
        clt_jw_kdouble(w, "std", table->target_std);
    }
    clt_jw_end_object(w);
    clt_jw_end_object(w);
}

/* --- from text --- */

typedef struct reading {
    const char *source;
    clt_arena *arena;
} reading;

static clt_status bad(const reading *r, const char *what)
{
    CLT_FAIL(CLT_ECHECKPOINT,
             "reading '%s': \"table\": %s is missing or wrong; the file is damaged or was edited", r->source,
             what);
}

static clt_status get_number(const reading *r, const clt_json *object, const char *key, double *out)
{
    *out = clt_json_number_or(clt_json_get(object, key), NAN);
    return isfinite(*out) ? CLT_OK : bad(r, key);
}

static clt_status get_place(const reading *r, const clt_json *object, const char *key, int *out)
{
    int64_t place;
    if (!clt_json_int_within(clt_json_get(object, key), 1, MOST_ELEMENTS, &place))
        return bad(r, key);
    *out = (int)place;
    return CLT_OK;
}

static clt_status keep_text(const reading *r, const clt_json *value, const char *what, const char **out)
{
    if (clt_json_typeof(value) != CLT_JSON_STRING ||
        clt_text_plain(clt_json_string(value)) != strlen(clt_json_string(value)))
        return bad(r, what);
    *out = clt_arena_strdup(r->arena, clt_json_string(value));
    return *out ? CLT_OK : CLT_ENOMEM;
}

static clt_status read_words(const reading *r, const clt_json *list, clt_table_column *c)
{
    size_t count = clt_json_typeof(list) == CLT_JSON_ARRAY ? clt_json_count(list) : 0;
    if (count < 1 || count > MOST_ELEMENTS)
        return bad(r, "words");
    c->words = clt_arena_alloc(r->arena, count * sizeof *c->words);
    if (!c->words)
        return CLT_ENOMEM;
    for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v)) {
        CLT_TRY(keep_text(r, v, "words", &c->words[c->n_words]));
        if (c->n_words > 0 && strcmp(c->words[c->n_words - 1], c->words[c->n_words]) >= 0)
            return bad(r, "the order of words");
        c->n_words++;
    }
    return CLT_OK;
}

static clt_status read_column(const reading *r, const clt_json *object, clt_table_column *c)
{
    c->std = 1;
    CLT_TRY(get_place(r, object, "number", &c->number));
    if (clt_json_get(object, "name"))
        CLT_TRY(keep_text(r, clt_json_get(object, "name"), "name", &c->name));
    c->fills = !clt_json_get(object, "no_blanks");
    if (clt_json_get(object, "words"))
        return read_words(r, clt_json_get(object, "words"), c);
    c->fills = clt_json_get(object, "fill") != NULL;
    if (c->fills)
        CLT_TRY(get_number(r, object, "fill", &c->fill));
    CLT_TRY(get_number(r, object, "mean", &c->mean));
    CLT_TRY(get_number(r, object, "std", &c->std));
    return c->std != 0 ? CLT_OK : bad(r, "std");
}

static clt_status read_target(const reading *r, const clt_json *object, clt_table *t)
{
    t->target_std = 1;
    CLT_TRY(get_place(r, object, "number", &t->target_number));
    if (clt_json_get(object, "name"))
        CLT_TRY(keep_text(r, clt_json_get(object, "name"), "name", &t->target));
    t->target_scaled = clt_json_get(object, "mean") != NULL;
    if (!t->target_scaled)
        return CLT_OK;
    CLT_TRY(get_number(r, object, "mean", &t->target_mean));
    CLT_TRY(get_number(r, object, "std", &t->target_std));
    return t->target_std > 0 ? CLT_OK : bad(r, "std");
}

clt_status clt_table_read(const clt_json *object, const char *source, clt_arena *arena, clt_table **out)
{
    const reading r = {source, arena};
    clt_table *t = clt_arena_alloc(arena, sizeof *t);
    if (!t)
        return CLT_ENOMEM;
    CLT_TRY(get_place(&r, object, "width", &t->width));
    const clt_json *list = clt_json_get(object, "columns");
    size_t count = clt_json_typeof(list) == CLT_JSON_ARRAY ? clt_json_count(list) : 0;
    if (count < 1 || count > MOST_ELEMENTS)
        return bad(&r, "columns");
    t->columns = clt_arena_alloc(arena, count * sizeof *t->columns);
    if (!t->columns)
        return CLT_ENOMEM;
    for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v))
        CLT_TRY(read_column(&r, v, &t->columns[t->n_columns++]));
    t->elements = clt_table_count(t);
    const clt_json *target = clt_json_get(object, "target");
    if (!target)
        return bad(&r, "target");
    CLT_TRY(read_target(&r, target, t));
    for (int i = 0; i < t->n_columns; i++)
        if (t->columns[i].number > t->width || t->target_number > t->width)
            return bad(&r, "number");
    *out = t;
    return CLT_OK;
}
