/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes predictions as csv, JSON lines or npy. An npy header is written twice: first with no samples, and
 * with their number when all are written. */
#include "cli/screen/predict_out.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/screen/npy_head.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/report/write/lines.h"

clt_status predict_format_choose(const char *format, const char *path, predict_format *out)
{
    static const char *const names[] = {"csv", "jsonl", "npy", "json"};
    *out = PREDICT_CSV;
    for (int i = 0; i < 4; i++) {
        char end[8];
        snprintf(end, sizeof end, ".%s", names[i]);
        if (format ? strcmp(format, names[i]) == 0 : path && clt_ends_with(path, end)) {
            *out = (predict_format)i;
            return CLT_OK;
        }
    }
    if (format)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: --format '%s' is not known; give csv, jsonl, npy or json",
                 format);
    if (path)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain predict: the name '%s' has no known ending; end it with .csv, .jsonl, .npy or "
                 ".json, or give --format",
                 path);
    return CLT_OK;
}

static clt_status write_failed(const predict_out *o)
{
    CLT_FAIL(CLT_ESTORAGE, "writing predictions to %s: %s", o->path ? o->path : "the standard output",
             strerror(errno));
}

static clt_status put(predict_out *o, const void *data, size_t size)
{
    return fwrite(data, 1, size, o->file) == size ? CLT_OK : write_failed(o);
}

/* Writes the npy header of an array of o->samples predictions. */
static clt_status npy_header(predict_out *o)
{
    const clt_predictor *p = o->of;
    const int64_t rows[] = {o->samples, p->rows, p->outputs}, one[] = {o->samples, p->outputs};
    char head[NPY_HEADER];
    npy_head(p->rows > 1 ? rows : one, p->rows > 1 ? 3 : 2, head);
    return put(o, head, NPY_HEADER);
}

/* Writes a header line such as "sample,class,probability,p0,p1". */
static clt_status csv_header(predict_out *o)
{
    const clt_predictor *p = o->of;
    CLT_SCOPED(clt_str) line = {0};
    bool single = p->outputs == 1, named = clt_predictor_class(p, 0) != NULL;
    clt_str_printf(&line, "%ssample%s%s", o->files ? "file," : "", o->lines ? ",line" : "",
                   p->rows > 1 ? ",row" : "");
    if (p->kind == CLT_PREDICT_CLASSES || (p->kind == CLT_PREDICT_YES_NO && single))
        clt_str_append(&line, named ? ",class,name,probability" : ",class,probability");
    if (o->top)
        for (int64_t i = 2; i <= o->top; i++) {
            clt_str_printf(&line, ",class%lld", (long long)i);
            if (named)
                clt_str_printf(&line, ",name%lld", (long long)i);
            clt_str_printf(&line, ",probability%lld", (long long)i);
        }
    else if (p->kind == CLT_PREDICT_VALUES)
        for (int64_t i = 0; i < p->outputs; i++)
            clt_str_printf(&line, single ? ",y" : ",y%lld", (long long)i);
    else if (!single)
        for (int64_t i = 0; i < p->outputs; i++)
            clt_str_printf(&line, ",p%lld", (long long)i);
    clt_str_append(&line, "\n");
    CLT_TRY(clt_str_check(&line));
    for (const char *c = line.text; *c; c++)
        o->commas += *c == ',';
    return put(o, line.text, line.length);
}

clt_status predict_out_open(predict_out *o)
{
    struct stat info;
    CLT_SCOPED(clt_str) partial = {0};
    bool in_place = o->path && stat(o->path, &info) == 0 && !S_ISREG(info.st_mode);
    if (o->top)
        CLT_TRY(clt_alloc(&o->order, (size_t)o->of->outputs, sizeof *o->order, "predictions"));
    if (!o->path) {
        o->file = stdout;
    } else if (in_place) {
        o->file = fopen(o->path, "wb");
    } else {
        CLT_TRY(clt_temporary_name(o->path, "tmp", &partial));
        o->partial = CLT_TAKE(partial.text);
        int fd;
        CLT_TRY(clt_own_file_create(o->partial, &fd));
        o->file = fdopen(fd, "wb");
        if (!o->file)
            (void)close(fd);
    }
    if (!o->file)
        return write_failed(o);
    return o->format == PREDICT_NPY ? npy_header(o) : CLT_OK;
}

/* Sets o->order to the `top` most likely classes, the likeliest first; a tie goes to the lower number. */
static void rank(predict_out *o, const float *scores)
{
    for (int64_t k = 0; k < o->top; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < o->of->outputs; i++) {
            bool taken = false;
            for (int64_t before = 0; before < k && !taken; before++)
                taken = o->order[before] == i;
            if (!taken && (best < 0 || scores[i] > scores[best]))
                best = i;
        }
        o->order[k] = best;
    }
}

static int64_t likeliest(const float *scores, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

static void number(clt_str *line, float value)
{
    char text[CLT_NUMBER_TEXT];
    clt_str_append(line, clt_float_text(value, text));
}

/* Writes a name as a cell, quoted if necessary. */
static void cell(clt_str *line, const char *text)
{
    bool plain = text[0] != ' ' && (!*text || text[strlen(text) - 1] != ' ');
    for (const char *c = text; *c && plain; c++)
        plain = *c != ',' && *c != '"' && *c != 127 && (unsigned char)*c >= ' ';
    if (plain)
        clt_str_append(line, text);
    else
        clt_csv_quoted(line, text);
}

/* Writes cells such as ",0,setosa,0.98". */
static void class_cells(const predict_out *o, int64_t class, float probability, clt_str *line)
{
    const char *name = clt_predictor_class(o->of, class);
    clt_str_printf(line, ",%lld,", (long long)class);
    if (clt_predictor_class(o->of, 0)) {
        cell(line, name ? name : ""); /* a model may have more classes than names */
        clt_str_append(line, ",");
    }
    number(line, probability);
}

static void csv_row(predict_out *o, const char *input, int64_t row, const float *scores, clt_str *line)
{
    const clt_predictor *p = o->of;
    if (o->files) {
        cell(line, input);
        clt_str_append(line, ",");
    }
    clt_str_printf(line, "%lld", (long long)o->samples);
    if (o->lines)
        clt_str_printf(line, ",%lld", (long long)o->line);
    if (p->rows > 1)
        clt_str_printf(line, ",%lld", (long long)row);
    if (o->top) {
        for (int64_t k = 0; k < o->top; k++)
            class_cells(o, o->order[k], scores[o->order[k]], line);
        clt_str_append(line, "\n");
        return;
    }
    if (p->kind == CLT_PREDICT_YES_NO && p->outputs == 1) {
        class_cells(o, scores[0] > 0.5f, scores[0], line);
        clt_str_append(line, "\n");
        return;
    }
    if (p->kind == CLT_PREDICT_CLASSES) {
        int64_t best = likeliest(scores, p->outputs);
        class_cells(o, best, scores[best], line);
        if (p->outputs == 1) {
            clt_str_append(line, "\n");
            return;
        }
    }
    for (int64_t i = 0; i < p->outputs; i++) {
        clt_str_append(line, ",");
        number(line, scores[i]);
    }
    clt_str_append(line, "\n");
}

static void class_members(const predict_out *o, int64_t class, float probability, clt_json_writer *w)
{
    const char *name = clt_predictor_class(o->of, class);
    clt_jw_kint(w, "class", class);
    if (name)
        clt_jw_kstring(w, "name", name);
    clt_jw_key(w, "probability");
    clt_jw_float(w, probability);
}

static void json_row(predict_out *o, const char *input, int64_t row, const float *scores, clt_str *line)
{
    const clt_predictor *p = o->of;
    clt_json_writer w = clt_json_writer_make(line, 0);
    clt_jw_object(&w);
    if (o->files)
        clt_jw_kstring(&w, "file", input);
    clt_jw_kint(&w, "sample", o->samples);
    if (o->lines)
        clt_jw_kint(&w, "line", o->line);
    if (p->rows > 1)
        clt_jw_kint(&w, "row", row);
    if (p->kind == CLT_PREDICT_CLASSES) {
        int64_t best = o->top ? o->order[0] : likeliest(scores, p->outputs);
        class_members(o, best, scores[best], &w);
    } else if (p->kind == CLT_PREDICT_YES_NO) {
        clt_jw_karray(&w, "yes");
        for (int64_t i = 0; i < p->outputs; i++)
            if (scores[i] > 0.5f)
                clt_jw_int(&w, i);
        clt_jw_end_array(&w);
        const char *name = clt_predictor_class(o->of, scores[0] > 0.5f);
        if (name)
            clt_jw_kstring(&w, "name", name);
    }
    clt_jw_karray(&w, o->top ? "top" : p->kind == CLT_PREDICT_VALUES ? "values" : "probabilities");
    for (int64_t i = 0; i < (o->top ? o->top : p->outputs); i++) {
        if (!o->top) {
            clt_jw_float(&w, scores[i]);
            continue;
        }
        clt_jw_object(&w);
        class_members(o, o->order[i], scores[o->order[i]], &w);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(line, "\n");
}

/* Writes the prediction of one row of a sample. line: room for its text. */
static clt_status write_row(predict_out *o, const char *input, int64_t row, const float *scores,
                            clt_str *line)
{
    int64_t n = o->of->outputs;
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        finite = finite && isfinite(scores[i]);
    o->not_finite += !finite;
    if (o->format == PREDICT_NPY)
        return put(o, scores, (size_t)n * sizeof *scores); /* hosts are little-endian */
    line->length = 0;
    if (o->top)
        rank(o, scores);
    (o->format == PREDICT_CSV ? csv_row : json_row)(o, input, row, scores, line);
    CLT_TRY(clt_str_check(line));
    return put(o, line->text, line->length);
}

clt_status predict_out_write(predict_out *o, const char *input, const float *scores, int64_t samples)
{
    CLT_SCOPED(clt_str) line = {0};
    /* the header is written with the first sample, so that there is no output if the input is refused */
    if (o->format == PREDICT_CSV && o->samples == 0 && samples > 0)
        CLT_TRY(csv_header(o));
    for (int64_t s = 0; s < samples; s++, o->samples++)
        for (int64_t r = 0; r < o->of->rows; r++, scores += o->of->outputs)
            CLT_TRY(write_row(o, input, r, scores, &line));
    return CLT_OK;
}

clt_status predict_out_leave_out(predict_out *o, const char *input)
{
    CLT_SCOPED(clt_str) line = {0};
    clt_json_writer w = clt_json_writer_make(&line, 0);
    if (o->format == PREDICT_CSV && o->samples == 0)
        CLT_TRY(csv_header(o));
    if (o->format == PREDICT_CSV) {
        if (o->files)
            cell(&line, input);
        clt_str_printf(&line, "%s%lld", o->files ? "," : "", (long long)o->samples);
        for (int i = o->files ? 1 : 0; i < o->commas; i++)
            clt_str_append(&line, ",");
    } else {
        clt_jw_object(&w);
        if (o->files)
            clt_jw_kstring(&w, "file", input);
        clt_jw_kint(&w, "sample", o->samples);
        clt_jw_kstring(&w, "error", "cannot be read");
        clt_jw_end_object(&w);
    }
    clt_str_append(&line, "\n");
    CLT_TRY(clt_str_check(&line));
    o->samples++;
    o->left_out++;
    return put(o, line.text, line.length);
}

clt_status predict_out_line(predict_out *o, const clt_str *line)
{
    bool first = o->samples++ == 0;
    if (o->format == PREDICT_JSON)
        CLT_TRY(put(o, first ? "{" : ",\n", first ? 1 : 2));
    return put(o, line->text, line->length);
}

static clt_status finish_file(predict_out *o)
{
    if (o->format == PREDICT_JSON)
        CLT_TRY(put(o, "}\n", 2));
    if (o->format == PREDICT_NPY) {
        if (fseeko(o->file, 0, SEEK_SET) != 0)
            return write_failed(o);
        CLT_TRY(npy_header(o));
    }
    if (fflush(o->file) != 0 || (o->partial && fsync(fileno(o->file)) != 0))
        return write_failed(o);
    if (o->partial && rename(o->partial, o->path) != 0)
        return write_failed(o);
    return o->partial ? clt_fsync_parent(o->path) : CLT_OK;
}

clt_status predict_out_close(predict_out *o, bool failed)
{
    clt_status status = o->file && !failed ? finish_file(o) : CLT_OK;
    if (o->file && o->path)
        fclose(o->file);
    if (o->partial && (failed || status != CLT_OK))
        unlink(o->partial);
    free(o->partial);
    free(o->order);
    o->file = NULL;
    o->partial = NULL;
    o->order = NULL;
    return status;
}
