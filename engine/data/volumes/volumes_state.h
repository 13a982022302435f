/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a source of volumes, for source_nifti.c, nifti_config.c and volume_windows.c alone. */
#ifndef ENGINE_DATA_VOLUMES_VOLUMES_STATE_H
#define ENGINE_DATA_VOLUMES_VOLUMES_STATE_H

#include <stdatomic.h>

#include "engine/data/volumes/volume_set.h"
#include "engine/data/volumes/volumes.h"

extern const clt_source_type clt_source_nifti;
extern const clt_config_part clt_format_nifti; /* in nifti_config.c */

typedef struct clt_volumes_state {
    clt_volume_set *set;
    bool borrows;    /* the set belongs to another source */
    int64_t *volume; /* the volumes of this split, by their numbers in the set */
    int64_t count;
    bool training;      /* random patches and augmentation */
    bool tells;         /* no other split warns of the same files */
    int64_t box[3];     /* size of a sample */
    bool patches;       /* smaller than the volumes, perhaps */
    int64_t per_volume; /* training: patches of a volume in an epoch */
    clt_patch_options patch;
    clt_intensity intensity;
    bool windows; /* samples are windows */
    double overlap;
    int64_t *first_window;       /* by volume, and the number of all */
    bool seen[CLT_MASK_CLASSES]; /* classes in the masks, where they were read */
    bool skip_bad;
    atomic_uchar *warned; /* by volume of the set: it was reported as bad */
} clt_volumes_state;

/* Numbers the windows of all volumes: sets first_window, and the number of the source's samples. */
clt_status clt_volumes_number(clt_source *source, clt_volumes_state *s);
/* The place of a window among the volumes of the source: the last one that begins with it or before it. */
int64_t clt_volumes_place_of(const clt_volumes_state *s, int64_t sample);

#endif
