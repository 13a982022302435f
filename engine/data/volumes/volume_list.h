/* SPDX-License-Identifier: Apache-2.0
 *
 * The volumes of a folder. Segmentation: images/NAME.nii.gz with masks/NAME.nii.gz, or imagesTr with
 * labelsTr as the Medical Segmentation Decathlon has them, also with nnU-Net's names:
 * imagesTr/NAME_0000.nii.gz, a file for each channel. Classification: CLASS/NAME.nii.gz. A single file is
 * a list of one volume without a target. Headers alone are read, so that a long list is quick. */
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
    int files;                /* of the image: 1, or one for each channel, of which `image` is the first */
    int32_t class_number;
    int64_t channels;
    clt_volume_pose pose, mask_pose; /* of the files; pose.size is the volume's size */
    bool has_space;                  /* the image is NIfTI */
    clt_nifti_space space;
    bool mask_has_space; /* the mask is NIfTI */
    clt_nifti_space mask_space;
} clt_volume_entry;

typedef struct clt_volume_list {
    clt_volume_kind kind;
    const char *folder;
    clt_volume_entry *entry; /* in byte order of the names; classes one after the other */
    int64_t count;
    const char **class_names; /* CLASSES, in byte order */
    int64_t n_classes;
    int64_t bytes;       /* of all files */
    const char **lonely; /* paths of masks that belong to no image */
    int64_t n_lonely;
    const char *other; /* the first one of the files and folders that are no volumes; NULL: there are none */
    int64_t n_others;
} clt_volume_list;

/* Told about every file that was looked at: status CLT_OK, or why it is bad (the thread's error has the text). */
typedef void (*clt_volume_tell)(void *context, const char *path, clt_status status);

typedef struct clt_volume_list_options {
    const char *path; /* a folder or a single file */
    const char *key;  /* that named it, for messages */
    /* CLASSES: names whose places in this list are the classes; 0: the folder's own subfolders */
    const char *const *class_names;
    int64_t n_classes;
    const clt_volume_want *want; /* NULL: volumes stay as they are */
    bool plain;    /* all volumes of the folder and of the folders in it, without targets: to be predicted */
    bool skip_bad; /* bad files are left out, with a warning for each; else the first one is an error */
    clt_volume_tell tell; /* NULL: nobody is told; else bad files are left out without a warning */
    void *context;
} clt_volume_list_options;

/* Everything that the list holds is allocated from the arena. CLT_EDATA names the folder or file and what is
 * wrong with it: no volumes, a mask that is missing or of another size than its image, a bad header. */
clt_status clt_volume_list_open(clt_arena *arena, const clt_volume_list_options *options,
                                clt_volume_list *out);

/* Calls `each` for every file of an entry: channels, both files of pairs, and the mask. Ends with the
 * first failure. */
clt_status clt_volume_each_file(const clt_volume_entry *entry,
                                clt_status (*each)(void *context, const char *path), void *context);

/* Whether the mask of an entry lies otherwise than its image, and how: text, such as "voxels of 2 x 2 x 2
 * mm instead of 1 x 1 x 1 mm". turned: data.orientation turns both, so that axes that are only mirrored
 * are no difference. */
bool clt_volume_mask_differs(const clt_volume_entry *entry, bool turned, char *text, size_t room);

/* Warns, by name of a file each time, if volumes lie in the body in different ways, if masks lie otherwise
 * than their images, if headers contradict themselves, and of masks and other files that are left out.
 * turned: data.orientation turns all alike. advice: what to do about volumes that lie in different ways. */
void clt_volume_list_warn(const clt_volume_list *list, const char *key, bool turned, const char *advice);

/* The names of the subfolders of a classification folder that hold volumes, in byte order. */
clt_status clt_volume_list_classes(clt_arena *arena, const char *path, const char ***names, int64_t *count);

#endif
