/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the columns that a config takes from a table, and data.fill, with a known table. */
#include "engine/data/tables/table_match.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"

typedef struct match {
    const clt_csv_table *t;
    const clt_config *config;
    bool *wanted, *words; /* flags of each column: it is an input; data.words lists it */
} match;

/* Sets to[c] to `as` for the columns c that a list of the config names. */
static clt_status mark(const match *m, const char *key, bool as, bool *to)
{
    int column;
    for (int i = 0; i < clt_config_list_count(m->config, key); i++) {
        CLT_TRY(clt_table_find(m->t, key, clt_config_list_string(m->config, key, i), &column));
        to[column] = as;
    }
    return CLT_OK;
}

clt_status clt_table_matches(const clt_table *known, const clt_csv_table *t, const clt_config *config,
                             int target, clt_arena *arena, bool *same)
{
    int *at, known_target;
    bool all = clt_config_list_count(config, "data.columns") == 0;
    match m = {t, config, clt_arena_alloc(arena, (size_t)t->columns),
               clt_arena_alloc(arena, (size_t)t->columns)};
    *same = false;
    if (!m.wanted || !m.words)
        return CLT_ENOMEM;
    CLT_TRY(clt_table_locate(known, t, arena, &at));
    CLT_TRY(clt_table_locate_target(known, t, &known_target));
    for (int i = 0; i < t->columns; i++)
        m.wanted[i] = all && i != target;
    CLT_TRY(mark(&m, "data.columns", true, m.wanted));
    CLT_TRY(mark(&m, "data.drop_columns", false, m.wanted));
    CLT_TRY(mark(&m, "data.words", true, m.words));
    *same = target == known_target;
    for (int i = 0; i < known->n_columns; i++) {
        *same = *same && m.wanted[at[i]] && (!m.words[at[i]] || known->columns[i].n_words > 0);
        m.wanted[at[i]] = false;
    }
    for (int i = 0; i < t->columns; i++)
        *same = *same && !m.wanted[i];
    return CLT_OK;
}

void clt_table_warn_of_fill(const clt_table *known, const clt_config *config, const char *path)
{
    const char *fill = clt_config_string(config, "data.fill");
    bool refuses = strcmp(fill, "refuse") == 0, mean = strcmp(fill, "mean") == 0;
    bool number = !refuses && !mean && strcmp(fill, "median") != 0;
    for (int i = 0; i < known->n_columns; i++) {
        const clt_table_column *c = &known->columns[i];
        /* with mean 0 and std 1 the column was not standardised, so its mean is not known */
        bool knows_mean = c->mean < 0 || c->mean > 0 || c->std < 1 || c->std > 1;
        double wanted = number ? clt_strtod(fill, NULL) : mean && knows_mean ? c->mean : c->fill;
        char name[80], text[CLT_NUMBER_TEXT];
        if (c->fills != refuses &&
            (refuses || c->n_words > 0 || fabs(c->fill - wanted) <= 1e-12 * fabs(wanted)))
            continue;
        snprintf(name, sizeof name, "%.70s", c->name ? c->name : clt_double_text(c->number, text));
        CLT_WARN_ONCE(
            "'%s': data.fill=%s is not used, since the weights were trained with other values: a blank "
            "cell of column '%s' %s%s",
            path, fill, name, c->fills ? "counts as " : "is refused",
            !c->fills        ? ""
            : c->n_words > 0 ? "a word"
                             : clt_double_text(c->fill, text));
        return;
    }
}
