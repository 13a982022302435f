/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: the arenas (arenas.h) on a device, which live as long as the run. Plans borrow it. */
#ifndef ENGINE_STATE_STORE_H
#define ENGINE_STATE_STORE_H

#include "cl/device/memory.h"
#include "engine/graph/step_block.h"
#include "engine/state/arenas.h"

typedef struct clt_store {
    ocl_device *device;
    const clt_store_layout *layout; /* borrowed from the training plan */
    bool training;                  /* false: only the PARAM arena exists */
    ocl_buffer *slab[CLT_ARENA_COUNT][CLT_MAX_STORE_SLABS];
} clt_store;

/* Creates the arenas, zeroed. CLT_EDEVMEM names the arena. */
clt_status clt_store_create(ocl_device *device, const clt_store_layout *layout, bool training,
                            clt_store **out);
void clt_store_destroy(clt_store *store);
clt_status clt_store_zero(clt_store *store);
/* One parameter's values, or its gradient or optimizer state, as dense f32. Blocks. */
clt_status clt_store_read(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                          float *out);
clt_status clt_store_write(clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                           const float *values);
/* A checkpoint's optimizer.safetensors has that parameter's part of the arena. */
bool clt_store_saves(const clt_store *store, clt_arena_kind arena, const clt_param *param);
/* Fills every parameter from its initialiser: a pure function of (seed, parameter index). */
clt_status clt_store_init(clt_store *store, const clt_graph *graph, uint64_t seed);
/* Host values of one initialiser. */
clt_status clt_init_values(const clt_param *param, uint64_t seed, float *out);
/* Uploads the chunk table (weight decay, lr scale), the schedule (entries x 4 floats) and a state block. */
clt_status clt_store_set_groups(clt_store *store, float weight_decay);
clt_status clt_store_set_schedule(clt_store *store, const float *table);
clt_status clt_store_set_state(clt_store *store, const clt_state_block *state);
clt_status clt_store_get_state(const clt_store *store, clt_state_block *state);

#endif
