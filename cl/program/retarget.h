/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with instructions of the target sm_90a (wgmma), which NVIDIA's OpenCL compiler never chooses: it
 * compiles for sm_90, and its assembler refuses these instructions for sm_90. So the kernels contain them in
 * comments, with the registers that the compiler chose. After the build the program's PTX, which is its
 * binary, gets the other target, the comments become instructions, and the text is loaded in place of the
 * program. The array in local memory gets its full size, because the assemblers of some drivers accept more
 * than 48 KiB only for sm_90a. This file must not know what the instructions do. */
#ifndef CL_PROGRAM_RETARGET_H
#define CL_PROGRAM_RETARGET_H

#include <stddef.h>

#include "engine/base/mem.h"

/* The define by which a program requests to be retargeted, and the compiler option for it. */
#define OCL_RETARGET_DEFINE "RETARGET_SM90A"
#define OCL_RETARGET_OPTION "-D" OCL_RETARGET_DEFINE "=1"

/* Bytes of local memory that a work-group can have on any device with these instructions. */
#define OCL_RETARGET_MOST_LOCAL (227u << 10)

/* Option with which NVIDIA's compiler and assembler report registers and spills in the build log. */
#define OCL_VERBOSE_OPTION "-cl-nv-verbose"

/* Converts `size` bytes of PTX for sm_90 and appends the text for sm_90a. It gets the new .target, a
 * .version of at least 8.0, instructions in place of the lines that begin with "//sm_90a: " (SM90A of
 * cl/kernels/wgmma.clh), and for its only array in local memory the size in the line "//sm_90a-shared:
 * BYTES" (WGMMA_MEMORY). A program whose kernels get local memory as an argument has neither array nor line.
 * The result ends with a NUL if the input does (some drivers count it in the size, others do not).
 * CLT_EUNSUPPORTED with the reason when the input is not such PTX, when one of the instructions that every
 * product needs is missing in these lines, or when the size or the array is missing, ambiguous or
 * impossible. Pure. */
clt_status ocl_retarget_text(const char *ptx, size_t size, clt_str *out);

#endif
