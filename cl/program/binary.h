/* SPDX-License-Identifier: Apache-2.0
 *
 * A short description of a compiled program: format and target of its binary, and register spills that the
 * compiler reported. For reports from machines that nobody can access later. */
#ifndef CL_PROGRAM_BINARY_H
#define CL_PROGRAM_BINARY_H

#include <stddef.h>

#include "cl/program/programs.h"

#define OCL_BINARY_TEXT 160

/* Writes "PTX 8.3, sm_90, 12 kernels, local memory 0 B", "ELF for x86-64, 23412 B", "SPIR-V 1.2, ...";
 * returns out. Local memory of PTX is the largest stack of a function, which holds arrays that the compiler
 * could not keep in registers. Pure. */
const char *ocl_binary_describe(const void *data, size_t size, char out[OCL_BINARY_TEXT]);
/* Describes the binary of a built program; "" when the driver gives none. */
const char *ocl_program_describe(const ocl_program *program, char out[OCL_BINARY_TEXT]);

#endif
