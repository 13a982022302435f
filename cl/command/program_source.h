/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of kernels. */
#ifndef CL_PROGRAM_SOURCE_H
#define CL_PROGRAM_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Text of "softmax.cl" or "common.clh" with its includes resolved; free() it. */
clt_status ocl_source_text(const char *file_name, char **out);
/* Bytes of a family's own source as it is built in, 0 if it is not: an idea of what compiling it takes. */
size_t ocl_source_length(const char *family);

/* Identity of all kernels of this program: version and every source, those of CLTRAIN_KERNEL_DIR where it has
 * them. What was learned about a device's driver with other kernels does not count for these. */
clt_status ocl_kernels_hash(uint64_t *hash);

#endif
