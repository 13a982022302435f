/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new: finds out what kind of data a path holds and writes a config that trains on this data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/new_config.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/terminal.h"
#include "engine/files/fileio.h"

/* Makes the config's name, in the current folder, from the data's: "my data/houses.csv.gz" -> "houses.json";
 * "" if nothing is left of the name. */
static void default_name(const char *path, char *out, size_t size)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/')
        from--;
    size_t name = 0;
    while (from + name < n && (name == 0 || path[from + name] != '.'))
        name++;
    bool plain = name > 0 && path[from] != '.' && path[from] != '-' && strcspn(path + from, "*?[") >= name;
    snprintf(out, size, "%.*s.json", plain ? (int)name : 4, plain ? path + from : "data");
}

/* Prints the findings about the data, and the next command. */
static clt_status tell(const cmd_context *context, const new_config *n, const char *out)
{
    CLT_SCOPED(clt_str) line = {0};
    cmd_append_command(&line, context);
    clt_str_append(&line, " train ");
    shell_append_word(&line, out);
    CLT_TRY(clt_str_check(&line));
    terminal_say("%s%s is written; change what you know better (docs/configs.md), then train:\n",
                 n->found.text ? n->found.text : "", out);
    terminal_say_whole("  %s\n", line.text);
    return CLT_OK;
}

clt_status cmd_new(cmd_context *context, int argc, char **argv)
{
    CLT_SCOPED(new_config) n = {.path = NULL};
    const char *out = NULL;
    const args_option options[] = {
        ARGS_TEXT("--out", "FILE", out,
                  "the config to write (the name of the data with .json); never overwritten"),
        ARGS_TEXT("--target", "COLUMN", n.column,
                  "tables: the column to predict, by name or number (the last one)"),
        ARGS_TEXT("--json-key", "NAME", n.json_key,
                  "records of JSON: the member that holds the text (text, content, or the longest)"),
        ARGS_TEXT("--tokenizer", "PATH", n.tokenizer, "texts: a folder or file of a BPE vocabulary (bytes)"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "new", "FILE|FOLDER [TARGETS] [section.key=value ...]", 1, 2, options,
        "Looks at data and writes a config that trains on it: a table (.csv, .tsv), texts (a file, a folder, "
        "records of JSON), images (CLASS/name.jpg), volumes (images/ with masks/, or CLASS/name.nii.gz), "
        "token shards, or arrays (npy, idx) with a second file of TARGETS, which is found by its name where "
        "it is usual (x.npy and y.npy, MNIST's files). Keys that are given as section.key=value are written "
        "into the config, after the checks that `train` makes.");
    args_result r;
    char name[512];
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    n.path = r.operands[0];
    n.targets = r.n_operands > 1 ? r.operands[1] : NULL;
    n.overrides = r.overrides;
    n.n_overrides = r.n_overrides;
    if (!out) {
        default_name(n.path, name, sizeof name);
        out = name;
    }
    CLT_TRY(draft_place(out)); /* checked before much data is read */
    CLT_TRY(draft_open(&n.draft));
    CLT_TRY(new_config_look(&n));
    CLT_TRY(new_config_override(&n, out));
    CLT_TRY(clt_str_check(&n.found));
    CLT_TRY(draft_save(&n.draft, out));
    return tell(context, &n, out);
}
