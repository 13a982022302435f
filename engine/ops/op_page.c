/* SPDX-License-Identifier: Apache-2.0
 *
 * Documentation of ops as texts, Markdown and JSON, made from their records. */
#include "engine/ops/op_page.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/json/json.h"

#define UNBOUNDED 2147483647.0 /* limits this large are only technical and are not printed */

static const char *type_word(clt_attr_type type)
{
    static const char *const words[] = {"integer",
                                        "number",
                                        "true or false",
                                        "word",
                                        "string",
                                        "list of integers",
                                        "number or list of numbers"};
    return words[type];
}

static bool has_range(const clt_attr_spec *spec)
{
    bool number = spec->type == CLT_ATTR_INT || spec->type == CLT_ATTR_FLOAT || spec->type == CLT_ATTR_INTS ||
                  spec->type == CLT_ATTR_FLOATS;
    return number && (spec->min < 0 || spec->max > 0);
}

const char *clt_attr_valid_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT])
{
    char low[CLT_NUMBER_TEXT], high[CLT_NUMBER_TEXT];
    int n = 0;
    buffer[0] = '\0';
    if (spec->type == CLT_ATTR_CHOICE) {
        for (const char *c = spec->choices; *c && n < CLT_ATTR_TEXT;) {
            size_t word = strcspn(c, "|");
            n += snprintf(buffer + n, CLT_ATTR_TEXT - (size_t)n, "%.*s%s", (int)word, c, c[word] ? ", " : "");
            c += word + (c[word] == '|');
        }
        return buffer;
    }
    n = snprintf(buffer, CLT_ATTR_TEXT, "%s", type_word(spec->type));
    if (!has_range(spec))
        return buffer;
    clt_double_text(spec->min, low);
    clt_double_text(spec->max, high);
    bool below = spec->min > -UNBOUNDED, above = spec->max < UNBOUNDED;
    if (below && above)
        snprintf(buffer + n, CLT_ATTR_TEXT - (size_t)n, ", %s to %s", low, high);
    else if (below || above)
        snprintf(buffer + n, CLT_ATTR_TEXT - (size_t)n, ", at %s %s", below ? "least" : "most",
                 below ? low : high);
    return buffer;
}

const char *clt_attr_default_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT])
{
    char number[CLT_NUMBER_TEXT];
    const char *word = spec->choices;
    buffer[0] = '\0';
    if (spec->required) {
        snprintf(buffer, CLT_ATTR_TEXT, "required");
    } else if (spec->no_default || spec->type == CLT_ATTR_STRING || spec->type == CLT_ATTR_INTS) {
        return buffer;
    } else if (spec->type == CLT_ATTR_BOOL) {
        snprintf(buffer, CLT_ATTR_TEXT, "%s", spec->default_value > 0 ? "true" : "false");
    } else if (spec->type == CLT_ATTR_CHOICE) {
        for (int i = 0; i < (int)spec->default_value && strchr(word, '|'); i++)
            word = strchr(word, '|') + 1;
        snprintf(buffer, CLT_ATTR_TEXT, "%.*s", (int)strcspn(word, "|"), word);
    } else {
        snprintf(buffer, CLT_ATTR_TEXT, "%s", clt_double_text(spec->default_value, number));
    }
    return buffer;
}

const char *clt_op_notes(const clt_op *op, char buffer[CLT_ATTR_TEXT * 2])
{
    bool gradient = op->backward.variants || (op->flags & CLT_OP_VIEW);
    snprintf(buffer, CLT_ATTR_TEXT * 2, "%s%s%s%s%s",
             op->flags & CLT_OP_LOSS
                 ? "A loss: the last layer of a list; its inputs are the layer before it and "
                   "the field y, unless it names others. "
                 : "",
             op->flags & CLT_OP_CORRECT ? "Evaluation reports accuracy. " : "",
             op->flags & CLT_OP_VIEW ? "It costs neither memory nor time. " : "",
             op->flags & CLT_OP_FUSED ? "Made by the plan, not for configs. " : "",
             gradient ? "" : "It has no gradient. ");
    size_t n = strlen(buffer);
    if (n && buffer[n - 1] == ' ')
        buffer[n - 1] = '\0';
    return buffer;
}

clt_status clt_op_example_list(const clt_op *op, clt_str *out)
{
    const clt_op_doc *doc = op->doc;
    if (doc->example)
        clt_str_printf(out, "[%s%s%s]", doc->before ? doc->before : "", doc->example,
                       doc->after ? doc->after
                                  : ", {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}");
    return clt_str_check(out);
}

/* --- Markdown --- */

/* Appends a cell of a Markdown table; a '|' in it is escaped. */
static void cell(clt_str *out, const char *text)
{
    for (; *text; text++)
        clt_str_append_n(out, *text == '|' ? "\\|" : text, *text == '|' ? 2 : 1);
}

static void list_lines(clt_str *out, const char *lines)
{
    for (const char *at = lines; at && *at;) {
        size_t n = strcspn(at, "\n");
        clt_str_printf(out, "* input %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static void markdown_attrs(const clt_op *op, clt_str *out)
{
    char valid[CLT_ATTR_TEXT], preset[CLT_ATTR_TEXT];
    if (op->n_attrs == 0) {
        clt_str_append(out, "\nNo attributes.\n");
        return;
    }
    clt_str_append(out, "\n| attribute | valid | default | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < op->n_attrs; i++) {
        const clt_attr_spec *spec = &op->attrs[i];
        clt_str_printf(out, "| `%s` | %s | %s | ", spec->name, clt_attr_valid_text(spec, valid),
                       clt_attr_default_text(spec, preset));
        cell(out, spec->help);
        clt_str_append(out, " |\n");
    }
}

static clt_status markdown_op(const clt_op *op, clt_str *out)
{
    char notes[CLT_ATTR_TEXT * 2];
    const clt_op_doc *doc = op->doc;
    clt_op_notes(op, notes);
    clt_str_printf(out, "\n## %s\n\n    %s\n\n%s%s%s\n\n", op->name, op->summary, doc->text,
                   *notes ? " " : "", notes);
    list_lines(out, doc->inputs);
    if (doc->output)
        clt_str_printf(out, "* output %s\n", doc->output);
    if (doc->params)
        clt_str_printf(out, "* learned: %s\n", doc->params);
    markdown_attrs(op, out);
    if (doc->example) {
        clt_str_printf(out,
                       "\nA layer, and a whole list with it:\n\n    %s\n\n    \"layers\": ", doc->example);
        CLT_TRY(clt_op_example_list(op, out));
        clt_str_append(out, "\n");
    }
    return clt_str_check(out);
}

clt_status clt_ops_print_markdown(clt_str *out)
{
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    clt_str_append(
        out,
        "# Ops\n"
        "\n"
        "Written by `cltrain ops --markdown` from the records in `engine/ops/`; change them, not this page.\n"
        "Each op is a layer of `model.layers` in a config with `model.type` graph: `{\"op\": \"linear\", "
        "\"out\": 64}`,\n"
        "with `name`, `inputs` (names of layers or fields; not set: the layer before it) and `share` (a "
        "layer whose\n"
        "parameters it uses) in addition to its own attributes. N is the number of samples of a micro-batch; "
        "arithmetic is f32.\n"
        "\n"
        "| op | computes |\n"
        "|---|---|\n");
    for (int i = 0; i < count; i++) {
        clt_str_printf(out, "| [%s](#%s) | ", ops[i]->name, ops[i]->name);
        cell(out, ops[i]->summary);
        clt_str_append(out, " |\n");
    }
    for (int i = 0; i < count; i++)
        CLT_TRY(markdown_op(ops[i], out));
    return clt_str_check(out);
}

/* --- JSON --- */

static void json_attr(clt_json_writer *w, const clt_attr_spec *spec)
{
    char preset[CLT_ATTR_TEXT];
    clt_jw_object(w);
    clt_jw_kstring(w, "name", spec->name);
    clt_jw_kstring(w, "type", type_word(spec->type));
    clt_jw_kbool(w, "required", spec->required);
    clt_attr_default_text(spec, preset);
    if (!spec->required && *preset) {
        if (spec->type == CLT_ATTR_CHOICE)
            clt_jw_kstring(w, "default", preset);
        else if (spec->type == CLT_ATTR_BOOL)
            clt_jw_kbool(w, "default", spec->default_value > 0);
        else
            clt_jw_kdouble(w, "default", spec->default_value);
    }
    if (has_range(spec)) {
        clt_jw_kdouble(w, "minimum", spec->min);
        clt_jw_kdouble(w, "maximum", spec->max);
    }
    if (spec->type == CLT_ATTR_CHOICE) {
        clt_jw_karray(w, "choices");
        for (const char *c = spec->choices; *c;) {
            char word[64];
            size_t n = strcspn(c, "|");
            snprintf(word, sizeof word, "%.*s", (int)n, c);
            clt_jw_string(w, word);
            c += n + (c[n] == '|');
        }
        clt_jw_end_array(w);
    }
    clt_jw_kstring(w, "help", spec->help);
    clt_jw_end_object(w);
}

static clt_status json_op(clt_json_writer *w, const clt_op *op)
{
    clt_str list = {0};
    const clt_op_doc *doc = op->doc;
    clt_status status = clt_op_example_list(op, &list);
    clt_jw_object(w);
    clt_jw_kstring(w, "op", op->name);
    clt_jw_kstring(w, "computes", op->summary);
    clt_jw_kstring(w, "text", doc->text);
    clt_jw_kstring(w, "inputs", doc->inputs);
    clt_jw_kint(w, "least_inputs", op->min_in);
    clt_jw_kint(w, "most_inputs", op->max_in);
    clt_jw_kstring(w, "output", doc->output);
    clt_jw_kstring(w, "learned", doc->params);
    clt_jw_kbool(w, "loss", (op->flags & CLT_OP_LOSS) != 0);
    clt_jw_kbool(w, "gradient", op->backward.variants || (op->flags & CLT_OP_VIEW));
    clt_jw_kbool(w, "for_configs", (op->flags & CLT_OP_FUSED) == 0);
    clt_jw_karray(w, "attributes");
    for (int i = 0; i < op->n_attrs; i++)
        json_attr(w, &op->attrs[i]);
    clt_jw_end_array(w);
    clt_jw_kstring(w, "example", doc->example);
    clt_jw_kstring(w, "example_list", list.length ? list.text : NULL);
    clt_jw_end_object(w);
    clt_str_free(&list);
    return status;
}

clt_status clt_ops_print_json(const clt_op *only, clt_str *out)
{
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_karray(&w, "ops");
    for (int i = 0; i < count; i++)
        if (!only || ops[i] == only)
            CLT_TRY(json_op(&w, ops[i]));
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}
