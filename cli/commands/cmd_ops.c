/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ops [NAME]: lists the ops that can be layers of model.layers, or describes one op in full. */
#include <stdio.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/ops/op_page.h"

enum { LABEL = 12 };

static void print_list(void)
{
    table_column columns[] = {{"op", 17, 0, 0, false}, {"computes", 60, 30, 0, false}};
    static const char *const titles[] = {"layers:", "losses:", "made by plans, not for configs:"};
    table t;
    clt_str text = {0};
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    for (int i = 0; i < count; i++) {
        int width = 2 + (int)strlen(ops[i]->name);
        columns[0].width = width > columns[0].width ? width : columns[0].width;
    }
    table_make(&t, columns, 2, terminal_columns());
    for (int kind = 0; kind < 3; kind++) {
        clt_str_printf(&text, "%s%s\n", kind ? "\n" : "", titles[kind]);
        for (int i = 0; i < count; i++) {
            int is = ops[i]->flags & CLT_OP_FUSED ? 2 : ops[i]->flags & CLT_OP_LOSS ? 1 : 0;
            char name[64];
            snprintf(name, sizeof name, "  %s", ops[i]->name);
            const char *const cells[] = {name, ops[i]->summary};
            if (is == kind)
                table_row(&t, cells, &text);
        }
    }
    table_print(&text);
    terminal_say("\n'cltrain ops NAME' says what an op takes, with an example; docs/ops.md has all of them "
                 "on a page.\n");
}

/* Appends a label and, wrapped beside it, a text: "inputs      x: ...". Keeps the line breaks of `lines`. */
static void labelled(const char *label, const char *lines, int screen, clt_str *out)
{
    for (const char *at = lines; at && *at;) {
        char line[512];
        size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, at);
        clt_str_printf(out, "%-*s", LABEL, at == lines ? label : "");
        text_wrap(line, LABEL, LABEL, screen, out);
        at += n + (at[n] == '\n');
    }
}

static void print_attrs(const clt_op *op, int screen, clt_str *out)
{
    static const table_column columns[] = {{"attribute", 16, 0, 0, false},
                                           {"valid", 22, 16, 0, false},
                                           {"default", 15, 0, 0, false},
                                           {"meaning", 40, 20, 0, false}};
    table t;
    clt_str_append(out, "\n");
    if (op->n_attrs == 0) {
        clt_str_append(out, "attributes  none\n");
        return;
    }
    table_make(&t, columns, 4, screen);
    table_head(&t, out);
    for (int i = 0; i < op->n_attrs; i++) {
        char valid[CLT_ATTR_TEXT], preset[CLT_ATTR_TEXT];
        const char *const cells[] = {op->attrs[i].name, clt_attr_valid_text(&op->attrs[i], valid),
                                     clt_attr_default_text(&op->attrs[i], preset), op->attrs[i].help};
        table_row(&t, cells, out);
    }
}

static clt_status print_op(const clt_op *op)
{
    const clt_op_doc *doc = op->doc;
    char notes[CLT_ATTR_TEXT * 2];
    CLT_SCOPED(clt_str) text = {0}, list = {0};
    int screen = terminal_columns();
    clt_status status = clt_op_example_list(op, &list);
    labelled(op->name, op->summary, screen, &text);
    if (strlen(op->name) >= LABEL) /* a long name gets its own line */
        text.length = 0, clt_str_printf(&text, "%s\n            %s\n", op->name, op->summary);
    clt_str_append(&text, "\n");
    text_wrap(doc->text, 0, 0, screen, &text);
    if (*clt_op_notes(op, notes))
        text_wrap(notes, 0, 0, screen, &text);
    clt_str_append(&text, "\n");
    labelled("input", doc->inputs, screen, &text);
    labelled("output", doc->output, screen, &text);
    labelled("learned", doc->params, screen, &text);
    print_attrs(op, screen, &text);
    if (doc->example) {
        clt_str_printf(&text, "\n");
        labelled("example", doc->example, 0, &text);
        labelled("in a list", list.text ? list.text : "", screen, &text);
    }
    table_print(&text);
    return status;
}

static clt_status write_page(bool markdown, const clt_op *op)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(markdown ? clt_ops_print_markdown(&text) : clt_ops_print_json(op, &text));
    return cmd_write_str("-", &text);
}

clt_status cmd_ops(cmd_context *context, int argc, char **argv)
{
    bool markdown = false, json = false;
    const args_option options[] = {ARGS_FLAG("--markdown", markdown, "all of them as a page (docs/ops.md)"),
                                   ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE("ops", "[NAME]", 0, 1, options,
                                        "Lists the ops that can be layers of model.layers; with a NAME, "
                                        "what that op computes, its inputs, attributes and an example.");
    args_result r;
    const clt_op *op = NULL;
    char hint[256];
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (r.n_operands && !(op = clt_op_find(r.operands[0])))
        CLT_FAIL(CLT_EUSAGE, "there is no op '%.80s'%s", r.operands[0],
                 clt_op_hint(r.operands[0], hint, sizeof hint));
    if (markdown && (json || op))
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain ops: --markdown writes the page of all ops; give it without --json and without an op");
    if (markdown || json)
        return write_page(markdown, op);
    if (op)
        return print_op(op);
    print_list();
    return CLT_OK;
}
