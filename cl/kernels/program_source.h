/* SPDX-License-Identifier: Apache-2.0
 *
 * The source texts of kernels, with includes resolved, and reduced to the one kernel that a program is built
 * for. */
#ifndef CL_KERNELS_PROGRAM_SOURCE_H
#define CL_KERNELS_PROGRAM_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Text of "softmax.cl" or "common.clh" with its includes resolved; free() it. */
clt_status ocl_source_text(const char *file_name, char **out);
/* The define that names the one kernel of its family that a program is built for. */
#define OCL_ONLY_DEFINE "ONLY"
/* Blanks the definitions of other kernels in a text, since a compiler optimises every kernel of a program,
 * even those that nobody launches. Macros stay, and all lines keep their numbers. A definition begins in the
 * first column with __kernel, or a macro for it; its body begins and ends with a brace alone in the first
 * column. Kernels of another shape, for example those that a macro defines, stay. */
void ocl_source_keep_kernel(char *text, const char *kernel);
/* Checks that the program with this text, its includes resolved, has every option that the host gives it:
 * each define of `options` ("-DLS=64 -DDT=f32") must occur in a line that begins with #if. The build makes
 * such lines of `#pragma option NAME DEFAULT` (embed.cmake). CLT_EINTERNAL names the first that does not
 * occur. */
clt_status ocl_source_check_options(const char *family, const char *text, const char *options);
/* Size of a family's own embedded source and of the parts that it includes whose names begin with the
 * family's: a rough measure of its compile time; 0: there is none. */
size_t ocl_source_length(const char *family);

/* Hash of all kernels of this build: of the version and every source, including those from
 * CLTRAIN_KERNEL_DIR. Records about a driver that were made with other kernels are not valid for these. */
clt_status ocl_kernels_hash(uint64_t *hash);

#endif
