/* SPDX-License-Identifier: Apache-2.0
 *
 * One volume in a file, NIfTI or .npy: its size from the header alone, and its voxels as boxes of f32 or as a
 * mask of class numbers. Sizes are in the order of memory: depth, height, width, of which width varies fastest
 * (the x of NIfTI). It knows nothing of folders, patches and caches. */
#ifndef ENGINE_DATA_VOLUME_FILE_H
#define ENGINE_DATA_VOLUME_FILE_H

#include "engine/data/volume_pose.h"

#define CLT_MASK_CLASSES 256 /* classes of a mask, which is delivered as u8 */

typedef struct clt_volume {
    clt_array_file array; /* one sample, read as f32 */
    int64_t channels;     /* 1; or the 4th (and 5th) dimension of NIfTI, the first of 4 in .npy */
    int64_t size[3];      /* depth, height, width */
    bool is_nifti;
    clt_nifti header;      /* is_nifti */
    clt_nifti_space space; /* is_nifti */
} clt_volume;

/* The endings of such files, the last one NULL. */
extern const char *const clt_volume_ends[];
/* The length of the path without such an ending; 0: it has none of them. */
size_t clt_volume_stem(const char *path);

/* Reads the header alone: channels, size and header. Of a NIfTI file that is not packed the length is checked,
 * too. CLT_EDATA as for nifti.h and .npy files. */
clt_status clt_volume_look(clt_volume *volume, const char *path);

/* Opens the file: mapped, or unpacked in memory. `path` must stay valid. `key` names it in messages. Close it
 * even after a failure. */
clt_status clt_volume_open(clt_volume *volume, const char *path, const char *key);
void clt_volume_close(clt_volume *volume);

/* Copies the box of size `box` whose first voxel is `at` (which may be outside of the volume) to out,
 * (channels, box); voxels outside of the volume become `outside`. CLT_EDATA for a voxel that is not finite,
 * with file and number. Safe to call from several threads. */
clt_status clt_volume_box(const clt_volume *volume, const int64_t at[3], const int64_t box[3], float outside,
                          float *out);

/* The same from voxels in memory, (channels, size). */
void clt_values_box(const float *values, int64_t channels, const int64_t size[3], const int64_t at[3],
                    const int64_t box[3], float outside, float *out);

/* Reads the whole volume as the pose has it, (channels, pose->size); *out must be freed. */
clt_status clt_volume_posed_values(const clt_volume *volume, const clt_volume_pose *pose, float **out);

/* Reads the whole volume as a mask, (size). CLT_EDATA, with file and voxel, for values that are no whole
 * numbers from 0 to `classes` - 1, and for a volume of several channels. */
clt_status clt_volume_mask(const clt_volume *volume, int64_t classes, uint8_t *out);

/* Reads every voxel: CLT_EDATA for one that is not finite. */
clt_status clt_volume_check(const clt_volume *volume);

/* Resamples (channels, from) to (channels, to): trilinear, with the centres of the outer voxels half a voxel
 * from the edge, as torch.nn.functional.interpolate(align_corners=False) does. */
void clt_volume_resize(const float *in, int64_t channels, const int64_t from[3], const int64_t to[3],
                       float *out);
/* The same for class numbers: the nearest voxel, as mode="nearest-exact". */
void clt_volume_resize_mask(const uint8_t *in, const int64_t from[3], const int64_t to[3], uint8_t *out);

/* depth * height * width */
static inline int64_t clt_voxels(const int64_t size[3])
{
    return size[0] * size[1] * size[2];
}

#endif
