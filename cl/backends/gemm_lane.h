/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `lane` (cl/backends/gemm_lane.c) divides a problem into blocks: plain arithmetic, for
 * its tests. */
#ifndef CL_BACKENDS_GEMM_LANE_H
#define CL_BACKENDS_GEMM_LANE_H

#include "cl/gemm/gemm.h"

typedef struct ocl_lane_blocks {
    int mr, nv;      /* register tile: mr rows, nv vectors of 16 columns */
    int kc;          /* steps of k that are packed together */
    int mt, nt;      /* tiles of a block of C, down and across */
    bool pack_a;     /* A is packed too; otherwise it is read in place */
    uint64_t blocks; /* number of blocks of the problem */
    uint64_t cut;    /* number of blocks at the end, each of which is cut into `parts` pieces of rows */
    int parts;
} ocl_lane_blocks;

/* Chooses the register tile by the device's vector registers, and the blocks by a cost model of packing,
 * load imbalance and tile edges. Members of `wanted` (may be NULL) that are not 0 are used unchanged. False
 * when no block fits the device's local memory. */
bool ocl_lane_choose(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_lane_blocks *wanted,
                     ocl_lane_blocks *out);
/* Local memory of one work-group, bytes. */
uint64_t ocl_lane_local_bytes(const ocl_gemm *gemm, const ocl_lane_blocks *blocks);

#endif
