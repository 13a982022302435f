/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the recompute pass share: recomputed copies of tensors, and the work list being rebuilt. */
#ifndef ENGINE_PLAN_RECOMPUTE_H
#define ENGINE_PLAN_RECOMPUTE_H

#include "engine/plan/plan_internal.h"

typedef struct clt_again {
    clt_plan *plan;
    size_t n;             /* tensors before the pass */
    clt_touched *touched; /* by position in the plan's work list */
    int32_t *second;      /* by tensor: the tensor that holds its value once more for backward, -1 none */
    clt_work *list;       /* the new work list */
    size_t count, capacity;
} clt_again;

/* Gives a tensor that owns its bytes a recomputed copy. */
clt_status clt_again_tensor(clt_again *again, int32_t tensor);
/* Appends a copy of the work over recomputed copies where there are any. repeat: it is forward work to be done
 * once more; what it writes without a recomputed copy goes to memory that nobody reads. */
clt_status clt_again_push(clt_again *again, const clt_work *work, bool repeat);

/* recompute_cheap.c: train.recompute = gelu. */
clt_status clt_recompute_cheap(clt_again *again);
/* recompute_blocks.c: train.recompute = block. */
clt_status clt_recompute_blocks(clt_again *again);
/* block_cuts.c: segment of every forward work, 0, 1, ... in order. by position; returns their number. */
clt_status clt_block_cuts(const clt_again *again, int32_t *segment, int32_t *count);

#endif
