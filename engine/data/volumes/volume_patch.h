/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of volumes: where random patches of training lie and how they are varied, as pure functions of seed, epoch
 * and number of the sample; and the windows that cover a whole volume, for evaluation and prediction. It knows
 * sizes and numbers, no files. Axes are depth, height, width. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_PATCH_H
#define ENGINE_DATA_VOLUMES_VOLUME_PATCH_H

#include "engine/data/data.h"

/* --- intensities --- */

/* What becomes of a voxel's value: it is clipped to the window, if there is one, and with `unit` scaled so that
 * the window becomes 0 to 1; then (value * scale - mean) / std. */
typedef struct clt_intensity {
    bool window, unit;
    float low, high;
    double scale, mean, std;
} clt_intensity;

/* From data.window_low, window_high, window_unit, scale, mean and std; CLT_ECONFIG as for
 * clt_source_config_scale. */
clt_status clt_intensity_read(const clt_config *config, clt_intensity *out);
void clt_intensity_apply(const clt_intensity *intensity, float *values, int64_t count);
/* The value, before this, of voxels outside of a volume: the lower end of the window, or 0. */
float clt_intensity_outside(const clt_intensity *intensity);

/* --- random patches --- */

/* The voxels of a mask that are not background, of which one can be drawn. */
typedef struct clt_foreground {
    const uint8_t *mask; /* (size) */
    int64_t size[3];
    uint64_t
        *before; /* by row (depth, height), depth * height + 1 of them: how many there are in earlier rows */
} clt_foreground;

/* before: memory of depth * height + 1 numbers. */
void clt_foreground_count(const uint8_t *mask, const int64_t size[3], uint64_t *before, clt_foreground *out);

typedef struct clt_patch_options {
    int64_t patch[3];
    double foreground; /* probability that a patch is centred on a voxel that is not background */
    bool flip[3];      /* axes along which half of the samples are mirrored */
    double scale;      /* values are multiplied by 1 - scale to 1 + scale */
    double shift;      /* and then -shift to shift is added to them */
} clt_patch_options;

typedef struct clt_patch {
    int64_t at[3]; /* its first voxel; negative where the volume is smaller than the patch: it lies centred */
    bool flip[3];
    float scale, shift;
} clt_patch;

/* The patch of sample `index`. foreground NULL, or without any voxel: everywhere with the same probability. A
 * patch around a voxel near the edge is moved into the volume. */
void clt_patch_draw(const clt_patch_options *options, const int64_t size[3], const clt_foreground *foreground,
                    clt_draw draw, int64_t index, clt_patch *out);

/* Mirrors (channels, size) of elements of 1 or 4 bytes along the axes, in place. */
void clt_flip(void *values, size_t width, int64_t channels, const int64_t size[3], const bool axes[3]);
void clt_patch_vary(const clt_patch *patch, float *values, int64_t count);

/* --- windows --- */

#define CLT_WINDOWS_MOST 4096 /* along one axis */

/* Windows of one size that cover a volume, neighbours overlapping by at least `overlap` of the size, as few as
 * possible; the last one along an axis ends at the volume's end. */
typedef struct clt_windows {
    int64_t size[3], window[3];
    int64_t count[3]; /* along each axis */
    int64_t step[3];
} clt_windows;

/* overlap: 0 to below 1. CLT_EDATA if there were more than CLT_WINDOWS_MOST along an axis. */
clt_status clt_windows_make(const int64_t size[3], const int64_t window[3], double overlap, clt_windows *out);
int64_t clt_windows_count(const clt_windows *windows);
/* The first voxel of window `index`; the windows go along width first, then height, then depth. */
void clt_windows_at(const clt_windows *windows, int64_t index, int64_t at[3]);

#endif
