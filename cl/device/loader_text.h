/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL loader's name and version. */
#ifndef CL_DEVICE_LOADER_TEXT_H
#define CL_DEVICE_LOADER_TEXT_H

#include <stddef.h>

/* Writes "OpenCL ICD loader 2.3.1 (OCL Icd free software)", or what is known; returns buffer. */
const char *ocl_loader_text(char *buffer, size_t size);

#endif
