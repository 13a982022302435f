/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of samples as a pure function: an endless stream of epochs, each a keyed permutation, so that
 * there is nothing to save and nothing to replay when a run resumes. */
#include <math.h>

#include "engine/base/rng.h"
#include "engine/data/data.h"

#define SPLIT_SEED 20170 /* constant, so that all runs divide the data in the same way */

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

int64_t clt_source_sample(const clt_source *source, uint64_t position, uint64_t seed, bool shuffle,
                          clt_draw *draw)
{
    int64_t n = source->samples, group = source->together;
    *draw = clt_sample_draw(position, n, seed);
    if (group <= 1 || n % group != 0)
        return clt_sample_index(position, n, seed, shuffle);
    /* `together` divides n, so that position / together is a position in the stream of groups */
    int64_t inside = (int64_t)(position % (uint64_t)group);
    return clt_sample_index(position / (uint64_t)group, n / group, seed, shuffle) * group + inside;
}

clt_split_part clt_split_choose(const clt_config *config, int64_t rows, bool divided, bool eval)
{
    int64_t kept = divided ? (int64_t)llround(clt_config_float(config, "data.split") * (double)rows) : 0;
    eval = eval && divided;
    return (clt_split_part){eval ? rows - kept : 0, eval ? kept : rows - kept, rows, divided};
}

int64_t clt_split_row(const clt_split_part *part, int64_t sample)
{
    if (!part->divided)
        return part->begin + sample;
    return (int64_t)clt_permute((uint64_t)(part->begin + sample), (uint64_t)part->rows, SPLIT_SEED, 0);
}
