/* SPDX-License-Identifier: Apache-2.0
 *
 * A fingerprint of data: a 64-bit hash of the content of its files in order, without names, places or
 * times, so that it stays the same when data is moved, compressed or renamed. It detects accidents, not
 * attacks. */
#ifndef ENGINE_DATA_FINGERPRINT_H
#define ENGINE_DATA_FINGERPRINT_H

#include "engine/base/hash.h"
#include "engine/files/fileio.h"

/* Files up to this size are hashed as a whole. Of larger files only the size and blocks are hashed: the
 * first, the last, and blocks at even distances between them, so that terabytes of shards can be opened
 * quickly. */
#define CLT_FINGERPRINT_WHOLE ((uint64_t)64 << 20)
#define CLT_FINGERPRINT_BLOCK ((uint64_t)16 << 10)
#define CLT_FINGERPRINT_BLOCKS 256

/* Adds one file's content. */
void clt_fingerprint_add(clt_hash64_state *state, const void *data, uint64_t size);
/* The same for a mapped file, whose parts may first have to be downloaded. */
void clt_fingerprint_add_mapped(clt_hash64_state *state, const clt_mapping *file);

#endif
