/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders: whole reads (gzip aware), mapped reads, durable writes. Messages carry the path and
 * errno's text. Functions that only read accept paths of remote files, too (remote_files.h); functions that
 * write refuse them with CLT_EUSAGE. */
#ifndef ENGINE_FILES_FILEIO_H
#define ENGINE_FILES_FILEIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

/* clt_file_read: a NUL-terminated copy of a whole file; `code` is the status for any failure. `max_bytes` 0:
 * no limit. `gunzip`: files that start with the gzip magic are unpacked (a damaged stream fails with its
 * reason). */
clt_status clt_file_read(const char *path, bool gunzip, uint64_t max_bytes, clt_status code, char **data,
                         size_t *size);

/* clt_file_read_data: reads a whole file of data, and unpacks it if it is a gzip file. A gzip file can grow
 * a thousandfold when unpacked. So reading fails with `code` if the content is larger than the file's header
 * declared (`declared`; 0: no size was declared), and with CLT_ENOMEM if it is larger than the available
 * memory. */
clt_status clt_file_read_data(const char *path, uint64_t declared, clt_status code, char **data,
                              size_t *size);

/* clt_stdin_read_data: the same for the rest of the standard input. */
clt_status clt_stdin_read_data(clt_status code, char **data, size_t *size);

/* clt_file_read_start: reads the first bytes of a file, at most `size`, and unpacks them if it is a gzip
 * file; *got is smaller for a shorter file. `code` is the status for any failure. */
clt_status clt_file_read_start(const char *path, void *buffer, size_t size, clt_status code, size_t *got);

/* True if the bytes begin like a gzip file. */
bool clt_is_gzip(const void *bytes, size_t size);
/* clt_gzip: packs the bytes as a gzip file in memory. Free with free(). */
clt_status clt_gzip(const void *data, size_t size, char **out, size_t *length);

/* A read-only mapping. A file that becomes shorter, or a disk that fails, does not end the process: the
 * missing part reads as zeros, and the next check fails with the `code` of clt_map_open and the file's name.
 * Opening a mapping installs a handler for SIGBUS, which passes signals with other causes to the previous
 * handler. */
struct clt_mapped;
typedef struct clt_mapping {
    const uint8_t *data;
    size_t size;
    struct clt_mapped *file; /* the record of the file; NULL: the file is empty */
} clt_mapping;
clt_status clt_map_open(const char *path, clt_status code, clt_mapping *out);
/* The same without downloading a remote file: the reader calls clt_map_need for the bytes that it reads. */
clt_status clt_map_open_parts(const char *path, clt_status code, clt_mapping *out);
/* For mappings made by clt_map_open_parts: waits until bytes [from, from + size) are downloaded. They stay
 * until the thread calls clt_map_unpin or clt_map_check. Bytes that cannot be fetched read as zeros, and the
 * next check fails with the reason. If the wait is given up, the next check of this thread fails with
 * CLT_EINTERRUPTED. Does nothing for local files. */
void clt_map_need(const clt_mapping *mapping, uint64_t from, uint64_t size);
/* The same; the bytes stay until the mapping is closed. */
void clt_map_keep(const clt_mapping *mapping, uint64_t from, uint64_t size);
/* Announces that the bytes will be needed soon. */
void clt_map_want(const clt_mapping *mapping, uint64_t from, uint64_t size);
/* Announces that the calling thread no longer needs bytes of any mapping. */
void clt_map_unpin(void);
void clt_map_close(clt_mapping *mapping);
CLT_SCOPED_VALUE(clt_mapping, clt_map_close)
/* Notes that bytes of the mapping were read, so that the next clt_map_check checks its file. */
void clt_map_used(const clt_mapping *mapping);
/* Calls clt_map_unpin, then fails if bytes that any thread has read were missing in their files: checks every
 * mapping that was used since its last check. clt_map_check_one checks one mapping, used or not. */
clt_status clt_map_check(void);
clt_status clt_map_check_one(const clt_mapping *mapping);

/* Announces that a whole file will be read soon; does nothing for local files. */
void clt_file_want(const char *path);
/* Reads the first bytes of a regular file, without unpacking; returns their number, 0 if it cannot be
 * read. */
size_t clt_file_first(const char *path, void *buffer, size_t size);

/* The name of a temporary file or folder that becomes, or was, `path`: "path.WHAT-HASH-PID". HASH-PID is the
 * mark of this process (process.h), since processes on other hosts that share the folder may have the same
 * PID. */
struct clt_str;
clt_status clt_temporary_name(const char *path, const char *what, struct clt_str *out);
/* clt_file_write: writes "path.tmp-HASH-PID", syncs and renames it, and syncs the folder; a device or a
 * pipe is written directly. CLT_ESTORAGE on failure, without a partial file left behind. */
clt_status clt_file_write(const char *path, const void *data, size_t size);
/* The same for content that `fill` writes to the descriptor, piece by piece. `path`: the temporary file. */
typedef clt_status (*clt_file_filler)(void *context, int fd, const char *path);
clt_status clt_file_write_by(const char *path, clt_file_filler fill, void *context);
/* clt_file_create: makes a file if it does not exist already; *created: whether it was made. It appears with
 * its whole content or not at all. If several processes try at the same time, on one host or on several that
 * share the folder, exactly one creates it. Failures are CLT_ESTORAGE. */
clt_status clt_file_create(const char *path, const void *data, size_t size, bool *created);
/* Files under names that the program chooses, in folders to which others may write, too. Only regular files
 * are opened or written, never through a link and never a pipe or a device; otherwise CLT_ESTORAGE.
 * clt_own_file_check fails unless the path is free or a regular file or folder; _write is like
 * clt_file_write; _append opens for reading and appending and creates a missing file; _create makes a new
 * file, replacing an existing one. */
clt_status clt_own_file_check(const char *path);
clt_status clt_own_file_write(const char *path, const void *data, size_t size);
clt_status clt_own_file_append(const char *path, int *fd);
clt_status clt_own_file_create(const char *path, int *fd);
/* Fails if clt_file_write would fail; for use before a long computation. Creates the temporary file and
 * removes it again. */
clt_status clt_file_can_write(const char *path);
/* Writes all bytes to a descriptor, handling short writes and EINTR. */
clt_status clt_fd_write(int fd, const void *data, size_t size, const char *path);
/* The same at an offset from the file's beginning, without moving the descriptor's position. */
clt_status clt_fd_write_at(int fd, const void *data, size_t size, uint64_t offset, const char *path);
clt_status clt_fsync_path(const char *path);   /* syncs a file or folder */
clt_status clt_fsync_parent(const char *path); /* syncs the folder that holds `path`, after a rename */
clt_status clt_mkdir_p(const char *path);
/* Checks that clt_mkdir would succeed and a file could be created in the folder; creates nothing.
 * CLT_ESTORAGE says why not. */
clt_status clt_mkdir_possible(const char *path);
/* clt_file_open: a stream to read a file from; NULL with the error recorded. */
FILE *clt_file_open(const char *path, clt_status code);
bool clt_file_exists(const char *path);
bool clt_is_directory(const char *path);
bool clt_is_regular(
    /* True for a regular file: not a folder, and not a device or pipe, from which reading may never end. */
    const char *path);
bool clt_is_folder_in(const char *folder, const char *name);
bool clt_same_folder(const char *a, const char *b); /* true if both exist and are the same folder */
/* does not follow symbolic links; continues after a failure */
clt_status clt_remove_tree(const char *path);
/* Joins with one '/'; an absolute or remote `b` is taken alone. Below a remote folder, "." and ".." in `b`
 * are resolved. *out must be freed. */
clt_status clt_path_join(const char *a, const char *b, char **out);
/* realpath(path, NULL), to be freed; for a remote path, the path without '/' at its end. NULL: errno says
 * why. */
char *clt_path_real(const char *path);
/* Fails with the server's reason if the path is remote and the server does not say what is there. If
 * clt_file_exists returns false, call this before concluding that nothing is there. */
clt_status clt_remote_listed(const char *path);
/* The same, but fails with `code` if the path is remote and nothing is there. */
clt_status clt_remote_found(const char *path, clt_status code);

/* Names or paths of files, which the list owns. */
typedef struct clt_file_list {
    char **name;
    size_t count, capacity;
} clt_file_list;
/* To be called before the beginning of file `at` of a list is read, for each file in turn. Announces the
 * beginnings of the next files, so that several remote files are fetched at a time. Does nothing for local
 * files. `folder`: where the files are; NULL: the names are whole paths. */
void clt_files_want_starts(const char *folder, const clt_file_list *list, size_t at);
/* Takes ownership of `name`, also on failure. `name` NULL means that making it ran out of memory:
 * CLT_ENOMEM. */
clt_status clt_file_list_add(clt_file_list *list, char *name);
/* Sorts the names from index `from` on by their bytes. */
void clt_file_list_sort(clt_file_list *list, size_t from);
void clt_file_list_free(clt_file_list *list);
CLT_SCOPED_VALUE(clt_file_list, clt_file_list_free)
/* The names of a folder's entries, sorted, without names that begin with a dot. CLT_EDATA: the folder cannot
 * be opened or read completely. Free *out in any case. */
clt_status clt_folder_names(const char *folder, clt_file_list *out);
/* Adds the paths that match a pattern of the shell, in any order. No match is not an error. */
clt_status clt_file_match(const char *pattern, clt_file_list *out);

/* An exclusive lock file (flock) that contains pid and host; CLT_ESTORAGE, with the holder's name, if it is
 * taken. */
typedef struct clt_lock clt_lock;
clt_status clt_lock_acquire(const char *path, clt_lock **out);
/* *taken: a process holds the lock now. CLT_ESTORAGE: this cannot be found out. */
clt_status clt_lock_is_taken(const char *path, bool *taken);
void clt_lock_release(clt_lock *lock);
CLT_SCOPED_POINTER(clt_lock, clt_lock_release)

#endif
