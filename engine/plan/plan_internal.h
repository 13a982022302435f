/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and types that the passes share. */
#ifndef ENGINE_PLAN_PLAN_INTERNAL_H
#define ENGINE_PLAN_PLAN_INTERNAL_H

#include "engine/plan/plan.h"
#include "engine/graph/step_block.h"

/* Number of times for one piece of work; if it has more commands, these share the last time. */
#define CLT_TIME_SUB 4096u

/* derived.c: decides whether a derived tensor is kept (ocl_emitter.derive). */
clt_status clt_plan_derive(void *plan, const ocl_derivation *derivation, ocl_derived *out);

ocl_emitter clt_emitter_make(clt_plan *plan, clt_phase phase);

/* Emits one piece of work. add: for the phase BACKWARD_ADD. */
clt_status clt_select_work(clt_plan *plan, ocl_emitter *emitter, const clt_work *work, bool add);
/* Sets (*kept)[owner] to true if the bytes of that tensor must stay readable after the step. One entry for
 * each tensor that exists at the time of the call; the caller frees it. */
clt_status clt_plan_kept(const clt_plan *plan, bool **kept);
/* Creates plan->losses and plan->state if they do not exist yet. */
clt_status clt_plan_make_records(clt_plan *plan);

/* The tensors that a piece of work reads or writes, without its workspace; views are replaced by the tensors
 * that own their bytes. Found by emitting its commands into a list that is thrown away. */
typedef struct clt_touched {
    int32_t *tensor;
    uint32_t *access; /* ocl_access bits */
    size_t n, capacity, access_capacity;
} clt_touched;
clt_status clt_work_touches(clt_plan *plan, const clt_work *work, clt_touched *out);
void clt_touched_free(clt_touched *touched);
bool clt_touched_has(const clt_touched *touched, int32_t owner, uint32_t access);

/* Adds a tensor that stands for part of a store arena (offset and size in bytes) and returns its id. */
clt_status clt_plan_store_tensor(clt_plan *plan, const char *name, clt_dtype dtype, int64_t elements,
                                 clt_arena_kind arena, int32_t slab, uint64_t offset, int32_t *id);

/* The name of the variant that the plan's options force, if the list has it; else NULL. */
const char *clt_forced_variant(const clt_plan *plan, const ocl_variant *const *list);

/* Sets the times of the commands of a phase from number `from` on. *capacity: the capacity of the array
 * plan->time[phase]. */
clt_status clt_plan_stamp(clt_plan *plan, clt_phase phase, size_t from, size_t work, size_t *capacity);

/* moments.c: between open and close, in FORWARD of TRAIN plans, `pass` asks a work for the moments of its
 * output if a norm wants them, and gives a norm the moments of its input. Elsewhere it sets nothing. */
clt_status clt_moments_open(clt_plan *plan);
void clt_moments_close(clt_plan *plan);
void clt_moments_pass(const clt_plan *plan, const clt_work *work, clt_call *call);

/* emit_update.c: emits the commands of the UPDATE phase in each of its two styles
 * (engine/optim/update.clh). */
clt_status clt_update_emit_group(ocl_emitter *emitter, const void *problem);
clt_status clt_update_emit_lane(ocl_emitter *emitter, const void *problem);
/* emit_combine.c: with options.tree and accumulation, these functions emit commands that add the results of
 * a micro-batch to the sums of earlier ones: a range of gradients, the loss records, the averaged buffers of
 * a slab, or all of these. emit_start emits the first commands of FORWARD. Without these options they emit
 * nothing. */
clt_status clt_combine_gradients(clt_plan *plan, ocl_emitter *emitter, const clt_range *range);
clt_status clt_combine_losses(clt_plan *plan, ocl_emitter *emitter);
clt_status clt_combine_buffers(clt_plan *plan, ocl_emitter *emitter, int32_t slab);
clt_status clt_combine_emit(clt_plan *plan, ocl_emitter *emitter);
clt_status clt_combine_emit_start(clt_plan *plan, ocl_emitter *emitter);
/* Finds the buffers of a slab that ranks average, as one tensor; if it has none, *buffers is -1 and
 * *elements 0. */
clt_status clt_plan_buffers(clt_plan *plan, int32_t slab, uint64_t *elements, int32_t *buffers);
/* pass_rows.c: whether a part of a parameter's gradient travels as rows, and whether all of it does. */
bool clt_rows_any(const clt_plan *plan, int32_t param);
bool clt_rows_alone(const clt_plan *plan, int32_t param);
/* emit_rows.c: emits the commands at the start of BACKWARD that clear gradients to which only ROWS adds. */
clt_status clt_rows_emit_start(clt_plan *plan, ocl_emitter *emitter);
/* How many elements of a bucket are summed: up to the first table whose gradient consists of gathered
 * rows alone. Such tables come last (pass_store.c). */
uint64_t clt_rows_summed(const clt_plan *plan, const clt_range *bucket);
/* Declares the gather of embedding work number `at`: of its indices (INDICES), or of the gradients of its
 * output (ROWS) in their type or the communication dtype, whichever is narrower. emit_send emits the
 * commands of SEND that make this rank's part. emit_add emits the commands that add the rows of all ranks to
 * the table: the work itself, over the positions of all ranks. */
clt_status clt_rows_gather(clt_plan *plan, ocl_emitter *emitter, clt_sum_kind kind, size_t at, clt_sum *sum);
clt_status clt_rows_emit_send(clt_plan *plan, ocl_emitter *emitter, const clt_sum *sum);
clt_status clt_rows_emit_add(clt_plan *plan, ocl_emitter *emitter, const clt_sum *sum);
/* update_family.c: emits the UPDATE phase with the variant that the family chooses. */
clt_status clt_update_emit(clt_plan *plan, ocl_emitter *emitter);

#endif
