/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's arenas on a device. Knows the layout, nothing of graphs' meaning or of schedules. */
#include "engine/state/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

uint64_t clt_store_over_offset(const clt_store_layout *layout, clt_arena_kind arena, int32_t slab)
{
    uint64_t offset = 0;
    for (int32_t s = 0; s < slab; s++)
        offset += clt_align_up(clt_store_slab_bytes(layout, arena, s), PAGE);
    return offset;
}

/* over: arenas in the caller's memory, or NULL. */
static clt_status create_slab(clt_store *store, clt_arena_kind kind, int32_t s, const clt_store_over *over)
{
    uint64_t bytes = clt_store_slab_bytes(store->layout, kind, s);
    ocl_buffer **slab = &store->slab[kind][s];
    char what[64];
    snprintf(what, sizeof what, "%s, slab %d", clt_arenas[kind].name, s);
    if (!bytes)
        return CLT_OK;
    if (!over || !over->memory[kind])
        return ocl_buffer_create_zeroed(store->device, bytes, what, slab);
    char *at = (char *)over->memory[kind] + clt_store_over_offset(store->layout, kind, s);
    CLT_TRY(ocl_buffer_create_over(store->device, at, bytes, what, slab));
    return ocl_fill_zero(*slab, 0, bytes);
}

clt_status clt_store_create(ocl_device *device, const clt_store_layout *layout, bool training,
                            clt_store **out)
{
    return clt_store_create_over(device, layout, training, NULL, out);
}

clt_status clt_store_create_over(ocl_device *device, const clt_store_layout *layout, bool training,
                                 const clt_store_over *over, clt_store **out)
{
    CLT_SCOPED(clt_store) *store = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&store, 1, sizeof *store, "store"));
    store->device = device;
    store->layout = layout;
    store->training = training;
    for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
        for (int32_t s = 0; s < layout->n_slabs && (training || clt_arenas[kind].evaluation); s++)
            CLT_TRY(create_slab(store, (clt_arena_kind)kind, s, over));
    CLT_TRY(ocl_finish(device, OCL_QUEUE_COMPUTE));
    *out = CLT_TAKE(store);
    return CLT_OK;
}

void clt_store_destroy(clt_store *store)
{
    if (!store)
        return;
    for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
        for (int s = 0; s < CLT_MAX_STORE_SLABS; s++)
            ocl_buffer_destroy(store->slab[kind][s]);
    free(store);
}

clt_status clt_store_zero(clt_store *store)
{
    store->writes++;
    for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
        for (int32_t s = 0; s < store->layout->n_slabs; s++)
            if (store->slab[kind][s])
                CLT_TRY(ocl_fill_zero(store->slab[kind][s], 0, ocl_buffer_bytes(store->slab[kind][s])));
    return ocl_finish(store->device, OCL_QUEUE_COMPUTE);
}

static clt_status slot_buffer(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                              ocl_buffer **out)
{
    *out = store->slab[arena][slot->slab];
    if (!*out || (arena != CLT_ARENA_PARAM && !slot->trainable))
        CLT_FAIL(CLT_EINTERNAL, "store: parameter '%s' has no %s", slot->name, clt_arenas[arena].name);
    return CLT_OK;
}

/* Writes and reads a parameter in the arena BASE, converting its values from f32 and to f32. */
static clt_status write_base(clt_store *store, const clt_store_slot *slot, const float *values)
{
    CLT_FREED uint16_t *narrow = NULL;
    CLT_TRY(clt_alloc(&narrow, slot->elements + 1, sizeof *narrow, "frozen parameters"));
    clt_narrow_values(values, slot->elements, store->layout->base, narrow);
    return ocl_write(store->slab[CLT_ARENA_BASE][slot->slab], slot->offset * sizeof *narrow, narrow,
                     slot->elements * sizeof *narrow);
}

static clt_status read_base(const clt_store *store, const clt_store_slot *slot, float *out)
{
    CLT_FREED uint16_t *narrow = NULL;
    CLT_TRY(clt_alloc(&narrow, slot->elements + 1, sizeof *narrow, "frozen parameters"));
    CLT_TRY(ocl_read(store->slab[CLT_ARENA_BASE][slot->slab], slot->offset * sizeof *narrow, narrow,
                     slot->elements * sizeof *narrow));
    clt_widen_values(narrow, slot->elements, store->layout->base, out);
    return CLT_OK;
}

clt_status clt_store_read(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                          float *out)
{
    ocl_buffer *buffer;
    clt_store_piece piece;
    uint64_t had = 0; /* elements before this one are in `out` */
    if (arena == CLT_ARENA_PARAM && slot->narrow)
        return read_base(store, slot, out);
    for (int64_t k = 0; clt_store_part(store->layout, arena, slot, k, &piece); k++) {
        CLT_TRY(slot_buffer(store, arena, slot, &buffer));
        memset(out + had, 0, (piece.first - had) * sizeof(float));
        CLT_TRY(ocl_read(buffer, piece.at * sizeof(float), out + piece.first, piece.count * sizeof(float)));
        had = piece.first + piece.count;
    }
    memset(out + had, 0, (slot->elements - had) * sizeof(float));
    return CLT_OK;
}

clt_status clt_store_is_zero(const clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                             bool *zero)
{
    const uint64_t most = UINT64_C(1) << 18; /* elements read at a time */
    ocl_buffer *buffer;
    clt_store_piece piece;
    CLT_FREED float *values = NULL;
    *zero = true;
    CLT_TRY(slot_buffer(store, arena, slot, &buffer));
    CLT_TRY(clt_alloc(&values, most, sizeof *values, "parameters"));
    for (int64_t k = 0; *zero && clt_store_part(store->layout, arena, slot, k, &piece); k++)
        for (uint64_t at = 0, n; *zero && at < piece.count; at += n) {
            n = piece.count - at < most ? piece.count - at : most;
            CLT_TRY(ocl_read(buffer, (piece.at + at) * sizeof(float), values, n * sizeof(float)));
            for (uint64_t i = 0; *zero && i < n; i++)
                *zero = fpclassify(values[i]) == FP_ZERO;
        }
    return CLT_OK;
}

/* Writes the tensor that is derived from a parameter; to be called whenever the parameter is written. */
static clt_status write_derived(clt_store *store, clt_arena_kind source, const clt_store_slot *slot,
                                const float *values)
{
    const clt_derived *derived = clt_derived_from(store->layout, source);
    ocl_buffer *buffer = derived ? store->slab[derived->arena][slot->slab] : NULL;
    clt_dtype type = store->layout->working;
    uint64_t width = clt_dtype_bytes(type);
    CLT_FREED void *out = NULL;
    if (!buffer)
        return CLT_OK;
    CLT_TRY(clt_alloc(&out, slot->elements + 1, width, clt_arenas[derived->arena].name));
    derived->transform(slot, values, type, out);
    return ocl_write(buffer, slot->offset * width, out, slot->elements * width);
}

clt_status clt_store_write(clt_store *store, clt_arena_kind arena, const clt_store_slot *slot,
                           const float *values)
{
    ocl_buffer *buffer;
    clt_store_piece piece;
    store->writes++;
    if (arena == CLT_ARENA_PARAM && slot->narrow)
        return write_base(store, slot, values);
    for (int64_t k = 0; clt_store_part(store->layout, arena, slot, k, &piece); k++) {
        CLT_TRY(slot_buffer(store, arena, slot, &buffer));
        CLT_TRY(
            ocl_write(buffer, piece.at * sizeof(float), values + piece.first, piece.count * sizeof(float)));
    }
    CLT_TRY(write_derived(store, arena, slot, values));
    if (arena != CLT_ARENA_PARAM)
        return CLT_OK;
    /* until the first update the average is the parameter */
    bool averaged = slot->trainable && store->slab[CLT_ARENA_EMA][slot->slab];
    return averaged ? clt_store_write(store, CLT_ARENA_EMA, slot, values) : CLT_OK;
}

bool clt_store_saves(const clt_store *store, clt_arena_kind arena, const clt_param *param)
{
    const clt_store_slot *slot = clt_store_layout_find(store->layout, param->name);
    int state = (int)arena - (int)CLT_ARENA_OPT1;
    /* a rank may have no part of an arena that ranks divide, so its size does not tell if it exists */
    bool exists = state >= 0 && state < store->layout->opt_states
                      ? slot && state < slot->states
                      : clt_store_arena_bytes(store->layout, arena) > 0;
    return exists && clt_param_is_trained(param) && clt_arenas[arena].suffix;
}

/* Fills the chunk table of one slab: weight decay and learning-rate scale of the parameter of each chunk. */
static void fill_groups(const clt_store_layout *layout, int32_t slab, float weight_decay, float *table,
                        uint32_t *spans)
{
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[i];
        if (slot->slab != slab || !slot->trainable)
            continue;
        uint64_t first = slot->offset / CLT_STORE_CHUNK, n = clt_div_up(slot->elements, CLT_STORE_CHUNK);
        for (uint64_t c = first; c < first + n; c++) {
            table[2 * c] = slot->group == CLT_GROUP_DECAY ? weight_decay : 0.0f;
            table[2 * c + 1] = slot->lr_scale;
            spans[2 * c] = (uint32_t)first;
            spans[2 * c + 1] = slot->adapts ? (uint32_t)n : 0;
        }
    }
}

/* The chunk of this rank's optimizer state that belongs to chunk c of a parameter. */
static uint32_t state_chunk(const clt_store_layout *layout, const clt_store_slot *slot, uint64_t c)
{
    clt_store_piece piece;
    for (int64_t k = 0; clt_store_part(layout, CLT_ARENA_OPT1, slot, k, &piece); k++)
        if (c * CLT_STORE_CHUNK >= piece.first && c * CLT_STORE_CHUNK < piece.first + piece.count)
            return (uint32_t)((piece.at - piece.first) / CLT_STORE_CHUNK + c);
    return CLT_NO_CHUNK;
}

/* The chunks of one slab's matrices, group by group. */
static clt_status write_matrices(clt_store *store, int32_t slab)
{
    const clt_store_layout *layout = store->layout;
    uint64_t bytes = clt_store_slab_bytes(layout, CLT_ARENA_MATRICES, slab);
    CLT_FREED uint32_t *chunks = NULL;
    if (!bytes)
        return CLT_OK;
    CLT_TRY(clt_alloc(&chunks, bytes / sizeof *chunks, sizeof *chunks, "chunks of matrices"));
    for (int32_t i = 0; i < layout->n_matrices; i++) {
        const clt_matrix_group *group = &layout->matrices[i];
        uint64_t at = group->first;
        for (int32_t k = 0; k < layout->n_slots && group->slab == slab; k++) {
            const clt_store_slot *slot = &layout->slots[layout->order[k]];
            for (uint64_t c = 0; c < group->chunks && clt_store_in_group(slot, group); c++, at++) {
                chunks[2 * at] = (uint32_t)(slot->offset / CLT_STORE_CHUNK + c);
                chunks[2 * at + 1] = state_chunk(layout, slot, c);
            }
        }
    }
    return ocl_write(store->slab[CLT_ARENA_MATRICES][slab], 0, chunks, bytes);
}

clt_status clt_store_set_groups(clt_store *store, float weight_decay)
{
    const clt_store_layout *layout = store->layout;
    for (int32_t s = 0; s < layout->n_slabs; s++) {
        uint64_t chunks = layout->trainable_elements[s] / CLT_STORE_CHUNK;
        CLT_FREED float *table = NULL;
        CLT_FREED uint32_t *spans = NULL;
        if (!chunks)
            continue;
        CLT_TRY(clt_alloc(&table, chunks * 2, sizeof *table, "parameter groups"));
        CLT_TRY(clt_alloc(&spans, chunks * 2, sizeof *spans, "parameter spans"));
        fill_groups(layout, s, weight_decay, table, spans);
        CLT_TRY(ocl_write(store->slab[CLT_ARENA_TABLE][s], 0, table, chunks * 2 * sizeof *table));
        if (store->slab[CLT_ARENA_SPANS][s])
            CLT_TRY(ocl_write(store->slab[CLT_ARENA_SPANS][s], 0, spans, chunks * 2 * sizeof *spans));
        CLT_TRY(write_matrices(store, s));
    }
    return CLT_OK;
}

clt_status clt_store_set_schedule(clt_store *store, const float *table)
{
    return ocl_write(store->slab[CLT_ARENA_STATE][0], CLT_STATE_TABLE_OFFSET, table,
                     store->layout->schedule_entries * 4 * sizeof *table);
}

clt_status clt_store_set_state(clt_store *store, const clt_state_block *state)
{
    return ocl_write(store->slab[CLT_ARENA_STATE][0], 0, state, sizeof *state);
}

clt_status clt_store_get_state(const clt_store *store, clt_state_block *state)
{
    return ocl_read(store->slab[CLT_ARENA_STATE][0], 0, state, sizeof *state);
}
