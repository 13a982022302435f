/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding windows: puts the class map of a whole volume together from predictions of windows that overlap, plane by
 * plane and in bounded memory; and Dice of such maps. Knows logits and sizes, no devices, data or files.
 *
 * Where windows overlap, their logits are averaged with weights (as MONAI's sliding_window_inference does), and a
 * voxel's class is that of the largest mean. Windows come by depth first, so that a plane is complete as soon as a
 * window begins behind it: sums are kept for as many planes as a window has, which takes
 * 4 * classes * depth of a window * height * width bytes, however deep the volume is. */
#ifndef ENGINE_TRAIN_SLIDING_H
#define ENGINE_TRAIN_SLIDING_H

#include "engine/data/volumes/volumes.h"
#include "engine/models/models.h"

#define CLT_SLIDE_CLASSES 256 /* of a map, which is u8 */

/* Where the logits of a window lie: number c of voxel v at c * class_stride + v * voxel_stride. */
typedef struct clt_slide_view {
    int64_t classes; /* 1: a single logit, whose voxel is of class 1 where it is above 0 */
    int64_t class_stride, voxel_stride;
    int64_t window[3];
    int64_t elements; /* numbers of a window, with padding */
} clt_slide_view;

/* Finds out how a prediction (a tensor of the graph) gives the classes of the voxels of x, (C, depth, height,
 * width): (N, classes, depth, height, width), or (N, ..., classes) with one row for each voxel. cross_entropy says
 * which of them it is (info); for other losses it is the first one where both fit. False: it is neither. */
bool clt_slide_view_of(const clt_graph *graph, int32_t prediction, const clt_model_info *info,
                       const clt_shape *x, clt_slide_view *out);

/* Takes a complete plane, (height, width), from plane 0 on. */
typedef clt_status (*clt_slide_plane)(void *context, int64_t plane, const uint8_t *classes);

typedef struct clt_slide clt_slide;
clt_status clt_slide_create(const clt_windows *grid, const clt_slide_view *view, clt_window_weights weights,
                            clt_slide_plane plane, void *context, clt_slide **out);
void clt_slide_destroy(clt_slide *slide); /* NULL is fine */
/* Adds the logits of the next window, in the order of clt_windows_at. */
clt_status clt_slide_add(clt_slide *slide, const float *logits);
/* After the last window: gives the planes that are left. */
clt_status clt_slide_finish(clt_slide *slide);
/* Voxels, of the planes so far, with a logit that is not finite; their class is that of the others. */
int64_t clt_slide_not_finite(const clt_slide *slide);

/* --- Dice --- */

/* Dice of a class in a volume is 2 |A and B| / (|A| + |B|) of the voxels that prediction and mask give to the class.
 * The figure of a class is the mean over the volumes whose masks have it (MONAI's DiceMetric), and the mean Dice is
 * that of the classes without the background, class 0. */
typedef struct clt_dice {
    int64_t both[CLT_SLIDE_CLASSES], mask[CLT_SLIDE_CLASSES], map[CLT_SLIDE_CLASSES]; /* of this volume */
    double sum[CLT_SLIDE_CLASSES], volumes[CLT_SLIDE_CLASSES];                        /* of those before it */
} clt_dice;

void clt_dice_add(clt_dice *dice, const uint8_t *map, const uint8_t *mask, int64_t count, bool has_ignore,
                  int64_t ignore);
void clt_dice_end_volume(clt_dice *dice);
double clt_dice_of(const clt_dice *dice, int64_t c); /* NAN: no mask has the class */
double clt_dice_mean(const clt_dice *dice, int64_t classes);

#endif
