/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing a token from logits: temperature, top-k, top-p. A pure function of its arguments. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/train/generate/generate.h"

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The smallest logit that may be drawn: either the k-th largest, or the one at which the probabilities,
 * added from the largest down, reach top_p; whichever is larger. */
static float smallest_kept(const float *logits, int n, const clt_sampling *s, float *sorted)
{
    double sum = 0, total = 0;
    int kept = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    for (int i = 0; i < n; i++)
        sorted[i] = logits[i];
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    for (int i = 0; i < kept; i++)
        total += exp((double)(sorted[i] - sorted[0]) / s->temperature);
    for (int i = 0; i < kept; i++) {
        sum += exp((double)(sorted[i] - sorted[0]) / s->temperature);
        if (sum >= s->top_p * total)
            return sorted[i];
    }
    return sorted[kept - 1];
}

int clt_sample(const float *logits, int n, const clt_sampling *s, uint64_t index, float *scratch)
{
    int best = 0;
    float least = -INFINITY;
    double total = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    if (s->temperature <= 0)
        return best;
    if ((s->top_k > 0 && s->top_k < n) || s->top_p < 1)
        least = smallest_kept(logits, n, s, scratch);
    for (int i = 0; i < n; i++)
        total += logits[i] >= least ? exp((double)(logits[i] - logits[best]) / s->temperature) : 0;
    double u = (double)clt_rng_uniform(clt_rng_u32(s->seed, CLT_RNG_SAMPLE, 0, s->sample, index)) * total;
    for (int i = 0; i < n; i++) {
        if (!(logits[i] >= least))
            continue;
        u -= exp((double)(logits[i] - logits[best]) / s->temperature);
        if (u < 0)
            return i;
    }
    return best;
}
