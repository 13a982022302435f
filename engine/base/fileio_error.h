/* SPDX-License-Identifier: Apache-2.0
 *
 * One wording for every failed system call on a file: what was being done, errno's text, what to do about it.
 * Used by the file code of this folder alone. */
#ifndef ENGINE_BASE_FILEIO_ERROR_H
#define ENGINE_BASE_FILEIO_ERROR_H

#include "engine/base/status.h"

clt_status clt_fail_errno_at(clt_status status, const char *file, int line, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define clt_fail_errno(status, code, ...) clt_fail_errno_at((status), __FILE__, __LINE__, (code), __VA_ARGS__)

#endif
