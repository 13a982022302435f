/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver refused (cl/command/fallback.h) and descriptions of devices: what one goes without, and one
 * without it. And a device as one rank names it to the others. */
#ifndef ENGINE_TRAIN_DENIALS_H
#define ENGINE_TRAIN_DENIALS_H

#include "cl/device/answers.h"

/* A device as one rank names it to the others. */
typedef struct clt_told_device {
    char platform[OCL_NAME_SIZE], device[OCL_NAME_SIZE], driver[OCL_NAME_SIZE];
} clt_told_device;
void clt_tell_device(const ocl_device_desc *desc, clt_told_device *out);
bool clt_is_told_device(const clt_told_device *told, const ocl_device_desc *desc);

/* What the description goes without: of caps, and forms from number `first` on. */
void clt_denials_of(const ocl_device_desc *desc, uint32_t caps, int first, ocl_denials *out);
/* The description without what is denied; names of variants that this program does not have are passed over.
 */
void clt_apply_denials(const ocl_denials *denials, ocl_device_desc *desc);

#endif
