/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `wgmma` (cl/backends/gemm_wgmma.c) divides a problem into tiles and parts: plain
 * arithmetic, for its tests and the checker. */
#ifndef CL_BACKENDS_GEMM_WGMMA_H
#define CL_BACKENDS_GEMM_WGMMA_H

#include "cl/gemm/gemm_forms.h"

/* Local memory that every device with these instructions reports. Forms that need more are used only if a
 * probe has shown that programs for sm_90a get it (OCL_CAP_WGMMA_LARGE). */
#define OCL_WGMMA_SMALL_BYTES (48u << 10)

#define OCL_WGMMA_ALIGNMENT 1024u /* bytes; alignment of each tile in local memory */

extern const ocl_form_family ocl_wgmma_family;
/* ends with bm 0; `complete` sets the parts of the warpgroups */
extern const ocl_gemm_form ocl_wgmma_forms[];

int ocl_wgmma_items(const ocl_gemm_form *form); /* work-items of a work-group */
/* STEPS_TOGETHER of the kernel if B is a matrix of windows: the number of steps that its items copy together;
 * otherwise bk. */
int ocl_wgmma_window_steps(const ocl_gemm *gemm, const ocl_gemm_form *form);
uint64_t ocl_wgmma_local_bytes(const ocl_gemm_form *form); /* bytes of a work-group */

#endif
