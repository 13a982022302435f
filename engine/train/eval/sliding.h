/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding windows: puts the class map of a whole volume together from predictions of overlapping windows,
 * and computes the Dice of such maps. Knows logits and sizes, no devices, data or files.
 *
 * Where windows overlap, their logits are averaged with weights (as MONAI's sliding_window_inference does),
 * and a voxel gets the class with the largest mean. Windows are ordered by depth, so a plane is complete as
 * soon as a window begins at a deeper plane. Sums are kept only for as many planes as a window has: 4 *
 * classes * depth of a window * height * width bytes, however deep the volume is. */
#ifndef ENGINE_TRAIN_EVAL_SLIDING_H
#define ENGINE_TRAIN_EVAL_SLIDING_H

#include "engine/data/volumes/volumes.h"
#include "engine/models/models.h"

#define CLT_SLIDE_CLASSES 256 /* most classes of a map, which is u8 */

/* Layout of a window's logits: class c of voxel v is at c * class_stride + v * voxel_stride. */
typedef struct clt_slide_view {
    int64_t classes; /* 1: there is a single logit, and a voxel is of class 1 if it is above 0 */
    int64_t class_stride, voxel_stride;
    int64_t window[3];
    int64_t elements; /* numbers in the prediction of a window, with padding */
} clt_slide_view;

/* Finds out the layout of the tensor `prediction`, which holds logits for the voxels of x, (C, depth,
 * height, width). The layout is (N, classes, depth, height, width), or (N, ..., classes) with one row for
 * each voxel; false if it is neither. For a classifier `info` says which one it is; otherwise the first one
 * is taken if both fit. */
bool clt_slide_view_of(const clt_graph *graph, int32_t prediction, const clt_model_info *info,
                       const clt_shape *x, clt_slide_view *out);

/* Receives the class map of a complete plane, (height, width). Planes come in order, from 0. */
typedef clt_status (*clt_slide_plane)(void *context, int64_t plane, const uint8_t *classes);

typedef struct clt_slide clt_slide;
clt_status clt_slide_create(const clt_windows *grid, const clt_slide_view *view, clt_window_weights weights,
                            clt_slide_plane plane, void *context, clt_slide **out);
void clt_slide_destroy(clt_slide *slide); /* NULL is fine */
CLT_SCOPED_POINTER(clt_slide, clt_slide_destroy)
/* Adds the logits of the next window, in the order of clt_windows_at. */
clt_status clt_slide_add(clt_slide *slide, const float *logits);
/* After the last window: passes the remaining planes to the caller. */
clt_status clt_slide_finish(clt_slide *slide);
/* Voxels so far with a logit that is not finite; their class is chosen from the other logits. */
int64_t clt_slide_not_finite(const clt_slide *slide);

/* --- Dice --- */

/* Dice of a class in a volume is 2 |A and B| / (|A| + |B|), where A and B are the voxels that prediction and
 * mask give to the class. The Dice of a class is the mean over the volumes whose masks have it (as MONAI's
 * DiceMetric); the mean Dice is the mean over all classes but the background, class 0. */
typedef struct clt_dice {
    int64_t both[CLT_SLIDE_CLASSES], mask[CLT_SLIDE_CLASSES], map[CLT_SLIDE_CLASSES]; /* this volume */
    double sum[CLT_SLIDE_CLASSES], volumes[CLT_SLIDE_CLASSES];                        /* earlier volumes */
} clt_dice;

void clt_dice_add(clt_dice *dice, const uint8_t *map, const uint8_t *mask, int64_t count, bool has_ignore,
                  int64_t ignore);
void clt_dice_end_volume(clt_dice *dice);
double clt_dice_of(const clt_dice *dice, int64_t c); /* NAN: no mask has the class */
double clt_dice_mean(const clt_dice *dice, int64_t classes);

#endif
