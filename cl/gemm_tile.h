/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `tile` (cl/gemm_tile.c) cuts a problem into tiles and parts: plain arithmetic, for its
 * tests and the checker. */
#ifndef CL_GEMM_TILE_H
#define CL_GEMM_TILE_H

#include "cl/gemm.h"

typedef struct ocl_tile_form {
    int bm, bn, bk; /* tile of C, steps of k in local memory */
    int tm, tn;     /* sums of an item */
    int va, vb;     /* elements of A, of B, that an item loads at once */
    int splits;     /* parts of k whose sums are added afterwards */
} ocl_tile_form;

/* The forms that are chosen from when nobody asks for another one (va, vb and splits 0); bm 0 ends. */
extern const ocl_tile_form ocl_tile_forms[];

/* The form that a model of the device's work takes to be fastest; what is not 0 in `wanted` (may be NULL) is
 * kept, but for va and vb, which are upper limits. False with the reason when nothing like that works for
 * this problem on this device. */
bool ocl_tile_choose(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_tile_form *wanted,
                     ocl_tile_form *out, char *reason, size_t size);
int ocl_tile_items(const ocl_tile_form *form); /* of a work-group */
uint64_t ocl_tile_local_bytes(const ocl_gemm *gemm, const ocl_tile_form *form);
uint64_t ocl_tile_groups(const ocl_gemm *gemm, const ocl_tile_form *form);
/* Floats of workspace; 0 without splits. */
uint64_t ocl_tile_workspace(const ocl_gemm *gemm, const ocl_tile_form *form);
/* The command that adds the sums of parts of k, which lie in `part` one after the other per batch item, and
 * finishes them into C; for any backend that splits. */
void ocl_tile_emit_sum(ocl_emitter *emitter, const ocl_gemm *gemm, int splits, int32_t part);

#endif
