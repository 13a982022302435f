/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves paths of configs and the command line: a file, "@FILE" for the paths that a file lists, a folder
 * or a pattern of shards. It does not know the content of the files. */
#ifndef ENGINE_DATA_TEXTS_TEXT_PATHS_H
#define ENGINE_DATA_TEXTS_TEXT_PATHS_H

#include "engine/base/mem.h"
#include "engine/files/fileio.h"

typedef clt_status (*clt_path_visitor)(void *context, const char *path);

/* clt_listed_paths: calls `visit` for the path `entry`. If the entry is "@LIST", calls it for each line of
 * the file LIST, which is a path (relative paths begin at the current folder, as in a config). In messages
 * `key` says where the entry came from. CLT_ECONFIG: the entry is empty. */
clt_status clt_listed_paths(const char *entry, const char *key, clt_path_visitor visit, void *context);

/* A folder or pattern that was resolved to files. A file that an entry names directly has no group. */
typedef struct clt_text_group {
    const char *name;
    size_t index, count; /* index of the visited file; number of files */
} clt_text_group;
typedef clt_status (*clt_text_visitor)(void *context, const char *path, const clt_text_group *group);

/* clt_text_paths: like clt_listed_paths, but resolves each path to files, in byte order of their names: a
 * file or "-" to itself (`group` is then NULL), a folder to the files in it and in its subfolders, a pattern
 * to the files that match. CLT_EDATA: there are no files. */
clt_status clt_text_paths(const char *entry, const char *key, clt_text_visitor visit, void *context);

/* clt_shard_paths: appends the files of an entry in byte order of their names. The entry is a file, a
 * pattern ("data/train_*.bin"), or a folder, from which the files NAME.bin are taken whose names contain
 * `word` ("train"). CLT_EDATA: there are no files. */
clt_status clt_shard_paths(const char *entry, const char *word, const char *key, clt_file_list *list);
/* True if the folder contains a file NAME.bin whose name contains `word`. */
bool clt_folder_has_shards(const char *folder, const char *word);

/* *out, to be freed: the path of `name` in the folder `path`, or beside `path` if that is a file. */
clt_status clt_path_beside(const char *path, const char *name, char **out);

#endif
