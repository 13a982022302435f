/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON files with a checksum: the last member of the object is a hash of every byte before it. For records
 * that are valid only if complete. Knows nothing of their content. */
#ifndef ENGINE_JSON_JSON_SEAL_H
#define ENGINE_JSON_JSON_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

/* clt_json_seal: completes the JSON object that begins at byte `from` of `out`, was written with indent 2
 * and has members. Appends a last member whose key is `member` and whose value is the hash, and the closing
 * brace. The writer that wrote the object must not be used again. */
clt_status clt_json_seal(clt_str *out, size_t from, const char *member);
/* True if the text ends with the member and hash that clt_json_seal would append to the text before it. */
bool clt_json_sealed(const char *text, size_t length, const char *member);

#endif
