/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10 on the host, the streams made from it, and the keyed shuffle. Pure functions: nothing to
 * seed, save or restore. Knows nothing of parameters or data sets. */
#include "engine/base/rng.h"

#include <math.h>
#include <string.h>

/* Inlined into functions that are compiled for several instruction sets. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

#define PHILOX_KEY0 0x9E3779B9u
#define PHILOX_KEY1 0xBB67AE85u

static ALWAYS_INLINE void philox_round(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t product1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c0 = (uint32_t)(product1 >> 32) ^ c[1] ^ key0;
    uint32_t c2 = (uint32_t)(product0 >> 32) ^ c[3] ^ key1;
    c[1] = (uint32_t)product1;
    c[3] = (uint32_t)product0;
    c[0] = c0;
    c[2] = c2;
}

void clt_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], key0 = key[0], key1 = key[1];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        philox_round(c, key0, key1);
        key0 += PHILOX_KEY0;
        key1 += PHILOX_KEY1;
    }
    memcpy(out, c, sizeof c);
}

void clt_rng_block(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t block,
                   uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), step,
                           (uint32_t)purpose << 24 | (op & 0xffffffu)};
    clt_philox4x32(counter, key, out);
}

uint32_t clt_rng_u32(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t index)
{
    uint32_t out[4];
    clt_rng_block(seed, purpose, op, step, index / 4, out);
    return out[index % 4];
}

float clt_rng_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Box-Muller with our own series for logarithm and cosine, since the C library's functions differ between
 * versions and take 30 ns for one normal. The code has no branches, so that compilers vectorise it, and the
 * build's flags forbid contraction to fused multiply-adds, so that the bits are the same everywhere. */

static ALWAYS_INLINE double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static ALWAYS_INLINE uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Converts an integer of at most 51 bits to double by adding 1.5 * 2^52, since vector units (AVX2) cannot
 * convert 64-bit integers. */
static ALWAYS_INLINE double from_integer(int64_t value)
{
    return as_double(UINT64_C(0x4338000000000000) + (uint64_t)value) - 0x1.8p52;
}

/* log(u) for u = (word + 1) * 2^-32. With u = m * 2^e and m between sqrt(1/2) and sqrt(2): log(u) = e log(2)
 * + 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172. */
static ALWAYS_INLINE double log_of(uint64_t word)
{
    const uint64_t root = UINT64_C(0x3fe6a09e667f3bcd); /* bits of sqrt(1/2) */
    uint64_t bits = as_bits(from_integer((int64_t)(word + 1)) * 0x1p-32);
    /* exponents of u are 0 to -32; adding 64 keeps the difference above 0 */
    uint64_t above = (bits + (UINT64_C(64) << 52) - root) >> 52;
    double e = from_integer((int64_t)above) - 64.0;
    double m = as_double(bits + (UINT64_C(64) << 52) - (above << 52));
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double sum = 1.0 / 23.0;
    sum = 1.0 / 21.0 + z * sum;
    sum = 1.0 / 19.0 + z * sum;
    sum = 1.0 / 17.0 + z * sum;
    sum = 1.0 / 15.0 + z * sum;
    sum = 1.0 / 13.0 + z * sum;
    sum = 1.0 / 11.0 + z * sum;
    sum = 1.0 / 9.0 + z * sum;
    sum = 1.0 / 7.0 + z * sum;
    sum = 1.0 / 5.0 + z * sum;
    sum = 1.0 / 3.0 + z * sum;
    /* log(2) is split into two parts; e times the first one is exact */
    return e * 0x1.62e42fefap-1 + (2.0 * s + (2.0 * s * z * sum + e * 0x1.cf79abc9e3b39p-40));
}

/* cos(2 pi * word * 2^-32). The distance of the angle from the nearest quarter turn is an exact integer. */
static ALWAYS_INLINE double cos_of(uint64_t word)
{
    uint64_t quarter = (word + (UINT64_C(1) << 29)) >> 30; /* 0 to 4 */
    double x = from_integer((int64_t)(word - (quarter << 30))) * (6.283185307179586 * 0x1p-32), z = x * x;
    double c = 1.0 / 6402373705728000.0, s = 1.0 / 355687428096000.0;
    c = 1.0 / 20922789888000.0 - z * c;
    c = 1.0 / 87178291200.0 - z * c;
    c = 1.0 / 479001600.0 - z * c;
    c = 1.0 / 3628800.0 - z * c;
    c = 1.0 / 40320.0 - z * c;
    c = 1.0 / 720.0 - z * c;
    c = 1.0 / 24.0 - z * c;
    c = 1.0 / 2.0 - z * c;
    c = 1.0 - z * c;
    s = 1.0 / 1307674368000.0 - z * s;
    s = 1.0 / 6227020800.0 - z * s;
    s = 1.0 / 39916800.0 - z * s;
    s = 1.0 / 362880.0 - z * s;
    s = 1.0 / 5040.0 - z * s;
    s = 1.0 / 120.0 - z * s;
    s = 1.0 / 6.0 - z * s;
    s = x - x * (z * s);
    /* the result for quarter 0 to 4: c, -s, -c, s, c */
    uint64_t odd = 0 - (quarter & 1), sign = ((quarter + 1) & 2) << 62;
    return as_double(((as_bits(s) & odd) | (as_bits(c) & ~odd)) ^ sign);
}

static ALWAYS_INLINE double normal_of(uint32_t radius, uint32_t angle)
{
    return sqrt(-2.0 * log_of(radius)) * cos_of(angle);
}

double clt_rng_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t index)
{
    uint32_t out[4];
    clt_rng_block(seed, purpose, op, step, index / 2, out);
    return normal_of(out[2 * (index % 2)], out[2 * (index % 2) + 1]);
}

/* One call makes the normals of this many Philox blocks, in loops that the compiler vectorises. */
enum { NORMAL_BLOCKS = 64 };

typedef struct normal_stream {
    uint32_t key[2], counter[2]; /* key and upper half of the counter, as in clt_rng_block */
    double deviation;
} normal_stream;

/* Computes all normals of NORMAL_BLOCKS blocks, from `block` on. */
static ALWAYS_INLINE void normals_of(const normal_stream *stream, uint64_t block, float *out)
{
    uint32_t word[4][NORMAL_BLOCKS];
    for (int b = 0; b < NORMAL_BLOCKS; b++) {
        uint64_t at = block + (uint64_t)b;
        uint32_t c[4] = {(uint32_t)at, (uint32_t)(at >> 32), stream->counter[0], stream->counter[1]};
        uint32_t key0 = stream->key[0], key1 = stream->key[1];
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            philox_round(c, key0, key1);
            key0 += PHILOX_KEY0;
            key1 += PHILOX_KEY1;
        }
        word[0][b] = c[0];
        word[1][b] = c[1];
        word[2][b] = c[2];
        word[3][b] = c[3];
    }
    float pair[2][NORMAL_BLOCKS];
    for (int b = 0; b < NORMAL_BLOCKS; b++)
        pair[0][b] = (float)(stream->deviation * normal_of(word[0][b], word[1][b]));
    for (int b = 0; b < NORMAL_BLOCKS; b++)
        pair[1][b] = (float)(stream->deviation * normal_of(word[2][b], word[3][b]));
    for (int b = 0; b < NORMAL_BLOCKS; b++) {
        out[2 * b] = pair[0][b];
        out[2 * b + 1] = pair[1][b];
    }
}

static void normals_any(const normal_stream *stream, uint64_t block, float *out)
{
    normals_of(stream, block, out);
}

/* By default GCC prefers vectors of 256 bits; other compilers do not know the option. */
#if defined __clang__ || !defined __GNUC__ || __GNUC__ < 8
#define AVX512 "avx512f,avx512dq,avx512vl"
#else
#define AVX512 "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif

/* The same function for wider vectors. It does not fuse multiplication and addition either, so the bits are
 * the same. */
#if defined __x86_64__ && defined __GNUC__
__attribute__((target("avx2"))) static void normals_avx2(const normal_stream *stream, uint64_t block,
                                                         float *out)
{
    normals_of(stream, block, out);
}

__attribute__((target(AVX512))) static void normals_avx512(const normal_stream *stream, uint64_t block,
                                                           float *out)
{
    normals_of(stream, block, out);
}
#endif

typedef void (*normals_fn)(const normal_stream *stream, uint64_t block, float *out);

static normals_fn choose_normals(void)
{
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return normals_avx512;
    if (__builtin_cpu_supports("avx2"))
        return normals_avx2;
#endif
    return normals_any;
}

void clt_rng_fill_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t first,
                         uint64_t last, double deviation, float *out)
{
    normal_stream stream = {{(uint32_t)seed, (uint32_t)(seed >> 32)},
                            {step, (uint32_t)purpose << 24 | (op & 0xffffffu)},
                            deviation};
    normals_fn make = choose_normals();
    float piece[2 * NORMAL_BLOCKS];
    for (uint64_t i = first; i < last;) {
        uint64_t skip = i % 2, n = last - i;
        n = n < 2 * NORMAL_BLOCKS - skip ? n : 2 * NORMAL_BLOCKS - skip;
        make(&stream, i / 2, piece);
        memcpy(out + i, piece + skip, n * sizeof *out);
        i += n;
    }
}

/* With fewer than 6 bits a Feistel network has too few possible round functions for a good shuffle. */
#define FEISTEL_MIN_BITS 6
#define FEISTEL_ROUNDS 8

static uint32_t feistel_function(uint32_t half, int round, uint64_t seed, uint32_t epoch)
{
    /* The upper half of the 64-bit block number is the round, counted from 1. So other uses of CLT_RNG_ORDER
     * never have the same blocks: they number their blocks from 0. */
    uint32_t out[4];
    clt_rng_block(seed, CLT_RNG_ORDER, 0, epoch, (uint64_t)(round + 1) << 32 | half, out);
    return out[0];
}

/* A Feistel network on numbers of `bits` bits. The two halves of a number, whose sizes differ by at most one
 * bit, are changed in turn; each is xor-ed with a function of the other. */
static uint64_t feistel(uint64_t x, int bits, uint64_t seed, uint32_t epoch)
{
    int low_bits = bits / 2, high_bits = bits - low_bits;
    uint32_t low_mask = (uint32_t)((1ull << low_bits) - 1);
    uint32_t high_mask = (uint32_t)((1ull << high_bits) - 1);
    uint32_t low = (uint32_t)x & low_mask, high = (uint32_t)(x >> low_bits) & high_mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round += 2) {
        low ^= feistel_function(high, round, seed, epoch) & low_mask;
        high ^= feistel_function(low, round + 1, seed, epoch) & high_mask;
    }
    return (uint64_t)high << low_bits | low;
}

uint64_t clt_permute(uint64_t position, uint64_t n, uint64_t seed, uint32_t epoch)
{
    if (n <= 1)
        return 0;
    int bits = 64 - __builtin_clzll(n - 1);
    if (bits < FEISTEL_MIN_BITS)
        bits = FEISTEL_MIN_BITS;
    /* Cycle walking: apply the network until the result is below n. That ends, because x began below n and
     * the network is a bijection. */
    uint64_t x = position % n;
    do {
        x = feistel(x, bits, seed, epoch);
    } while (x >= n);
    return x;
}
