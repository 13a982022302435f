/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises what a cell that is not a number means: a missing value, a number with commas, true or false. */
#include "engine/data/tables/table_cells.h"

#include <string.h>
#include <strings.h>

/* --- blank cells --- */

bool clt_table_is_blank(const clt_config *config, const char *cell)
{
    int count = clt_config_list_count(config, "data.blank");
    for (int i = 0; i < count; i++)
        if (strcmp(cell, clt_config_list_string(config, "data.blank", i)) == 0)
            return true;
    return !*cell;
}

void clt_table_empty_blanks(const clt_config *config, clt_csv_table *t)
{
    size_t names = t->header ? (size_t)t->columns : 0;
    if (clt_config_list_count(config, "data.blank") == 0)
        return;
    for (size_t i = names; i < t->cells; i++)
        if (clt_table_is_blank(config, t->cell[i]))
            t->cell[i] += strlen(t->cell[i]);
}

bool clt_table_means_missing(const char *cell)
{
    static const char *const words[] = {"NA",   "N/A",  "#N/A",    "<NA>", "NaN", "null",
                                        "None", "NULL", "missing", "?",    "-",   "."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(cell, words[i]) == 0)
            return true;
    return false;
}

/* --- numbers with commas --- */

#define DIGITS "0123456789"

/* The length of a number in groups of three digits, such as 1,234,567; 0: the text does not begin with such
 * a group. *groups: number of groups after the first one. */
static size_t grouped(const char *text, char separator, int *groups)
{
    size_t n = strspn(text, DIGITS);
    *groups = 0;
    if (n < 1 || n > 3)
        return 0;
    for (; text[n] == separator && strspn(text + n + 1, DIGITS) == 3; n += 4)
        ++*groups;
    return n;
}

/* The length of a number with digits before and after `mark`, a point or comma; 0: the text does not begin
 * with such a number. */
static size_t broken(const char *text, char mark)
{
    size_t before = strspn(text, DIGITS),
           after = text[before] == mark ? strspn(text + before + 1, DIGITS) : 0;
    return after > 0 ? before + 1 + after : 0;
}

typedef enum commas { NO_COMMAS, DECIMAL_COMMA, THOUSANDS, EITHER } commas;

static commas read_commas(const char *cell)
{
    const char *at = cell + (*cell == '-' || *cell == '+');
    int groups;
    size_t n = grouped(at, ',', &groups), fraction = broken(at + n, '.');
    if (groups > 1 && (!at[n] || (fraction > 0 && !at[n + fraction])))
        return THOUSANDS;
    if (groups == 1 && !at[n])
        return *at == '0' ? DECIMAL_COMMA : EITHER;
    if (groups == 1 && at[n] == '.' && !at[n + 1 + strspn(at + n + 1, DIGITS)])
        return THOUSANDS;
    n = broken(at, ',');
    if (n > 0 && !at[n])
        return DECIMAL_COMMA;
    n = grouped(at, '.', &groups); /* 1.234,5 */
    n += groups > 0 && at[n] == ',' ? 1 + strspn(at + n + 1, DIGITS) : 0;
    return groups > 0 && at[n - 1] != '.' && strchr(at, ',') && !at[n] ? DECIMAL_COMMA : NO_COMMAS;
}

bool clt_table_has_commas(const char *cell)
{
    return read_commas(cell) != NO_COMMAS;
}

const char *clt_table_hint(const char *cell)
{
    switch (read_commas(cell)) {
    case DECIMAL_COMMA:
        return strchr(cell, '.')
                   ? " (is that a decimal comma? write a point, and leave out the points between "
                     "thousands)"
                   : " (is that a decimal comma? write a point)";
    case THOUSANDS:
        return " (do commas separate the thousands? remove them)";
    case EITHER:
        return " (does the comma separate thousands? remove it; is that a decimal comma? write a point)";
    case NO_COMMAS:
        break;
    }
    if (strcasecmp(cell, "true") == 0 || strcasecmp(cell, "false") == 0)
        return " (write 1 for true and 0 for false, in all lines)";
    return "";
}
