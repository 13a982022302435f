/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's cache: the folder of each kind of cached file (tuning records, answers of device probes, built
 * programs, sources of failed builds), and folders to which nobody else may write. Cached files decide what
 * runs, so a folder to which others can write is neither read nor written. */
#ifndef ENGINE_FILES_CACHE_FOLDER_H
#define ENGINE_FILES_CACHE_FOLDER_H

#include "engine/base/status.h"

/* The folder of one kind of cached files: $CLTRAIN_CACHE_DIR/KIND, else $XDG_CACHE_HOME/cltrain/KIND, else
 * $HOME/.cache/cltrain/KIND. CLT_ESTORAGE when none of the three variables names a folder. The folder is not
 * made. Free *out with free(). */
clt_status clt_cache_folder(const char *kind, char **out);

/* Makes the folder with mode 0700 if it is missing (and the folders above it), and checks it as below. */
clt_status clt_private_folder_make(const char *folder);
/* The path of a file in the folder of one kind, which is made private. Free with free(). */
clt_status clt_cache_file(const char *kind, const char *name, char **out);
/* Fails with CLT_ESTORAGE unless the folder belongs to this user and no other user may write to it. */
clt_status clt_private_folder_check(const char *folder);

#endif
