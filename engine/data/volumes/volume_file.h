/* SPDX-License-Identifier: Apache-2.0
 *
 * One volume in a file, NIfTI or .npy, in a pair of files (NAME.hdr, NAME.img), or with a file for each
 * channel as nnU-Net has them (NAME_0000.nii.gz, NAME_0001.nii.gz): its size from the header alone, and
 * its voxels as boxes of f32 or as a mask of class numbers. Sizes are in the order of memory: depth,
 * height, width, of which width varies fastest (the x of NIfTI). It knows nothing of folders, patches and
 * caches. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_FILE_H
#define ENGINE_DATA_VOLUMES_VOLUME_FILE_H

#include "engine/data/volumes/volume_pose.h"

#define CLT_MASK_CLASSES 256 /* classes of a mask, which is delivered as u8 */

typedef struct clt_volume {
    clt_array_file array;    /* one sample, read as f32 */
    struct clt_volume *more; /* files of the other channels; NULL: there are none */
    int n_more;
    char *header_path, *voxels_path; /* owned: of a pair, where they are not the path itself; else NULL */
    char *own_path;                  /* of a file in `more` */
    int64_t channels;                /* 1; or the 4th (and 5th) dimension of NIfTI, the first of 4 in .npy */
    int64_t size[3];                 /* depth, height, width */
    bool is_nifti;
    clt_nifti header;      /* is_nifti */
    clt_nifti_space space; /* is_nifti */
} clt_volume;

/* The length of the path without the ending of such a file (.nii, .hdr, .img, each perhaps with .gz, and
 * .npy, in small or capital letters); 0: it has none of them. */
size_t clt_volume_stem(const char *path);
/* Whether the path ends as the second file of a pair does: .img or .img.gz. */
bool clt_volume_is_voxels(const char *path);
/* Whether it ends as either of the two: also .hdr or .hdr.gz. */
bool clt_volume_is_pair(const char *path);
/* The other file of a pair, if it is there: of NAME.hdr the file NAME.img, of NAME.img the file NAME.hdr,
 * one of them perhaps with .gz. *out NULL: there is none, or the path is not of a pair; else it must be
 * freed. */
clt_status clt_volume_partner(const char *path, char **out);

/* Whether a name of `stem` bytes ends in _0000 or another number of four digits, which becomes *channel. */
bool clt_volume_channel(const char *name, size_t stem, int *channel);
/* The path of another channel's file; must be freed. */
clt_status clt_volume_channel_path(const char *path, int channel, char **out);

/* Reads the headers alone: channels, size and header. Of NIfTI files that are not packed the length is
 * checked, too. files: 1, or the number of channels that have a file each, of which the path names the
 * first one. CLT_EDATA as for nifti.h and .npy files, and for channels of different sizes. Close it even
 * after a failure. */
clt_status clt_volume_look(clt_volume *volume, const char *path, int files);

/* Opens the file or files: mapped, or unpacked in memory. `path` must stay valid. `key` names it in
 * messages. Close it even after a failure. */
clt_status clt_volume_open(clt_volume *volume, const char *path, int files, const char *key);
void clt_volume_close(clt_volume *volume);
/* Bytes of memory that an opened volume takes, because its files were packed. */
uint64_t clt_volume_unpacked(const clt_volume *volume);

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

/* Reads the whole volume as a mask, (size). values: what stands for class 0, 1 ... `classes` - 1 in the
 * file; NULL: the numbers of the classes themselves. A voxel may be off by 0.001 (programs that resample
 * or scale masks write 0.9999). CLT_EDATA, with file and voxel, for other values, and for a volume of
 * several channels. */
clt_status clt_volume_mask(const clt_volume *volume, int64_t classes, const int64_t *values, uint8_t *out);

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
