/* SPDX-License-Identifier: Apache-2.0
 *
 * The source texts of kernels, with includes resolved, and reduced to the one kernel for which a program is
 * built. */
#ifndef CL_KERNELS_PROGRAM_SOURCE_H
#define CL_KERNELS_PROGRAM_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Text of "softmax.cl" or "common.clh" with its includes resolved; free() it. */
clt_status ocl_source_text(const char *file_name, char **out);
/* The define that names the one kernel of its family for which a program is built. */
#define OCL_ONLY_DEFINE "ONLY"
/* Overwrites the definitions of other kernels in a text with spaces, because a compiler optimises every
 * kernel of a program, even if nobody launches it. Macros stay, and all lines keep their numbers. A
 * definition begins in the first column with __kernel, or a macro for it; its body begins and ends with a
 * brace alone in the first column. Kernels of another shape, for example those that a macro defines,
 * stay. */
void ocl_source_keep_kernel(char *text, const char *kernel);
/* Checks that the program with this text, its includes resolved, uses every option that the host passes:
 * each define of `options` ("-DLS=64 -DDT=f32") must occur in a line that begins with #if. The build
 * generates such lines from `#pragma option NAME DEFAULT` (embed.cmake). CLT_EINTERNAL names the first
 * define that does not occur. */
clt_status ocl_source_check_options(const char *family, const char *text, const char *options);
/* Size of a family's own embedded source, with the included files whose names begin with the family's name:
 * a rough measure of its compile time. 0: there is no such source. */
size_t ocl_source_length(const char *family);

/* Hash of all kernels of this build: of the version and every source, including those from
 * CLTRAIN_KERNEL_DIR. Records about a driver are valid only for the kernels with which they were made. */
clt_status ocl_kernels_hash(uint64_t *hash);

#endif
