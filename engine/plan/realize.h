/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting a plan on a device: slabs (shared by all plans of a run), one executor for all phases with
 * every kernel argument bound, and a priming run. Priming executes the commands once before the first
 * step, so that all memory is touched and drivers finish their lazy compilation. */
#ifndef ENGINE_PLAN_REALIZE_H
#define ENGINE_PLAN_REALIZE_H

#include "engine/base/scope.h"
#include "cl/exec/exec.h"
#include "engine/plan/plan.h"

/* Activation slabs, as large as the largest plan needs. */
typedef struct clt_slab_pool {
    ocl_buffer *slab[CLT_MAX_PLAN_SLABS];
    int32_t n_slabs;
    const struct clt_realized *user; /* the plan that has written to them last */
    uint64_t turns;                  /* how often `user` has changed */
} clt_slab_pool;
clt_status clt_pool_create(ocl_device *device, const clt_plan *const *plans, int n_plans,
                           clt_slab_pool **out);
void clt_pool_destroy(clt_slab_pool *pool);
CLT_SCOPED_POINTER(clt_slab_pool, clt_pool_destroy)
/* To be called when something other than a plan has written to the slabs: no plan then relies on the
 * contents of the slabs. */
void clt_pool_overwritten(clt_slab_pool *pool);

struct clt_store;
struct clt_spans;
struct ocl_refusal;

/* The values of pool->turns, store->writes and store->updates when a phase computed its derived tensors. */
typedef struct clt_derived_at {
    uint64_t turn, writes, updates;
} clt_derived_at;

typedef struct clt_realized {
    const clt_plan *plan;
    ocl_device *device;
    struct clt_store *store; /* borrowed; NULL in CHECK mode */
    clt_slab_pool *pool;     /* borrowed */
    ocl_command_list all;    /* the commands of all phases, one phase after the other */
    size_t first[CLT_PHASE_COUNT], last[CLT_PHASE_COUNT];
    clt_derived_at derived_at[CLT_PHASE_COUNT];
    ocl_exec *exec;
    /* borrowed; receives the times of the host's work for this plan; NULL: not recorded */
    struct clt_spans *spans;
} clt_realized;

typedef struct clt_realize_options {
    struct clt_store *store;
    clt_slab_pool *pool;
    uint32_t phases; /* bits 1 << CLT_PHASE_*: the phases to build and run; 0: all */
    /* a second list, for an executor created later: its programs are built together with these */
    ocl_exec_ahead ahead;
    ocl_host_fn host;
    void *host_context;
    ocl_progress_fn progress;
    void *progress_context;
    /* May be NULL. Receives the command that the driver refused (cl/command/fallback.h). */
    struct ocl_refusal *refusal;
} clt_realize_options;

clt_status clt_plan_realize(const clt_plan *plan, ocl_device *device, const clt_realize_options *options,
                            clt_realized **out);
/* Realises two plans that share slabs; either may be NULL. Their programs are built together. */
clt_status clt_plans_realize(const clt_plan *const plans[2], ocl_device *device,
                             const clt_realize_options *options, clt_realized *out[2]);
void clt_realized_destroy(clt_realized *realized);
CLT_SCOPED_POINTER(clt_realized, clt_realized_destroy)
/* Enqueues one phase, without the commands of derived tensors that are still valid. */
clt_status clt_realized_run(clt_realized *realized, clt_phase phase);
/* Runs the commands of all phases on zeroed slabs, each kernel once, and waits for each; host commands,
 * which need the other ranks, are skipped. To be called before parameters are initialised. progress (may be
 * NULL) is called with each command before it runs; refusal (may be NULL) receives the command that could
 * not be run. */
clt_status clt_realized_prime(clt_realized *realized, ocl_progress_fn progress, void *progress_context,
                              struct ocl_refusal *refusal);
/* Finds the buffer and the offset of a tensor. */
clt_status clt_realized_resolve(const clt_realized *realized, int32_t tensor, ocl_buffer **buffer,
                                uint64_t *offset);
/* Reads a whole tensor in its type, and waits until it is read; clt_realized_write writes one in the same
 * way (tests, checker, checkpoints). */
clt_status clt_realized_read(const clt_realized *realized, int32_t tensor, void *out);
/* Reads a float tensor of any storage type, as f32. */
clt_status clt_realized_read_f32(const clt_realized *realized, int32_t tensor, float *out);
clt_status clt_realized_write(const clt_realized *realized, int32_t tensor, const void *data);

#endif
