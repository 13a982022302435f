/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `mma` (cl/backends/gemm_mma.c) divides a problem into tiles, warps and parts: plain
 * arithmetic, for its tests and the checker. */
#ifndef CL_BACKENDS_GEMM_MMA_H
#define CL_BACKENDS_GEMM_MMA_H

#include "cl/gemm/gemm_forms.h"

/* The tile sizes that the backend can use; `complete` sets the generation of the instructions, and halves bk
 * for f32. */
extern const ocl_form_family ocl_mma_family;
extern const ocl_gemm_form ocl_mma_forms[];

/* MMA_SM of the newest instructions that the device has for operands of this type; 0: none. */
int ocl_mma_generation(clt_dtype type, const ocl_device_desc *device);
/* Whether kernels for matrix units may run on a device without them. They then compute with plain
 * arithmetic, which only the checker wants (OCL_QUIRK_ANY_STYLE). On NVIDIA's GPUs the kernels always use
 * the instructions, and the compiler refuses them for a GPU that lacks these. */
bool ocl_mma_emulates(const ocl_device_desc *device);
int ocl_mma_items(const ocl_gemm_form *form); /* work-items of a work-group */
/* Local memory of a work-group in bytes; emulated: the device has no matrix units. */
uint64_t ocl_mma_local_bytes(const ocl_gemm *gemm, const ocl_gemm_form *form, bool emulated);
/* Whether every 16-byte chunk of A (or B) that the kernel reads is aligned to 16 bytes. */
bool ocl_mma_aligned(const ocl_gemm *gemm, bool of_a);

/* The work of a work-group of a form, from which ocl_mma_time computes its time. For backends whose tiles go
 * through local memory to matrix units. */
typedef struct ocl_mma_work {
    int items;
    double registers;   /* registers of an item */
    double multiply;    /* multiply-adds of a step of bk, scaled to matrix units that do 1024 per clock */
    double lines;       /* per step: lines, each of bk elements, that are moved to and from local memory */
    double local_bytes; /* bytes of local memory */
} ocl_mma_work;
/* The time that the cost model expects; comparable between forms, even of different backends. */
double ocl_mma_time(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form,
                    const ocl_mma_work *work);

#endif
