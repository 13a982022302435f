/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of samples as a pure function: an endless stream of epochs, each a keyed permutation, so that
 * there is nothing to save and nothing to replay when a run resumes. */
#include "engine/base/rng.h"
#include "engine/data/data.h"

int64_t clt_sample_index(uint64_t position, int64_t n, uint64_t seed, bool shuffle)
{
    if (n <= 1)
        return 0;
    uint64_t epoch = position / (uint64_t)n, inside = position % (uint64_t)n;
    return (int64_t)(shuffle ? clt_permute(inside, (uint64_t)n, seed, (uint32_t)epoch) : inside);
}

clt_draw clt_sample_draw(uint64_t position, int64_t n, uint64_t seed)
{
    return (clt_draw){.seed = seed, .epoch = (uint32_t)(n > 0 ? position / (uint64_t)n : 0)};
}
