/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `mma` (cl/gemm_mma.c) cuts a problem into tiles, warps and parts: plain arithmetic,
 * for its tests and the checker. */
#ifndef CL_GEMM_MMA_H
#define CL_GEMM_MMA_H

#include "cl/gemm_forms.h"

/* Its forms; `complete` sets the generation of the instructions, and halves bk for f32. */
extern const ocl_form_family ocl_mma_family;
extern const ocl_gemm_form ocl_mma_forms[];

/* MMA_SM of the newest instructions that the device has for operands of this type; 0: none. */
int ocl_mma_generation(clt_dtype type, const ocl_device_desc *device);
int ocl_mma_items(const ocl_gemm_form *form); /* of a work-group */
/* Bytes of local memory of a work-group; `emulated`: without matrix units. */
uint64_t ocl_mma_local_bytes(const ocl_gemm *gemm, const ocl_gemm_form *form, bool emulated);
/* True when 16 bytes of neighbours start at multiples of 16 bytes wherever the kernel reads A (or B). */
bool ocl_mma_aligned(const ocl_gemm *gemm, bool of_a);

#endif
