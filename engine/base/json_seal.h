/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON files that notice damage: the last member of the object is a hash of every byte before it. For
 * records that are believed or not as a whole. Knows nothing of what is in them. */
#ifndef ENGINE_BASE_JSON_SEAL_H
#define ENGINE_BASE_JSON_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

/* clt_json_seal: ends the object that was written with indent 2 from byte `from` of `out` and has members,
 * with
 * `,\n  "member": "hash"\n}\n`. The writer that wrote it is not used again. */
clt_status clt_json_seal(clt_str *out, size_t from, const char *member);
/* Does the text end with what clt_json_seal adds to the rest of it? */
bool clt_json_sealed(const char *text, size_t length, const char *member);

#endif
