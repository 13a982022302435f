/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads samples to predict, one after another: text line by line, other files by the sources of training. */
#include "engine/data/open/rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/text.h"
#include "engine/data/data.h"
#include "engine/data/images/image_source.h"
#include "engine/data/tables/rows_table.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

#define LINE_MOST ((size_t)64 << 20) /* the longest line of text, in bytes */

struct clt_rows {
    clt_rows_facts facts;
    char name[1024]; /* name of the input in messages */
    int64_t elements;
    bool held_out;          /* reads the rows that the run's data.split keeps for evaluation */
    bool again;             /* the input was opened before: no warnings */
    const clt_table *table; /* facts of the run's table, borrowed; NULL: it had none */
    /* array files */
    clt_source *source;
    clt_config *config;
    void *sample; /* one sample in the form of the file */
    clt_str sample_file;
    int64_t at; /* index of the next sample; the members below are for text */
    FILE *file;
    bool owned;
    char *line;
    size_t room;
    int64_t line_number;
    bool begun;           /* the first line with text has been read */
    clt_rows_table lines; /* columns of a table, if they are known */
};

/* --- array files --- */

/* Opens the source that rows->config describes. */
static clt_status open_source(clt_rows *rows)
{
    /* messages of the source begin so, but here the user has not set this key */
    static const char prefix[] = "opening data.path: ";
    /* Samples to predict are not augmented. If a folder has images for training and for evaluation, its
     * evaluation images are read. */
    const clt_source_type *type = clt_source_type_of(rows->config);
    clt_split split = rows->held_out                                   ? CLT_SPLIT_EVAL
                      : !type->input_like_run                          ? CLT_SPLIT_TRAIN
                      : type->has_eval && type->has_eval(rows->config) ? CLT_SPLIT_EVAL
                      : rows->again                                    ? CLT_SPLIT_INPUT_AGAIN
                                                                       : CLT_SPLIT_INPUT;
    const clt_source_with with = {.table = rows->table, .numbers = true};
    clt_status status = clt_source_open_with(rows->config, split, &with, &rows->source);
    if (status != CLT_OK && strncmp(clt_error_text(), prefix, sizeof prefix - 1) == 0) {
        clt_error error;
        clt_error_take(status, &error);
        return clt_fail(status, __FILE__, __LINE__, "%s", error.text + sizeof prefix - 1);
    }
    CLT_TRY(status);
    const clt_source_field *x = &rows->source->fields[0];
    rows->facts.samples = rows->source->samples;
    rows->facts.shaped = !rows->source->type->input_shapeless;
    rows->facts.shape = x->shape;
    rows->elements = clt_shape_elements(&x->shape);
    return clt_alloc(&rows->sample, 1, clt_source_field_bytes(x) ? clt_source_field_bytes(x) : 1, "a sample");
}

static clt_status open_array(clt_rows *rows, const char *path, const clt_source_type *type,
                             const clt_shape *shape)
{
    const clt_data_file file = {.type = type, .path = path, .shape = type->input_shapeless ? shape : NULL};
    CLT_TRY(clt_data_file_config(&file, &rows->config));
    CLT_TRY(open_source(rows));
    rows->facts.floats = rows->source->fields[0].dtype == CLT_F32;
    rows->facts.bytes = rows->source->byte_scale;
    return CLT_OK;
}

/* True only for a value from the command line: the run's own value concerns only its training. */
bool clt_rows_skip(const clt_config *run)
{
    const char *key = "data.on_bad_sample";
    return clt_config_part_has(clt_config_chosen(run, "data.type"), key) &&
           strcmp(clt_config_string(run, key), "skip") == 0 &&
           strcmp(clt_config_origin(run, key), "override") == 0;
}

/* Opens the file with the run's config, so that a table is read as in training, but without normalisation.
 * All of its rows are read, unless rows->held_out is set. */
static clt_status open_like_run(clt_rows *rows, const char *path, const clt_source_type *type,
                                const clt_shape *shape, const clt_config *run)
{
    char name[64], size[64], resize[64];
    CLT_SCOPED(clt_str) file = {0};
    (void)snprintf(name, sizeof name, "data.type=%s", type->format->name);
    CLT_TRY(clt_config_override_text("data.path", path, &file));
    const char *overrides[10] = {file.text,      "data.eval_path=[]", name,
                                 "data.scale=1", "data.mean=0",       "data.std=1"};
    int count = 6;
    if (!rows->held_out)
        overrides[count++] = "data.split=0";
    if (clt_config_part_has(type->format, "data.on_bad_sample"))
        overrides[count++] =
            clt_rows_skip(run) && type->left_out ? "data.on_bad_sample=skip" : "data.on_bad_sample=stop";
    /* Images of any size are resized to the size of the run's samples. */
    bool sized = clt_config_part_has(type->format, "data.size") && shape->ndim == 3;
    long long height = sized ? (long long)shape->dim[1] : 0, width = sized ? (long long)shape->dim[2] : 0;
    (void)snprintf(size, sizeof size, "data.size=[%lld,%lld]", height, width);
    (void)snprintf(resize, sizeof resize, "data.resize=%lld", height > width ? height : width);
    if (sized)
        overrides[count++] = size;
    if (sized && clt_source_type_of(run) != type && clt_config_int(run, "data.resize") == 0)
        overrides[count++] = resize;
    CLT_TRY(clt_config_with(run, path, overrides, count, &rows->config));
    return open_source(rows);
}

static clt_status next_array(clt_rows *rows, int64_t most, double *out, int64_t *got)
{
    const clt_source *source = rows->source;
    for (; *got < most && rows->at < source->samples; (*got)++, rows->at++) {
        if (source->type->numbers && source->fields[0].dtype == CLT_F32) { /* since `read` rounds to f32 */
            CLT_TRY(source->type->numbers(source, rows->at, out));
            out += rows->elements;
            continue;
        }
        CLT_TRY(clt_source_read_field(source, rows->at, 0, rows->sample));
        for (int64_t i = 0; i < rows->elements; i++)
            *out++ = clt_number_at(rows->sample, source->fields[0].dtype, i);
    }
    return clt_map_check();
}

/* --- text --- */

static clt_status open_text(clt_rows *rows, const char *path, const clt_shape *shape)
{
    rows->elements = clt_shape_elements(shape);
    rows->facts.samples = -1;
    rows->owned = strcmp(path, "-") != 0;
    if (rows->owned && clt_is_directory(path))
        CLT_FAIL(CLT_EDATA, "opening '%s' for reading: it is a folder; name a file", path);
    rows->file = rows->owned ? clt_file_open(path, CLT_EDATA) : stdin;
    return rows->file ? CLT_OK : CLT_EDATA;
}

/* The next line without its line break; *end: there is none. */
static clt_status read_line(clt_rows *rows, size_t *length, bool *end)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(rows->file)) != EOF && c != '\n') {
        if (n >= LINE_MOST)
            CLT_FAIL(CLT_EDATA, "reading '%s': line %lld is longer than 64 MiB; is it text?", rows->name,
                     (long long)rows->line_number + 1);
        if (n + 2 > rows->room)
            CLT_TRY(clt_grow(&rows->line, &rows->room, n + 2, 1, "a line of text"));
        if (c == '\0')
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': line %lld holds a zero byte, so the file is not text; give --input-type",
                     rows->name, (long long)rows->line_number + 1);
        rows->line[n++] = (char)c;
    }
    if (ferror(rows->file))
        CLT_FAIL(CLT_EDATA, "reading '%s': %s", rows->name, strerror(errno));
    *end = c == EOF && n == 0;
    if (!*end)
        rows->line_number++;
    if (n + 1 > rows->room)
        CLT_TRY(clt_grow(&rows->line, &rows->room, n + 1, 1, "a line of text"));
    if (n && rows->line[n - 1] == '\r')
        n--;
    rows->line[n] = '\0';
    *length = n;
    return CLT_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Reads the number at *at, which may be in quotes; false: there is none. */
static bool take_number(char **at, double *value)
{
    bool quoted = **at == '"';
    char *start = *at + quoted, *end;
    bool hex = start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
    *value = clt_strtod(start, &end);
    if (end == start || hex || (quoted && *end != '"'))
        return false;
    end += quoted;
    if (*end && !is_blank(*end) && *end != ',' && *end != ';')
        return false;
    *at = end;
    return true;
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

/* Counts the numbers of a line, and stores the first `elements` of them; -1: the text at *bad is not a
 * number. A separator is blanks, or one ',' or ';' with blanks around it. */
static int64_t take_numbers(char *line, int64_t elements, double *out, char **bad)
{
    char *at = line;
    for (int64_t n = 0;;) {
        double value;
        *bad = at = skip_blanks(at);
        if (!*at)
            return n;
        if (!take_number(&at, &value))
            return -1;
        if (n < elements)
            out[n] = value;
        n++;
        at = skip_blanks(at);
        if (*at != ',' && *at != ';')
            continue;
        *bad = at = skip_blanks(at + 1);
        if (!*at || *at == ',' || *at == ';')
            return -1;
    }
}

/* True if the current line is a header: it is the first line with text, and `bad`, its first cell that is
 * not a number, is not empty. */
static bool is_header(clt_rows *rows, const char *bad)
{
    bool first = !rows->begun;
    rows->begun = true;
    if (!first || !*bad || strchr(",;", *bad))
        return false;
    char start[48];
    size_t n = 0;
    for (const char *c = rows->line; *c && n + 1 < sizeof start; c++)
        start[n++] = (unsigned char)*c < 32 || *c == 127 ? '?' : *c;
    start[n] = '\0';
    snprintf(rows->facts.header, sizeof rows->facts.header, "%s%s", start, rows->line[n] ? "..." : "");
    return true;
}

static clt_status wrong_count(const clt_rows *rows, int64_t n)
{
    CLT_FAIL(CLT_EDATA, "reading '%s': line %lld has %lld numbers, a sample of this model has %lld%s",
             rows->name, (long long)rows->line_number, (long long)n, (long long)rows->elements,
             n == rows->elements + 1 ? "; is one column the target? remove it" : "");
}

static clt_status bad_text(const clt_rows *rows, const char *bad)
{
    char word[40];
    size_t n = 0;
    for (; bad[n] && n + 1 < sizeof word && !strchr(",; \t", bad[n]); n++)
        word[n] = (unsigned char)bad[n] < 32 || bad[n] == 127 ? '?' : bad[n];
    word[n] = '\0';
    CLT_FAIL(CLT_EDATA, "reading '%s': line %lld, column %lld: %s%s%s", rows->name,
             (long long)rows->line_number, (long long)(bad - rows->line) + 1, n ? "'" : "",
             n ? word : "a number is missing", n ? "' is not a number" : "");
}

/* The current line, without the byte order mark that some programs write before UTF-8. */
static char *text_of(const clt_rows *rows, size_t length)
{
    bool mark = rows->line_number == 1 && length >= 3 && memcmp(rows->line, "\xef\xbb\xbf", 3) == 0;
    return rows->line + (mark ? 3 : 0);
}

/* Reads one sample; *end: there are no more. */
static clt_status next_line(clt_rows *rows, double *out, bool *end)
{
    for (;;) {
        size_t length;
        char *bad;
        CLT_TRY(read_line(rows, &length, end));
        if (*end)
            return CLT_OK;
        int64_t n = take_numbers(text_of(rows, length), rows->elements, out, &bad);
        if (n < 0 && is_header(rows, bad))
            continue;
        if (n == 0)
            continue;
        rows->begun = true;
        if (n < 0)
            return bad_text(rows, bad);
        if (n != rows->elements)
            return wrong_count(rows, n);
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(out[i]) || fabs(out[i]) > 3.4028234663852886e38)
                CLT_FAIL(CLT_EDATA,
                         "reading '%s': line %lld: number %lld is not finite, or too large for f32",
                         rows->name, (long long)rows->line_number, (long long)i + 1);
        return CLT_OK;
    }
}

/* The same for lines of a table. */
static clt_status next_table_line(clt_rows *rows, double *out, bool *end)
{
    for (;;) {
        size_t length;
        bool names = false;
        CLT_TRY(read_line(rows, &length, end));
        if (*end)
            clt_rows_table_tell(&rows->lines);
        if (*end)
            return CLT_OK;
        char *line = text_of(rows, length);
        if (!line[strspn(line, " \t")])
            continue;
        CLT_TRY(clt_rows_table_take(&rows->lines, line, rows->line_number, out, &names));
        if (!names)
            return CLT_OK;
    }
}

/* The first line of a file: the number of its cells, and whether blanks separate them. */
typedef struct first_line {
    int64_t cells;
    bool blanks;
} first_line;

static int64_t count_cells(const char *line)
{
    static const char separators[] = "\t;,";
    int64_t cells[3] = {1, 1, 1};
    bool quoted = false;
    for (; *line; line++) {
        const char *found = quoted ? NULL : strchr(separators, *line);
        quoted ^= *line == '"';
        if (found)
            cells[found - separators]++;
    }
    return cells[0] > 1 ? cells[0] : cells[1] > 1 ? cells[1] : cells[2];
}

/* Looks at the first line that is not blank. `known`: the table's columns; NULL: they are not known. */
static clt_status look_at_first_line(const char *path, const clt_table *known, first_line *out)
{
    CLT_SCOPED(clt_rows) *look = NULL;
    size_t length;
    *out = (first_line){.cells = 1};
    CLT_TRY(clt_alloc(&look, 1, sizeof *look, "an input"));
    snprintf(look->name, sizeof look->name, "%s", path);
    CLT_TRY(open_text(look, path, &(clt_shape){0}));
    for (bool found = false, end = false; !found;) {
        CLT_TRY(read_line(look, &length, &end));
        if (end)
            break;
        const char *line = text_of(look, length);
        found = line[strspn(line, " \t")] != '\0';
        out->cells = count_cells(line);
        out->blanks = known && clt_rows_table_has_blanks(known, line);
    }
    return CLT_OK;
}

/* --- arrays and text --- */

bool clt_rows_once(const char *path)
{
    struct stat info;
    if (strcmp(path, "-") == 0)
        return true;
    return clt_file_stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static clt_status open_rows(const char *path, const clt_source_type *type, const clt_shape *shape,
                            const clt_config *run, const clt_table *known, bool again, clt_rows **out)
{
    CLT_SCOPED(clt_rows) *rows = NULL;
    const clt_source_type *own = run ? clt_source_type_of(run) : NULL;
    first_line first = {0};
    bool standard = strcmp(path, "-") == 0, once = clt_rows_once(path);
    *out = NULL;
    if (once && type && !type->input_lines)
        CLT_FAIL(CLT_EUSAGE, "%s%s%s is read as lines of numbers; name a file for other types",
                 standard ? "the standard input" : "'", standard ? "" : path,
                 standard ? "" : "', a pipe or a device,");
    if (!once && !type)
        CLT_TRY(clt_rows_guess_type(path, own, "--input-type ", &type));
    bool text = once || type->input_lines, holds_targets = own && own->holds_targets;
    bool table = !once && text && holds_targets, packed = table && clt_rows_is_packed_table(path, own);
    if (table && !packed)
        CLT_TRY(look_at_first_line(path, known, &first));
    bool lines = first.blanks || (once && holds_targets);
    table = table && !lines && (known || packed || first.cells > clt_shape_elements(shape));
    bool sized = own && type && clt_config_part_has(own->format, "data.size") &&
                 clt_config_part_has(type->format, "data.size");
    bool like_run =
        table || (own && own->input_like_run && type && type->input_like_run && (own == type || sized));
    CLT_TRY(clt_alloc(&rows, 1, sizeof *rows, "an input"));
    rows->again = again;
    snprintf(rows->name, sizeof rows->name, "%s", standard ? "the standard input" : path);
    rows->table = table || lines ? known : NULL;
    rows->lines.table = lines ? known : NULL;
    rows->lines.run = run;
    rows->lines.cut.path = rows->name;
    if (like_run)
        CLT_TRY(open_like_run(rows, path, table ? own : type, shape, run));
    else
        CLT_TRY(text ? open_text(rows, path, shape) : open_array(rows, path, type, shape));
    *out = CLT_TAKE(rows);
    return CLT_OK;
}

clt_status clt_rows_open(const char *path, const clt_source_type *type, const clt_shape *shape,
                         const clt_config *run, const clt_table *table, clt_rows **out)
{
    return open_rows(path, type, shape, run, table, false, out);
}

clt_status clt_rows_open_again(const char *path, const clt_source_type *type, const clt_shape *shape,
                               const clt_config *run, const clt_table *table, clt_rows **out)
{
    return open_rows(path, type, shape, run, table, true, out);
}

clt_status clt_rows_open_held_out(const clt_shape *shape, const clt_config *run, const clt_table *table,
                                  bool again, clt_rows **out)
{
    CLT_SCOPED(clt_rows) *rows = NULL;
    const char *path = clt_config_list_string(run, "data.path", 0);
    *out = NULL;
    CLT_TRY(clt_alloc(&rows, 1, sizeof *rows, "an input"));
    *rows = (clt_rows){.held_out = true, .again = again, .table = table};
    CLT_TRY(open_like_run(rows, path, clt_source_type_of(run), shape, run));
    *out = CLT_TAKE(rows);
    return CLT_OK;
}

void clt_rows_fingerprint(const clt_rows *rows, char text[CLT_HASH64_TEXT])
{
    text[0] = '\0';
    if (rows->source && rows->source->type->fingerprint)
        (void)clt_source_fingerprint(rows->source, text);
}

int64_t clt_rows_line(const clt_rows *rows, int64_t sample)
{
    return rows->source->type->line_of(rows->source, sample);
}

void clt_rows_close(clt_rows *rows)
{
    if (!rows)
        return;
    clt_source_close(rows->source);
    clt_config_destroy(rows->config);
    if (rows->file && rows->owned)
        fclose(rows->file);
    free(rows->sample);
    clt_str_free(&rows->sample_file);
    free(rows->line);
    clt_rows_table_free(&rows->lines);
    free(rows);
}

const clt_rows_facts *clt_rows_describe(const clt_rows *rows)
{
    return &rows->facts;
}

clt_status clt_rows_file(clt_rows *rows, int64_t sample, const char **path)
{
    const clt_source *source = rows->source;
    *path = NULL;
    if (!source || !source->type->file_of || sample < 0 || sample >= source->samples)
        return CLT_OK;
    rows->sample_file.length = 0;
    source->type->file_of(source, sample, &rows->sample_file);
    CLT_TRY(clt_str_check(&rows->sample_file));
    *path = rows->sample_file.text;
    return CLT_OK;
}

bool clt_rows_left_out(const clt_rows *rows, int64_t sample)
{
    const clt_source *source = rows->source;
    return source && source->type->left_out && source->type->left_out(source, sample);
}

clt_status clt_rows_next(clt_rows *rows, int64_t most, double *out, int64_t *got)
{
    *got = 0;
    if (rows->source)
        return next_array(rows, most, out, got);
    for (bool end = false; *got < most;) {
        CLT_TRY((rows->lines.table ? next_table_line : next_line)(rows, out + *got * rows->elements, &end));
        if (end)
            break;
        ++*got;
    }
    return CLT_OK;
}
