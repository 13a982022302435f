/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a source of volumes, which only source_nifti.c, nifti_config.c and volume_windows.c use. */
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
    int64_t *volume; /* (count) the index in the set of each volume of this split */
    int64_t count;
    bool training;      /* patches are random, and samples are augmented */
    bool tells;         /* warn of files; false: another split warns of the same files */
    int64_t box[3];     /* size of a sample */
    bool patches;       /* samples are patches (data.patch), not whole volumes */
    int64_t per_volume; /* number of patches of a volume in an epoch */
    clt_patch_options patch;
    clt_intensity intensity;
    bool windows; /* samples are windows that cover the volumes */
    double overlap;
    int64_t *first_window;       /* (count + 1) each volume's first sample, then the number of samples */
    bool seen[CLT_MASK_CLASSES]; /* classes that masks have or, if they were not read, may have */
    bool skip_bad;
    atomic_uchar *warned; /* for each volume of the set: it was reported as bad */
} clt_volumes_state;

/* Numbers the windows of all volumes: sets first_window and source->samples. */
clt_status clt_volumes_number(clt_source *source, clt_volumes_state *s);
/* The index in `volume` of the volume that contains window `sample`. */
int64_t clt_volumes_place_of(const clt_volumes_state *s, int64_t sample);

#endif
