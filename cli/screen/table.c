/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables: chooses the widths of columns for a screen, and lays out rows with wrapped cells. */
#include "cli/screen/table.h"

#include <stdio.h>
#include <string.h>

#include "cli/screen/terminal.h"

#define GAP 2 /* spaces between columns */
#define CELL 1024

/* --- layout --- */

static int wanted(const table *t)
{
    int sum = 0;
    for (int i = 0; i < t->count; i++)
        sum += t->width[i] > 0 ? t->width[i] + GAP : 0;
    return sum - GAP;
}

static int flexible(const table *t, int i)
{
    const table_column *c = &t->columns[i];
    return t->width[i] > 0 && c->least > 0 && t->width[i] > c->least ? t->width[i] - c->least : 0;
}

/* Narrows the widest of the columns that may be narrower, again and again, until the table fits. */
static void squeeze(table *t)
{
    for (int over = wanted(t) - t->screen; over > 0; over--) {
        int widest = -1;
        for (int i = 0; i < t->count; i++)
            if (flexible(t, i) > 0 && (widest < 0 || t->width[i] > t->width[widest]))
                widest = i;
        if (widest < 0)
            return;
        t->width[widest]--;
    }
}

static int least_wanted(const table *t)
{
    int sum = wanted(t);
    for (int i = 0; i < t->count; i++)
        sum -= flexible(t, i);
    return sum;
}

void table_make(table *t, const table_column *columns, int count, int screen)
{
    *t = (table){.columns = columns, .count = count, .screen = screen};
    for (int i = 0; i < count; i++) {
        int title = columns[i].title ? text_columns(columns[i].title) : 0;
        t->width[i] = columns[i].width > title ? columns[i].width : title;
    }
    if (screen == 0)
        return;
    while (least_wanted(t) > screen) {
        int last = -1;
        for (int i = 0; i < count; i++)
            if (t->width[i] > 0 && columns[i].rank > 0 && (last < 0 || columns[i].rank >= columns[last].rank))
                last = i;
        if (last < 0)
            break; /* the columns that must be shown do not fit: the terminal wraps lines */
        t->width[last] = 0;
    }
    squeeze(t);
}

/* --- rows --- */

/* Number of bytes of `text` that fit on a line of `columns` columns: the line ends at a space if there is
 * one, and has at least one character. *skip: number of spaces that follow. */
static size_t piece(const char *text, int columns, size_t *skip)
{
    size_t fit = text_fit(text, columns);
    *skip = 0;
    if (text[fit] == '\0')
        return fit;
    size_t cut = fit;
    while (cut > 0 && text[cut] != ' ')
        cut--;
    if (cut == 0) {
        /* one long word is cut after a dot, as in names of layers, unless the dot is in its first third */
        cut = fit;
        while (cut > 0 && text[cut - 1] != '.')
            cut--;
        cut = 3 * cut > fit ? cut : fit;
        if (cut == 0)
            cut = text_fit(text, 2) > 0 ? text_fit(text, 2) : 1;
    }
    *skip = strspn(text + cut, " ");
    while (cut > 1 && text[cut - 1] == ' ')
        cut--;
    return cut;
}

static void spaces(clt_str *out, int count)
{
    for (int i = 0; i < count; i++)
        clt_str_append_n(out, " ", 1);
}

static int last_shown(const table *t)
{
    int last = 0;
    for (int i = 0; i < t->count; i++)
        if (t->width[i] > 0)
            last = i;
    return last;
}

/* Writes one line of a row and moves `rest`, the text of each cell that is not written yet, past it. True:
 * some cell has text for another line. */
static bool row_line(const table *t, const char **rest, clt_str *out)
{
    bool left = false;
    int last = last_shown(t), owed = 0; /* owed: spaces to write before the next text */
    for (int i = 0; i < t->count; i++) {
        size_t skip = 0, size;
        char text[CELL];
        if (t->width[i] == 0)
            continue;
        size = t->screen > 0 ? piece(rest[i], t->width[i], &skip) : strlen(rest[i]);
        snprintf(text, sizeof text, "%.*s", (int)size, rest[i]);
        rest[i] += size + skip;
        left = left || *rest[i];
        int pad = t->width[i] - text_columns(text);
        pad = pad > 0 ? pad : 0;
        owed += t->columns[i].right ? pad : 0;
        if (text[0]) {
            spaces(out, owed);
            owed = 0;
            clt_str_append(out, text);
        }
        owed += (t->columns[i].right ? 0 : pad) + (i < last ? GAP : 0);
    }
    clt_str_append(out, "\n");
    return left;
}

void table_row(const table *t, const char *const *cells, clt_str *out)
{
    char clean[TABLE_COLUMNS][CELL];
    const char *rest[TABLE_COLUMNS];
    for (int i = 0; i < t->count; i++)
        rest[i] = text_clean(cells[i] ? cells[i] : "", clean[i], CELL);
    while (row_line(t, rest, out))
        ;
}

void table_head(const table *t, clt_str *out)
{
    const char *titles[TABLE_COLUMNS];
    for (int i = 0; i < t->count; i++)
        titles[i] = t->columns[i].title;
    clt_str_append(out, terminal_begin(1, INK_STRONG));
    table_row(t, titles, out);
    clt_str_append(out, terminal_end(1, INK_STRONG));
}

void table_print(clt_str *text)
{
    if (!text->failed && text->text)
        fputs(text->text, stdout);
    fflush(stdout);
    clt_str_free(text);
    *text = (clt_str){0};
}
