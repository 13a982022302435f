/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GEMM backend `lane` (cl/gemm/gemm_lane.c) cuts a problem into blocks: plain arithmetic, for its
 * tests.
 */
#ifndef CL_GEMM_LANE_H
#define CL_GEMM_LANE_H

#include "cl/gemm/gemm.h"

typedef struct ocl_lane_blocks {
    int mr, nv;      /* a tile: mr rows, nv vectors of 16 columns */
    int kc;          /* steps of k that are packed at once */
    int mt, nt;      /* a block of C: tiles down and across */
    bool pack_a;     /* A is packed too, else read where it lies */
    uint64_t blocks; /* of the whole problem */
    uint64_t cut;    /* the last ones, which are handed out in `parts` pieces of rows each */
    int parts;
} ocl_lane_blocks;

/* Tile from the device's vector registers, blocks from a model of the time that packing, uneven shares and
 * tile edges cost; what is not 0 in `wanted` (may be NULL) is kept. False when no block fits the device's
 * local memory. */
bool ocl_lane_choose(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_lane_blocks *wanted,
                     ocl_lane_blocks *out);
/* Local memory of one work-group, bytes. */
uint64_t ocl_lane_local_bytes(const ocl_gemm *gemm, const ocl_lane_blocks *blocks);

#endif
