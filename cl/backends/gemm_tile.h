/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `tile` (cl/backends/gemm_tile.c) divides a problem into tiles and parts: plain
 * arithmetic, for its tests and the checker. */
#ifndef CL_BACKENDS_GEMM_TILE_H
#define CL_BACKENDS_GEMM_TILE_H

#include "cl/gemm/gemm_forms.h"

/* The tile sizes that the backend can use; `complete` sets va and vb, for which wanted values are upper
 * limits. */
extern const ocl_form_family ocl_tile_family;
extern const ocl_gemm_form ocl_tile_forms[];

int ocl_tile_items(const ocl_gemm_form *form); /* work-items of a work-group */
uint64_t ocl_tile_local_bytes(const ocl_gemm *gemm, const ocl_gemm_form *form);

#endif
