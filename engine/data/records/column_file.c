/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files with a word on each line. Opening reads a file twice: first for the number of columns and their
 * meaning, then for its sentences. A sentence is checked when its record is made. */
#include "engine/data/records/column_file.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/json/json.h"

#define MOST_COLUMNS 64
#define UNIVERSAL_COLUMNS 10 /* of CoNLL-U */
#define UNIVERSAL_LABELS 3   /* CoNLL-U's column of parts of speech, from 0 */

/* --- lines and columns --- */

typedef struct span {
    const char *begin, *end;
} span;

/* The next line without white space at its end, and the line's number from 1. */
static bool next_line(const char **at, const char *end, span *line, int64_t *number)
{
    if (*at >= end)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    *line = (span){*at, newline ? newline : end};
    *at = newline ? newline + 1 : end;
    ++*number;
    while (line->end > line->begin &&
           (line->end[-1] == ' ' || line->end[-1] == '\t' || line->end[-1] == '\r'))
        line->end--;
    return true;
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes the next column, which begins at *at, of a line that is not empty. False: *at is NULL, since the
 * last column was taken. */
static bool next_column(const char **at, span line, bool tabs, span *column)
{
    const char *begin = *at, *end;
    if (!begin)
        return false;
    while (begin < line.end && (tabs ? *begin == ' ' : is_gap(*begin)))
        begin++;
    for (end = begin; end < line.end && (tabs ? *end != '\t' : !is_gap(*end)); end++)
        ;
    *at = end < line.end ? end + 1 : NULL;
    while (end > begin && end[-1] == ' ')
        end--;
    *column = (span){begin, end};
    return true;
}

static int64_t count_columns(span line, bool tabs)
{
    const char *at = line.begin;
    span column;
    int64_t count = 0;
    while (next_column(&at, line, tabs, &column))
        count++;
    return count;
}

/* Column number `wanted`, counted from 0. The line must have it. */
static span column_of(span line, bool tabs, int wanted)
{
    const char *at = line.begin;
    span column = {at, at};
    for (int i = 0; i <= wanted && next_column(&at, line, tabs, &column); i++)
        ;
    return column;
}

static bool has_tab(span line)
{
    return memchr(line.begin, '\t', (size_t)(line.end - line.begin)) != NULL;
}

static bool parts_sentences(span line)
{
    static const char mark[] = "-DOCSTART-";
    size_t size = (size_t)(line.end - line.begin), length = sizeof mark - 1;
    return size == 0 || (size >= length && memcmp(line.begin, mark, length) == 0 &&
                         (size == length || is_gap(line.begin[length])));
}

/* True if a line before the first word of a sentence is a comment. */
static bool is_comment(const clt_columns *c, span line)
{
    return line.begin[0] == '#' && ((!c->tabs && has_tab(line)) || count_columns(line, c->tabs) != c->count);
}

/* True for a text of digits. `more`: points and hyphens may follow the first digit. */
static bool is_number(span column, bool more)
{
    bool digits = column.end > column.begin;
    for (const char *c = column.begin; c < column.end; c++)
        digits = digits && ((*c >= '0' && *c <= '9') || (more && (*c == '.' || *c == '-')));
    return digits && column.begin[0] != '.' && column.begin[0] != '-';
}

/* --- files --- */

/* Takes the number of columns and their separator from the first line that certainly has a word. */
static clt_status find_columns(const char *text, size_t size, clt_columns *out)
{
    const char *at = text;
    span line;
    int64_t number = 0;
    *out = (clt_columns){0};
    while (next_line(&at, text + size, &line, &number)) {
        if (parts_sentences(line) || line.begin[0] == '#')
            continue;
        out->tabs = has_tab(line);
        int64_t count = count_columns(line, out->tabs);
        if (count > MOST_COLUMNS)
            CLT_FAIL(CLT_EDATA,
                     "line %lld has %lld columns, and a file with a word on each line has at most %d",
                     (long long)number, (long long)count, MOST_COLUMNS);
        out->count = (int)count;
        return CLT_OK;
    }
    return CLT_OK;
}

/* Evidence that the first column is, or is not, each word's number in its sentence, counted from 1. */
typedef struct numbering {
    bool broken; /* a sentence does not begin with the number of a first word */
    bool counts; /* a later line has the number 2, as the second word should */
} numbering;

/* `at`: number of the line in its sentence, counted from 0. */
static void watch(numbering *n, span column, int64_t at)
{
    bool one = column.end - column.begin == 1;
    if (at == 0) /* 1, a range such as 1-2, or an empty node before the first word such as 0.1 */
        n->broken = n->broken || !is_number(column, true) ||
                    (column.begin[0] != '1' && column.begin[0] != '0') || (!one && is_number(column, false));
    n->counts = n->counts || (at > 0 && one && column.begin[0] == '2');
}

clt_status clt_columns_walk(const char *text, size_t size, clt_sentence_visitor visit, void *context,
                            clt_columns *columns)
{
    const char *at = text, *begin = NULL, *end = NULL;
    span line;
    int64_t number = 0, first = 0, inside = 0; /* number of lines of the sentence so far */
    numbering n = {0};
    CLT_TRY(find_columns(text, size, columns));
    if (columns->count == 0)
        return CLT_OK;
    while (next_line(&at, text + size, &line, &number)) {
        if (parts_sentences(line)) {
            if (inside > 0)
                CLT_TRY(visit(context, begin, (size_t)(end - begin), first));
            inside = 0;
            continue;
        }
        if (inside == 0 && is_comment(columns, line))
            continue;
        if (inside == 0) {
            begin = line.begin;
            first = number;
        }
        watch(&n, column_of(line, columns->tabs, 0), inside++);
        end = line.end;
    }
    columns->numbered = columns->count > 1 && n.counts && !n.broken;
    return inside > 0 ? visit(context, begin, (size_t)(end - begin), first) : CLT_OK;
}

/* --- sentences --- */

static clt_status check_line(const clt_columns *c, span line)
{
    const char *at = line.begin;
    size_t size = (size_t)(line.end - line.begin);
    int64_t count = count_columns(line, c->tabs);
    span column;
    if (count != c->count)
        CLT_FAIL(CLT_EDATA, "it has %lld column%s, and the file's first word has %d", (long long)count,
                 CLT_PLURAL(count), c->count);
    if (clt_utf8_valid(line.begin, size) != size || memchr(line.begin, 0, size))
        CLT_FAIL(CLT_EDATA, "it is not UTF-8; convert the file first (iconv -t UTF-8)");
    for (int i = 1; next_column(&at, line, c->tabs, &column); i++)
        if (column.begin == column.end)
            CLT_FAIL(CLT_EDATA, "its column %d is empty", i);
    if (c->numbered && !is_number(column_of(line, c->tabs, 0), true))
        CLT_FAIL(CLT_EDATA, "its first column is not the number of a word, as in the file's other lines");
    return CLT_OK;
}

static void put_column(const clt_columns *c, span sentence, int column, clt_json_writer *w, clt_str *one)
{
    const char *at = sentence.begin;
    span line;
    int64_t number = 0;
    clt_jw_array(w);
    while (next_line(&at, sentence.end, &line, &number)) {
        if (c->numbered && !is_number(column_of(line, c->tabs, 0), false))
            continue;
        span value = column_of(line, c->tabs, column);
        one->length = 0;
        clt_str_append_n(one, value.begin, (size_t)(value.end - value.begin));
        clt_jw_string(w, one->text);
    }
    clt_jw_end_array(w);
}

clt_status clt_columns_record(const clt_columns *c, const char *sentence, size_t size, int64_t line,
                              clt_str *out)
{
    CLT_SCOPED(clt_str) one = {0};
    const span all = {sentence, sentence + size};
    const char *at = sentence;
    span read;
    int words = c->numbered,
        labels = c->numbered && c->count == UNIVERSAL_COLUMNS ? UNIVERSAL_LABELS : c->count - 1;
    for (int64_t number = line - 1; next_line(&at, all.end, &read, &number);)
        CLT_TRY(clt_fail_prefix(check_line(c, read), "line %lld", (long long)number));
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_object(&w);
    clt_jw_key(&w, "tokens");
    put_column(c, all, words, &w, &one);
    if (labels > words) {
        clt_jw_key(&w, "tags");
        put_column(c, all, labels, &w, &one);
    }
    for (int i = 0; i < c->count; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%d", i + 1);
        clt_jw_key(&w, name);
        put_column(c, all, i, &w, &one);
    }
    clt_jw_end_object(&w);
    CLT_TRY(clt_str_check(&one));
    return clt_str_check(out);
}
