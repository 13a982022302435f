/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads boxes of the images and masks of a list of volumes, through a cache that several threads share. All
 * volumes may be brought to one size. Nothing here is random. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_SET_H
#define ENGINE_DATA_VOLUMES_VOLUME_SET_H

#include "engine/data/volumes/volume_cache.h"
#include "engine/data/volumes/volume_list.h"
#include "engine/data/volumes/volume_patch.h"

/* data.volume_fit: how a volume gets the size data.volume */
typedef enum clt_volume_fit {
    CLT_FIT_CROP,  /* cropped around the centre, or padded along axes where it is smaller */
    CLT_FIT_RESIZE /* resampled: trilinear, masks with the nearest voxel */
} clt_volume_fit;

typedef struct clt_volume_set {
    clt_volume_list list;
    const char *key; /* config key of the folder, for messages */
    bool fits;       /* every volume gets the size `target`; false: it keeps its own */
    clt_volume_fit fit;
    int64_t target[3];
    int64_t channels;
    int64_t mask_classes;       /* number of classes in masks */
    const int64_t *mask_values; /* data.mask_values: the stored value of each class; NULL: its number */
    clt_volume_cache *cache;
} clt_volume_set;

/* Sets mask_classes and mask_values from data.mask_values, else from data.mask_classes, else to the largest
 * number of classes that a mask can have. */
clt_status clt_volume_set_read_masks(clt_volume_set *set, const clt_config *config, clt_arena *arena);
/* To be called when all members but `channels` and `cache` are set. Checks that all volumes have the same
 * number of channels, and makes a cache of `cache_bytes` bytes. */
clt_status clt_volume_set_open(clt_volume_set *set, uint64_t cache_bytes);
void clt_volume_set_close(clt_volume_set *set); /* the set may be empty */

/* The size of volume `index`, after turning, resampling and fitting. */
void clt_volume_set_size(const clt_volume_set *set, int64_t index, int64_t size[3]);
/* Copies a box of the image to `out`, (channels, box), like clt_volume_box. */
clt_status clt_volume_set_image(const clt_volume_set *set, int64_t index, const int64_t at[3],
                                const int64_t box[3], float outside, float *out);
/* The same for the mask, (box); voxels outside of the volume are background, 0. */
clt_status clt_volume_set_mask(const clt_volume_set *set, int64_t index, const int64_t at[3],
                               const int64_t box[3], uint8_t *out);
/* The foreground of a mask, valid until clt_volume_set_release. */
clt_status clt_volume_set_foreground(const clt_volume_set *set, int64_t index, const clt_foreground **out);
void clt_volume_set_release(const clt_volume_set *set, int64_t index);

/* Reads all masks, on several cores, and marks the classes that occur. `skip_bad`: masks that cannot be read
 * are ignored; else they are an error. */
clt_status clt_volume_set_find_classes(const clt_volume_set *set, bool skip_bad,
                                       bool found[CLT_MASK_CLASSES]);

/* Warns, with advice, if a class between 0 and the largest one occurs in no mask, as when the masks hold 0
 * and 255. */
void clt_volume_set_warn_classes(const clt_volume_set *set, const bool found[CLT_MASK_CLASSES]);

/* Reads image and mask of a volume to the end, without the cache, with all checks. *bad: after a failure, the
 * bad file. The classes of the mask are marked in `found`, which may be NULL. */
clt_status clt_volume_set_check(const clt_volume_set *set, int64_t index, bool *found, const char **bad);

/* volume_labels.c: *names gets the class names in the folder's file dataset.json, in the arena. NULL: there
 * is no such file, or its labels are not class numbers, which causes a warning. `seen`: classes that occur
 * in masks. CLT_EDATA: the file is not JSON, or has no label for a class that occurs. */
clt_status clt_volume_set_labels(const clt_volume_set *set, const bool seen[CLT_MASK_CLASSES],
                                 int64_t classes, clt_arena *arena, const char ***names);

#endif
