/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10, the counter-based generator of Salmon et al. 2011 (Random123), the same on host and device
 * (cl/kernels/common.clh). Streams are keyed, never stateful: (seed, purpose, step, op id, index). */
#ifndef ENGINE_BASE_RNG_H
#define ENGINE_BASE_RNG_H

#include <stdint.h>

#include "engine/base/rng_purpose.clh"

/* clt_philox4x32: ten rounds; counter (4 words), key (2 words) -> out (4 words). */
void clt_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* clt_rng_block: the four words of block `block` of a stream.
 * key = {seed low, seed high}; counter = {block low, block high, step, purpose<<24 | op}. op < 2^24. */
void clt_rng_block(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t block,
                   uint32_t out[4]);
/* Word `index` of a stream: word index%4 of block index/4. */
uint32_t clt_rng_u32(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t index);
/* 24-bit uniform in [0,1): (word >> 8) * 2^-24, exactly what kernels do. */
float clt_rng_uniform(uint32_t word);
/* Standard normals by Box-Muller in double, from words 2k and 2k+1 of the stream, for host-side
 * initialisation. */
double clt_rng_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t index);
/* Writes the same numbers, times `deviation`, for indices [first, last) to out[first] ... out[last-1]. */
void clt_rng_fill_normal(uint64_t seed, clt_rng_purpose purpose, uint32_t op, uint32_t step, uint64_t first,
                         uint64_t last, double deviation, float *out);

/* clt_permute: a keyed bijection on [0, n): position -> index, a pure function (Feistel network with cycle
 * walking). */
uint64_t clt_permute(uint64_t position, uint64_t n, uint64_t seed, uint32_t epoch);

#endif
