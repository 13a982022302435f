/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the candidates for a word of a command line: commands, their parts, options, config keys
 * and values. */
#include "cli/help/complete.h"

#include <stdio.h>
#include <string.h>

#include "engine/data/open/fetch.h"
#include "engine/host/cache_list.h"
#include "engine/ops/op.h"

typedef struct line {
    cmd_context *context;
    const char *const *words;
    int index;        /* index of the word to complete */
    const char *word; /* the part of that word that has been typed so far */
    clt_str *out;
    const char *part; /* the part of the command, such as "fetch"; NULL: none */
    bool has_parts;
} line;

void complete_describe(cmd_context *context, const char *command, const char *part, args_receiver receiver,
                       void *receiver_context)
{
    const cmd_entry *entry = cmd_find(command);
    char name[64], second[64], help[] = "--help";
    char *argv[] = {name, part ? second : help, part ? help : NULL, NULL};
    /* `help` has no table of options, and commands for child processes are not offered */
    if (!entry || entry->run == cmd_help || (entry->flags & CMD_HIDDEN))
        return;
    snprintf(name, sizeof name, "%s", command);
    snprintf(second, sizeof second, "%s", part ? part : "");
    args_describe(receiver, receiver_context);
    (void)entry->run(context, part ? 3 : 2, argv);
    args_describe(NULL, NULL);
}

/* --- candidates --- */

static void offer(const line *l, const char *prefix, const char *value, const char *end, const char *text)
{
    char whole[512];
    int n = snprintf(whole, sizeof whole, "%s%s%s", prefix, value, end);
    if (n > 0 && (size_t)n < sizeof whole && strncmp(whole, l->word, strlen(l->word)) == 0)
        clt_str_printf(l->out, "%s%s%s\n", whole, *text ? "\t" : "", text);
}

static void offer_commands(const line *l)
{
    for (const cmd_entry *entry = cmd_table; entry->name; entry++)
        if (!(entry->flags & CMD_HIDDEN))
            offer(l, "", entry->name, "", entry->summary);
}

static void offer_ops(const line *l)
{
    int count;
    const clt_op *const *list = clt_op_list(&count);
    for (int i = 0; i < count; i++)
        offer(l, "", list[i]->name, "", "");
}

static void offer_caches(const line *l)
{
    for (int i = 0; clt_cache_name(i); i++)
        offer(l, "", clt_cache_name(i), "", "");
}

static void offer_sets(const line *l)
{
    for (const clt_fetch_set *set = clt_fetch_sets; set->name; set++)
        offer(l, "", set->name, "", set->help);
}

/* The candidates for a word in the name of an option's value, such as "DIR" in "auto|DIR|none". */
static const struct {
    const char *word, *directive;
} places[] = {{"DIR", ":dirs"},   {"FOLDER", ":dirs"}, {"RUN", ":dirs"},   {"RUN_A", ":dirs"},
              {"RUN_B", ":dirs"}, {"FILE", ":files"},  {"PATH", ":files"}, {"TEXT", ":files"},
              {"DATA", ":files"}, {"CONFIG", ":json"}, {"SWEEP", ":json"}};

static void offer_word(const line *l, const char *prefix, const char *word)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strcmp(places[i].word, word) == 0)
            clt_str_printf(l->out, "%s\n", places[i].directive);
    if (strcmp(word, "SPEC") == 0) {
        offer(l, prefix, "gpu", "", "the first GPU");
        offer(l, prefix, "cpu", "", "the first CPU device");
    } else if (strcmp(word, "COMMAND") == 0) {
        offer_commands(l);
    } else if (*word && strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(word)) {
        offer(l, prefix, word, "", "");
    }
}

/* Offers the words of "a|b|C". */
static void offer_words(const line *l, const char *prefix, const char *words)
{
    while (*words) {
        char word[64];
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        offer_word(l, prefix, word);
        words += n + (words[n] == '|');
    }
}

/* --- keys of a config --- */

static bool is_path_key(const char *path)
{
    const char *dot = strrchr(path, '.');
    const char *name = dot ? dot + 1 : path;
    return strstr(name, "path") || strcmp(name, "targets") == 0 || strcmp(name, "eval_targets") == 0 ||
           strcmp(name, "tokenizer") == 0;
}

static void offer_key_values(const line *l, const clt_config_key *key)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s=", key->path);
    if (key->type == CLT_CFG_CHOICE)
        offer_words(l, prefix, key->choices);
    else if (key->type == CLT_CFG_BOOL)
        offer_words(l, prefix, "true|false");
    else if (key->type == CLT_CFG_AUTO_INT)
        offer_word(l, prefix, "auto");
    else if (is_path_key(key->path))
        clt_str_append(l->out, ":files\n");
}

/* Offers "data." until a dot is typed, then "data.path=", then values. */
static void offer_keys(const line *l)
{
    const char *equals = strchr(l->word, '='), *dot = strchr(l->word, '.');
    char last[64] = "", section[64];
    if (!equals)
        clt_str_append(l->out, ":nospace\n");
    for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
        size_t n = strlen(key->path);
        if (equals && strncmp(key->path, l->word, n) == 0 && l->word[n] == '=') {
            offer_key_values(l, key);
        } else if (!equals && dot) {
            offer(l, "", key->path, "=", key->help);
        } else if (!equals) {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(key->path, "."), key->path);
            if (strcmp(section, last) != 0)
                offer(l, section, "", ".", "");
            memcpy(last, section, sizeof last);
        }
    }
}

/* --- options and operands --- */

static const args_option *find_option(const args_usage *usage, const char *word, size_t length)
{
    for (const args_option *o = usage->options; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, word, length) == 0)
            return o;
    return NULL;
}

static bool is_given(const line *l, const char *name)
{
    size_t n = strlen(name);
    for (int i = 2; i < l->index; i++)
        if (strncmp(l->words[i], name, n) == 0 && (l->words[i][n] == '\0' || l->words[i][n] == '='))
            return true;
    return false;
}

static void offer_options(const line *l, const args_usage *usage)
{
    for (const args_option *o = usage->options; o->name; o++)
        if (!is_given(l, o->name))
            offer(l, "", o->name, "", o->help);
    offer(l, "", "--help", "", "what the command does, and its options");
}

/* Counts the operands before the word. Overrides (key=value) and the values of options are not operands. */
static int count_operands(const line *l, const args_usage *usage)
{
    int count = 0;
    for (int i = l->part ? 3 : 2; i < l->index; i++) {
        const char *word = l->words[i];
        if (word[0] == '-' && word[1]) {
            const args_option *o = find_option(usage, word, strlen(word));
            i += o && o->value != NULL;
        } else if (!args_takes_overrides(usage) || !strchr(word, '=')) {
            count++;
        }
    }
    return count;
}

/* The n-th word of "CONFIG|RUN [key=value ...]", without brackets and dots; the last word stands for all
 * further operands. */
static void operand_word(const char *operands, int n, char *word, size_t size)
{
    word[0] = '\0';
    for (int i = 0; *operands; i++) {
        operands += strspn(operands, " []");
        size_t length = strcspn(operands, " [].");
        /* "section.key=value" and separate dots are not operands */
        if (length == 0 || memchr(operands, '=', strcspn(operands, " ")) ||
            strncmp(operands, "section.", 8) == 0)
            break;
        if (i <= n)
            snprintf(word, size, "%.*s", (int)length, operands);
        operands += length;
        operands += strspn(operands, ".");
    }
}

static void offer_operands(const line *l, const args_usage *usage)
{
    char word[64];
    int before = count_operands(l, usage);
    /* keys can follow the config, or come first where no config is needed */
    bool keys = before > 0 || *l->word || usage->max_operands == 0 || is_given(l, "--resume");
    if (args_takes_overrides(usage) && keys && strncmp(l->word, "./", 2) != 0)
        offer_keys(l);
    if (before >= usage->max_operands || (args_takes_overrides(usage) && strchr(l->word, '=')))
        return;
    operand_word(usage->operands, before, word, sizeof word);
    if (strcmp(usage->command, "cache") == 0)
        offer_caches(l);
    else if (strcmp(usage->command, "ops") == 0)
        offer_ops(l);
    else if (strcmp(usage->command, "data fetch") == 0)
        offer_sets(l);
    else
        offer_words(l, "", word);
}

static void on_usage(void *context, const args_usage *usage)
{
    line *l = context;
    const char *before = l->words[l->index - 1], *equals = strchr(l->word, '=');
    if (usage->parts) {
        l->has_parts = true;
        for (const args_part *p = usage->parts; l->index == 2 && p->name; p++)
            if (p->run)
                offer(l, "", p->name, "", p->summary);
        return;
    }
    const args_option *o = before[0] == '-' ? find_option(usage, before, strlen(before)) : NULL;
    if (o && o->value && l->index > 2) {
        offer_words(l, "", o->value);
    } else if (l->word[0] == '-' && equals) {
        char prefix[128];
        o = find_option(usage, l->word, (size_t)(equals - l->word));
        snprintf(prefix, sizeof prefix, "%.*s", (int)(equals - l->word + 1), l->word);
        if (o && o->value)
            offer_words(l, prefix, o->value);
    } else if (l->word[0] == '-') {
        offer_options(l, usage);
    } else {
        offer_operands(l, usage);
    }
}

clt_status complete_words(cmd_context *context, int count, const char *const *words, int index, clt_str *out)
{
    line l = {.context = context, .words = words, .index = index, .out = out};
    if (index < 1 || index > count)
        CLT_FAIL(CLT_EUSAGE, "cltrain completion words: there is no word %d to complete", index);
    l.word = index < count ? words[index] : "";
    if (index == 1) {
        offer_commands(&l);
        offer(&l, "", "--help", "", "the list of commands");
        offer(&l, "", "--version", "", "print versions");
        return clt_str_check(out);
    }
    if (strcmp(words[1], "help") == 0) {
        if (index == 2)
            offer_commands(&l);
        return clt_str_check(out);
    }
    complete_describe(context, words[1], NULL, on_usage, &l);
    if (l.has_parts && index > 2) {
        l.part = words[2];
        complete_describe(context, words[1], l.part, on_usage, &l);
    }
    return clt_str_check(out);
}
