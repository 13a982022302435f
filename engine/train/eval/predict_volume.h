/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction of whole volumes by a segmentation model: windows of the size that the run was trained on slide over the
 * volume, and the classes of its voxels are written as a mask. Beside the volume itself memory holds a mask of it
 * (a byte per voxel) and what sliding.h says. */
#ifndef ENGINE_TRAIN_PREDICT_VOLUME_H
#define ENGINE_TRAIN_PREDICT_VOLUME_H

#include "engine/train/eval/predict.h"

typedef struct clt_volume_prediction {
    int64_t size[3]; /* depth, height, width */
    int64_t windows;
    int64_t voxels[256]; /* by class */
} clt_volume_prediction;

/* CLT_EUSAGE, with the reason, unless the predictor (opened, perhaps not started) is of a run that predicts classes of
 * voxels of volumes that it was given in their own size. */
clt_status clt_predictor_check_volumes(const clt_predictor *p);
/* Predicts the volume of a file (.nii, .nii.gz, .npy) and writes the mask to `out` (.nii, .nii.gz), with the geometry of a
 * NIfTI volume. CLT_EDATA for a volume that cannot be read, or with other channels than the run's; CLT_ENUMERIC, after
 * the mask was written, if predictions are not finite. */
clt_status clt_predictor_volume(clt_predictor *p, const char *path, const char *out,
                                const clt_observer *observer, clt_volume_prediction *result);

#endif
