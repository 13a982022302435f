/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction of whole volumes by a segmentation model: windows of the training size slide over the volume,
 * and the classes of its voxels are written as a mask. Host memory holds the volume, a mask with one byte
 * per voxel, and the sums that sliding.h describes. */
#ifndef ENGINE_TRAIN_EVAL_PREDICT_VOLUME_H
#define ENGINE_TRAIN_EVAL_PREDICT_VOLUME_H

#include "engine/train/eval/predict.h"

typedef struct clt_volume_prediction {
    int64_t size[3]; /* depth, height, width */
    int64_t windows;
    int64_t voxels[256]; /* number of voxels of each class */
} clt_volume_prediction;

/* CLT_EUSAGE, with the reason, unless the run predicts a class for each voxel and was trained on volumes
 * that were not resampled to one size. The predictor must be open, but need not be started. */
clt_status clt_predictor_check_volumes(const clt_predictor *p);
/* Predicts the volume in the file `path` (.nii, .nii.gz, .npy) and writes the mask to `out` (.nii, .nii.gz);
 * the mask of a NIfTI volume has the volume's geometry. CLT_EDATA if the volume cannot be read or has
 * another number of channels than the run; CLT_ENUMERIC, after the mask was written, if predictions are not
 * finite. */
clt_status clt_predictor_volume(clt_predictor *p, const char *path, const char *out,
                                const clt_observer *observer, clt_volume_prediction *result);

#endif
