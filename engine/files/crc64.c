/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-64/XZ. The bits of a file are the coefficients of a polynomial over the field of two elements,
 * highest power first. The remainder of its division by POLYNOMIAL is linear in these bits, so that parts
 * can be computed separately. In a word, bit 63 - i is the coefficient of x^i. Processors with an
 * instruction for carry-less products fold 64 bytes at a time; others use tables. */
#include "engine/files/crc64.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLYNOMIAL 0xC96C5795D7870F42ULL /* the term x^64 is omitted */
#define ONE (1ULL << 63)                 /* the polynomial 1 */
#define LANES 4                          /* blocks of 16 bytes that are folded together */

static struct {
    uint64_t table[8][256];    /* [k][byte]: remainder of the byte followed by k zero bytes */
    uint64_t power[64];        /* x^(8 * 2^k): a factor that moves by 2^k bytes */
    uint64_t fold[2], last[2]; /* factors that move a block of 16 bytes by LANES blocks and by one block */
    bool carryless;
} crc;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* a * b modulo POLYNOMIAL. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (; a; a <<= 1) {
        product ^= b & (0 - (a >> 63));
        b = (b >> 1) ^ (POLYNOMIAL & (0 - (b & 1)));
    }
    return product;
}

static uint64_t power_of_x(uint64_t n)
{
    uint64_t result = ONE, square = ONE >> 1;
    for (; n; n >>= 1, square = multiply(square, square))
        if (n & 1)
            result = multiply(result, square);
    return result;
}

static void prepare(void)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (POLYNOMIAL & (0 - (value & 1)));
        crc.table[0][byte] = value;
    }
    for (int k = 1; k < 8; k++)
        for (unsigned byte = 0; byte < 256; byte++)
            crc.table[k][byte] = crc.table[0][crc.table[k - 1][byte] & 255] ^ (crc.table[k - 1][byte] >> 8);
    crc.power[0] = power_of_x(8);
    for (int k = 1; k < 64; k++)
        crc.power[k] = multiply(crc.power[k - 1], crc.power[k - 1]);
    /* A carry-less product of two words with reversed bits is one bit too low, which the 1 corrects. The
     * first word of a block holds x^64 and higher powers. */
    for (int k = 0; k < 2; k++) {
        crc.fold[k] = power_of_x(128 * LANES + 64 * (k == 0) - 1);
        crc.last[k] = power_of_x(128 + 64 * (k == 0) - 1);
    }
#if defined(__x86_64__)
    crc.carryless = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static uint64_t by_table(uint64_t value, const uint8_t *at, size_t size)
{
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word ^= value;
        value = 0;
        for (int k = 0; k < 8; k++)
            value ^= crc.table[7 - k][(word >> 8 * k) & 255];
    }
    for (; size > 0; size--, at++)
        value = crc.table[0][(value ^ *at) & 255] ^ (value >> 8);
    return value;
}

#if defined(__x86_64__)
#define FOLD(block, constants)                                                                               \
    _mm_xor_si128(_mm_clmulepi64_si128(block, constants, 0x00), _mm_clmulepi64_si128(block, constants, 0x11))

/* Needs at least LANES blocks. Folds them into one block with the same remainder, and divides that block. */
__attribute__((target("pclmul,sse4.1"))) static uint64_t by_product(const uint8_t *at, size_t size)
{
    const __m128i *block = (const __m128i *)(const void *)at;
    const __m128i far = _mm_set_epi64x((long long)crc.fold[1], (long long)crc.fold[0]),
                  near = _mm_set_epi64x((long long)crc.last[1], (long long)crc.last[0]);
    __m128i lane[LANES];
    size_t blocks = size / 16, i = LANES;
    uint8_t left[16];
    for (int k = 0; k < LANES; k++)
        lane[k] = _mm_loadu_si128(block + k);
    for (; i + LANES <= blocks; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = _mm_xor_si128(FOLD(lane[k], far), _mm_loadu_si128(block + i + (size_t)k));
    __m128i all = lane[0];
    for (int k = 1; k < LANES; k++)
        all = _mm_xor_si128(FOLD(all, near), lane[k]);
    for (; i < blocks; i++)
        all = _mm_xor_si128(FOLD(all, near), _mm_loadu_si128(block + i));
    _mm_storeu_si128((__m128i *)(void *)left, all);
    return by_table(by_table(0, left, sizeof left), at + 16 * blocks, size - 16 * blocks);
}
#endif

uint64_t clt_crc64_part(const void *data, size_t size)
{
    pthread_once(&once, prepare);
#if defined(__x86_64__)
    if (crc.carryless && size >= 16 * LANES)
        return by_product(data, size);
#endif
    return by_table(0, data, size);
}

uint64_t clt_crc64_step(uint64_t bytes)
{
    uint64_t step = ONE;
    pthread_once(&once, prepare);
    for (int k = 0; bytes; bytes >>= 1, k++)
        if (bytes & 1)
            step = multiply(crc.power[k], step);
    return step;
}

uint64_t clt_crc64_times(uint64_t part, uint64_t step)
{
    return multiply(step, part);
}

uint64_t clt_crc64_move(uint64_t part, uint64_t bytes)
{
    return bytes && part ? multiply(clt_crc64_step(bytes), part) : part;
}

/* The register begins with all bits set, and is inverted at the end. */
uint64_t clt_crc64_whole(uint64_t shares, uint64_t size)
{
    return ~(shares ^ clt_crc64_move(~0ULL, size));
}

uint64_t clt_crc64(const void *data, size_t size)
{
    return clt_crc64_whole(clt_crc64_part(data, size), size);
}
