/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the volumes of a folder. Segmentation: images/NAME.nii.gz with masks/NAME.nii.gz, or
 * imagesTr with labelsTr as in the Medical Segmentation Decathlon. With nnU-Net's names there is a file
 * for each channel (imagesTr/NAME_0000.nii.gz). Classification: CLASS/NAME.nii.gz. A single file is a
 * list of one volume without a target. Only headers are read, so that a long list is quick. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_LIST_H
#define ENGINE_DATA_VOLUMES_VOLUME_LIST_H

#include "engine/data/volumes/volume_file.h"

typedef enum clt_volume_kind {
    CLT_VOLUMES_MASKS,   /* every image has a mask */
    CLT_VOLUMES_CLASSES, /* every image has a class */
    CLT_VOLUMES_PLAIN    /* images without a target */
} clt_volume_kind;

typedef struct clt_volume_entry {
    const char *image, *mask; /* paths; mask NULL: there is none */
    /* number of the image's files: 1, or one for each channel; `image` is the first */
    int files;
    int32_t class_number;
    int64_t channels;
    clt_volume_pose pose, mask_pose; /* poses of image and mask; pose.size is the volume's size */
    bool has_space;                  /* the image is NIfTI */
    clt_nifti_space space;
    bool mask_has_space; /* the mask is NIfTI */
    clt_nifti_space mask_space;
} clt_volume_entry;

typedef struct clt_volume_list {
    clt_volume_kind kind;
    const char *folder;
    clt_volume_entry *entry; /* sorted by class, then by the bytes of their names */
    int64_t count;
    const char **class_names; /* (n_classes) for CLT_VOLUMES_CLASSES */
    int64_t n_classes;
    int64_t bytes;       /* size of all files */
    const char **lonely; /* paths of masks without an image */
    int64_t n_lonely;
    const char *other; /* the first file or folder that is not a volume; NULL: there is none */
    int64_t n_others;
} clt_volume_list;

/* Called for every bad file; the text of the failure is clt_error_text(). */
typedef void (*clt_volume_tell)(void *context, const char *path, clt_status status);

typedef struct clt_volume_list_options {
    const char *path; /* a folder or a single file */
    const char *key;  /* config key that named the path, for messages */
    /* names of the class folders, in the order of the classes; `n_classes` 0: the subfolders of `path` are
     * the classes */
    const char *const *class_names;
    int64_t n_classes;
    const clt_volume_want *want; /* NULL: volumes are not changed */
    bool plain;           /* for prediction: all volumes of the folder and its subfolders, without targets */
    bool skip_bad;        /* bad files are skipped with a warning; else the first one is an error */
    clt_volume_tell tell; /* if not NULL, called for bad files, which are then skipped without a warning */
    void *context;
} clt_volume_list_options;

/* Makes the list; its contents are allocated from the arena. CLT_EDATA: there are no volumes, a header is
 * bad, or a mask is missing or differs in size from its image; the message names folder or file. */
clt_status clt_volume_list_open(clt_arena *arena, const clt_volume_list_options *options,
                                clt_volume_list *out);

/* Calls `each` for every file of an entry: all channels, both files of pairs, and the mask. Stops at the
 * first failure. */
clt_status clt_volume_each_file(const clt_volume_entry *entry,
                                clt_status (*each)(void *context, const char *path), void *context);

/* True if the mask of an entry has another place than its image; `text` then says how, such as "voxels of
 * 2 x 2 x 2 mm instead of 1 x 1 x 1 mm". `turned`: data.orientation turns both, so that axes in another order
 * or direction are no difference. */
bool clt_volume_mask_differs(const clt_volume_entry *entry, bool turned, char *text, size_t room);

/* Warns of volumes with different orientations, of masks with other places than their images, of headers
 * that contradict themselves, and of masks and other files that are ignored. Each warning names a file.
 * `turned`: data.orientation turns all volumes to the same orientation. `advice`: what to do about different
 * orientations. */
void clt_volume_list_warn(const clt_volume_list *list, const char *key, bool turned, const char *advice);

/* The names of those subfolders of a classification folder that hold volumes, in byte order. */
clt_status clt_volume_list_classes(clt_arena *arena, const char *path, const char ***names, int64_t *count);

#endif
