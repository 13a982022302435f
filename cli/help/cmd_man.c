/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain man: prints the manual page in roff (macros of man(7)), made from the commands' tables of options
 * and the schema of configs. `cmake --install` copies the page to the folder in which man searches. */
#include <stdio.h>
#include <string.h>

#include "cli/help/complete.h"

typedef struct page {
    cmd_context *context;
    clt_str text;
    const char *command;
    const args_part *parts;
} page;

/* --- roff --- */

/* Escapes text so that roff prints it unchanged. */
static void put_n(clt_str *s, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool begins = s->text && (s->length == 0 || s->text[s->length - 1] == '\n');
        if (begins && (text[i] == '.' || text[i] == '\''))
            clt_str_append(s, "\\&");
        if (text[i] == '\\')
            clt_str_append(s, "\\e");
        else if (text[i] == '-')
            clt_str_append(s, "\\-");
        else if (text[i] == '\'')
            clt_str_append(s, "\\(aq");
        else if (text[i] == '`')
            clt_str_append(s, "\\(ga");
        else if (text[i] == '^')
            clt_str_append(s, "\\(ha");
        else if (text[i] == '~')
            clt_str_append(s, "\\(ti");
        else if (text[i] == '|') /* a list of words may be broken after each */
            clt_str_append(s, "|\\:");
        else
            clt_str_append_n(s, text + i, 1);
    }
}

static void put(clt_str *s, const char *text)
{
    put_n(s, text, strlen(text));
}

/* Writes text; a sentence that follows a complete one starts on a new line of the source, as roff
 * requires. */
static void put_lines(clt_str *s, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        bool whole = n > 0 && text[n - 1] == '.';
        put_n(s, text, n);
        clt_str_append(s, "\n");
        text += n + (text[n] == '\n');
        if (*text && (whole || (*text >= 'A' && *text <= 'Z')))
            clt_str_append(s, ".br\n");
    }
}

static void put_item(clt_str *s, const char *tag, const char *value, const char *text)
{
    clt_str_append(s, ".TP\n\\fB");
    put(s, tag);
    clt_str_append(s, "\\fR");
    if (value) {
        clt_str_append(s, " \\fI");
        put(s, value);
        clt_str_append(s, "\\fR");
    }
    clt_str_append(s, "\n");
    put(s, text);
    clt_str_append(s, "\n");
}

/* Writes lines that roff must not join. */
static void put_example(clt_str *s, const char *lines)
{
    clt_str_append(s, ".PP\n.RS 4\n.nf\n");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        put_n(s, lines, n);
        clt_str_append(s, "\n");
        lines += n + (lines[n] == '\n');
    }
    clt_str_append(s, ".fi\n.RE\n");
}

/* --- commands --- */

static void put_usage(clt_str *s, const args_usage *usage)
{
    clt_str_append(s, ".SS \"cltrain ");
    put(s, usage->command);
    clt_str_append(s, "\"\n.B cltrain ");
    put(s, usage->command);
    clt_str_append(s, "\n");
    if (*usage->operands) {
        clt_str_append(s, ".I ");
        put(s, usage->operands);
        clt_str_append(s, "\n");
    }
    if (usage->options->name)
        clt_str_append(s, "[options]\n");
    clt_str_append(s, ".PP\n");
    put_lines(s, usage->summary);
    for (const args_option *o = usage->options; o->name; o++)
        put_item(s, o->name, o->value, o->help);
}

static void on_usage(void *context, const args_usage *usage)
{
    page *p = context;
    if (usage->parts)
        p->parts = usage->parts;
    else
        put_usage(&p->text, usage);
}

static void put_command(page *p, const char *command)
{
    p->parts = NULL;
    complete_describe(p->context, command, NULL, on_usage, p);
    for (const args_part *part = p->parts; part && part->name; part++)
        complete_describe(p->context, command, part->name, on_usage, p);
}

static bool is_listed(const cmd_entry *entry)
{
    return !(entry->flags & CMD_HIDDEN);
}

static void put_commands(page *p)
{
    clt_str *s = &p->text;
    clt_str_append(s, ".SH COMMANDS\n");
    for (const cmd_entry *entry = cmd_table; entry->name; entry++)
        if (is_listed(entry))
            put_item(s, entry->name, NULL, entry->summary);
    clt_str_append(
        s, ".SH OPTIONS\nValues may follow an option after a space or an equals sign;\n.B \\-\\-\nends the "
           "options.\n");
    for (const cmd_entry *entry = cmd_table; entry->name; entry++)
        if (is_listed(entry))
            put_command(p, entry->name);
}

/* --- the rest of the page --- */

static void put_config(clt_str *s)
{
    clt_str_append(
        s,
        ".SH CONFIGURATION\nA config is a JSON file with one object for each section. Every "
        "key can be changed on the command line\n(\\fIsection.key=value\\fR). The default is in brackets.\n");
    for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
        CLT_SCOPED(clt_str) help = {0};
        clt_str_printf(&help, "%s%s%s%s", key->help, key->default_text ? " [" : "",
                       key->default_text ? key->default_text : "", key->default_text ? "]" : "");
        put_item(s, key->path, key->type == CLT_CFG_CHOICE ? key->choices : NULL, help.text ? help.text : "");
    }
}

static void put_exit_codes(clt_str *s)
{
    int last = -1;
    clt_str_append(s, ".SH \"EXIT STATUS\"\n");
    for (int i = 0; i < CLT_STATUS_COUNT; i++) {
        char code[16];
        int value = clt_status_exit_code((clt_status)i);
        snprintf(code, sizeof code, "%d", value);
        if (value != last)
            put_item(s, code, NULL, clt_status_text((clt_status)i));
        else {
            s->length -= s->length > 0; /* removes the newline */
            clt_str_append(s, ", ");
            put(s, clt_status_text((clt_status)i));
            clt_str_append(s, "\n");
        }
        last = value;
    }
    put_item(
        s, "128 + N", NULL,
        "signal N has ended a command that has nothing to save, or, the second Ctrl-C (130), a training");
}

static void put_surroundings(clt_str *s)
{
    clt_str_append(s, ".SH FILES\n");
    put_item(
        s, "runs/NAME/", NULL,
        "a run: config.resolved.json, metrics.jsonl (a line for each step), log.txt, checkpoints/step_N/");
    put_item(s, "~/.cache/cltrain/", NULL, "what makes starts faster; 'cltrain cache' lists and clears it");
    clt_str_append(s, ".SH ENVIRONMENT\n");
    put_item(s, "CLTRAIN_CACHE_DIR", NULL,
             "the folder of the caches (else $XDG_CACHE_HOME/cltrain or ~/.cache/cltrain)");
    put_item(s, "CLTRAIN_LOG", NULL, "error, warn, info, debug or trace: how much goes to standard error");
    put_item(s, "CLTRAIN_BUILDERS", NULL, "how many kernels are built at a time");
    put_item(s, "CLTRAIN_PROGRAM_CACHE", NULL,
             "auto, on, off or a folder: whether, and where, built kernels are kept");
    put_item(s, "CLTRAIN_MODULE_DIR", NULL, "the folder of the MPI module");
    put_item(s, "CLTRAIN_PROGRAM", NULL,
             "the program that the library starts to ask devices what they can do");
    put_item(s, "OCL_ICD_VENDORS", NULL, "of the OpenCL loader: where the ICD files of drivers are");
    put_item(s, "NO_COLOR", NULL, "set to anything: no colour");
}

static void put_page(page *p)
{
    clt_str *s = &p->text;
    clt_str_append(s, ".\\\" Written by \"cltrain man\" from the program's own tables.\n");
    clt_str_append(s, ".TH CLTRAIN 1 \"\" \"cltrain " CLT_VERSION "\" \"cltrain manual\"\n.nh\n.ad l\n");
    clt_str_append(s, ".SH NAME\ncltrain \\- trains neural networks on any OpenCL device\n");
    clt_str_append(s, ".SH SYNOPSIS\n.B cltrain\n.I COMMAND\n[\\fIargument\\fR ...] [\\fIoptions\\fR]\n");
    clt_str_append(s, ".SH DESCRIPTION\n");
    put(s, "cltrain trains, evaluates and runs neural networks that a JSON file describes, on every device "
           "that has an OpenCL driver, processors included. It needs no CUDA SDK and no Python.\n");
    clt_str_append(s, ".SH EXAMPLES\n");
    put(s, "Is there a device? See it train on text of this machine:\n");
    put_example(s, "cltrain doctor\ncltrain demo");
    clt_str_append(s, ".PP\n");
    put(s, "A small language model of your own text, then its continuation of a prompt:\n");
    put_example(s, "cltrain data prepare my/*.txt --train-bpe 2048 --out mydata\n"
                   "cltrain train mydata/gpt.json --out runs/mine\n"
                   "cltrain generate runs/mine --prompt \"Once upon a time\"");
    put_commands(p);
    put_config(s);
    put_exit_codes(s);
    put_surroundings(s);
    clt_str_append(
        s,
        ".SH \"SEE ALSO\"\n.BR clinfo (1),\n.BR mpirun (1)\n.PP\nThe folder docs/ of cltrain's sources.\n");
}

clt_status cmd_man(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage =
        ARGS_USAGE("man", "", 0, 0, options, "Prints the manual page for man(1): cltrain man | man -l -");
    args_result r;
    page p = {.context = context};
    ARGS_PARSE(&usage, argc, argv, &r);
    put_page(&p);
    clt_status status = cmd_write_str("-", &p.text);
    clt_str_free(&p.text);
    return status;
}
