/* SPDX-License-Identifier: Apache-2.0
 *
 * Unknown keys: says which valid key was probably meant. Knows the schema's names only. */
#include <string.h>

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

/* Names of the schema's keys: of one section, or of all when section is NULL. */
static size_t leaves(const char *section, const char **names, const char **paths)
{
    size_t count = 0;
    for (const clt_config_key *key = clt_config_schema; key->path && count < MAX_NAMES; key++)
        if (!section || in_section(key->path, section)) {
            names[count] = leaf(key->path);
            paths[count++] = key->path;
        }
    return count;
}

static size_t sections(clt_arena *arena, const char **names)
{
    size_t count = 0;
    for (const clt_config_key *key = clt_config_schema; key->path && count < MAX_NAMES; key++) {
        size_t n = strcspn(key->path, ".");
        if (count && strlen(names[count - 1]) == n && strncmp(names[count - 1], key->path, n) == 0)
            continue;
        char *name = clt_arena_printf(arena, "%.*s", (int)n, key->path);
        if (name)
            names[count++] = name;
    }
    return count;
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
    for (const clt_config_key *key = clt_config_schema; key->path; key++)
        if (strcmp(leaf(key->path), name) == 0)
            return key->path;
    return NULL;
}

/* The same key in another section is a better guess than a similar one here, unless that is just one slip
 * away. */
static const char *suggest(const char *section, const char *name)
{
    const char *here = section ? nearest_path(name, section) : NULL;
    if (here && clt_edit_distance(name, leaf(here), 1) <= 1)
        return here;
    const char *same = same_leaf(name);
    if (same)
        return same;
    return here ? here : nearest_path(name, NULL);
}

static void report_section(clt_config_problems *list, const char *source, int line, int column,
                           const char *name, clt_arena *arena)
{
    const char *names[MAX_NAMES];
    size_t count = sections(arena, names);
    const char *near = clt_nearest_name(name, names, count);
    const char *key = near ? NULL : suggest(NULL, name);
    clt_str all = {0};
    for (size_t i = 0; i < count; i++)
        clt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    if (near)
        clt_config_report(list, source, line, column, "%s: unknown section; did you mean '%s'?", name, near);
    else if (key)
        clt_config_report(list, source, line, column, "%s: unknown section; did you mean the key '%s'?", name,
                          key);
    else
        clt_config_report(list, source, line, column, "%s: unknown section; valid sections: %s", name,
                          all.failed ? "" : all.text);
    clt_str_free(&all);
}

static bool known_section(const char *section)
{
    for (const clt_config_key *key = clt_config_schema; key->path; key++)
        if (in_section(key->path, section))
            return true;
    return false;
}

void clt_config_report_unknown(clt_config_problems *list, const char *source, int line, int column,
                               const char *section, const char *name)
{
    if (!section || !known_section(section)) {
        clt_arena *arena = NULL;
        if (clt_arena_create(&arena) != CLT_OK) {
            list->failed = true;
            return;
        }
        report_section(list, source, line, column, section ? section : name, arena);
        clt_arena_destroy(arena);
        return;
    }
    const char *near = suggest(section, name);
    if (near) {
        clt_config_report(list, source, line, column, "%s.%s: unknown key; did you mean '%s'?", section, name,
                          near);
        return;
    }
    clt_str all = {0};
    const char *names[MAX_NAMES], *paths[MAX_NAMES];
    size_t count = leaves(section, names, paths);
    for (size_t i = 0; i < count; i++)
        clt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    clt_config_report(list, source, line, column, "%s.%s: unknown key; the section has: %s", section, name,
                      all.failed ? "" : all.text);
    clt_str_free(&all);
}
