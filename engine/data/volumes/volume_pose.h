/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings volumes to one orientation and spacing, so that volumes of different scanners look alike to a model:
 * axes are exchanged and mirrored, and voxels are resampled. It knows sizes and numbers, but no files. Sizes
 * are in the order of memory: depth, height, width, which are z, y, x of NIfTI. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_POSE_H
#define ENGINE_DATA_VOLUMES_VOLUME_POSE_H

#include "engine/config/config.h"
#include "engine/data/volumes/nifti_space.h"

/* The wanted orientation and spacing: data.orientation and data.spacing. */
typedef struct clt_volume_want {
    char axes[CLT_AXES]; /* as in clt_nifti_space; "": keep the file's orientation */
    bool spaces;         /* volumes are resampled to `spacing` */
    double spacing[3];   /* millimetres along depth, height, width, after turning */
} clt_volume_want;
void clt_volume_want_read(const clt_config *config, clt_volume_want *out);

/* How a volume is turned, then resampled. */
typedef struct clt_volume_pose {
    bool turns, resamples;
    int64_t file[3];   /* the size in the file */
    int from[3];       /* the axis of the file that becomes axis i of the turned volume */
    bool flip[3];      /* axis i is mirrored */
    int64_t turned[3]; /* the size after turning */
    double step[3];    /* distance of two voxels of the result, in turned voxels */
    int64_t size[3];   /* size of the result: the same extent, rounded to whole voxels, at least 1 */
} clt_volume_pose;

/* Finds the pose of a volume of size `size`. `space` NULL: the file has no facts about its space (.npy).
 * CLT_EDATA, with the path, if the file lacks a fact that `want` needs. */
clt_status clt_volume_pose_find(const clt_volume_want *want, const clt_nifti_space *space,
                                const int64_t size[3], const char *path, clt_volume_pose *out);
/* True if the pose changes the volume. */
static inline bool clt_volume_posed(const clt_volume_pose *pose)
{
    return pose->turns || pose->resamples;
}

/* Turns and resamples an image, (channels, file) -> (channels, size): trilinear between the centres of
 * voxels. The outermost centres are half a voxel from the edge, and their values extend to the edge. Also
 * where the result's voxels are larger, values are interpolated, not averaged. */
void clt_volume_pose_image(const clt_volume_pose *pose, const float *in, int64_t channels, float *out);
/* The same for class numbers, which are taken from the nearest voxel. */
void clt_volume_pose_mask(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out);
/* The inverse for predicted masks, (size) -> (file): takes the nearest voxel. */
void clt_volume_pose_back(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out);

/* One axis of trilinear resampling: the source voxels `low` and `high` on the two sides of the result's
 * voxel i, and the weight `part` of `high`. `from`: number of source voxels. `step`: distance of two voxels
 * of the result, in source voxels. */
typedef struct clt_between {
    int64_t low, high;
    float part;
} clt_between;
static inline clt_between clt_find_between(int64_t i, double step, int64_t from)
{
    double at = ((double)i + 0.5) * step - 0.5;
    at = at < 0 ? 0 : at;
    int64_t low = (int64_t)at;
    low = low > from - 1 ? from - 1 : low;
    return (clt_between){low, low + 1 < from ? low + 1 : low, (float)(at - (double)low)};
}
/* Resamples one channel from size `from` to `to`; `stride`: number of elements between source voxels along
 * each axis. */
void clt_volume_sample(const float *in, const int64_t stride[3], const int64_t from[3], const double step[3],
                       const int64_t to[3], float *out);
/* The same for class numbers, which are taken from the nearest voxel. */
void clt_volume_sample_mask(const uint8_t *in, const int64_t stride[3], const int64_t from[3],
                            const double step[3], const int64_t to[3], uint8_t *out);

#endif
