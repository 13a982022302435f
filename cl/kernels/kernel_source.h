/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel sources that the build embeds (cl/kernels/embed.cmake writes the table). */
#ifndef CL_KERNELS_KERNEL_SOURCE_H
#define CL_KERNELS_KERNEL_SOURCE_H

#include <stddef.h>

typedef struct ocl_embedded_source {
    const char *name; /* file name, "softmax.cl" */
    const char *text; /* NUL-terminated */
    size_t length;
} ocl_embedded_source;

/* Ends with a NULL name. */
extern const ocl_embedded_source ocl_embedded_sources[];

#endif
