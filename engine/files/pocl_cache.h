/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder in which PoCL, the OpenCL driver for CPUs, keeps the kernels that it has built. PoCL ends
 * the process when a kernel there is truncated or may not be executed, and offers no device when it
 * cannot make the folder. So another folder is chosen if PoCL's own cannot be used, and truncated files
 * are removed, so that PoCL builds them again. Nothing here loads PoCL. */
#ifndef ENGINE_FILES_POCL_CACHE_H
#define ENGINE_FILES_POCL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The environment variable by which PoCL finds the folder. */
#define CLT_POCL_FOLDER_VARIABLE "POCL_CACHE_DIR"

typedef struct clt_pocl_folder {
    char *path;    /* the folder that can be used; NULL: there is none */
    char *refused; /* the folder that PoCL would take by default, if it cannot be used; else NULL */
    bool closed;   /* `refused` is set because this user may not write into a folder inside it */
    char why[400]; /* why `refused` cannot be used */
} clt_pocl_folder;

/* Chooses the folder. PoCL's default is $POCL_CACHE_DIR, else $XDG_CACHE_HOME/pocl/kcache, else
 * $HOME/.cache/pocl/kcache. If no file can be written there, or files there may not be executed, the choice
 * is `pocl` in our own cache, else `cltrain-pocl-USER` in $TMPDIR, /tmp, /var/tmp or /dev/shm; no other user
 * may write to these. If `make` is set, the folder is made, and a file is written and mapped there as a
 * trial. Otherwise nothing is changed, and PoCL's default is also refused if this user may not write into a
 * folder inside it. Fails with CLT_ENOMEM only. */
clt_status clt_pocl_folder_choose(bool make, clt_pocl_folder *out);
/* Gives up PoCL's default folder, because this user may not write into the folder `closed` inside it;
 * chooses another and makes it. CLT_ENOMEM. */
clt_status clt_pocl_folder_leave(clt_pocl_folder *folder, const char *closed);
void clt_pocl_folder_free(clt_pocl_folder *folder);

typedef struct clt_pocl_mended {
    uint64_t files;   /* built kernels and programs that were checked */
    uint64_t removed; /* truncated files, which have been removed */
    char *closed;     /* a folder of PoCL's cache into which this user may not write; NULL: none */
} clt_pocl_mended;

/* True if a folder in PoCL's cache may have this name: two letters from A to P. */
bool clt_pocl_folder_name(const char *name);

/* Checks every built kernel and program in the cache and removes files that end too early or begin with
 * other bytes than such files do. Files and folders whose names are not PoCL's stay, since the folder may
 * hold anything. Damage in the middle of a file is not found. Never fails: a file that cannot be read stays.
 * Free out->closed with free(). */
void clt_pocl_folder_mend(const char *folder, clt_pocl_mended *out);

#endif
