/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of volumes. Training reads random patches, whose position and variation are pure functions of the
 * seed, the epoch and the sample's index. Evaluation and prediction read windows that cover a whole
 * volume. It knows sizes and numbers, but no files. Axes are depth, height, width. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_PATCH_H
#define ENGINE_DATA_VOLUMES_VOLUME_PATCH_H

#include "engine/data/data.h"

/* --- intensities --- */

/* How the value of a voxel is scaled. If there is an intensity window, the value is clipped to `low` ..
 * `high`, and mapped to 0 .. 1 if `unit` is set. The result is (value * scale - mean) / std. */
typedef struct clt_intensity {
    bool window, unit;
    float low, high;
    double scale, mean, std;
} clt_intensity;

/* Reads data.window_low, window_high, window_unit, scale, mean and std; CLT_ECONFIG: as in
 * clt_source_config_scale. */
clt_status clt_intensity_read(const clt_config *config, clt_intensity *out);
void clt_intensity_apply(const clt_intensity *intensity, float *values, int64_t count);
/* The value, before scaling, of voxels outside of a volume: the lower end of the window, or 0. */
float clt_intensity_outside(const clt_intensity *intensity);

/* --- random patches --- */

/* An index of a mask's voxels that are not background, which makes drawing one of them fast. */
typedef struct clt_foreground {
    const uint8_t *mask; /* (size) */
    int64_t size[3];
    /* `before`, (depth * height + 1): for each row, the number of foreground voxels in earlier rows */
    uint64_t *before;
} clt_foreground;

/* Fills `out` and `before`. `before` has room for depth * height + 1 numbers and must stay valid. */
void clt_foreground_count(const uint8_t *mask, const int64_t size[3], uint64_t *before, clt_foreground *out);

typedef struct clt_patch_options {
    int64_t patch[3];
    double foreground; /* probability that a patch is centred on a voxel that is not background */
    bool flip[3];      /* along these axes half of the samples are mirrored */
    double scale;      /* values are multiplied by a random number from 1 - scale to 1 + scale */
    double shift;      /* then a random number from -shift to shift is added */
} clt_patch_options;

typedef struct clt_patch {
    /* the patch's first voxel; negative where the patch is larger than the volume, which is then in its
     * centre */
    int64_t at[3];
    bool flip[3];
    float scale, shift;
} clt_patch;

/* Draws the patch of sample `index` in a volume of size `size`. `foreground` NULL or empty: all positions
 * have the same probability. A patch that would cross the volume's edge is moved inside. */
void clt_patch_draw(const clt_patch_options *options, const int64_t size[3], const clt_foreground *foreground,
                    clt_draw draw, int64_t index, clt_patch *out);

/* Mirrors (channels, size) of elements of 1 or 4 bytes along the axes, in place. */
void clt_flip(void *values, size_t width, int64_t channels, const int64_t size[3], const bool axes[3]);
/* Multiplies and shifts the values by the patch's factor and shift. */
void clt_patch_vary(const clt_patch *patch, float *values, int64_t count);

/* --- windows --- */

#define CLT_WINDOWS_MOST 4096 /* limit of windows along one axis */

/* The fewest windows of one size that cover a volume such that neighbours overlap by at least the fraction
 * `overlap` of their size. The last one along an axis ends at the volume's end. */
typedef struct clt_windows {
    int64_t size[3], window[3];
    int64_t count[3]; /* number of windows along each axis */
    int64_t step[3];
} clt_windows;

/* 0 <= `overlap` < 1. CLT_EDATA: an axis needs more than CLT_WINDOWS_MOST windows. */
clt_status clt_windows_make(const int64_t size[3], const int64_t window[3], double overlap, clt_windows *out);
int64_t clt_windows_count(const clt_windows *windows);
/* Sets `at` to the first voxel of window `index`. Windows are numbered along width first, then height, then
 * depth. */
void clt_windows_at(const clt_windows *windows, int64_t index, int64_t at[3]);

#endif
