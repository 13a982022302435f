/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the content of a file to a fingerprint: all of a small file; size and spaced blocks of a large
 * one. */
#include "engine/data/fingerprint.h"

void clt_fingerprint_add(clt_hash64_state *state, const void *data, uint64_t size)
{
    const uint8_t *bytes = data;
    clt_hash64_add(state, &size, sizeof size);
    if (size <= CLT_FINGERPRINT_WHOLE) {
        clt_hash64_add(state, bytes, (size_t)size);
        return;
    }
    uint64_t last = size - CLT_FINGERPRINT_BLOCK, distance = last / (CLT_FINGERPRINT_BLOCKS - 1);
    for (uint64_t i = 0; i < CLT_FINGERPRINT_BLOCKS; i++) {
        uint64_t at = i + 1 < CLT_FINGERPRINT_BLOCKS ? i * distance : last;
        clt_hash64_add(state, bytes + at, CLT_FINGERPRINT_BLOCK);
    }
}
