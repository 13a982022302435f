/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL loader of this process, for version reports. */
#ifndef CL_ICD_LOADER_H
#define CL_ICD_LOADER_H

#include <stddef.h>

/* Writes "OpenCL ICD loader 2.3.1 (OCL Icd free software)", or what is known; returns buffer. */
const char *ocl_loader_text(char *buffer, size_t size);
/* Version of the OpenCL API that this program was compiled for: "1.2". */
const char *ocl_header_version(void);

#endif
