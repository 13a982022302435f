/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: the arenas (arenas.h) on a device, which live as long as the run. Plans borrow it. */
#ifndef ENGINE_STATE_STORE_H
#define ENGINE_STATE_STORE_H

#include "engine/base/scope.h"
#include "cl/command/memory.h"
#include "engine/graph/step_block.h"
#include "engine/state/arenas.h"

typedef struct clt_store {
    ocl_device *device;
    const clt_store_layout *layout; /* borrowed from the training plan */
    bool training;                  /* false: only the arenas that evaluation needs exist */
    ocl_buffer *slab[CLT_ARENA_COUNT][CLT_MAX_STORE_SLABS];
    /* Number of writes by the host, and of updates: tensors that plans derive from parameters are valid
     * until the next write or update. */
    uint64_t writes, updates;
} clt_store;

/* Creates the arenas, filled with zeros. CLT_EDEVMEM names the arena that did not fit. */
clt_status clt_store_create(ocl_device *device, const clt_store_layout *layout, bool training,
                            clt_store **out);
/* The caller's memory for the arenas of a store, which must live longer than the store. The slabs of an
 * arena lie one after the other. For CPU devices (ocl_computes_on_host). */
typedef struct clt_store_over {
    /* NULL: the device allocates it. Otherwise it begins at a whole page, and has as many bytes as
     * clt_store_over_offset returns for slab n_slabs */
    void *memory[CLT_ARENA_COUNT];
} clt_store_over;
clt_status clt_store_create_over(ocl_device *device, const clt_store_layout *layout, bool training,
                                 const clt_store_over *over, clt_store **out);
/* The offset of a slab of an arena in such memory, in bytes; a multiple of a page. */
uint64_t clt_store_over_offset(const clt_store_layout *layout, clt_arena_kind arena, int32_t slab);
void clt_store_destroy(clt_store *store);
CLT_SCOPED_POINTER(clt_store, clt_store_destroy)
clt_status clt_store_zero(clt_store *store);
/* Reads the values, the gradient or an optimizer state of one parameter as dense f32. Blocks. If ranks
 * divide the elements, only this rank's part is read or written (clt_store_part); the rest is read as 0. */
clt_status clt_store_read(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                          float *out);
/* *zero: all elements that clt_store_read would read are zero. Not for frozen parameters in 16 bits. Reads no
 * more than it needs. */
clt_status clt_store_is_zero(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                             bool *zero);
clt_status clt_store_write(clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                           const float *values);
/* True if a checkpoint's optimizer.safetensors contains the parameter's part of the arena. */
bool clt_store_saves(const clt_store *store, clt_arena_kind arena, const clt_param *param);
/* Sets every parameter to its initial values: a pure function of (seed, parameter index). */
clt_status clt_store_init(clt_store *store, const clt_graph *graph, uint64_t seed);
/* Computes the initial values of one parameter on the host. */
clt_status clt_init_values(const clt_param *param, uint64_t seed, float *out);
/* Uploads the chunk table (weight decay, lr scale), the schedule (entries x 4 floats) and a state block. */
clt_status clt_store_set_groups(clt_store *store, float weight_decay);
clt_status clt_store_set_schedule(clt_store *store, const float *table);
clt_status clt_store_set_state(clt_store *store, const clt_state_block *state);
clt_status clt_store_get_state(const clt_store *store, clt_state_block *state);

#endif
