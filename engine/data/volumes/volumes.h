/* SPDX-License-Identifier: Apache-2.0
 *
 * Volumes for evaluation and prediction: evaluation data with masks is read as windows that cover one
 * volume after the other, and the prediction for a whole volume is assembled from its windows. */
#ifndef ENGINE_DATA_VOLUMES_VOLUMES_H
#define ENGINE_DATA_VOLUMES_VOLUMES_H

#include "engine/data/volumes/volume_patch.h"
#include "engine/data/volumes/volume_pose.h"

/* True if the samples of a source are windows of volumes with masks. Samples are in the order of volumes,
 * and within a volume in the order of clt_windows_at. */
bool clt_volumes_windowed(const clt_source *source);

typedef struct clt_volumes_place {
    int64_t volume;
    int64_t at[3]; /* the first voxel of the window; negative where the volume is smaller */
} clt_volumes_place;
/* The functions below are for sources whose samples are windows. `volume` is an index in the source. */
int64_t clt_volumes_count(const clt_source *source);
clt_volumes_place clt_volumes_window(const clt_source *source, int64_t sample);
void clt_volumes_grid(const clt_source *source, int64_t volume, clt_windows *out);
/* Copies `planes` planes of the mask, from plane `first` on, to out: (planes, height, width). */
clt_status clt_volumes_mask(const clt_source *source, int64_t volume, int64_t first, int64_t planes,
                            uint8_t *out);
/* Number of volumes, counted from the first, whose windows are all among the first `samples` samples; at
 * least 1. */
int64_t clt_volumes_within(const clt_source *source, int64_t samples);
/* Makes a source with the volumes rank, rank + ranks, rank + 2 ranks ... of the first `volumes` volumes. It
 * reads through `source`, which must stay open. It may have no samples. */
clt_status clt_volumes_part(const clt_source *source, int64_t volumes, int rank, int ranks, clt_source **out);

/* data.window_weights: weights of a window's voxels where windows overlap */
typedef enum clt_window_weights { CLT_WEIGHTS_CONSTANT, CLT_WEIGHTS_GAUSSIAN } clt_window_weights;

/* How the windows of a config cover a volume. */
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
