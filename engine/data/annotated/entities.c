/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds entities in labels with BIO names, and counts how many predicted entities are right. */
#include "engine/data/annotated/entities.h"

#include <stdlib.h>
#include <string.h>

#define OUTSIDE (-1)
#define COUNTS 3 /* number of counts of a type: there, predicted, right */

/* --- names --- */

/* Sets *type (borrowed) to the type in a BIO name, NULL for O. False: `name` is not a BIO name. */
static bool read_name(const char *name, const char **type)
{
    bool outside = strcmp(name, "O") == 0, known = *name && strchr("BIES", *name);
    *type = outside ? NULL : "_";
    if (outside || (known && !name[1]))
        return true;
    *type = name + 2;
    return known && name[1] == '-' && name[2];
}

bool clt_entities_named(const char *const *names, int64_t n)
{
    const char *type;
    bool some = false;
    for (int64_t i = 0; i < n; i++) {
        if (!read_name(names[i], &type))
            return false;
        some = some || type;
    }
    return some;
}

/* --- making --- */

static clt_status add_type(clt_entities *e, const char *type, int32_t *number)
{
    for (*number = 0; *number < e->n_types; ++*number)
        if (strcmp(e->type[*number], type) == 0)
            return CLT_OK;
    e->type[e->n_types] = strdup(type);
    if (!e->type[e->n_types])
        CLT_FAIL(CLT_ENOMEM, "types of entities: out of host memory");
    e->n_types++;
    return CLT_OK;
}

clt_status clt_entities_create(const char *const *names, int64_t n, clt_entities **out)
{
    CLT_SCOPED(clt_entities) *e = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&e, 1, sizeof *e, "entities"));
    e->n_labels = n;
    CLT_TRY(clt_alloc(&e->type, (size_t)n, sizeof *e->type, "entities"));
    CLT_TRY(clt_alloc(&e->type_of, (size_t)n, sizeof *e->type_of, "entities"));
    CLT_TRY(clt_alloc(&e->mark, (size_t)n, 1, "entities"));
    for (int64_t i = 0; i < n; i++) {
        const char *type;
        if (!read_name(names[i], &type))
            CLT_FAIL(CLT_EINTERNAL, "entities: '%s' is not the name of a label", names[i]);
        e->mark[i] = names[i][0];
        e->type_of[i] = OUTSIDE;
        if (type)
            CLT_TRY(add_type(e, type, &e->type_of[i]));
    }
    e->n_all = COUNTS * e->n_types;
    CLT_TRY(clt_alloc(&e->all, (size_t)e->n_all, sizeof *e->all, "entities"));
    e->there = e->all;
    e->predicted = e->there + e->n_types;
    e->right = e->predicted + e->n_types;
    e->data.label = e->guess.label = OUTSIDE;
    *out = CLT_TAKE(e);
    return CLT_OK;
}

void clt_entities_destroy(clt_entities *e)
{
    if (!e)
        return;
    for (int64_t i = 0; i < e->n_types; i++)
        free(e->type[i]);
    free(e->type);
    free(e->type_of);
    free(e->mark);
    free(e->all);
    free(e);
}

void clt_entities_reset(clt_entities *e)
{
    memset(e->all, 0, (size_t)e->n_all * sizeof *e->all);
    e->data.label = e->guess.label = OUTSIDE;
    e->word = 0;
}

/* --- counting --- */

static int32_t type_of(const clt_entities *e, int32_t label)
{
    return label >= 0 && label < e->n_labels ? e->type_of[label] : OUTSIDE;
}

/* True if a word with this label begins an entity after a word with the label `before`. */
static bool begins(const clt_entities *e, int32_t before, int32_t label)
{
    int32_t type = type_of(e, label), last = type_of(e, before);
    return type != OUTSIDE && (type != last || e->mark[label] == 'B' || e->mark[label] == 'S' ||
                               e->mark[before] == 'E' || e->mark[before] == 'S');
}

/* Advances to a word. Returns the type of the entity that ends before this word, or OUTSIDE; *first: the
 * entity's first word. */
static int32_t advance(const clt_entities *e, clt_entity_end *at, int32_t label, int64_t *first)
{
    int32_t type = type_of(e, at->label);
    bool next = begins(e, at->label, label);
    *first = at->first;
    if (next)
        at->first = e->word;
    at->label = label;
    return next || type_of(e, label) == OUTSIDE ? type : OUTSIDE;
}

void clt_entities_word(clt_entities *e, int32_t label, int32_t guess)
{
    int64_t begin, guessed_begin;
    int32_t type = advance(e, &e->data, label, &begin);
    int32_t guessed = advance(e, &e->guess, guess, &guessed_begin);
    e->word++;
    if (type != OUTSIDE)
        e->there[type]++;
    if (guessed != OUTSIDE)
        e->predicted[guessed]++;
    if (type != OUTSIDE && type == guessed && begin == guessed_begin)
        e->right[type]++;
}

void clt_entities_end(clt_entities *e)
{
    clt_entities_word(e, OUTSIDE, OUTSIDE);
}

/* --- figures --- */

static double share(int64_t part, int64_t of)
{
    return of > 0 ? (double)part / (double)of : 0;
}

clt_entity_figures clt_entities_figures(const clt_entities *e, int64_t type)
{
    clt_entity_figures f = {0};
    for (int64_t i = type < 0 ? 0 : type; i < (type < 0 ? e->n_types : type + 1); i++) {
        f.there += e->there[i];
        f.predicted += e->predicted[i];
        f.right += e->right[i];
    }
    f.precision = share(f.right, f.predicted);
    f.recall = share(f.right, f.there);
    f.f1 = share(2 * f.right, f.there + f.predicted);
    return f;
}
