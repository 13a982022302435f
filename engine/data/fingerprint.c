/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the content of a file to a fingerprint: all of a small file; size and spaced blocks of a large
 * one. */
#include "engine/data/fingerprint.h"

#include "engine/files/remote_files.h"

#define WANTED 32                   /* parts that are announced to a remote file before they are read */
#define AT_ONCE ((uint64_t)1 << 20) /* number of bytes of a small file that are hashed at a time */

/* Offset and size of part `index` of a file's hashed parts; false: there are no more parts. */
static bool part_of(uint64_t size, uint64_t index, uint64_t *at, uint64_t *bytes)
{
    if (size <= CLT_FINGERPRINT_WHOLE) {
        *at = index * AT_ONCE;
        *bytes = *at < size && size - *at < AT_ONCE ? size - *at : AT_ONCE;
        return *at < size;
    }
    uint64_t last = size - CLT_FINGERPRINT_BLOCK, distance = last / (CLT_FINGERPRINT_BLOCKS - 1);
    *at = index + 1 < CLT_FINGERPRINT_BLOCKS ? index * distance : last;
    *bytes = CLT_FINGERPRINT_BLOCK;
    return index < CLT_FINGERPRINT_BLOCKS;
}

void clt_fingerprint_add(clt_hash64_state *state, const void *data, uint64_t size)
{
    uint64_t at, bytes;
    clt_hash64_add(state, &size, sizeof size);
    for (uint64_t i = 0; part_of(size, i, &at, &bytes); i++)
        clt_hash64_add(state, (const uint8_t *)data + at, (size_t)bytes);
}

void clt_fingerprint_add_mapped(clt_hash64_state *state, const clt_mapping *file)
{
    uint64_t size = file->size, at, bytes;
    clt_hash64_add(state, &size, sizeof size);
    for (uint64_t i = 0; i < WANTED && part_of(size, i, &at, &bytes); i++)
        clt_map_want(file, at, bytes);
    /* the loop ends early if data is missing; clt_source_read_fingerprint then reports it */
    for (uint64_t i = 0; part_of(size, i, &at, &bytes) && !clt_remote_wait_is_over(); i++) {
        if (part_of(size, i + WANTED, &at, &bytes))
            clt_map_want(file, at, bytes);
        (void)part_of(size, i, &at, &bytes);
        clt_map_need(file, at, bytes);
        clt_hash64_add(state, file->data + at, (size_t)bytes);
        clt_map_unpin();
    }
    clt_map_used(file);
}
