/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the files of this folder share: the message of a failed system call on a file (the
 * action, errno's text, what to do), and opening for reading. */
#ifndef ENGINE_FILES_FILEIO_ERROR_H
#define ENGINE_FILES_FILEIO_ERROR_H

#include <sys/stat.h>

#include "engine/base/status.h"

clt_status clt_fail_errno_at(clt_status status, const char *file, int line, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define clt_fail_errno(status, code, ...) clt_fail_errno_at((status), __FILE__, __LINE__, (code), __VA_ARGS__)

/* Opens for reading and refuses folders, which open() accepts. A remote file is downloaded first, all of it
 * or, with clt_open_start, the first `bytes` bytes; the copy stays while *fd is open. */
clt_status clt_open_read(const char *path, clt_status code, int *fd, struct stat *info);
clt_status clt_open_start(const char *path, clt_status code, uint64_t bytes, int *fd, struct stat *info);

#endif
