/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes volumes that look a little like CT, for tests and first experiments: with masks, or in a folder
 * for each class. The same options give the same voxels. It knows nothing of configs and models. */
#ifndef ENGINE_DATA_OPEN_SAMPLE_VOLUMES_H
#define ENGINE_DATA_OPEN_SAMPLE_VOLUMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Intensities are like CT's, in Hounsfield units (i16): soft tissue around 40, lesions around 140. Voxels
 * are 2.5 x 0.8 x 0.8 mm large, so that lesions that are round in voxels are ellipsoids in millimetres. */
typedef struct clt_sample_options {
    const char *folder; /* made if it is missing */
    bool masks;         /* make images/ct000.nii and masks/ct000.nii ..., where class 1 is a lesion; else
                  * sphere/ct000.nii and shell/ct000.nii ..., each with a full or a hollow lesion */
    bool packed;        /* .nii.gz */
    bool other_sizes;   /* with masks: every second volume has three quarters of the height */
    int64_t count;      /* number of volumes or, without masks, of volumes of each class */
    int64_t seed;
    int64_t size[3]; /* depth, height, width; each at least 8 */
    double noise;    /* standard deviation in Hounsfield units */
} clt_sample_options;

clt_status clt_sample_volumes(const clt_sample_options *options);
/* The name, in the folder, of the file that is made as number `number`, such as "images/ct000.nii.gz";
 * false: there is no such file. */
bool clt_sample_name(const clt_sample_options *options, int64_t number, char *name, size_t room);

#endif
