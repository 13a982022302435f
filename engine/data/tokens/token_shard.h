/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of token shards: files with the header of llm.c's data files, or without a header. It knows
 * nothing of streams or samples. */
#ifndef ENGINE_DATA_TOKENS_TOKEN_SHARD_H
#define ENGINE_DATA_TOKENS_TOKEN_SHARD_H

#include "engine/base/mem.h"
#include "engine/base/status.h"

#define CLT_SHARD_HEADER 1024          /* bytes: 256 little-endian i32: magic, version, tokens, zeros */
#define CLT_SHARD_MAX_TOKENS INT32_MAX /* since the header's count is an i32 */

typedef struct clt_shard_header {
    uint64_t header; /* bytes before the tokens */
    int width;       /* bytes of a token: 2 or 4 */
    int64_t tokens;
} clt_shard_header;

/* Reads the header and compares it with the file's size; the message of CLT_EDATA names file and reason. */
clt_status clt_shard_parse(const char *path, const uint8_t *bytes, uint64_t size, clt_shard_header *out);

/* Writes a header of CLT_SHARD_HEADER bytes. */
void clt_shard_write_header(uint8_t *bytes, int width, int64_t tokens);

/* Offset of token `at` in the file, in bytes. */
static inline uint64_t clt_shard_offset(const clt_shard_header *h, int64_t at)
{
    return h->header + (uint64_t)at * (uint64_t)h->width;
}

/* Token `at` of the file whose first byte is at `bytes`. */
static inline uint32_t clt_shard_token(const clt_shard_header *h, const uint8_t *bytes, int64_t at)
{
    const uint8_t *p = bytes + clt_shard_offset(h, at);
    uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    return h->width == 2 ? low : low | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
