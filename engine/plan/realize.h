/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan on a device: slabs (shared by all plans of a run), one executor over all phases with every argument
 * bound, and the prime pass that touches all memory and lets drivers finish their lazy compilation before the
 * first step. */
#ifndef ENGINE_PLAN_REALIZE_H
#define ENGINE_PLAN_REALIZE_H

#include "cl/command/exec.h"
#include "engine/plan/plan.h"

/* Activation slabs, as large as the largest plan needs. */
typedef struct clt_slab_pool {
    ocl_buffer *slab[CLT_MAX_PLAN_SLABS];
    int32_t n_slabs;
} clt_slab_pool;
clt_status clt_pool_create(ocl_device *device, const clt_plan *const *plans, int n_plans,
                           clt_slab_pool **out);
void clt_pool_destroy(clt_slab_pool *pool);

struct clt_store;
struct clt_spans;
struct ocl_refusal;

typedef struct clt_realized {
    const clt_plan *plan;
    ocl_device *device;
    struct clt_store *store; /* borrowed; NULL in CHECK mode */
    clt_slab_pool *pool;     /* borrowed */
    ocl_command_list all;    /* every phase, one after the other */
    size_t first[CLT_PHASE_COUNT], last[CLT_PHASE_COUNT];
    ocl_exec *exec;
    struct clt_spans *spans; /* borrowed: where what the host does for this plan is noted; NULL: nowhere */
} clt_realized;

typedef struct clt_realize_options {
    struct clt_store *store;
    clt_slab_pool *pool;
    uint32_t phases;      /* bits 1 << CLT_PHASE_*: only these are built and can be run; 0: all */
    ocl_exec_ahead ahead; /* a list whose programs are built as well, for an executor that is created later */
    ocl_host_fn host;
    void *host_context;
    ocl_progress_fn progress;
    void *progress_context;
    struct ocl_refusal
        *refusal; /* receives the command that the driver refused (cl/command/fallback.h); may be NULL */
} clt_realize_options;

clt_status clt_plan_realize(const clt_plan *plan, ocl_device *device, const clt_realize_options *options,
                            clt_realized **out);
/* Two plans over the same memory, either of which may be NULL, whose programs are built in one go. */
clt_status clt_plans_realize(const clt_plan *const plans[2], ocl_device *device,
                             const clt_realize_options *options, clt_realized *out[2]);
void clt_realized_destroy(clt_realized *realized);
/* Enqueues one phase. */
clt_status clt_realized_run(clt_realized *realized, clt_phase phase);
/* Runs every command of every phase but SYNC once over zeroed slabs and waits for each. Call before
 * parameters are initialised. progress (may be NULL) is told the command that comes next; refusal (may be
 * NULL) receives the command that could not be run. */
clt_status clt_realized_prime(clt_realized *realized, ocl_progress_fn progress, void *progress_context,
                              struct ocl_refusal *refusal);
/* Where a tensor lies. */
clt_status clt_realized_resolve(const clt_realized *realized, int32_t tensor, ocl_buffer **buffer,
                                uint64_t *offset);
/* Blocking read or write of a whole tensor (tests, checker, checkpoints). */
clt_status clt_realized_read(const clt_realized *realized, int32_t tensor, void *out);
/* The same of a float tensor of any storage type, as f32. */
clt_status clt_realized_read_f32(const clt_realized *realized, int32_t tensor, float *out);
clt_status clt_realized_write(const clt_realized *realized, int32_t tensor, const void *data);

#endif
