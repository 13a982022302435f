/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain import: writes a config for a folder of transformers, and checks that the parts of the folder
 * belong together. */
#include <inttypes.h>

#include "cli/data/draft.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/train/inspect/folder_check.h"

enum { LABEL = 14 };

static void row(const char *label, const char *value)
{
    terminal_say_item(LABEL, "%-*s%s\n", LABEL, label, value);
}

static void print_facts(const clt_folder_facts *f)
{
    char text[400];
    row("model", f->model);
    snprintf(text, sizeof text, "%" PRId64, f->parameters);
    row("parameters", text);
    snprintf(text, sizeof text, "%d tensor%s of %s in %d file%s", f->tensors, CLT_PLURAL(f->tensors),
             f->types, f->files, CLT_PLURAL(f->files));
    row("weights", text);
    row("tokenizer", f->tokenizer);
    if (f->has_tokenizer) {
        snprintf(text, sizeof text, "%" PRId64 " of the model's vocabulary have no token", f->unused_rows);
        if (f->unused_rows > 0)
            row("unused rows", text);
        row("special ids", f->special_ids[0] ? f->special_ids : "agree with config.json");
        row("chat template", f->chat);
    }
    if (f->stops[0])
        row("stop tokens", f->stops);
}

static clt_status print_next(const cmd_context *context, const clt_folder_facts *f, const char *out)
{
    CLT_SCOPED(clt_str) line = {0};
    cmd_append_command(&line, context);
    clt_str_append(&line, " train ");
    shell_append_word(&line, out);
    CLT_TRY(clt_str_check(&line));
    terminal_say("every tensor fits the model; set data.path%s in %s to your own, then train:\n",
                 f->has_tokenizer ? "" : " and data.tokenizer", out);
    terminal_say_whole("  %s\n", line.text);
    return CLT_OK;
}

clt_status cmd_import(cmd_context *context, int argc, char **argv)
{
    const char *out = NULL;
    const args_option options[] = {
        ARGS_TEXT("--out", "CONFIG", out, "the config to write; never overwritten"), ARGS_END};
    const args_usage usage =
        ARGS_USAGE("import", "FOLDER", 1, 1, options,
                   "Writes a config that trains a published model further, from the folder that\n"
                   "save_pretrained of Hugging Face's transformers wrote. Checks without a device that its\n"
                   "weights fit the model and its tokenizer the weights. The config is written even if the\n"
                   "weights do not fit, so that its model can be changed by hand.");
    args_result r;
    clt_folder_facts facts;
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    CLT_SCOPED(clt_str) text = {0};
    ARGS_PARSE(&usage, argc, argv, &r);
    if (!out)
        CLT_FAIL(CLT_EUSAGE, "cltrain import: give --out CONFIG, the config to write");
    CLT_TRY(draft_place(out));
    cmd_show_info();
    CLT_TRY(clt_pretrained_open(r.operands[0], &pretrained));
    CLT_TRY(clt_pretrained_config(pretrained, &text));
    CLT_TRY(clt_folder_look(r.operands[0], pretrained, &facts));
    CLT_TRY(clt_file_write(out, text.text, text.length));
    print_facts(&facts);
    row("config", out);
    CLT_TRY(clt_folder_check(r.operands[0], pretrained));
    return print_next(context, &facts, out);
}
