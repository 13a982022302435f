/* SPDX-License-Identifier: Apache-2.0
 *
 * One volume in a file (NIfTI or .npy), in a pair of files (NAME.hdr, NAME.img), or with a file for each
 * channel as in nnU-Net (NAME_0000.nii.gz, NAME_0001.nii.gz). Reads its size from the header alone, and its
 * voxels as boxes of f32 or as a mask of class numbers. Sizes are in the order of memory: depth, height,
 * width; width (x of NIfTI) varies fastest. It knows nothing of folders, patches and caches. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_FILE_H
#define ENGINE_DATA_VOLUMES_VOLUME_FILE_H

#include "engine/data/volumes/volume_pose.h"

#define CLT_MASK_CLASSES 256 /* limit of classes in a mask, since masks are delivered as u8 */

typedef struct clt_volume {
    clt_array_file array;    /* one sample, read as f32 */
    struct clt_volume *more; /* files of the other channels; NULL: there are none */
    int n_more;
    char *header_path, *voxels_path; /* owned; for a pair, the file that the path does not name; else NULL */
    char *own_path;                  /* owned; the path of a volume in `more` */
    /* NIfTI: the 4th (and 5th) dimension; .npy: the first of 4 dimensions; without these, 1 */
    int64_t channels;
    int64_t size[3]; /* depth, height, width */
    bool is_nifti;
    clt_nifti header;      /* is_nifti */
    clt_nifti_space space; /* is_nifti */
} clt_volume;

/* The length of the path without a volume's ending: .nii, .hdr or .img, also with .gz, or .npy, in lower or
 * upper case. 0: the path has no such ending. */
size_t clt_volume_stem(const char *path);
/* True if the path ends in .img or .img.gz: the voxels of a pair. */
bool clt_volume_is_voxels(const char *path);
/* True if the path names either file of a pair: .hdr, .hdr.gz, .img or .img.gz. */
bool clt_volume_is_pair(const char *path);
/* The other file of a pair: NAME.img for NAME.hdr, NAME.hdr for NAME.img, either also with .gz. *out, to be
 * freed, is NULL if that file does not exist or the path is not of a pair. */
clt_status clt_volume_partner(const char *path, char **out);

/* True if the first `stem` bytes of a name end in "_" and four digits, the number *channel. */
bool clt_volume_channel(const char *name, size_t stem, int *channel);
/* The path of another channel's file; must be freed. */
clt_status clt_volume_channel_path(const char *path, int channel, char **out);

/* Reads only headers: sets channels, size and header, and checks the length of NIfTI files that are not
 * packed. `files`: 1 or, if each channel has a file, the number of channels; then `path` names the first
 * file. CLT_EDATA: as in nifti.h; also if a .npy file is bad, or channels differ in size. Close the volume
 * even after a failure. */
clt_status clt_volume_look(clt_volume *volume, const char *path, int files, const char *key);

/* Opens the files of a volume: they are mapped, or unpacked in memory. `path` must stay valid. `key`: what
 * named the path, for messages. Close the volume even after a failure. */
clt_status clt_volume_open(clt_volume *volume, const char *path, int files, const char *key);
void clt_volume_close(clt_volume *volume);
CLT_SCOPED_VALUE(clt_volume, clt_volume_close)
/* Bytes of memory that an opened volume takes for unpacked files. */
uint64_t clt_volume_unpacked(const clt_volume *volume);

/* Copies the box of size `box` that begins at voxel `at`, which may be outside the volume, to `out`:
 * (channels, box). Voxels outside the volume become `outside`. CLT_EDATA, with file and index, if a voxel is
 * not finite. Several threads may call it at a time. */
clt_status clt_volume_box(const clt_volume *volume, const int64_t at[3], const int64_t box[3], float outside,
                          float *out);

/* The same for voxels in memory, (channels, size). */
void clt_values_box(const float *values, int64_t channels, const int64_t size[3], const int64_t at[3],
                    const int64_t box[3], float outside, float *out);

/* Reads the whole volume and applies the pose. *out, (channels, pose->size), must be freed. */
clt_status clt_volume_posed_values(const clt_volume *volume, const clt_volume_pose *pose, float **out);

/* Reads the whole volume as a mask, (size). `values`: the value in the file for each of the classes 0 ..
 * classes - 1; NULL: the class number itself. A voxel may differ by 0.001, since programs that resample or
 * scale masks write numbers such as 0.9999. Other values are CLT_EDATA, with file and voxel; several
 * channels are CLT_EDATA, too. */
clt_status clt_volume_mask(const clt_volume *volume, int64_t classes, const int64_t *values, uint8_t *out);

/* Reads every voxel. CLT_EDATA: a voxel is not finite. */
clt_status clt_volume_check(const clt_volume *volume);

/* Resamples (channels, from) to (channels, to): trilinear, with the outermost centres half a voxel from the
 * edge, as torch.nn.functional.interpolate(align_corners=False) does. */
void clt_volume_resize(const float *in, int64_t channels, const int64_t from[3], const int64_t to[3],
                       float *out);
/* The same for class numbers: takes the nearest voxel, as mode="nearest-exact" does. */
void clt_volume_resize_mask(const uint8_t *in, const int64_t from[3], const int64_t to[3], uint8_t *out);

/* depth * height * width */
static inline int64_t clt_voxels(const int64_t size[3])
{
    return size[0] * size[1] * size[2];
}

#endif
