/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves lists, folders and patterns to the paths of files, sorted by name. */
#include "engine/data/texts/text_paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"

#define MAX_DEPTH 16 /* limit of nested folders, since symbolic links may form a cycle */

static clt_status visit_list(const char *path, const char *key, clt_path_visitor visit, void *context)
{
    CLT_FREED char *text = NULL;
    size_t size = 0;
    int line = 0, added = 0;
    CLT_TRY(clt_fail_prefix(clt_file_read(path, false, 1u << 26, CLT_EDATA, &text, &size),
                            "opening the list of files of %s", key));
    if (memchr(text, '\0', size))
        CLT_FAIL(CLT_EDATA,
                 "reading the list of files '%s': it holds a NUL byte, so it is not a list of paths", path);
    for (char *at = text, *next; at && *at; at = next) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        size_t length = strlen(at);
        if (length > 0 && at[length - 1] == '\r')
            at[--length] = '\0';
        line++;
        if (length == 0)
            continue;
        CLT_TRY(clt_fail_prefix(visit(context, at), "line %d of the list '%s'", line, path));
        added++;
    }
    if (added == 0)
        CLT_FAIL(CLT_EDATA, "reading the list of files '%s': it names no file; write one path per line",
                 path);
    return CLT_OK;
}

clt_status clt_listed_paths(const char *entry, const char *key, clt_path_visitor visit, void *context)
{
    if (!entry[0] || strcmp(entry, "@") == 0)
        CLT_FAIL(CLT_ECONFIG, "a path is empty; name a file");
    if (entry[0] == '@')
        return visit_list(entry + 1, key, visit, context);
    return visit(context, entry);
}

static bool is_shard(const char *name, const char *word)
{
    return name[0] != '.' && clt_stem(name, ".bin") && strstr(name, word);
}

/* Adds an entry of the folder. */
static clt_status append_entry(clt_file_list *list, const char *folder, const char *name)
{
    char *path = NULL;
    CLT_TRY(clt_path_join(folder, name, &path));
    return clt_file_list_add(list, path);
}

static clt_status list_folder(const char *folder, const char *word, const char *key, clt_file_list *list)
{
    CLT_SCOPED(clt_file_list) names = {0};
    size_t before = list->count;
    CLT_TRY(clt_fail_prefix(clt_folder_names(folder, &names), "listing the shards (%s)", key));
    for (size_t i = 0; i < names.count; i++)
        if (is_shard(names.name[i], word))
            CLT_TRY(append_entry(list, folder, names.name[i]));
    if (list->count == before)
        CLT_FAIL(CLT_EDATA,
                 "opening the folder of shards '%s' (%s): no file in it is called *%s%s.bin; give a pattern "
                 "such as '%s/*.bin', or name the files",
                 folder, key, word, *word ? "*" : "", folder);
    return CLT_OK;
}

static clt_status list_pattern(const char *pattern, const char *key, clt_file_list *list)
{
    size_t before = list->count;
    CLT_TRY(clt_file_match(pattern, list));
    if (list->count == before)
        CLT_FAIL(CLT_EDATA, "opening '%s' (%s): no file matches the pattern; check the path", pattern, key);
    return CLT_OK;
}

clt_status clt_shard_paths(const char *entry, const char *word, const char *key, clt_file_list *list)
{
    size_t before = list->count;
    if (clt_is_directory(entry))
        CLT_TRY(list_folder(entry, word, key, list));
    else if (!clt_file_exists(entry) && strpbrk(entry, "*?["))
        CLT_TRY(list_pattern(entry, key, list));
    else
        return clt_file_list_add(list, strdup(entry));
    clt_file_list_sort(list, before);
    return CLT_OK;
}

/* --- texts --- */

/* Adds the files of a folder and its subfolders, except files whose names begin with a dot. */
static clt_status list_texts(const char *folder, const char *key, int depth, clt_file_list *list)
{
    CLT_SCOPED(clt_file_list) names = {0};
    if (depth > MAX_DEPTH)
        CLT_FAIL(CLT_EDATA, "listing the folder of texts '%s' (%s): it is nested more than %d deep", folder,
                 key, MAX_DEPTH);
    CLT_TRY(clt_fail_prefix(clt_folder_names(folder, &names), "listing the texts (%s)", key));
    for (size_t i = 0; i < names.count; i++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_join(folder, names.name[i], &path));
        if (clt_is_directory(path))
            CLT_TRY(list_texts(path, key, depth + 1, list));
        else if (clt_is_regular(path))
            CLT_TRY(clt_file_list_add(list, CLT_TAKE(path)));
    }
    return CLT_OK;
}

typedef struct text_visit {
    const char *key;
    clt_text_visitor visit;
    void *context;
} text_visit;

/* Removes folders from the list, since a pattern may match them, too. */
static void drop_folders(clt_file_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (clt_is_directory(list->name[i]))
            free(list->name[i]);
        else
            list->name[kept++] = list->name[i];
    list->count = kept;
}

/* Visits a file, or the files of a folder or pattern in byte order of their names. */
static clt_status visit_text(void *context, const char *path)
{
    const text_visit *v = context;
    CLT_SCOPED(clt_file_list) list = {0};
    if (clt_is_directory(path))
        CLT_TRY(list_texts(path, v->key, 0, &list));
    else if (!clt_file_exists(path) && strpbrk(path, "*?["))
        CLT_TRY(list_pattern(path, v->key, &list));
    else
        return v->visit(v->context, path, NULL);
    drop_folders(&list);
    if (list.count == 0)
        CLT_FAIL(CLT_EDATA, "opening the folder of texts '%s' (%s): there is no file in it", path, v->key);
    clt_file_list_sort(&list, 0);
    clt_text_group group = {.name = path, .count = list.count};
    for (; group.index < list.count; group.index++) {
        clt_files_want_starts(NULL, &list, group.index);
        CLT_TRY(v->visit(v->context, list.name[group.index], &group));
    }
    return CLT_OK;
}

clt_status clt_text_paths(const char *entry, const char *key, clt_text_visitor visit, void *context)
{
    text_visit v = {key, visit, context};
    return clt_listed_paths(entry, key, visit_text, &v);
}

bool clt_folder_has_shards(const char *folder, const char *word)
{
    CLT_SCOPED(clt_file_list) names = {0};
    bool found = false;
    if (clt_folder_names(folder, &names) != CLT_OK)
        clt_error_clear(); /* opening the folder reports why it cannot be read */
    for (size_t i = 0; i < names.count && !found; i++)
        found = is_shard(names.name[i], word);
    return found;
}

clt_status clt_path_beside(const char *path, const char *name, char **out)
{
    const char *start = path[0] == '@' ? path + 1 : path, *slash = strrchr(start, '/');
    CLT_SCOPED(clt_str) folder = {0};
    if (clt_is_directory(start))
        return clt_path_join(start, name, out);
    if (!slash)
        return clt_path_join(".", name, out);
    clt_str_append_n(&folder, start, slash == start ? 1 : (size_t)(slash - start));
    CLT_TRY(clt_str_check(&folder));
    return clt_path_join(folder.text, name, out);
}
