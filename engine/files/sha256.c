/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4). The constants are the first 32 bits of the fractional parts of the square
 * (initial state) and cube roots of the first primes. Uses the SHA-256 instructions of x86 processors
 * that have them. */
#include "engine/files/sha256.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define BLOCK 64

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void add_block(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
               p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t sum1 = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25),
                 choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t one = s[7] + sum1 + choice + constants[i] + w[i];
        uint32_t sum0 = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        uint32_t two = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

#if defined(__x86_64__)

/* Computes the next four words of the message schedule from the sixteen words before them, which `w` holds
 * in order. */
__attribute__((target("sha,sse4.1"))) static __m128i next_words(const __m128i w[4])
{
    __m128i sum = _mm_sha256msg1_epu32(w[0], w[1]);
    sum = _mm_add_epi32(sum, _mm_alignr_epi8(w[3], w[2], 4));
    return _mm_sha256msg2_epu32(sum, w[3]);
}

/* The instructions keep the state as the words A, B, E, F and the words C, D, G, H; F and H are in the
 * lowest places. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_sha(uint32_t state[8], const uint8_t *p,
                                                                 size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i ab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i ef = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(ab, ef, 8), cdgh = _mm_blend_epi16(ef, ab, 0xf0);
    for (; blocks; blocks--, p += BLOCK) {
        __m128i w[4], before_abef = abef, before_cdgh = cdgh;
        for (int i = 0; i < 16; i++) {
            __m128i next =
                i < 4 ? _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap) : next_words(w);
            if (i >= 4) {
                w[0] = w[1];
                w[1] = w[2];
                w[2] = w[3];
            }
            w[i < 4 ? i : 3] = next;
            __m128i sum = _mm_add_epi32(next, _mm_loadu_si128((const __m128i *)constants + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, before_abef);
        cdgh = _mm_add_epi32(cdgh, before_cdgh);
    }
    ab = _mm_shuffle_epi32(abef, 0x1b);
    ef = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(ab, ef, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(ef, ab, 8));
}

/* True if the processor has the instructions: CPUID leaf 7, EBX bit 29, which __builtin_cpu_supports does not
 * know in older compilers. */
static bool has_sha(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __builtin_cpu_supports("sse4.1");
}

static void add_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    static atomic_int known; /* 0: not yet known, 1: no, 2: yes */
    if (!atomic_load_explicit(&known, memory_order_relaxed))
        atomic_store_explicit(&known, has_sha() ? 2 : 1, memory_order_relaxed);
    if (atomic_load_explicit(&known, memory_order_relaxed) == 2)
        add_blocks_sha(state, p, blocks);
    else
        for (; blocks; blocks--, p += BLOCK)
            add_block(state, p);
}

#else

static void add_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    for (; blocks; blocks--, p += BLOCK)
        add_block(state, p);
}

#endif

void clt_sha256_begin(clt_sha256 *sum)
{
    *sum = (clt_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                  0x1f83d9ab, 0x5be0cd19}};
}

void clt_sha256_add(clt_sha256 *sum, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t held = sum->total % BLOCK;
    sum->total += size;
    if (held) {
        size_t taken = size < BLOCK - held ? size : BLOCK - held;
        if (taken)
            memcpy(sum->block + held, p, taken);
        if (held + taken < BLOCK)
            return;
        add_blocks(sum->state, sum->block, 1);
        p += taken;
        size -= taken;
    }
    add_blocks(sum->state, p, size / BLOCK);
    if (size % BLOCK)
        memcpy(sum->block, p + (size - size % BLOCK), size % BLOCK);
}

void clt_sha256_end(clt_sha256 *sum, uint8_t out[CLT_SHA256_SIZE])
{
    uint8_t end[2 * BLOCK] = {0};
    size_t held = sum->total % BLOCK, last = held < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    memcpy(end, sum->block, held);
    end[held] = 0x80;
    for (int i = 0; i < 8; i++)
        end[last - 1 - (size_t)i] = (uint8_t)(sum->total * 8 >> 8 * i);
    add_blocks(sum->state, end, last / BLOCK);
    for (int i = 0; i < CLT_SHA256_SIZE; i++)
        out[i] = (uint8_t)(sum->state[i / 4] >> (24 - 8 * (i % 4)));
}

const char *clt_sha256_hex(const uint8_t sum[CLT_SHA256_SIZE], char text[CLT_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 2 * CLT_SHA256_SIZE; i++)
        text[i] = digits[sum[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[2 * CLT_SHA256_SIZE] = '\0';
    return text;
}

const char *clt_sha256_text(const void *data, size_t size, char text[CLT_SHA256_TEXT])
{
    clt_sha256 sum;
    uint8_t bytes[CLT_SHA256_SIZE];
    clt_sha256_begin(&sum);
    clt_sha256_add(&sum, data, size);
    clt_sha256_end(&sum, bytes);
    return clt_sha256_hex(bytes, text);
}

void clt_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                     uint8_t out[CLT_SHA256_SIZE])
{
    uint8_t inner[BLOCK] = {0}, outer[BLOCK];
    clt_sha256 sum;
    clt_sha256_begin(&sum);
    if (key_size > BLOCK) {
        clt_sha256_add(&sum, key, key_size);
        clt_sha256_end(&sum, inner);
        clt_sha256_begin(&sum);
    } else if (key_size) {
        memcpy(inner, key, key_size);
    }
    for (int i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    clt_sha256_add(&sum, inner, BLOCK);
    clt_sha256_add(&sum, data, size);
    clt_sha256_end(&sum, out);
    clt_sha256_begin(&sum);
    clt_sha256_add(&sum, outer, BLOCK);
    clt_sha256_add(&sum, out, CLT_SHA256_SIZE);
    clt_sha256_end(&sum, out);
}
