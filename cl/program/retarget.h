/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with instructions of the target sm_90a (wgmma), which NVIDIA's OpenCL compiler never chooses: it
 * compiles for sm_90, and its assembler refuses them there. The kernels keep these instructions in comments,
 * with the registers that the compiler gave them; after the build the program's PTX, which is its binary,
 * gets the other target, the comments become instructions, and the text is loaded in place of the program.
 * The array in local memory gets its full size: the assemblers of some drivers take more than 48 KiB for
 * sm_90a alone. It must not know what the instructions do. */
#ifndef CL_PROGRAM_RETARGET_H
#define CL_PROGRAM_RETARGET_H

#include <stddef.h>

#include "engine/base/mem.h"

/* The define by which a program asks to be retargeted, and the compiler option for it. */
#define OCL_RETARGET_DEFINE "RETARGET_SM90A"
#define OCL_RETARGET_OPTION "-D" OCL_RETARGET_DEFINE "=1"

/* Bytes of local memory that a work-group can have on any device with these instructions. */
#define OCL_RETARGET_MOST_LOCAL (227u << 10)

/* NVIDIA's compiler and assembler then report registers and spills in the build log. */
#define OCL_VERBOSE_OPTION "-cl-nv-verbose"

/* Converts `size` bytes of PTX for sm_90 and appends the text for sm_90a. It gets the new .target, a
 * .version of at least 8.0, instructions in place of the lines that begin with "//sm_90a: " (SM90A of
 * cl/kernels/wgmma.clh), and for its only array in local memory the size that the line "//sm_90a-shared:
 * BYTES" gives (WGMMA_MEMORY). A program whose kernels get local memory as an argument has neither array nor
 * line. The result ends with a NUL if the input does (some drivers count it in the size, others do not).
 * CLT_EUNSUPPORTED with the reason when the input is not such PTX, when one of the instructions that every
 * product needs is missing in these lines, or when the size or the array is missing, ambiguous or
 * impossible. Pure. */
clt_status ocl_retarget_text(const char *ptx, size_t size, clt_str *out);

#endif
