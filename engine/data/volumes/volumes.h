/* SPDX-License-Identifier: Apache-2.0
 *
 * What evaluation and prediction need of volumes beyond samples: evaluation data with masks is read as windows that
 * cover each volume in turn, and a prediction of a whole volume is put together from them. */
#ifndef ENGINE_DATA_VOLUMES_VOLUMES_H
#define ENGINE_DATA_VOLUMES_VOLUMES_H

#include "engine/data/volumes/volume_patch.h"
#include "engine/data/volumes/volume_pose.h"

/* Whether the samples of a source are windows of volumes with masks, in order: those of a volume follow each other,
 * by depth first. */
bool clt_volumes_windowed(const clt_source *source);

typedef struct clt_volumes_place {
    int64_t volume;
    int64_t at[3]; /* the first voxel of the window; negative where the volume is smaller */
} clt_volumes_place;
/* Of a source whose samples are windows: */
int64_t clt_volumes_count(const clt_source *source);
clt_volumes_place clt_volumes_window(const clt_source *source, int64_t sample);
void clt_volumes_grid(const clt_source *source, int64_t volume, clt_windows *out);
/* Planes of the mask, from plane `first` on, (planes, height, width). */
clt_status clt_volumes_mask(const clt_source *source, int64_t volume, int64_t first, int64_t planes,
                            uint8_t *out);
/* How many of its volumes, from the first on, have all their windows among the first `samples` samples; at least
 * one. */
int64_t clt_volumes_within(const clt_source *source, int64_t samples);
/* A source with every `ranks`-th of the first `volumes` volumes, from number `rank` on, that reads from `source`,
 * which must stay open. It may have no samples. */
clt_status clt_volumes_part(const clt_source *source, int64_t volumes, int rank, int ranks, clt_source **out);

/* data.window_weights: how much the voxels of a window count where windows overlap */
typedef enum clt_window_weights { CLT_WEIGHTS_CONSTANT, CLT_WEIGHTS_GAUSSIAN } clt_window_weights;

/* How a config wants a volume to be covered by windows. */
typedef struct clt_volumes_cover {
    bool known;   /* the data of the config is volumes */
    bool resized; /* volumes are resampled before the model sees them */
    double overlap;
    clt_window_weights weights;
    clt_intensity intensity;
    clt_volume_want want;
} clt_volumes_cover;
clt_status clt_volumes_cover_read(const clt_config *config, clt_volumes_cover *out);

#endif
