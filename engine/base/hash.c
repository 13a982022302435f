/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH64, written from the published specification of the xxHash algorithms (Y. Collet, "xxHash fast digest
 * algorithm"). Words are read by memcpy, which is right for little-endian hosts; the engine and its file
 * formats are made only for these. */
#include "engine/base/hash.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hash.c reads little-endian");

#define PRIME1 0x9E3779B185EBCA87ULL
#define PRIME2 0xC2B2AE3D27D4EB4FULL
#define PRIME3 0x165667B19E3779F9ULL
#define PRIME4 0x85EBCA77C2B2AE63ULL
#define PRIME5 0x27D4EB2F165667C5ULL

static uint64_t rotate_left(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t read64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t read32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t mix_lane(uint64_t lane, uint64_t input)
{
    return rotate_left(lane + input * PRIME2, 31) * PRIME1;
}

static uint64_t merge_lane(uint64_t hash, uint64_t lane)
{
    return (hash ^ mix_lane(0, lane)) * PRIME1 + PRIME4;
}

static void mix_blocks(uint64_t lane[4], const uint8_t *data, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++, data += 32)
        for (int k = 0; k < 4; k++)
            lane[k] = mix_lane(lane[k], read64(data + 8 * k));
}

void clt_hash64_begin(clt_hash64_state *state)
{
    memset(state, 0, sizeof *state);
    state->lane[0] = PRIME1 + PRIME2;
    state->lane[1] = PRIME2;
    state->lane[3] = 0 - PRIME1;
}

void clt_hash64_add(clt_hash64_state *state, const void *data, size_t size)
{
    const uint8_t *at = data;
    size_t held = (size_t)(state->total % 32);
    if (size == 0) /* data may be NULL */
        return;
    state->total += size;
    if (held) {
        size_t part = 32 - held < size ? 32 - held : size;
        memcpy(state->block + held, at, part);
        if (held + part < 32)
            return;
        mix_blocks(state->lane, state->block, 1);
        at += part;
        size -= part;
    }
    mix_blocks(state->lane, at, size / 32);
    if (size % 32)
        memcpy(state->block, at + size / 32 * 32, size % 32);
}

/* The last 0..31 bytes, then the avalanche. */
static uint64_t finish(uint64_t hash, const uint8_t *at, size_t left)
{
    for (; left >= 8; left -= 8, at += 8)
        hash = rotate_left(hash ^ mix_lane(0, read64(at)), 27) * PRIME1 + PRIME4;
    if (left >= 4) {
        hash = rotate_left(hash ^ (read32(at) * PRIME1), 23) * PRIME2 + PRIME3;
        left -= 4;
        at += 4;
    }
    for (; left > 0; left--, at++)
        hash = rotate_left(hash ^ (*at * PRIME5), 11) * PRIME1;
    hash = (hash ^ (hash >> 33)) * PRIME2;
    hash = (hash ^ (hash >> 29)) * PRIME3;
    return hash ^ (hash >> 32);
}

uint64_t clt_hash64_end(const clt_hash64_state *state)
{
    uint64_t hash = PRIME5;
    if (state->total >= 32) {
        const uint64_t *lane = state->lane;
        hash = rotate_left(lane[0], 1) + rotate_left(lane[1], 7) + rotate_left(lane[2], 12) +
               rotate_left(lane[3], 18);
        for (int k = 0; k < 4; k++)
            hash = merge_lane(hash, lane[k]);
    }
    return finish(hash + state->total, state->block, (size_t)(state->total % 32));
}

uint64_t clt_hash64(const void *data, size_t size)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    if (size > 0)
        clt_hash64_add(&state, data, size);
    return clt_hash64_end(&state);
}

const char *clt_hash64_text(uint64_t hash, char buffer[CLT_HASH64_TEXT])
{
    (void)snprintf(buffer, CLT_HASH64_TEXT, "%016llx", (unsigned long long)hash);
    return buffer;
}
