/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder in which PoCL, the OpenCL driver for CPUs, keeps the kernels that it has built. PoCL ends the process
 * when a kernel there is cut off or may not be run, and has no device when it cannot make the folder. So another folder
 * is chosen where its own cannot be used, and files that are cut off are removed, so that PoCL builds them again.
 * Nothing here loads PoCL. */
#ifndef ENGINE_BASE_POCL_CACHE_H
#define ENGINE_BASE_POCL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The environment variable that names the folder to PoCL. */
#define CLT_POCL_FOLDER_VARIABLE "POCL_CACHE_DIR"

typedef struct clt_pocl_folder {
    char *path;    /* the folder that can be used; NULL: there is none */
    char *refused; /* the folder that PoCL would take by itself, if that cannot be used; else NULL */
    bool closed;   /* it is refused because this user may not write into a folder inside it */
    char why[400]; /* why not */
} clt_pocl_folder;

/* Chooses the folder. What PoCL takes by itself: $POCL_CACHE_DIR, else $XDG_CACHE_HOME/pocl/kcache, else
 * $HOME/.cache/pocl/kcache. If no file can be written there, or none of it may be run, it is `pocl` of our
 * own cache, else `cltrain-pocl-USER` in $TMPDIR, /tmp, /var/tmp or /dev/shm; only the user can write to
 * these. make: the folder is made, and a file is written and mapped there to try it. Else it is only looked
 * at, and PoCL's own folder is refused too if this user may not write into a folder inside it.
 * CLT_ENOMEM. */
clt_status clt_pocl_folder_choose(bool make, clt_pocl_folder *out);
/* Gives up the folder in use, which is PoCL's own, since this user may not write into the folder `closed`
 * inside it, and chooses another one, which is made. CLT_ENOMEM. */
clt_status clt_pocl_folder_leave(clt_pocl_folder *folder, const char *closed);
void clt_pocl_folder_free(clt_pocl_folder *folder);

typedef struct clt_pocl_mended {
    uint64_t files;   /* built kernels and programs that were looked at */
    uint64_t removed; /* those that were cut off, and are removed */
    char *closed;     /* a folder of PoCL's inside it into which this user may not write; NULL: none */
} clt_pocl_mended;

/* Whether PoCL names folders in its cache so: two letters from A to P. */
bool clt_pocl_folder_name(const char *name);

/* Looks at every built kernel and program in the cache and removes those that end too early or begin with
 * something else. Files and folders whose names are none of PoCL's stay as they are, since the folder may
 * hold anything. What is damaged in its middle is not found. Never fails: what cannot be read counts as
 * whole. Free closed with free(). */
void clt_pocl_folder_mend(const char *folder, clt_pocl_mended *out);

#endif
