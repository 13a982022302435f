/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch geometry of kernels built on places.clh: divides the places (pixels or voxels) of a channels-last
 * tensor among work-items. Knows emitters and grids, no op. */
#ifndef ENGINE_OPS_SPATIAL_PLACES_H
#define ENGINE_OPS_SPATIAL_PLACES_H

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/spatial/spatial.h"

/* The grid of a kernel's results. */
typedef struct clt_places {
    uint64_t rows, width, channels; /* rows: samples * depth * height */
    double each;                    /* elements moved for each element of the results, at least 1 */
    uint64_t items;                 /* items of a work-group; set by clt_places_begin */
} clt_places;
clt_places clt_places_of(const clt_spatial *s, const int64_t sizes[CLT_SPATIAL_MAX], double moved);
static inline uint64_t clt_places_elements(const clt_places *p)
{
    return p->rows * p->width * p->channels;
}

/* Begins a kernel: defines LS, and NT if stores of results of type `type` can bypass the caches. */
void clt_places_begin(ocl_emitter *e, clt_places *p, const char *family, const char *kernel, clt_style style,
                      clt_dtype type, bool accumulate);
/* Adds the arguments PLACES_ARGS and ends the kernel. Fails if a number does not fit into the 32 bits in
 * which kernels count places. */
void clt_places_end(ocl_emitter *e, const clt_places *p, clt_style style, double flops);

#endif
