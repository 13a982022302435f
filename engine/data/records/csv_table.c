/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a text file and cuts it into cells in place. */
#include "engine/data/records/csv_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/fingerprint.h"
#include "engine/files/fileio.h"

char clt_csv_separator(const char *line, const char *end)
{
    bool quoted = false, semicolon = false;
    for (; line < end && (*line != '\n' || quoted); line++) {
        quoted ^= *line == '"';
        if (*line == '\t' && !quoted)
            return '\t';
        semicolon |= *line == ';' && !quoted;
    }
    return semicolon ? ';' : ',';
}

const char *clt_csv_row_end(const clt_csv_table *t, const char *row, const char *end, int64_t *breaks)
{
    bool quoted = false, begins = true; /* `begins`: at the start of a cell, where a quote may open it */
    for (const char *at = row; at < end; at++) {
        if (*at == '\n') {
            ++*breaks;
            if (!quoted)
                return at;
        }
        /* a doubled quote within a cell closes and reopens it */
        bool turn = !t->plain && *at == '"' && (quoted || begins);
        quoted ^= turn;
        begins = !quoted && (*at == t->separator || turn || (begins && (*at == ' ' || *at == '\t')));
    }
    return NULL;
}

/* Removes the quotes around a cell in place. Returns the text after the closing quote; NULL: there is no
 * closing quote. */
static char *unquote(char *cell)
{
    char *to = cell;
    for (char *from = cell + 1; *from; from++) {
        if (*from == '"' && from[1] != '"') {
            *to = '\0';
            return from + 1;
        }
        from += *from == '"';
        *to++ = *from;
    }
    return NULL;
}

static char *skip_blanks(const clt_csv_table *t, char *at)
{
    while ((*at == ' ' || *at == '\t') && *at != t->separator)
        at++;
    return at;
}

/* Takes the cell at *at, without blanks around it, and moves *at to the next cell (NULL: end of line). */
static clt_status take_cell(clt_csv_table *t, char **at)
{
    char *cell = skip_blanks(t, *at), *end;
    const char separator[] = {t->separator, '\0'};
    bool quoted = *cell == '"' && !t->plain;
    end = quoted ? unquote(cell) : cell + strcspn(cell, separator);
    end = quoted && end ? skip_blanks(t, end) : end;
    if (!end || (*end && *end != t->separator))
        CLT_FAIL(CLT_EDATA, "the quotes of a cell %s", end ? "end before the cell does" : "do not end");
    *at = *end ? end + 1 : NULL;
    while (!quoted && end > cell && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!quoted)
        *end = '\0';
    CLT_TRY(clt_grow(&t->cell, &t->capacity, t->cells + 1, sizeof *t->cell, "the cells of a table"));
    t->cell[t->cells++] = cell;
    return CLT_OK;
}

static clt_status take_cells(clt_csv_table *t, char *text)
{
    size_t before = t->cells;
    for (char *at = text; at;)
        CLT_TRY(take_cell(t, &at));
    int64_t columns = (int64_t)(t->cells - before);
    if (t->columns == 0)
        t->columns = (int)columns;
    if (columns != t->columns)
        CLT_FAIL(CLT_EDATA, "it has %lld cell%s, and %s has %d", (long long)columns, CLT_PLURAL(columns),
                 t->expected_from ? t->expected_from : "the first line", t->columns);
    return CLT_OK;
}

static clt_status take_line(clt_csv_table *t, char *text, int64_t number)
{
    clt_status status = take_cells(t, text);
    if (t->path)
        CLT_TRY(clt_fail_prefix(status, "reading '%s': line %lld", t->path, (long long)number));
    CLT_TRY(status);
    CLT_TRY(clt_grow(&t->line, &t->line_capacity, t->lines + 1, sizeof *t->line, "the lines of a table"));
    t->line[t->lines++] = number;
    return CLT_OK;
}

static clt_status take_lines(clt_csv_table *t)
{
    const char *end = t->text + t->size;
    int64_t number = 1, breaks = 0;
    char *line = t->text;
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3; /* the byte order mark that some programs put before UTF-8 */
    for (char *next; line; line = next, number += breaks) {
        if (t->lines == 0)
            t->separator = clt_csv_separator(line, end);
        breaks = 0;
        const char *stop = clt_csv_row_end(t, line, end, &breaks);
        next = stop ? line + (stop - line) : NULL;
        if (next)
            *next++ = '\0';
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (line[strspn(line, " \t")])
            CLT_TRY(take_line(t, line, number));
    }
    return CLT_OK;
}

bool clt_csv_is_number(const char *cell, double *value)
{
    char *end;
    *value = clt_strtod(cell, &end);
    return end != cell && *end == '\0' && !strpbrk(cell, "xX") && isfinite(*value) &&
           fabs(*value) <= 3.4028234663852886e38;
}

bool clt_csv_is_whole(const char *cell)
{
    double value;
    return clt_csv_is_number(cell, &value) && !strpbrk(cell, ".eE") && fabs(value) <= INT32_MAX;
}

bool clt_csv_begins_with_names(const clt_csv_table *t)
{
    double value;
    int i = 0;
    while (i < t->columns && !clt_csv_is_number(t->cell[i], &value))
        i++;
    return i == t->columns;
}

int64_t clt_csv_rows(const clt_csv_table *t)
{
    return (int64_t)t->lines - t->header;
}

const char *clt_csv_cell(const clt_csv_table *t, int64_t row, int column)
{
    return t->cell[(size_t)(row + t->header) * (size_t)t->columns + (size_t)column];
}

int64_t clt_csv_line(const clt_csv_table *t, int64_t row)
{
    return t->line[row + t->header];
}

clt_status clt_csv_cut(clt_csv_table *t, char *line, int64_t number)
{
    if (t->columns == 0)
        t->separator = clt_csv_separator(line, line + strlen(line));
    t->lines = t->header;
    t->cells = t->header ? (size_t)t->columns : 0;
    return take_line(t, line, number);
}

clt_status clt_csv_load(clt_csv_table *t, clt_arena *arena, const char *path, const char *header)
{
    t->path = clt_arena_strdup(arena, path);
    if (!t->path)
        return CLT_ENOMEM;
    CLT_TRY(clt_file_read_data(path, 0, CLT_EDATA, &t->text, &t->size));
    if (strlen(t->text) != t->size)
        CLT_FAIL(CLT_EDATA, "reading '%s': byte %zu is zero, so the file is not text", path, strlen(t->text));
    clt_hash64_begin(&t->content);
    clt_fingerprint_add(&t->content, t->text, t->size);
    CLT_TRY(take_lines(t));
    t->header = t->lines > 0 &&
                (strcmp(header, "auto") == 0 ? clt_csv_begins_with_names(t) : strcmp(header, "yes") == 0);
    if (clt_csv_rows(t) < 1)
        CLT_FAIL(CLT_EDATA, "reading '%s': there is no line with a sample in it", path);
    return CLT_OK;
}

void clt_csv_unload(clt_csv_table *t)
{
    free(t->text);
    free(t->cell);
    free(t->line);
    *t = (clt_csv_table){0};
}
