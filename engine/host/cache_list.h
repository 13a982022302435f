/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds, measures and removes the cached files of cltrain and its drivers in the user's cache folders. Only
 * files with the names of cached files are removed; other files stay, since CLTRAIN_CACHE_DIR may name any
 * folder. */
#ifndef ENGINE_HOST_CACHE_LIST_H
#define ENGINE_HOST_CACHE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef enum clt_cache_owner {
    CLT_CACHE_OURS,   /* cltrain's own */
    CLT_CACHE_DRIVER, /* a driver's, may be cleared */
    CLT_CACHE_FOREIGN /* a driver's that other programs use, too: never cleared */
} clt_cache_owner;

typedef struct clt_cache {
    const char *name;    /* "programs" */
    const char *purpose; /* one line: its content, and the cost of clearing it */
    clt_cache_owner owner;
    char *path; /* the folder, which need not exist */
    uint64_t files, bytes;
} clt_cache;

/* The caches in the order in which they are shown. */
int clt_cache_count(void);
/* The name of cache `index`, for messages; NULL when there is no such cache. */
const char *clt_cache_name(int index);
/* Fills in path, number of files and bytes (the sum of file sizes) of a cache; 0 when its folder does not
 * exist. Files that cannot be read are not counted. CLT_ESTORAGE: no environment variable says where the
 * folder would be. Free with clt_cache_free. */
clt_status clt_cache_look(int index, clt_cache *out);
void clt_cache_free(clt_cache *cache);
/* Removes the cached files, and the folder if it is empty afterwards. *files and *bytes: how much was
 * removed, also on failure. A missing folder counts as empty. CLT_ESTORAGE: something could not be removed,
 * but everything else was; CLT_EUSAGE: the cache is CLT_CACHE_FOREIGN. */
clt_status clt_cache_clear(const clt_cache *cache, uint64_t *files, uint64_t *bytes);

#endif
