/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt diff: compares two checkpoints or files of weights, tensor by tensor. */
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/checkpoint/tensor_compare.h"

enum { MOST_ROWS = 20 }; /* rows shown without --all */

typedef struct pair {
    const clt_named_tensor *a, *b; /* NULL: only the other side has a tensor of this name */
    const char *type_a, *type_b;
    int file;      /* 0: a tensor of the model, 1: a tensor of the optimizer */
    bool compared; /* both exist, with the same shape and with types that the engine supports */
    clt_tensor_difference d;
} pair;

typedef struct diff {
    ckpt_opened side[2];
    const char *pattern;
    double tolerance;
    clt_str prefix; /* prefix that was removed from the names of side `prefixed`; empty: none was removed */
    int prefixed;
    pair *pairs;
    size_t count, capacity;
    /* number of tensors. same: equal bits; apart: the difference exceeds the tolerance; unlike: not
     * comparable */
    size_t same, apart, unlike;
} diff;

static void free_diff(diff *d)
{
    free(d->pairs);
    clt_str_free(&d->prefix);
    ckpt_close(&d->side[0]);
    ckpt_close(&d->side[1]);
}
CLT_SCOPED_VALUE(diff, free_diff)

/* --- comparing --- */

static bool is_comparable(const clt_named_tensor *a, const clt_named_tensor *b)
{
    return a && b && (int)a->dtype < (int)CLT_DTYPE_COUNT && (int)b->dtype < (int)CLT_DTYPE_COUNT &&
           a->shape.ndim >= 0 && clt_shape_equal(&a->shape, &b->shape);
}

static clt_status add_pair(diff *d, const pair *given)
{
    CLT_TRY(clt_grow(&d->pairs, &d->capacity, d->count + 1, sizeof *d->pairs, "a list of tensors"));
    pair *p = &d->pairs[d->count++];
    *p = *given;
    p->compared = is_comparable(p->a, p->b);
    if (!p->compared) {
        d->unlike++;
        return CLT_OK;
    }
    p->d = clt_tensor_compare(p->a, p->b);
    d->same += p->d.same_bits;
    /* different types are shown, but only values decide */
    d->apart += p->d.different > 0 && !(p->d.relative <= d->tolerance);
    return CLT_OK;
}

static clt_status compare_files(diff *d, int file, const clt_safetensors *a, const clt_safetensors *b)
{
    for (int i = 0; i < clt_safetensors_count(a); i++) {
        pair p = {.a = clt_safetensors_at(a, i), .file = file};
        if (fnmatch(d->pattern, p.a->name, 0) != 0)
            continue;
        p.b = clt_safetensors_find(b, p.a->name);
        p.type_a = clt_safetensors_type(a, p.a);
        p.type_b = p.b ? clt_safetensors_type(b, p.b) : NULL;
        CLT_TRY(add_pair(d, &p));
    }
    for (int i = 0; i < clt_safetensors_count(b); i++) {
        pair p = {.b = clt_safetensors_at(b, i), .file = file};
        p.type_b = clt_safetensors_type(b, p.b);
        if (fnmatch(d->pattern, p.b->name, 0) == 0 && !clt_safetensors_find(a, p.b->name))
            CLT_TRY(add_pair(d, &p));
    }
    return CLT_OK;
}

/* How many names of `longer` consist of `prefix` (`length` bytes) and a name of `shorter`. */
static int names_after(const clt_safetensors *longer, const clt_safetensors *shorter, const char *prefix,
                       size_t length)
{
    int found = 0;
    for (int i = 0; i < clt_safetensors_count(longer); i++) {
        const char *name = clt_safetensors_at(longer, i)->name;
        found += strncmp(name, prefix, length) == 0 && clt_safetensors_find(shorter, name + length);
    }
    return found;
}

/* If the two sides have no name in common, but most names of side 1 - k are a prefix followed by a name of
 * side k, removes the prefix. An example is "transformer.", which transformers writes before the names of
 * GPT-2. */
static clt_status align_names(diff *d, int k)
{
    const clt_safetensors *shorter = ckpt_file(&d->side[k], 0), *longer = ckpt_file(&d->side[1 - k], 0);
    ckpt_opened *side = &d->side[1 - k];
    CLT_SCOPED(clt_str) end = {0};
    if (clt_safetensors_count(shorter) == 0 || names_after(longer, shorter, "", 0) > 0)
        return CLT_OK;
    clt_str_printf(&end, ".%s", clt_safetensors_at(shorter, 0)->name);
    CLT_TRY(clt_str_check(&end));
    for (int i = 0; i < clt_safetensors_count(longer); i++) {
        const char *name = clt_safetensors_at(longer, i)->name;
        size_t length = clt_stem(name, end.text) + 1; /* the length includes the dot */
        if (length == 1 || 2 * names_after(longer, shorter, name, length) <= clt_safetensors_count(shorter))
            continue;
        clt_str_printf(&d->prefix, "%.*s", (int)length, name);
        CLT_TRY(clt_str_check(&d->prefix));
        d->prefixed = 1 - k;
        return clt_safetensors_strip_prefix(side->weights ? side->weights : side->checkpoint->model,
                                            d->prefix.text);
    }
    return CLT_OK;
}

static clt_status compare_all(diff *d, const args_result *r)
{
    for (int k = 0; k < 2; k++)
        CLT_TRY(ckpt_open(r->operands[k], &d->side[k]));
    for (int k = 0; k < 2; k++)
        CLT_TRY(align_names(d, k));
    for (int k = 0; k < CKPT_FILES; k++) {
        const clt_safetensors *a = ckpt_file(&d->side[0], k), *b = ckpt_file(&d->side[1], k);
        if (a && b)
            CLT_TRY(compare_files(d, k, a, b));
    }
    if (d->count == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain ckpt diff: no tensor is named like '%s'", d->pattern);
    for (int k = 0; k < 2; k++) /* if a file was truncated meanwhile, its values are wrong */
        for (int file = 0; file < CKPT_FILES; file++)
            CLT_TRY(clt_safetensors_whole(ckpt_file(&d->side[k], file)));
    return CLT_OK;
}

/* The order of rows: tensors that cannot be compared come first, then the largest relative differences; the
 * model comes before the optimizer. */
static int by_difference(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    if (a->compared != b->compared)
        return a->compared ? 1 : -1;
    if (a->file != b->file)
        return a->file - b->file;
    if (a->compared && a->d.relative != b->d.relative)
        return a->d.relative < b->d.relative ? 1 : -1;
    return strcmp((a->a ? a->a : a->b)->name, (b->a ? b->a : b->b)->name);
}

/* --- as text --- */

/* Appends a number or text of state.json; false for a list or an object. NULL: "not there". */
static bool put_value(const clt_json *value, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 0);
    if (!value) {
        clt_str_append(out, "not there");
        return true;
    }
    if (clt_json_typeof(value) == CLT_JSON_OBJECT || clt_json_typeof(value) == CLT_JSON_ARRAY)
        return false;
    clt_jw_value(&w, value);
    return true;
}

/* Appends a line if a member of state.json has different values in A and B. */
static clt_status put_member(const clt_json *a, const clt_json *b, int screen, clt_str *out)
{
    CLT_SCOPED(clt_str) in_a = {0}, in_b = {0}, line = {0};
    bool flat = put_value(a, &in_a) && put_value(b, &in_b);
    CLT_TRY(clt_str_check(&in_a));
    CLT_TRY(clt_str_check(&in_b));
    if (!flat || strcmp(in_a.text, in_b.text) == 0)
        return CLT_OK;
    clt_str_printf(&line, "  state: %s %s in A, %s in B", clt_json_key(a), in_a.text, in_b.text);
    CLT_TRY(clt_str_check(&line));
    text_wrap(line.text, 0, 4, screen, out);
    return CLT_OK;
}

static clt_status put_states(const diff *d, int screen, clt_str *out)
{
    const clt_checkpoint *a = d->side[0].checkpoint, *b = d->side[1].checkpoint;
    if (!a || !b)
        return CLT_OK;
    for (const clt_json *m = clt_json_first(clt_json_root(a->state)); m; m = clt_json_next(m))
        CLT_TRY(put_member(m, clt_json_get(clt_json_root(b->state), clt_json_key(m)), screen, out));
    return CLT_OK;
}

static void put_unlike(const pair *p, const char *name, int screen, clt_str *out)
{
    char shapes[2][CLT_SHAPE_TEXT];
    CLT_SCOPED(clt_str) line = {0};
    if (!p->a || !p->b)
        clt_str_printf(&line, "%s: only in %s", name, p->a ? "A" : "B");
    else
        clt_str_printf(&line, "%s: %s %s in A, %s %s in B", name, p->type_a,
                       clt_shape_text(&p->a->shape, shapes[0], sizeof shapes[0]), p->type_b,
                       clt_shape_text(&p->b->shape, shapes[1], sizeof shapes[1]));
    out->failed = out->failed || line.failed;
    text_wrap(line.text ? line.text : "", 0, 4, screen, out);
}

static void put_pair(const pair *p, const char *name, const table *t, clt_str *out)
{
    char text[6][CLT_SHAPE_TEXT], types[64];
    bool retyped = strcmp(p->type_a, p->type_b) != 0;
    const char *cells[] = {name, types, text[0], text[1], text[2], text[3], text[4]};
    snprintf(types, sizeof types, retyped ? "%.12s, %.12s" : "%.12s", p->type_a, p->type_b);
    snprintf(text[0], sizeof text[0], "%" PRId64 " of %" PRId64, p->d.different, p->d.count);
    snprintf(text[1], sizeof text[1], "%.3g", p->d.largest);
    snprintf(text[2], sizeof text[2], "%.3g", p->d.relative);
    snprintf(text[3], sizeof text[3], "%.4g", p->d.ulp);
    snprintf(text[4], sizeof text[4], "%.9f", p->d.cosine);
    table_row(t, cells, out);
}

static void put_sum(const diff *d, clt_str *out)
{
    size_t compared = d->count - d->unlike;
    if (d->same == d->count) {
        clt_str_printf(out, "all %zu tensors have the same bits\n", d->count);
        return;
    }
    clt_str_printf(out, "%zu of %zu tensors have the same bits", d->same, d->count);
    if (d->tolerance > 0)
        clt_str_printf(out, ", %zu of %zu lie within %g of their largest value", compared - d->apart,
                       compared, d->tolerance);
    clt_str_append(out, "\n");
}

static clt_status print_text(diff *d, bool all)
{
    CLT_SCOPED(clt_str) out = {0};
    int screen = terminal_columns(), longest = 6;
    size_t rows = 0, left = 0;
    table t;
    for (size_t i = 0; i < d->count; i++) {
        int columns = text_columns((d->pairs[i].a ? d->pairs[i].a : d->pairs[i].b)->name);
        longest = columns > longest ? columns : longest;
    }
    const table_column columns[] = {{"tensor", longest, 12, 0, false}, {"type", 4, 0, 5, false},
                                    {"different", 14, 0, 2, true},     {"largest", 9, 0, 1, true},
                                    {"relative", 9, 0, 0, true},       {"ULP", 9, 0, 3, true},
                                    {"cosine", 12, 0, 4, true}};
    clt_str_printf(&out, "A  %s\nB  %s\n", d->side[0].path, d->side[1].path);
    if (d->prefix.length)
        clt_str_printf(&out, "  names of %c without \"%s\"\n", "AB"[d->prefixed], d -> prefix.text);
    CLT_TRY(put_states(d, screen, &out));
    table_make(&t, columns, 7, screen);
    if (!all)
        qsort(d->pairs, d->count, sizeof *d->pairs, by_difference);
    for (size_t i = 0; i < d->count; i++) {
        const pair *p = &d->pairs[i];
        char name[512];
        text_clean((p->a ? p->a : p->b)->name, name, sizeof name);
        if (!all && p->compared && p->d.different == 0 && strcmp(p->type_a, p->type_b) == 0)
            continue;
        if (!all && rows == MOST_ROWS) {
            left++;
            continue;
        }
        if (rows++ == 0 && d->count > d->unlike)
            table_head(&t, &out);
        if (p->compared)
            put_pair(p, name, &t, &out);
        else
            put_unlike(p, name, screen, &out);
    }
    if (left > 0)
        clt_str_printf(&out, "and %zu more; --all lists every tensor\n", left);
    put_sum(d, &out);
    CLT_TRY(clt_str_check(&out));
    table_print(&out);
    return CLT_OK;
}

/* --- as JSON --- */

static void json_pair(clt_json_writer *w, const pair *p)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "name", (p->a ? p->a : p->b)->name);
    clt_jw_kstring(w, "type_a", p->type_a);
    clt_jw_kstring(w, "type_b", p->type_b);
    clt_jw_kbool(w, "comparable", p->compared);
    if (p->compared) {
        clt_jw_kbool(w, "same_bits", p->d.same_bits);
        clt_jw_kint(w, "values", p->d.count);
        clt_jw_kint(w, "different", p->d.different);
        clt_jw_kdouble(w, "largest", p->d.largest);
        clt_jw_kint(w, "largest_at", p->d.at);
        clt_jw_kdouble(w, "a", p->d.a);
        clt_jw_kdouble(w, "b", p->d.b);
        clt_jw_kdouble(w, "relative", p->d.relative);
        clt_jw_kdouble(w, "ulp", p->d.ulp);
        clt_jw_kdouble(w, "cosine", p->d.cosine);
    }
    clt_jw_end_object(w);
}

static clt_status print_json(const diff *d)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 1);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "a", d->side[0].path);
    clt_jw_kstring(&w, "b", d->side[1].path);
    clt_jw_kstring(&w, "prefix_taken_off", d->prefix.length ? d->prefix.text : NULL);
    clt_jw_kdouble(&w, "tolerance", d->tolerance);
    clt_jw_kint(&w, "same_bits", (int64_t)d->same);
    clt_jw_kint(&w, "apart", (int64_t)d->apart);
    clt_jw_kint(&w, "not_comparable", (int64_t)d->unlike);
    clt_jw_karray(&w, "tensors");
    for (size_t i = 0; i < d->count; i++)
        json_pair(&w, &d->pairs[i]);
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    return cmd_write_line("-", &out);
}

/* True if names or shapes differ; false: tensors are not comparable only because the engine does not compute
 * with their type. */
static bool are_unlike(const diff *d)
{
    bool unlike = false;
    for (size_t i = 0; i < d->count; i++) {
        const pair *p = &d->pairs[i];
        unlike = unlike || !p->a || !p->b || !clt_shape_equal(&p->a->shape, &p->b->shape);
    }
    return unlike;
}

static clt_status judge(const diff *d)
{
    if (d->unlike > 0)
        CLT_FAIL(CLT_ECHECKPOINT, "cltrain ckpt diff: %zu of %zu tensors cannot be compared; %s", d->unlike,
                 d->count,
                 are_unlike(d) ? "these are different models" : "cltrain does not compute with their type");
    if (d->apart > 0 && d->tolerance > 0)
        CLT_FAIL(CLT_ECHECK,
                 "cltrain ckpt diff: %zu of %zu tensors differ by more than %g of their largest value",
                 d->apart, d->count, d->tolerance);
    if (d->apart > 0)
        CLT_FAIL(CLT_ECHECK, "cltrain ckpt diff: %zu of %zu tensors differ", d->apart, d->count);
    return CLT_OK;
}

clt_status ckpt_diff(cmd_context *context, int argc, char **argv)
{
    bool all = false, json = false;
    CLT_SCOPED(diff) d = {.pattern = "*"};
    const args_option options[] = {
        ARGS_TEXT("-t", "PATTERN", d.pattern, "only tensors whose name matches, such as '*.bias'"),
        ARGS_FLOAT("--tolerance", "X", d.tolerance, 0, 1e30,
                   "relative difference that is accepted (0: all values must be equal)"),
        ARGS_FLAG("--all", all, "list every tensor in the order of A, not only the 20 that differ most"),
        ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt diff", "A B", 2, 2, options,
        "Compares two checkpoints or files of weights, tensor by tensor; of checkpoints the optimizer's\n"
        "tensors and the state, too. Columns: values that differ; the largest difference; the same over\n"
        "the largest magnitude in A (relative); the largest in units in the last place, of the type with\n"
        "fewer digits (ULP); the cosine of the angle between the two. Exit code 0: equal within the\n"
        "tolerance; 1: not; 7: names or shapes differ. A, B: a run folder (its newest checkpoint), one\n"
        "step_N of it, or what --init takes.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(compare_all(&d, &r));
    CLT_TRY(json ? print_json(&d) : print_text(&d, all));
    return judge(&d);
}
