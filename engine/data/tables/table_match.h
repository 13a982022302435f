/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether the facts of a known table may be used for another table, by the config of that table. */
#ifndef ENGINE_DATA_TABLES_TABLE_MATCH_H
#define ENGINE_DATA_TABLES_TABLE_MATCH_H

#include "engine/data/tables/table_columns.h"

/* *same: whether the config takes the known table's columns from `t`, in any order, and the same target, and
 * lists in data.words only columns that are words there. target: the config's target column. CLT_EDATA or
 * CLT_ECONFIG: a column is not there. */
clt_status clt_table_matches(const clt_table *known, const clt_csv_table *t, const clt_config *config,
                             int target, clt_arena *arena, bool *same);
/* Warns that data.fill is not used with the known table, if a column of it shows that. path: the table's
 * name for the message. */
void clt_table_warn_of_fill(const clt_table *known, const clt_config *config, const char *path);

#endif
