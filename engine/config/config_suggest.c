/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports unknown keys with the valid key that was probably meant, and the line to write. Knows the names of
 * the schema and of other tools (config_foreign.h), but no values. */
#include <stdio.h>
#include <string.h>

#include "engine/config/config_foreign.h"
#include "engine/config/config_internal.h"

#define MAX_NAMES 128

static const char *leaf(const char *path)
{
    return strchr(path, '.') + 1;
}

static bool in_section(const char *path, const char *section)
{
    size_t n = strlen(section);
    return strncmp(path, section, n) == 0 && path[n] == '.';
}

/* Collects the names of the schema's keys: of one section, or of all if `section` is NULL. */
static size_t leaves(const char *section, const char **names, const char **paths)
{
    size_t count = 0;
    for (const clt_config_key *key = clt_config_schema(); key->path && count < MAX_NAMES; key++)
        if (!section || in_section(key->path, section)) {
            names[count] = leaf(key->path);
            paths[count++] = key->path;
        }
    return count;
}

static size_t sections(clt_arena *arena, const char **names)
{
    size_t count = 0;
    for (const clt_config_key *key = clt_config_schema(); key->path && count < MAX_NAMES; key++) {
        size_t n = strcspn(key->path, ".");
        if (count && strlen(names[count - 1]) == n && strncmp(names[count - 1], key->path, n) == 0)
            continue;
        char *name = clt_arena_printf(arena, "%.*s", (int)n, key->path);
        if (name)
            names[count++] = name;
    }
    return count;
}

static const char *first_path(const char *section)
{
    const clt_config_key *key = clt_config_schema();
    while (key->path && !in_section(key->path, section))
        key++;
    return key->path ? key->path : section;
}

static const char *nearest_path(const char *name, const char *section)
{
    const char *names[MAX_NAMES], *paths[MAX_NAMES];
    size_t count = leaves(section, names, paths);
    const char *near = clt_nearest_name(name, names, count);
    for (size_t i = 0; i < count; i++)
        if (near && names[i] == near)
            return paths[i];
    return NULL;
}

static const char *same_leaf(const char *name)
{
    for (const clt_config_key *key = clt_config_schema(); key->path; key++)
        if (strcmp(leaf(key->path), name) == 0)
            return key->path;
    return NULL;
}

/* The key that the user probably meant: our key (or NULL), and the entry for another tool's name that led to
 * it (or NULL). */
typedef struct guess {
    const char *path;
    const clt_foreign_key *foreign;
} guess;

/* Tries, in this order: a name of another tool; a key of this section that is one edit away; the same key in
 * another section; a similar key of this section, or of any. */
static guess suggest(const char *section, const char *name)
{
    guess g = {NULL, clt_foreign_find(name)};
    const char *here = section ? nearest_path(name, section) : NULL;
    const char *same = same_leaf(name);
    if (g.foreign)
        g.path = g.foreign->path;
    else if (here && (!same || clt_edit_distance(name, leaf(here), 1) <= 1))
        g.path = here;
    else
        g.path = same ? same : nearest_path(name, NULL);
    return g;
}

/* Writes "; did you mean 'optimizer.learning_rate'? write: optimizer.learning_rate=0.1 (note)"; "" without a
 * guess. */
static const char *hint_text(guess g, clt_given_value value, char *buffer, size_t size)
{
    char line[320];
    int n = 0;
    buffer[0] = '\0';
    if (g.path)
        n = snprintf(buffer, size, "; did you mean '%s'?", g.path);
    if (g.path && clt_foreign_line(g.path, g.foreign, value, line, sizeof line))
        n += snprintf(buffer + n, size - (size_t)n, " write: %s", line);
    if (g.foreign && g.foreign->note)
        snprintf(buffer + n, size - (size_t)n, g.path ? " (%s)" : "; %s", g.foreign->note);
    return buffer;
}

bool clt_config_hint(const char *name, const char *value, char *buffer, size_t size)
{
    const char *dot = strrchr(name, '.');
    guess g = {NULL, clt_foreign_find(dot ? dot + 1 : name)};
    g.path = g.foreign ? g.foreign->path : same_leaf(dot ? dot + 1 : name);
    hint_text(g, (clt_given_value){value, false}, buffer, size);
    return *buffer != '\0';
}

/* All paths of a key that several sections have: "data.type, optimizer.type"; NULL: at most one section has
 * it. */
static const char *several(const char *name, char *buffer, size_t size)
{
    int n = 0, count = 0;
    for (const clt_config_key *key = clt_config_schema(); key->path; key++)
        if (strcmp(leaf(key->path), name) == 0 && (size_t)n < size)
            n += snprintf(buffer + n, size - (size_t)n, "%s%s", count++ ? ", " : "", key->path);
    return count > 1 ? buffer : NULL;
}

/* Reports a key where a section is expected. */
static bool report_bare_key(clt_config_problems *list, const clt_place *at, const char *name,
                            clt_given_value value)
{
    char text[1024], paths[320];
    const char *all = several(name, paths, sizeof paths);
    guess g = {NULL, clt_foreign_find(name)};
    g.path = g.foreign ? g.foreign->path : same_leaf(name);
    if (all)
        clt_config_report(list, at->source, at->line, at->column, "%s: a key needs its section; there are %s",
                          name, all);
    else if (g.path || g.foreign)
        clt_config_report(list, at->source, at->line, at->column, "%s: %s%s", name,
                          g.path ? "a key needs its section" : "unknown key",
                          hint_text(g, value, text, sizeof text));
    return all || g.path || g.foreign;
}

static void report_section(clt_config_problems *list, const clt_place *at, const char *name,
                           clt_given_value value, clt_arena *arena)
{
    const char *names[MAX_NAMES] = {NULL};
    size_t count = sections(arena, names);
    const char *near = clt_nearest_name(name, names, count);
    guess g = {near ? NULL : nearest_path(name, NULL), NULL};
    char text[1024];
    clt_str all = {0};
    for (size_t i = 0; i < count; i++)
        clt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    if (near && strcmp(near, name) == 0)
        clt_config_report(list, at->source, at->line, at->column,
                          "%s: it is a section; name a key of it, such as %s", name, first_path(name));
    else if (near)
        clt_config_report(list, at->source, at->line, at->column, "%s: unknown section; did you mean '%s'?",
                          name, near);
    else if (g.path && value.text)
        clt_config_report(list, at->source, at->line, at->column, "%s: a key needs its section%s", name,
                          hint_text(g, value, text, sizeof text));
    else
        clt_config_report(list, at->source, at->line, at->column, "%s: unknown section; valid sections: %s",
                          name, all.failed ? "" : all.text);
    clt_str_free(&all);
}

static bool known_section(const char *section)
{
    for (const clt_config_key *key = clt_config_schema(); key->path; key++)
        if (in_section(key->path, section))
            return true;
    return false;
}

/* Reports a key in a section that does not exist, if the key shows which section was meant. */
static bool report_misplaced(clt_config_problems *list, const clt_place *at, const char *section,
                             const char *name, clt_given_value value)
{
    char text[1024];
    guess g = {NULL, clt_foreign_find(name)};
    if (!g.foreign && (several(name, text, sizeof text) || !same_leaf(name)))
        return false;
    g.path = g.foreign ? g.foreign->path : same_leaf(name);
    clt_config_report(list, at->source, at->line, at->column, "%s.%s: unknown section '%s'%s", section, name,
                      section, hint_text(g, value, text, sizeof text));
    return true;
}

static void report_in_section(clt_config_problems *list, const clt_place *at, const char *section,
                              const char *name, clt_given_value value)
{
    guess g = suggest(section, name);
    clt_str all = {0};
    char text[1024];
    if (g.path || g.foreign) {
        clt_config_report(list, at->source, at->line, at->column, "%s.%s: unknown key%s", section, name,
                          hint_text(g, value, text, sizeof text));
        return;
    }
    const char *names[MAX_NAMES], *paths[MAX_NAMES];
    size_t count = leaves(section, names, paths);
    for (size_t i = 0; i < count; i++)
        clt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    clt_config_report(list, at->source, at->line, at->column, "%s.%s: unknown key; the section has: %s",
                      section, name, all.failed ? "" : all.text);
    clt_str_free(&all);
}

void clt_config_report_unknown(clt_config_problems *list, clt_place at, const char *section, const char *name,
                               clt_given_value value)
{
    if (section && known_section(section)) {
        report_in_section(list, &at, section, name, value);
        return;
    }
    if (section ? report_misplaced(list, &at, section, name, value) : report_bare_key(list, &at, name, value))
        return;
    clt_arena *arena = NULL;
    if (clt_arena_create(&arena) != CLT_OK) {
        list->failed = true;
        return;
    }
    report_section(list, &at, section ? section : name, value, arena);
    clt_arena_destroy(arena);
}
