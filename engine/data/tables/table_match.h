/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides from a table's config whether the facts of a known table may be used for it. */
#ifndef ENGINE_DATA_TABLES_TABLE_MATCH_H
#define ENGINE_DATA_TABLES_TABLE_MATCH_H

#include "engine/data/tables/table_columns.h"

/* *same: true if the config takes the known table's columns (in any order) and target from `t`, and
 * data.words lists only columns that hold words in the known table. `target`: the config's target column.
 * CLT_EDATA or CLT_ECONFIG: a column is missing. */
clt_status clt_table_matches(const clt_table *known, const clt_csv_table *t, const clt_config *config,
                             int target, clt_arena *arena, bool *same);
/* Warns that data.fill is not used, if the known table fills blank cells of a column with something else.
 * `path`: the table's name for the message. */
void clt_table_warn_of_fill(const clt_table *known, const clt_config *config, const char *path);

#endif
