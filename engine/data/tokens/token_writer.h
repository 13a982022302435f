/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a stream of ids as numbered shards with llm.c's header: FOLDER/NAME_000.bin, NAME_001.bin ... The
 * files are durable after clt_token_writer_finish. It knows nothing of where ids come from. */
#ifndef ENGINE_DATA_TOKENS_TOKEN_WRITER_H
#define ENGINE_DATA_TOKENS_TOKEN_WRITER_H

#include "engine/json/json.h"

typedef struct clt_token_writer clt_token_writer;

/* `width`: bytes of a token, 2 or 4. Each shard gets `shard_tokens` tokens; the last one gets the rest. */
clt_status clt_token_writer_create(const char *folder, const char *name, int width, int64_t shard_tokens,
                                   clt_token_writer **out);
void clt_token_writer_destroy(clt_token_writer *writer);
CLT_SCOPED_POINTER(clt_token_writer, clt_token_writer_destroy)
clt_status clt_token_writer_put(clt_token_writer *writer, const uint32_t *ids, size_t count);
/* Completes the last shard. No tokens can be added afterwards. */
clt_status clt_token_writer_finish(clt_token_writer *writer);
uint64_t clt_token_writer_tokens(const clt_token_writer *writer);
int clt_token_writer_shards(const clt_token_writer *writer);
/* Writes the shards for a manifest: a list of {"name", "tokens", "xxh64" (hash of the tokens, without the
 * header)}. */
void clt_token_writer_list(const clt_token_writer *writer, clt_json_writer *w);

#endif
