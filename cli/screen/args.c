/* SPDX-License-Identifier: Apache-2.0
 *
 * Option parser: parses a command line by a table of options, prints --help, runs the parts of a command,
 * and words the errors for unknown options. */
#include "cli/screen/args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/other_words.h"
#include "cli/screen/terminal.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/config/config.h"

static args_receiver describe;
static void *describe_context;

void args_describe(args_receiver receiver, void *context)
{
    describe = receiver;
    describe_context = context;
}

bool args_takes_overrides(const args_usage *usage)
{
    return strstr(usage->operands, "section.key=value") != NULL;
}

static bool is_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static void print_help(const args_usage *usage)
{
    terminal_say("usage: cltrain %s%s%s", usage->command, *usage->operands ? " " : "", usage->operands);
    for (const args_option *o = usage->options; o->name; o++)
        terminal_say(" [%s%s%s]", o->name, o->value ? " " : "", o->value ? o->value : "");
    terminal_say("\n\n%s\n", usage->summary);
    if (usage->options->name)
        terminal_say("\n");
    for (const args_option *o = usage->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (strlen(left) <= 24)
            terminal_say_item(27, "  %-24s %s\n", left, o->help);
        else /* the text begins on the next line, in the same column */
            terminal_say_item(27, "  %s\n%27s%s\n", left, "", o->help);
    }
}

static const args_option *find(const args_usage *usage, const char *name, size_t length)
{
    for (const args_option *o = usage->options; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

/* Returns an error with advice if other tools have this option, or if it is a key of the config; CLT_OK
 * otherwise. */
static clt_status unknown_elsewhere(const args_usage *usage, const char *const *names, size_t count,
                                    const char *word, const char *value)
{
    char key[1024];
    const other_option_place place = {.command = usage->command,
                                      .operands = usage->operands,
                                      .options = names,
                                      .n_options = count,
                                      .overrides = args_takes_overrides(usage)};
    CLT_SCOPED(clt_str) advice = {0};
    if (other_option(&place, word, value, &advice) && !advice.failed)
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: unknown option '%s'%s", usage->command, word, advice.text);
    if (args_takes_overrides(usage) && clt_config_hint(word + strspn(word, "-"), value, key, sizeof key))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain %s: unknown option '%s'%s (keys of the config are given as section.key=value)",
                 usage->command, word, key);
    return CLT_OK;
}

/* True if the two are equal when case is ignored and '_' in `word` counts as '-'. */
static bool is_spelled_like(const char *name, const char *word)
{
    for (; *name && *word; name++, word++)
        if (tolower((unsigned char)*name) != tolower((unsigned char)*word) && !(*name == '-' && *word == '_'))
            return false;
    return !*name && !*word;
}

/* Returns the error for an unknown option. value: the word that is probably its value, or NULL. */
static clt_status unknown(const args_usage *usage, const char *given, size_t length, const char *value)
{
    const char *names[66];
    char word[128];
    size_t count = 0;
    for (const args_option *o = usage->options; o->name && count < 63; o++)
        names[count++] = o->name;
    names[count++] = "--help";
    names[count++] = "--color";
    snprintf(word, sizeof word, "%.*s", (int)length, given);
    const char *near = clt_nearest_name(word, names, count);
    if (!near || !is_spelled_like(near, word))
        CLT_TRY(unknown_elsewhere(usage, names, count, word, value));
    CLT_FAIL(CLT_EUSAGE, "cltrain %s: unknown option '%s'%s%s%s; see 'cltrain %s --help'", usage->command,
             word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", usage->command);
}

static clt_status number(const args_usage *usage, const args_option *o, const char *text)
{
    char low[CLT_NUMBER_TEXT], high[CLT_NUMBER_TEXT], *end = NULL;
    bool good;
    if (o->kind == ARGS_KIND_INT) {
        errno = 0;
        long long value = strtoll(text, &end, 10);
        good =
            errno == 0 && end != text && *end == '\0' && (double)value >= o->min && (double)value <= o->max;
        if (good)
            *(int64_t *)o->target = value;
    } else {
        double value = clt_strtod(text, &end);
        good = end != text && *end == '\0' && isfinite(value) && value >= o->min && value <= o->max;
        if (good)
            *(double *)o->target = value;
    }
    if (good)
        return CLT_OK;
    CLT_FAIL(CLT_EUSAGE, "cltrain %s: option %s: '%s' is not %s from %s to %s", usage->command, o->name, text,
             o->kind == ARGS_KIND_INT ? "an integer" : "a number", clt_double_text(o->min, low),
             clt_double_text(o->max, high));
}

static clt_status take_value(const args_usage *usage, const args_option *o, const char *text)
{
    if (o->kind != ARGS_KIND_TEXT)
        return number(usage, o, text);
    *(const char **)o->target = text;
    return CLT_OK;
}

/* True for --color WHEN, which every command has. */
static bool is_color(const char *given)
{
    return strcmp(given, "--color") == 0 || strncmp(given, "--color=", 8) == 0;
}

static clt_status take_color(const args_usage *usage, int argc, char **argv, int *at)
{
    terminal_when when;
    const char *word = argv[*at][7] == '=' ? argv[*at] + 8 : *at + 1 < argc ? argv[++*at] : "";
    if (!terminal_when_from_name(word, &when))
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: option --color: '%s' is not auto, always or never", usage->command,
                 word);
    terminal_use_color(when);
    return CLT_OK;
}

/* Handles the option at argv[*at]; afterwards *at is the index of its last word. */
static clt_status option(const args_usage *usage, int argc, char **argv, int *at, bool *seen)
{
    const char *given = argv[*at];
    const char *equals = given[1] == '-' ? strchr(given, '=') : NULL;
    size_t length = equals ? (size_t)(equals - given) : strlen(given);
    const args_option *o = find(usage, given, length);
    if (!o)
        return unknown(usage, given, length, equals ? equals + 1 : *at + 1 < argc ? argv[*at + 1] : NULL);
    if (seen[o - usage->options])
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: option %s is given twice", usage->command, o->name);
    seen[o - usage->options] = true;
    if (o->kind == ARGS_KIND_FLAG) {
        if (equals)
            CLT_FAIL(CLT_EUSAGE, "cltrain %s: option %s takes no value", usage->command, o->name);
        *(bool *)o->target = true;
        return CLT_OK;
    }
    if (equals)
        return take_value(usage, o, equals + 1);
    bool missing = *at + 1 >= argc || (strncmp(argv[*at + 1], "--", 2) == 0 && argv[*at + 1][2]);
    if (missing)
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: option %s needs a value: %s", usage->command, o->name, o->value);
    return take_value(usage, o, argv[++*at]);
}

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."

/* True for an override, "section.key=value": letters, digits, '_' and a dot before the '='. After the last
 * operand, names without a section or with '-', such as "weight-decay", count as well: the config then
 * suggests the right section or name. */
static bool is_override(const args_usage *usage, const char *text, const args_result *out)
{
    bool complete = out->n_operands > 0 && out->n_operands >= usage->max_operands;
    size_t n = strspn(text, complete ? NAME_LETTERS "-" : NAME_LETTERS);
    return n > 0 && text[n] == '=' && *text != '.' && (complete || memchr(text, '.', n) != NULL);
}

static clt_status operand(const args_usage *usage, const char *text, args_result *out)
{
    bool override = args_takes_overrides(usage) && is_override(usage, text, out);
    int *count = override ? &out->n_overrides : &out->n_operands;
    if (*count >= ARGS_MAX)
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: more than %d arguments", usage->command, ARGS_MAX);
    (override ? out->overrides : out->operands)[(*count)++] = text;
    return CLT_OK;
}

static clt_status check_operands(const args_usage *usage, const args_result *out)
{
    if (out->n_operands < usage->min_operands)
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: missing argument: usage: cltrain %s %s; see 'cltrain %s --help'",
                 usage->command, usage->command, usage->operands, usage->command);
    if (out->n_operands <= usage->max_operands)
        return CLT_OK;
    CLT_FAIL(CLT_EUSAGE, "cltrain %s: unexpected argument '%s'%s; see 'cltrain %s --help'", usage->command,
             out->operands[usage->max_operands],
             args_takes_overrides(usage) ? " (overrides have the form section.key=value)" : "",
             usage->command);
}

clt_status args_parse(const args_usage *usage, int argc, char **argv, args_result *out)
{
    bool seen[64] = {false}, only_operands = false;
    *out = (args_result){0};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i])) {
            if (describe)
                describe(describe_context, usage);
            else
                print_help(usage);
            out->help = true;
            return CLT_OK;
        }
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && is_color(argv[i]))
            CLT_TRY(take_color(usage, argc, argv, &i));
        else if (!only_operands && argv[i][0] == '-' && argv[i][1])
            CLT_TRY(option(usage, argc, argv, &i, seen));
        else
            CLT_TRY(operand(usage, argv[i], out));
    }
    return check_operands(usage, out);
}

/* --- commands with parts --- */

static void print_parts(const args_usage *usage)
{
    terminal_say("usage: cltrain %s PART ...; 'cltrain %s PART --help' lists its options\n\n%s\n\n",
                 usage->command, usage->command, usage->summary);
    for (const args_part *p = usage->parts; p->name; p++)
        terminal_say_item(13, "  %-10s %s\n", p->name, p->summary);
}

static clt_status no_part(const args_usage *usage, const char *given)
{
    const char *names[64];
    CLT_SCOPED(clt_str) list = {0};
    size_t count = 0;
    for (const args_part *p = usage->parts; p->name && count < 64; p++) {
        clt_str_printf(&list, "%s%s", count ? ", " : "", p->name);
        names[count++] = p->name;
    }
    const char *near = given ? clt_nearest_name(given, names, count) : NULL;
    CLT_TRY(clt_str_check(&list));
    CLT_FAIL(CLT_EUSAGE, "cltrain %s: %s%s%s%s%s%s; its parts are %s; see 'cltrain %s --help'",
             usage->command, given ? "there is no part '" : "name a part", given ? given : "",
             given ? "'" : "", near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", list.text,
             usage->command);
}

clt_status args_dispatch(const args_usage *usage, struct cmd_context *context, int argc, char **argv)
{
    if (argc > 1 && is_help(argv[1])) {
        if (describe)
            describe(describe_context, usage);
        else
            print_parts(usage);
        return CLT_OK;
    }
    for (const args_part *p = usage->parts; argc > 1 && p->name; p++)
        if (strcmp(p->name, argv[1]) == 0)
            return p->run(context, argc - 1, argv + 1);
    return no_part(usage, argc > 1 ? argv[1] : NULL);
}
