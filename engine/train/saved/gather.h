/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer state that is divided among ranks, brought together for a checkpoint in the host memory of rank 0. */
#ifndef ENGINE_TRAIN_GATHER_H
#define ENGINE_TRAIN_GATHER_H

#include "engine/state/store.h"

struct clt_run;
typedef struct clt_gathered clt_gathered;

/* Brings the state after step `step` to rank 0, unless that is what it has already; does nothing where each rank
 * has all of it. Collective; blocks. */
clt_status clt_gather_states(struct clt_run *run, int64_t step);
/* The values of a slab of an arena, on rank 0 after clt_gather_states; NULL: the device has all of them. */
const float *clt_gathered_slab(const clt_gathered *gathered, clt_arena_kind arena, int32_t slab);
void clt_gathered_destroy(clt_gathered *gathered); /* NULL is fine */

#endif
