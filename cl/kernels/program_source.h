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
/* The option by which a program says which of its family's kernels it is built for. */
#define OCL_ONLY_DEFINE "ONLY"
/* Removes the definitions of other kernels from a text: a compiler optimises every kernel of a program,
 * also kernels that nobody launches. Macros stay, and all lines keep their numbers. A definition begins in
 * the first column with __kernel, or a macro for it; its body begins and ends with a brace alone in the
 * first column. Kernels of another shape, such as a macro defines, stay. */
void ocl_source_keep_kernel(char *text, const char *kernel);
/* Size of a family's own embedded source, which tells roughly how long it takes to compile; 0: there is
 * none. */
size_t ocl_source_length(const char *family);

/* Hash of all kernels of this program: of the version and every source, including those from
 * CLTRAIN_KERNEL_DIR. Answers about a driver that were found with other kernels are not valid for these. */
clt_status ocl_kernels_hash(uint64_t *hash);

#endif
