/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `mma` (cl/gemm/gemm_mma.c) cuts a problem into tiles, warps and parts: plain
 * arithmetic, for its tests and the checker. */
#ifndef CL_GEMM_MMA_H
#define CL_GEMM_MMA_H

#include "cl/gemm/gemm_forms.h"

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

/* What a work-group of a form costs; for every backend whose tiles lie in local memory and go to matrix
 * units.
 */
typedef struct ocl_mma_work {
    int items;
    double registers;   /* of an item */
    double multiply;    /* multiply-adds of a step of bk, as if the units did 1024 a clock */
    double lines;       /* of a step: lines that go to and from local memory, bk steps of k each */
    double local_bytes; /* of local memory */
} ocl_mma_work;
/* The model's time, to compare forms, also those of different backends. */
double ocl_mma_time(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form,
                    const ocl_mma_work *work);

#endif
