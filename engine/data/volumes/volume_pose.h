/* SPDX-License-Identifier: Apache-2.0
 *
 * Bringing volumes to one orientation and one spacing: axes are exchanged and mirrored, and voxels resampled, so that
 * volumes of different scanners mean the same to a model. It knows sizes and numbers, no files. Sizes are in the order of
 * memory: depth, height, width, which are z, y, x of NIfTI. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_POSE_H
#define ENGINE_DATA_VOLUMES_VOLUME_POSE_H

#include "engine/config/config.h"
#include "engine/data/volumes/nifti_space.h"

/* data.orientation and data.spacing */
typedef struct clt_volume_want {
    char axes[CLT_AXES]; /* as in clt_nifti_space; "": as they are */
    bool spaces;
    double spacing[3]; /* millimetres along depth, height, width; of a volume that is as wanted */
} clt_volume_want;
void clt_volume_want_read(const clt_config *config, clt_volume_want *out);

/* What makes a volume as wanted. */
typedef struct clt_volume_pose {
    bool turns, resamples;
    int64_t file[3];   /* the size in the file */
    int from[3];       /* the axis of the file that becomes axis i */
    bool flip[3];      /* axis i then goes the other way */
    int64_t turned[3]; /* the size after that */
    double step[3];    /* voxels of that between voxels of the result */
    int64_t size[3];   /* of the result: the file's extent, rounded to whole voxels, at least 1 */
} clt_volume_pose;

/* space: NULL: the file tells nothing (.npy). CLT_EDATA, with the path, for a file that does not say what is needed. */
clt_status clt_volume_pose_find(const clt_volume_want *want, const clt_nifti_space *space,
                                const int64_t size[3], const char *path, clt_volume_pose *out);
/* Whether it changes anything. */
static inline bool clt_volume_posed(const clt_volume_pose *pose)
{
    return pose->turns || pose->resamples;
}

/* (channels, file) -> (channels, size): trilinear between the centres of voxels, of which the outer ones lie half a voxel
 * from the edge; beyond them the outer ones continue. Values are not averaged where voxels become larger. */
void clt_volume_pose_image(const clt_volume_pose *pose, const float *in, int64_t channels, float *out);
/* The same for class numbers: the nearest voxel. */
void clt_volume_pose_mask(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out);
/* The way back, for predicted masks: (size) -> (file), the nearest voxel. */
void clt_volume_pose_back(const clt_volume_pose *pose, const uint8_t *in, uint8_t *out);

/* One axis of trilinear resampling: the two of `from` voxels between which voxel i of the result lies, which come `step`
 * voxels apart, and the weight of the second one. */
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
/* Resamples one channel whose voxels lie `stride` elements apart along each axis. */
void clt_volume_sample(const float *in, const int64_t stride[3], const int64_t from[3], const double step[3],
                       const int64_t to[3], float *out);
/* The same for class numbers: the nearest voxel. */
void clt_volume_sample_mask(const uint8_t *in, const int64_t stride[3], const int64_t from[3],
                            const double step[3], const int64_t to[3], uint8_t *out);

#endif
