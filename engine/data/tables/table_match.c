/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the columns that a config takes from a table with the columns of a known table. */
#include "engine/data/tables/table_match.h"

typedef struct match {
    const clt_csv_table *t;
    const clt_config *config;
    bool *wanted, *words; /* for each column: it is an input; data.words lists it */
} match;

/* Marks the columns that a list of the config names. */
static clt_status mark(const match *m, const char *key, bool *to)
{
    int column;
    for (int i = 0; i < clt_config_list_count(m->config, key); i++) {
        CLT_TRY(clt_table_find(m->t, key, clt_config_list_string(m->config, key, i), &column));
        to[column] = true;
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
    CLT_TRY(mark(&m, "data.columns", m.wanted));
    CLT_TRY(mark(&m, "data.words", m.words));
    *same = target == known_target;
    for (int i = 0; i < known->n_columns; i++) {
        *same = *same && m.wanted[at[i]] && (!m.words[at[i]] || known->columns[i].n_words > 0);
        m.wanted[at[i]] = false;
    }
    for (int i = 0; i < t->columns; i++)
        *same = *same && !m.wanted[i];
    return CLT_OK;
}
