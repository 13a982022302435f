/* SPDX-License-Identifier: Apache-2.0
 *
 * What the passes share. */
#ifndef ENGINE_PLAN_PLAN_INTERNAL_H
#define ENGINE_PLAN_PLAN_INTERNAL_H

#include "engine/plan/plan.h"
#include "engine/train/step_block.h"

#define CLT_TIME_SUB 4096u /* commands of one piece of work that keep apart in time */

void clt_emitter_start(clt_plan *plan, clt_phase phase, ocl_emitter *emitter);

/* Adds a tensor that stands for part of a store arena (offset and size in bytes) and returns its id. */
clt_status clt_plan_store_tensor(clt_plan *plan, const char *name, clt_dtype dtype, int64_t elements,
                                 clt_arena_kind arena, int32_t slab, uint64_t offset, int32_t *id);

/* emit_update.c: commands of the SYNC and UPDATE phases. */
clt_status clt_sync_emit(clt_plan *plan, ocl_emitter *emitter);
clt_status clt_update_emit(clt_plan *plan, ocl_emitter *emitter);

#endif
