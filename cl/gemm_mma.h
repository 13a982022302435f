/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `mma` (cl/gemm_mma.c) cuts a problem into tiles, warps and parts: plain arithmetic,
 * for its tests and the checker. */
#ifndef CL_GEMM_MMA_H
#define CL_GEMM_MMA_H

#include "cl/gemm.h"

typedef struct ocl_mma_form {
    int bm, bn, bk; /* tile of C, steps of k in local memory */
    int wm, wn;     /* part of the tile that one warp of 32 items makes */
    int stages;     /* tiles of A and B in local memory at once */
    int splits;     /* parts of k whose sums are added afterwards */
} ocl_mma_form;

/* The forms that are chosen from when nobody asks for another one (splits 0); bm 0 ends. */
extern const ocl_mma_form ocl_mma_forms[];

/* The form that a model of the device's work takes to be fastest; what is not 0 in `wanted` (may be NULL) is
 * kept. False with the reason when nothing like that works for this problem on this device. */
bool ocl_mma_choose(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_mma_form *wanted,
                    ocl_mma_form *out, char *reason, size_t size);
int ocl_mma_items(const ocl_mma_form *form); /* of a work-group */
/* Bytes of local memory of a work-group; `emulated`: without matrix units. */
uint64_t ocl_mma_local_bytes(const ocl_mma_form *form, bool emulated);
uint64_t ocl_mma_groups(const ocl_gemm *gemm, const ocl_mma_form *form);
/* Floats of workspace; 0 without splits. */
uint64_t ocl_mma_workspace(const ocl_gemm *gemm, const ocl_mma_form *form);
/* True when 16 elements of 8 neighbours start at multiples of 16 bytes wherever the kernel reads A (or B). */
bool ocl_mma_aligned(const ocl_gemm *gemm, bool of_a);

#endif
