/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): for files from elsewhere whose SHA-256 is published, and
 * for signed requests to object storage. For cltrain's own files hash.h is faster. */
#ifndef ENGINE_FILES_SHA256_H
#define ENGINE_FILES_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define CLT_SHA256_SIZE 32 /* size of a sum, in bytes */
#define CLT_SHA256_TEXT 65

/* The sum of bytes that come in parts; how they are divided into parts makes no difference. */
typedef struct clt_sha256 {
    uint32_t state[8];
    uint64_t total;    /* number of bytes so far */
    uint8_t block[64]; /* the last total % 64 bytes */
} clt_sha256;
void clt_sha256_begin(clt_sha256 *sum);
void clt_sha256_add(clt_sha256 *sum, const void *data, size_t size);
void clt_sha256_end(clt_sha256 *sum, uint8_t out[CLT_SHA256_SIZE]); /* `sum` must not be used afterwards */

/* Writes 64 lower-case hexadecimal digits; returns `text`. */
const char *clt_sha256_hex(const uint8_t sum[CLT_SHA256_SIZE], char text[CLT_SHA256_TEXT]);
const char *clt_sha256_text(const void *data, size_t size, char text[CLT_SHA256_TEXT]);

void clt_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                     uint8_t out[CLT_SHA256_SIZE]);

#endif
