/* SPDX-License-Identifier: Apache-2.0
 *
 * Capabilities and variants that a driver refused (cl/command/fallback.h): lists the ones that a device
 * description lacks, and removes listed ones from a description. Also identifies a rank's device to the
 * other ranks. */
#ifndef ENGINE_TRAIN_JOB_UNSUPPORTED_H
#define ENGINE_TRAIN_JOB_UNSUPPORTED_H

#include "cl/device/capabilities.h"

/* The facts by which other ranks identify a device. */
typedef struct clt_device_identity {
    char platform[OCL_NAME_SIZE], device[OCL_NAME_SIZE], driver[OCL_NAME_SIZE];
} clt_device_identity;
void clt_identify_device(const ocl_device_desc *desc, clt_device_identity *out);
bool clt_is_device(const clt_device_identity *identity, const ocl_device_desc *desc);

/* Lists what the description lacks: capabilities of `caps`, and the variants given up, from index `first`
 * on. */
void clt_unsupported_of(const ocl_device_desc *desc, uint32_t caps, int first, ocl_unsupported *out);
/* Removes from the description what is denied; names of variants that this program does not have are
 * ignored. */
void clt_apply_unsupported(const ocl_unsupported *unsupported, ocl_device_desc *desc);

#endif
