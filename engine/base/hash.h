/* SPDX-License-Identifier: Apache-2.0
 *
 * A 64-bit hash for integrity and identity: checkpoint files, config digests, agreement between ranks. Not
 * for secrets: it detects accidents, not attacks. */
#ifndef ENGINE_BASE_HASH_H
#define ENGINE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64 with seed 0. */
uint64_t clt_hash64(const void *data, size_t size);

/* The same hash of bytes that come in parts; how they are divided into parts makes no difference. */
typedef struct clt_hash64_state {
    uint64_t lane[4];
    uint64_t total;    /* number of bytes so far */
    uint8_t block[32]; /* the last total % 32 bytes */
} clt_hash64_state;
void clt_hash64_begin(clt_hash64_state *state);
void clt_hash64_add(clt_hash64_state *state, const void *data, size_t size);
uint64_t clt_hash64_end(const clt_hash64_state *state);

#define CLT_HASH64_TEXT 17
/* Writes 16 lower-case hexadecimal digits; returns buffer. */
const char *clt_hash64_text(uint64_t hash, char buffer[CLT_HASH64_TEXT]);

#endif
