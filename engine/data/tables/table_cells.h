/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises cells that should be numbers and are not: words that mean a blank cell (data.blank), numbers
 * with commas, true and false. Gives advice about them. Knows cells, no columns. */
#ifndef ENGINE_DATA_TABLES_TABLE_CELLS_H
#define ENGINE_DATA_TABLES_TABLE_CELLS_H

#include "engine/config/config.h"
#include "engine/data/records/csv_table.h"

/* True if data.blank lists the cell, so that it counts as blank. */
bool clt_table_is_blank(const clt_config *config, const char *cell);
/* Empties those cells of the table's rows that data.blank lists. */
void clt_table_empty_blanks(const clt_config *config, clt_csv_table *t);

/* True if the cell is a word that other programs write for a missing value, such as NA, ? or null. */
bool clt_table_means_missing(const char *cell);
/* True if the cell is a number with a decimal comma or with commas between thousands. */
bool clt_table_has_commas(const char *cell);
/* Advice about a cell that is not a number, such as " (is that a decimal comma? write a point)"; "": none. */
const char *clt_table_hint(const char *cell);

#endif
