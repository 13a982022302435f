/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a table that is known may be used for another one, as the config of the latter has it. */
#ifndef ENGINE_DATA_TABLES_TABLE_MATCH_H
#define ENGINE_DATA_TABLES_TABLE_MATCH_H

#include "engine/data/tables/table_columns.h"

/* Whether the config takes from `t` the known table's columns, in any order and as words where it lists them, and its target.
 * target: the config's column. CLT_EDATA or CLT_ECONFIG: a column is not there. */
clt_status clt_table_matches(const clt_table *known, const clt_csv_table *t, const clt_config *config,
                             int target, clt_arena *arena, bool *same);

#endif
