/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the parts of the recompute pass share: recomputed copies of tensors, and the new work
 * list. */
#ifndef ENGINE_PLAN_PASSES_RECOMPUTE_H
#define ENGINE_PLAN_PASSES_RECOMPUTE_H

#include "engine/plan/plan_internal.h"

typedef struct clt_again {
    clt_plan *plan;
    size_t n, n_work;     /* tensors and works before the pass */
    clt_touched *touched; /* by position in the work list: tensors that the work uses */
    int32_t *second;      /* by tensor: its recomputed copy, which backward reads instead; -1 none */
    clt_work *list;       /* the new work list */
    size_t count, capacity;
} clt_again;

/* Creates a recomputed copy of a tensor, which must own its bytes. */
clt_status clt_again_tensor(clt_again *again, int32_t tensor);
/* Appends a copy of the work that uses recomputed copies instead of their originals. repeat: it is forward
 * work that is recomputed; outputs that have no recomputed copy are written to scratch memory that nothing
 * reads. */
clt_status clt_again_push(clt_again *again, const clt_work *work, bool repeat);

/* recompute_cheap.c: recomputes for train.recompute = gelu. */
clt_status clt_recompute_cheap(clt_again *again);
/* recompute_blocks.c: recomputes for train.recompute = block. */
clt_status clt_recompute_blocks(clt_again *again);
/* block_cuts.c: finds the segment (0, 1, ...) of every forward work, by position, and the number of
 * segments. */
clt_status clt_block_cuts(const clt_again *again, int32_t *segment, int32_t *count);

#endif
