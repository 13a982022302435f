/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are not on this machine: paths that begin with "s3://". The functions of fileio.h accept such
 * paths for reading. The room that can reach the files (storage) registers the functions below, since files
 * must not depend on storage; without them such a path does not exist. */
#ifndef ENGINE_FILES_REMOTE_FILES_H
#define ENGINE_FILES_REMOTE_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/base/hash.h"
#include "engine/base/status.h"

struct clt_file_list; /* of fileio.h */

typedef struct clt_remote_file clt_remote_file; /* an open file, parts of which may be downloaded */

typedef struct clt_remote_files {
    /* Type and size, in st_mode and st_size. False: the path does not exist, or the server does not answer;
     * `open` and `names` find out which. */
    bool (*stat)(const char *path, struct stat *out);
    /* Adds to a hash the names, versions and sizes of the files that `path`, an address or a pattern, leads
     * to; these come from the server's listing. */
    clt_status (*sum)(const char *path, clt_hash64_state *state);
    /* Like clt_folder_names and clt_file_match. */
    clt_status (*names)(const char *folder, struct clt_file_list *out);
    clt_status (*match)(const char *pattern, struct clt_file_list *out);
    /* Downloads the first `bytes` bytes (UINT64_MAX: all) into a local copy and opens it; they stay while
     * *fd is open. CLT_ESTORAGE: the server does not give the file; `code`: there is no such file. */
    clt_status (*open)(const char *path, clt_status code, uint64_t bytes, int *fd);
    /* Opens a local copy without downloading anything yet. *fd belongs to *out. */
    clt_status (*hold)(const char *path, clt_status code, clt_remote_file **out, int *fd, uint64_t *size);
    void (*release)(clt_remote_file *file);
    /* Waits until the bytes are downloaded. They stay until the thread calls `done`. */
    clt_status (*need)(clt_remote_file *file, uint64_t from, uint64_t size);
    /* The same; they stay until `release`. */
    clt_status (*keep)(clt_remote_file *file, uint64_t from, uint64_t size);
    /* Announce what will be needed soon. want: bytes of an open file. want_path: the first `bytes` bytes of
     * a path (UINT64_MAX: all). */
    void (*want)(clt_remote_file *file, uint64_t from, uint64_t size);
    void (*want_path)(const char *path, uint64_t bytes);
    void (*done)(void);
} clt_remote_files;

/* Registers the functions, which must stay valid; NULL: none. */
void clt_remote_files_use(const clt_remote_files *functions);
const clt_remote_files *clt_remote_files_used(void);

/* True if a path begins like a remote file's. */
bool clt_is_remote(const char *path);
/* Fails with CLT_EUNSUPPORTED unless functions for remote files are registered. */
clt_status clt_remote_files_check(const char *path);

/* Fails with CLT_EUSAGE if the path is remote: results are written to a disk of this machine. */
clt_status clt_refuse_remote(const char *path);

/* Like stat(), also for a remote path. */
bool clt_file_stat(const char *path, struct stat *out);

/* Sets a flag for the calling thread: when it is not 0, waits for remote bytes fail with CLT_EINTERRUPTED.
 * NULL: no flag. */
void clt_remote_wait_until(const atomic_int *given_up);
bool clt_remote_wait_is_over(void);

#endif
