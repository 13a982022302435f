/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10 on the host, the streams made from it, and the keyed shuffle. Pure functions: nothing to
 * seed, save or restore. Knows nothing of parameters or data sets. */
#include "engine/base/rng.h"

#include <math.h>
#include <string.h>

static void philox_round(uint32_t c[4], uint32_t key0, uint32_t key1)
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
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
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

static double normal_of(const uint32_t pair[2])
{
    const double two_pi = 6.283185307179586;
    /* (0, 1], so that the logarithm is finite. */
    double radius = ((double)pair[0] + 1.0) * 0x1p-32;
    double angle = (double)pair[1] * 0x1p-32;
    return sqrt(-2.0 * log(radius)) * cos(two_pi * angle);
}

double clt_rng_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t index)
{
    uint32_t out[4];
    clt_rng_block(seed, purpose, op, step, index / 2, out);
    return normal_of(out + 2 * (index % 2));
}

void clt_rng_fill_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t first,
                         uint64_t last, double deviation, float *out)
{
    uint32_t words[4];
    for (uint64_t i = first; i < last; i++) {
        if (i == first || i % 2 == 0)
            clt_rng_block(seed, purpose, op, step, i / 2, words);
        out[i] = (float)(deviation * normal_of(words + 2 * (i % 2)));
    }
}

/* Below 6 bits a Feistel network has too few functions to choose from to look shuffled. */
#define FEISTEL_MIN_BITS 6
#define FEISTEL_ROUNDS 8

static uint32_t feistel_function(uint32_t half, int round, uint64_t seed, uint32_t epoch)
{
    /* Block numbers of a stream are 64 bits with the round in the upper half: apart from every other use of
     * ORDER that numbers its blocks from 0, because rounds begin at 1. */
    uint32_t out[4];
    clt_rng_block(seed, CLT_RNG_ORDER, 0, epoch, (uint64_t)(round + 1) << 32 | half, out);
    return out[0];
}

/* One pass over `bits` bits: two parts that differ by at most one bit, each xor-ed in turn with a function of
 * the other. */
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
    /* Follow the cycle until it is back below n: it must come back, because it began there. */
    uint64_t x = position % n;
    do {
        x = feistel(x, bits, seed, epoch);
    } while (x >= n);
    return x;
}
