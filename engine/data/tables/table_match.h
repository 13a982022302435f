/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides from a table's config whether the facts of a known table may be used for it. */
#ifndef ENGINE_DATA_TABLES_TABLE_MATCH_H
#define ENGINE_DATA_TABLES_TABLE_MATCH_H

#include "engine/data/tables/table_columns.h"

/* *same: the config takes the known table's columns from `t`, in any order, and the same target, and lists in
 * data.words only columns that the known table holds as words. `target`: the config's target column.
 * CLT_EDATA or CLT_ECONFIG: a column is missing. */
clt_status clt_table_matches(const clt_table *known, const clt_csv_table *t, const clt_config *config,
                             int target, clt_arena *arena, bool *same);
/* Warns that data.fill is not used with the known table, if one of its columns was filled differently.
 * `path`: the table's name for the message. */
void clt_table_warn_of_fill(const clt_table *known, const clt_config *config, const char *path);

#endif
