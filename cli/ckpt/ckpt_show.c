/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt show: what a checkpoint or a file of weights contains. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/checkpoint/tensor_compare.h"

typedef struct shown {
    const clt_named_tensor *tensor;
    const char *type;         /* the file's name for the type */
    bool known;               /* the engine stores the type, so `values` is filled in */
    clt_tensor_values values; /* `values.count` is 0 for an unknown type */
} shown;

typedef struct show {
    ckpt_opened opened;
    shown *rows;
    size_t count, capacity;
    int64_t values, nonfinite; /* sums over all rows of known types */
    uint64_t bytes;
} show;

static void free_show(show *s)
{
    free(s->rows);
    ckpt_close(&s->opened);
}
CLT_SCOPED_VALUE(show, free_show)

static clt_status add(show *s, const clt_safetensors *file, const clt_named_tensor *t)
{
    CLT_TRY(clt_grow(&s->rows, &s->capacity, s->count + 1, sizeof *s->rows, "a list of tensors"));
    shown *row = &s->rows[s->count++];
    row->tensor = t;
    row->type = clt_safetensors_type(file, t);
    row->known = (int)t->dtype < (int)CLT_DTYPE_COUNT && t->shape.ndim >= 0;
    if (!row->known)
        return CLT_OK;
    row->values = clt_tensor_values_of(t);
    s->values += row->values.count;
    s->nonfinite += row->values.nonfinite;
    s->bytes += clt_named_tensors_bytes(t, 1);
    return CLT_OK;
}

static clt_status read_all(show *s, const char *path, const char *pattern, bool optimizer)
{
    CLT_TRY(ckpt_open(path, &s->opened));
    for (int k = 0; k < (optimizer ? CKPT_FILES : 1); k++) {
        const clt_safetensors *file = ckpt_file(&s->opened, k);
        for (int i = 0; file && i < clt_safetensors_count(file); i++) {
            const clt_named_tensor *t = clt_safetensors_at(file, i);
            if (fnmatch(pattern, t->name, 0) == 0)
                CLT_TRY(add(s, file, t));
        }
    }
    if (optimizer && !ckpt_file(&s->opened, 1))
        CLT_FAIL(CLT_ECHECKPOINT, "cltrain ckpt show: '%s' holds no state of an optimizer", s->opened.path);
    if (s->count == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain ckpt show: no tensor of '%s' is named like '%s'", s->opened.path,
                 pattern);
    return CLT_OK;
}

/* --- as text --- */

/* The numbers and texts of state.json that are not in a list or an object. */
static void put_state(const clt_checkpoint *checkpoint, int screen, clt_str *out)
{
    CLT_SCOPED(clt_str) line = {0};
    const clt_json *member = clt_json_first(clt_json_root(checkpoint->state));
    for (; member; member = clt_json_next(member)) {
        clt_json_type type = clt_json_typeof(member);
        if (type == CLT_JSON_OBJECT || type == CLT_JSON_ARRAY)
            continue;
        clt_json_writer w = clt_json_writer_make(&line, 0);
        clt_str_printf(&line, "%s%s ", line.length ? ", " : "", clt_json_key(member));
        clt_jw_value(&w, member);
    }
    clt_str_append(out, "state: ");
    text_wrap(line.text ? line.text : "", 7, 2, screen, out);
    out->failed = out->failed || line.failed;
}

static void put_row(const show *s, const shown *row, const table *t, clt_str *out)
{
    char text[6][CLT_SHAPE_TEXT], name[512];
    const clt_tensor_values *v = &row->values;
    const char *cells[] = {text_clean(row->tensor->name, name, sizeof name),
                           row->type,
                           clt_shape_text(&row->tensor->shape, text[0], sizeof text[0]),
                           text[1],
                           text[2],
                           text[3],
                           text[4],
                           text[5]};
    snprintf(text[1], sizeof text[1], "%.4g", v->mean);
    snprintf(text[2], sizeof text[2], "%.4g", v->rms);
    snprintf(text[3], sizeof text[3], "%.4g", v->largest);
    snprintf(text[4], sizeof text[4], "%" PRId64, v->zeros);
    snprintf(text[5], sizeof text[5], "%" PRId64, v->nonfinite);
    for (int i = 3; !row->known && i < 8; i++)
        cells[i] = "-";
    cells[7] = s->nonfinite > 0 ? cells[7] : NULL;
    table_row(t, cells, out);
}

static clt_status print_text(const show *s)
{
    CLT_SCOPED(clt_str) out = {0};
    char bytes[32];
    int screen = terminal_columns(), longest = 6;
    table t;
    for (size_t i = 0; i < s->count; i++) {
        int columns = text_columns(s->rows[i].tensor->name);
        longest = columns > longest ? columns : longest;
    }
    const table_column columns[] = {{"tensor", longest, 12, 0, false}, {"type", 4, 0, 6, false},
                                    {"shape", 12, 0, 0, false},        {"mean", 10, 0, 4, true},
                                    {"rms", 10, 0, 2, true},           {"largest", 10, 0, 1, true},
                                    {"zeros", 7, 0, 5, true},          {"not finite", 10, 0, 0, true}};
    clt_str_printf(&out, "%s\n", s->opened.path);
    if (s->opened.checkpoint)
        put_state(s->opened.checkpoint, screen, &out);
    table_make(&t, columns, s->nonfinite > 0 ? 8 : 7, screen);
    table_head(&t, &out);
    for (size_t i = 0; i < s->count; i++)
        put_row(s, &s->rows[i], &t, &out);
    clt_str_printf(&out, "%zu tensor%s, %" PRId64 " value%s, %s\n", s->count, CLT_PLURAL(s->count), s->values,
                   CLT_PLURAL(s->values), console_bytes(s->bytes, bytes, sizeof bytes));
    CLT_TRY(clt_str_check(&out));
    table_print(&out);
    return CLT_OK;
}

/* --- as JSON --- */

static void json_row(clt_json_writer *w, const shown *row)
{
    const clt_shape *shape = &row->tensor->shape;
    const clt_tensor_values *v = &row->values;
    clt_jw_object(w);
    clt_jw_kstring(w, "name", row->tensor->name);
    clt_jw_kstring(w, "type", row->type);
    clt_jw_karray(w, "shape");
    for (int i = 0; i < shape->ndim; i++)
        clt_jw_int(w, shape->dim[i]);
    clt_jw_end_array(w);
    if (row->known) {
        clt_jw_kint(w, "values", v->count);
        clt_jw_kdouble(w, "mean", v->mean);
        clt_jw_kdouble(w, "rms", v->rms);
        clt_jw_kdouble(w, "largest", v->largest);
        clt_jw_kint(w, "zeros", v->zeros);
        clt_jw_kint(w, "not_finite", v->nonfinite);
    }
    clt_jw_end_object(w);
}

static clt_status print_json(const show *s)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 1);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "path", s->opened.path);
    if (s->opened.checkpoint) {
        clt_jw_key(&w, "manifest");
        clt_jw_value(&w, clt_json_root(s->opened.checkpoint->manifest));
        clt_jw_key(&w, "state");
        clt_jw_value(&w, clt_json_root(s->opened.checkpoint->state));
    }
    clt_jw_karray(&w, "tensors");
    for (size_t i = 0; i < s->count; i++)
        json_row(&w, &s->rows[i]);
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    return cmd_write_line("-", &out);
}

clt_status ckpt_show(cmd_context *context, int argc, char **argv)
{
    const char *pattern = "*";
    bool optimizer = false, json = false;
    const args_option options[] = {
        ARGS_TEXT("-t", "PATTERN", pattern, "only tensors whose name matches, such as '*.bias'"),
        ARGS_FLAG("--optimizer", optimizer, "the optimizer's tensors, too: moments, moving averages"),
        ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt show", "PATH", 1, 1, options,
        "Lists the tensors of a checkpoint or of a file of weights: type, shape, mean, root of\n"
        "the mean square, largest magnitude, zeros. PATH is a run folder (its newest checkpoint),\n"
        "one step_N of it, or what --init takes.");
    args_result r;
    CLT_SCOPED(show) s = {0};
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(read_all(&s, r.operands[0], pattern, optimizer));
    return json ? print_json(&s) : print_text(&s);
}
