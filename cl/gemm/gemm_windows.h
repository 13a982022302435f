/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with an operand that is the matrix of windows of an image (ocl_gemm.windows): the kernel
 * arguments that describe it, and checks whether kernels can read it in tiles (gemm_window_tiles.clh). Plain
 * arithmetic. This file must not know what the images are. */
#ifndef CL_GEMM_GEMM_WINDOWS_H
#define CL_GEMM_GEMM_WINDOWS_H

#include "cl/gemm/gemm.h"

/* Whether the matrix of windows can be read in vectors of `width` elements: each vector that begins at a
 * multiple of `width` also begins at a multiple of `width` in the image, and lies in one pixel. */
bool ocl_windows_divisible(const ocl_gemm *gemm, int64_t width);
/* Whether a kernel whose tiles have at most `most` steps of k can read the windows; if not, `reason` says
 * why. True for products without windows. */
bool ocl_windows_tiled(const ocl_gemm *gemm, int64_t most, char *reason, size_t size);
/* Adds the arguments WINDOWS_PARAMS of cl/gemm/gemm_windows.clh. by_rows: if the pixels of a window's row
 * are contiguous in the image, channels included, they count as one pixel with the channels of all. */
void ocl_windows_args(ocl_emitter *emitter, const ocl_windows *windows, bool by_rows);
/* WINDOWS_DIMS of cl/gemm/gemm_window_tiles.clh: the number of dimensions that its kernels count. */
int ocl_windows_dims(const ocl_windows *windows);
/* Adds the arguments WINDOWS_PARAMS and WALK_PARAMS of cl/gemm/gemm_window_tiles.clh, for items whose
 * counter advances by `steps` steps of k each time. */
void ocl_windows_tile_args(ocl_emitter *emitter, const ocl_windows *windows, int64_t steps);

#endif
