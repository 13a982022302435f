/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), for files from elsewhere whose SHA-256 is published. For cltrain's own files hash.h
 * is faster. */
#ifndef ENGINE_FILES_SHA256_H
#define ENGINE_FILES_SHA256_H

#include <stddef.h>

#define CLT_SHA256_TEXT 65

/* Writes 64 lower-case hexadecimal digits; returns `text`. */
const char *clt_sha256_text(const void *data, size_t size, char text[CLT_SHA256_TEXT]);

#endif
