/* SPDX-License-Identifier: Apache-2.0
 *
 * Intensity scaling, drawing and mirroring of random patches, and grids of windows. */
#include "engine/data/volumes/volume_patch.h"

#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/data/arrays/source_pair.h"

/* --- intensities --- */

clt_status clt_intensity_read(const clt_config *config, clt_intensity *out)
{
    clt_source numbers = {0};
    CLT_TRY(clt_source_config_scale(&numbers, config));
    double low = clt_config_float(config, "data.window_low"),
           high = clt_config_float(config, "data.window_high");
    *out = (clt_intensity){.window = high > low,
                           .unit = clt_config_bool(config, "data.window_unit"),
                           .low = (float)low,
                           .high = (float)high,
                           .scale = numbers.scale,
                           .mean = numbers.mean,
                           .std = numbers.std};
    return CLT_OK;
}

float clt_intensity_outside(const clt_intensity *i)
{
    return i->window ? i->low : 0.0f;
}

void clt_intensity_apply(const clt_intensity *t, float *values, int64_t count)
{
    float range = t->high - t->low;
    if (t->window)
        for (int64_t i = 0; i < count; i++) {
            float v = values[i] < t->low ? t->low : values[i] > t->high ? t->high : values[i];
            values[i] = t->unit ? (v - t->low) / range : v;
        }
    if (t->scale != 1.0 || t->mean != 0.0 || t->std != 1.0)
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)(((double)values[i] * t->scale - t->mean) / t->std);
}

/* --- foreground --- */

void clt_foreground_count(const uint8_t *mask, const int64_t size[3], uint64_t *before, clt_foreground *out)
{
    uint64_t total = 0;
    int64_t rows = size[0] * size[1];
    for (int64_t r = 0; r < rows; r++) {
        before[r] = total;
        for (int64_t x = 0; x < size[2]; x++)
            total += mask[r * size[2] + x] != 0;
    }
    before[rows] = total;
    *out = (clt_foreground){.mask = mask, .size = {size[0], size[1], size[2]}, .before = before};
}

/* Finds the n-th voxel, counted from 0, that is not background. */
static void find_foreground(const clt_foreground *f, uint64_t n, int64_t at[3])
{
    int64_t low = 0, high = f->size[0] * f->size[1]; /* always before[low] <= n < before[high] */
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (f->before[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    uint64_t left = n - f->before[low];
    const uint8_t *row = f->mask + low * f->size[2];
    int64_t x = 0;
    while (row[x] == 0 || left-- > 0)
        x++;
    at[0] = low / f->size[1];
    at[1] = low % f->size[1];
    at[2] = x;
}

/* --- random patches --- */

/* Indices of the random words of a sample. */
enum {
    WORD_FOREGROUND,
    WORD_VOXEL_LOW,
    WORD_VOXEL_HIGH,
    WORD_AT,
    WORD_FLIP = WORD_AT + 3,
    WORD_SCALE,
    WORD_SHIFT,
    WORDS
};
#define WORD_BLOCKS 3     /* blocks of four words that hold at least WORDS words */
#define STREAM_PATCHES 32 /* a random stream of the purpose CLT_RNG_DATA */

/* An integer from 0 to n - 1 from a random word; 1 <= n < 2^32. */
static int64_t below(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

/* A number between -1 and 1 from a random word. */
static double signed_part(uint32_t word)
{
    return 2.0 * (double)clt_rng_uniform(word) - 1.0;
}

/* An integer from 0 to n - 1 from two random words. */
static uint64_t below_wide(uint32_t low, uint32_t high, uint64_t n)
{
    unsigned __int128 product = (unsigned __int128)((uint64_t)high << 32 | low) * n;
    return (uint64_t)(product >> 64);
}

void clt_patch_draw(const clt_patch_options *o, const int64_t size[3], const clt_foreground *foreground,
                    clt_draw draw, int64_t index, clt_patch *out)
{
    uint32_t word[4 * WORD_BLOCKS];
    int64_t centre[3];
    for (int b = 0; b < WORD_BLOCKS; b++)
        clt_rng_block(draw.seed, CLT_RNG_DATA, STREAM_PATCHES, draw.epoch,
                      (uint64_t)index * WORD_BLOCKS + (uint64_t)b, word + 4 * b);
    uint64_t voxels = foreground ? foreground->before[foreground->size[0] * foreground->size[1]] : 0;
    bool centred = voxels > 0 && (double)clt_rng_uniform(word[WORD_FOREGROUND]) < o->foreground;
    if (centred)
        find_foreground(foreground, below_wide(word[WORD_VOXEL_LOW], word[WORD_VOXEL_HIGH], voxels), centre);
    for (int i = 0; i < 3; i++) {
        int64_t room = size[i] - o->patch[i];
        if (room <= 0)
            out->at[i] = -(-room / 2);
        else if (centred) {
            int64_t at = centre[i] - o->patch[i] / 2;
            out->at[i] = at < 0 ? 0 : at > room ? room : at;
        } else
            out->at[i] = below(word[WORD_AT + i], room + 1);
        out->flip[i] = o->flip[i] && (word[WORD_FLIP] >> (29 + i) & 1);
    }
    out->scale = (float)(1.0 + o->scale * signed_part(word[WORD_SCALE]));
    out->shift = (float)(o->shift * signed_part(word[WORD_SHIFT]));
}

static void swap_runs(char *a, char *b, size_t bytes)
{
    char part[256];
    for (size_t n; bytes > 0; bytes -= n, a += n, b += n) {
        n = bytes < sizeof part ? bytes : sizeof part;
        memcpy(part, a, n);
        memcpy(a, b, n);
        memcpy(b, part, n);
    }
}

void clt_flip(void *values, size_t width, int64_t channels, const int64_t size[3], const bool axes[3])
{
    /* For an axis of size n, sees the array as (outer, n, inner), and swaps runs i and n - 1 - i of `inner`
     * elements. */
    int64_t outer = channels;
    for (int axis = 0; axis < 3; axis++) {
        size_t inner = width;
        for (int k = axis + 1; k < 3; k++)
            inner *= (size_t)size[k];
        char *at = values;
        for (int64_t o = 0; o < outer && axes[axis]; o++, at += inner * (size_t)size[axis])
            for (int64_t i = 0; i < size[axis] / 2; i++)
                swap_runs(at + (size_t)i * inner, at + (size_t)(size[axis] - 1 - i) * inner, inner);
        outer *= size[axis];
    }
}

void clt_patch_vary(const clt_patch *p, float *values, int64_t count)
{
    if (p->scale != 1.0f || p->shift != 0.0f)
        for (int64_t i = 0; i < count; i++)
            values[i] = values[i] * p->scale + p->shift;
}

/* --- windows --- */

clt_status clt_windows_make(const int64_t size[3], const int64_t window[3], double overlap, clt_windows *out)
{
    for (int i = 0; i < 3; i++) {
        int64_t room = size[i] - window[i], step = (int64_t)((double)window[i] * (1.0 - overlap));
        step = step < 1 ? 1 : step;
        out->size[i] = size[i];
        out->window[i] = window[i];
        out->step[i] = step;
        out->count[i] = room <= 0 ? 1 : (room + step - 1) / step + 1;
        if (out->count[i] > CLT_WINDOWS_MOST)
            CLT_FAIL(CLT_EDATA,
                     "covering a volume of %lld x %lld x %lld voxels by windows of %lld x %lld x %lld takes "
                     "more than %d of them along one axis; give larger windows (data.patch) or less "
                     "data.window_overlap",
                     (long long)size[0], (long long)size[1], (long long)size[2], (long long)window[0],
                     (long long)window[1], (long long)window[2], CLT_WINDOWS_MOST);
    }
    return CLT_OK;
}

int64_t clt_windows_count(const clt_windows *w)
{
    return w->count[0] * w->count[1] * w->count[2];
}

void clt_windows_at(const clt_windows *w, int64_t index, int64_t at[3])
{
    int64_t place[3] = {index / (w->count[1] * w->count[2]), index / w->count[2] % w->count[1],
                        index % w->count[2]};
    for (int i = 0; i < 3; i++) {
        int64_t room = w->size[i] - w->window[i], start = place[i] * w->step[i];
        at[i] = room <= 0 ? -(-room / 2) : start > room ? room : start;
    }
}
