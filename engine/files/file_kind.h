/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises what a file is by its first bytes, for messages about files of the wrong kind. */
#ifndef ENGINE_FILES_FILE_KIND_H
#define ENGINE_FILES_FILE_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"

/* The kind of image that begins with these bytes, such as "a WebP image"; NULL: no known kind. */
const char *clt_kind_of_image(const void *bytes, size_t size);

/* clt_refuse_pointer: fails with `code` when the bytes are a git-lfs pointer, which stands for a file that
 * was not fetched. The message does not name the file. `what`: such as "the image". */
clt_status clt_refuse_pointer(const void *bytes, size_t size, const char *what, clt_status code);

/* The same for the file at `path`, with its name in the message; a file that cannot be read is not a
 * pointer. */
clt_status clt_refuse_pointer_file(const char *path, const char *what, clt_status code);

/* clt_refuse_no_text: fails with `code` when the bytes begin a file that is not text in UTF-8 or a similar
 * encoding: a git-lfs pointer, UTF-32, UTF-16 (with or without a byte order mark), archives, Parquet, images
 * and others. The message names the kind, not the file. *other: the file is no text at all, so that a folder
 * of texts may skip it; false for a text that has to be fetched or converted. */
clt_status clt_refuse_no_text(const void *bytes, size_t size, clt_status code, bool *other);

#endif
