/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows for the double-precision references of pooling ops, by PyTorch's formulas and independent of the
 * code that launches the kernels. Knows formulas only. */
#ifndef ENGINE_OPS_SPATIAL_POOL_REF_H
#define ENGINE_OPS_SPATIAL_POOL_REF_H

#include "engine/ops/spatial/spatial.h"

/* Sizes from a call's attributes and shapes; dimensions that an image lacks are 1. */
typedef struct clt_ref_pool {
    clt_spatial s;
    bool adaptive;
} clt_ref_pool;

static inline clt_ref_pool clt_ref_pool_of(const clt_ref_call *call)
{
    clt_ref_pool p = {.s = clt_spatial_of(call->node, &call->in[0].shape, true)};
    p.adaptive = clt_spatial_attr(call->node, "output") != NULL;
    for (int i = 0; i < p.s.dims; i++)
        p.s.out[CLT_SPATIAL_MAX - p.s.dims + i] = call->out[0].shape.dim[2 + i];
    for (int i = 0; i < CLT_SPATIAL_MAX - p.s.dims; i++)
        p.s.out[i] = 1;
    return p;
}

/* Window o of a dimension: elements begin + k * step for 0 <= k < count; some may lie outside of the
 * input. */
typedef struct clt_ref_window {
    int64_t begin, count, step;
} clt_ref_window;

static inline clt_ref_window clt_ref_window_of(const clt_ref_pool *p, int dim, int64_t o)
{
    const clt_spatial *s = &p->s;
    int64_t in = s->in[dim], out = s->out[dim];
    if (p->adaptive)
        return (clt_ref_window){o * in / out, ((o + 1) * in + out - 1) / out - o * in / out, 1};
    return (clt_ref_window){o * s->stride[dim] - s->padding[dim], s->kernel[dim], s->dilation[dim]};
}

/* Finds the windows, in the three dimensions, of output `index` of a channel. */
static inline void clt_ref_windows(const clt_ref_pool *p, int64_t index,
                                   clt_ref_window window[CLT_SPATIAL_MAX])
{
    for (int i = CLT_SPATIAL_MAX - 1; i >= 0; i--) {
        window[i] = clt_ref_window_of(p, i, index % p->s.out[i]);
        index /= p->s.out[i];
    }
}

/* Index within the channel of element (i, j, k) of the windows; -1: outside of the input. */
static inline int64_t clt_ref_place(const clt_ref_pool *p, const clt_ref_window window[CLT_SPATIAL_MAX],
                                    int64_t i, int64_t j, int64_t k)
{
    int64_t number[CLT_SPATIAL_MAX] = {i, j, k}, place = 0;
    for (int d = 0; d < CLT_SPATIAL_MAX; d++) {
        int64_t at = window[d].begin + number[d] * window[d].step;
        if (at < 0 || at >= p->s.in[d])
            return -1;
        place = place * p->s.in[d] + at;
    }
    return place;
}

#endif
