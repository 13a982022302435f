/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the sizes of a layout's arenas, and finds a parameter of a layout by its name. */
#include "engine/state/arenas.h"

#include <stdlib.h>
#include <string.h>

void clt_store_layout_destroy(clt_store_layout *layout)
{
    if (!layout)
        return;
    clt_names_free(&layout->names);
    clt_arena_destroy(layout->arena);
    free(layout);
}

const clt_store_slot *clt_store_layout_find(const clt_store_layout *layout, const char *name)
{
    uintptr_t slot;
    return clt_names_find(&layout->names, name, strlen(name), &slot) ? &layout->slots[slot] : NULL;
}

clt_arena_kind clt_store_evaluated(const clt_store_layout *layout, const clt_store_slot *slot)
{
    return layout->ema && slot->trainable ? CLT_ARENA_EMA : CLT_ARENA_PARAM;
}

bool clt_store_in_group(const clt_store_slot *slot, const clt_matrix_group *group)
{
    return slot->adapts && slot->trainable && slot->slab == group->slab &&
           slot->shape.dim[0] == group->rows && slot->shape.dim[1] == group->cols;
}

const clt_arena_row clt_arenas[CLT_ARENA_COUNT] = {
#define CLT_ARENA(kind, name, cls, suffix, evaluation, bytes) {name, cls, suffix, evaluation},
#include "engine/state/arenas.def"
#undef CLT_ARENA
};

bool clt_store_divides(const clt_store_layout *layout, clt_arena_kind arena, const clt_store_slot *slot)
{
    bool divided = arena == CLT_ARENA_OPT1 || arena == CLT_ARENA_OPT2 || arena == CLT_ARENA_GRAD;
    return layout->sharded && slot->trainable && divided;
}

bool clt_store_part(const clt_store_layout *layout, clt_arena_kind arena, const clt_store_slot *slot,
                    int64_t index, clt_store_piece *piece)
{
    uint64_t at = 0; /* where the state of the current range begins */
    if (!clt_store_divides(layout, arena, slot)) {
        *piece = (clt_store_piece){.count = slot->elements, .at = slot->offset};
        return index == 0 && slot->elements > 0;
    }
    for (size_t i = 0; i < layout->n_own; i++) {
        const clt_range *own = &layout->own[i];
        uint64_t end = own->first + own->elements, to = slot->offset + slot->elements;
        uint64_t from = slot->offset > own->first ? slot->offset : own->first;
        to = to < end ? to : end;
        if (own->slab != slot->slab)
            continue;
        if (from < to && index-- == 0) {
            *piece = (clt_store_piece){.first = from - slot->offset,
                                       .count = to - from,
                                       .at = arena == CLT_ARENA_GRAD ? from : at + from - own->first};
            return true;
        }
        at += own->elements;
    }
    return false;
}

bool clt_store_own(const clt_store_layout *layout, int32_t slab, size_t k, clt_range *piece,
                   uint64_t *state_at)
{
    *state_at = 0;
    for (size_t i = 0; i < layout->n_own; i++) {
        if (layout->own[i].slab != slab)
            continue;
        *piece = layout->own[i];
        if (k-- == 0)
            return true;
        *state_at += piece->elements;
    }
    return false;
}

uint64_t clt_store_slab_bytes(const clt_store_layout *l, clt_arena_kind arena, int32_t s)
{
    uint64_t elements = l->slab_elements[s], trainable = l->trainable_elements[s];
    uint64_t own = l->own_elements[s];
    uint64_t gradients = trainable + (s == l->n_slabs - 1 ? CLT_STORE_CHUNK : 0);
    switch (arena) {
#define CLT_ARENA(kind, name, cls, suffix, evaluation, bytes)                                                \
    case CLT_ARENA_##kind:                                                                                   \
        return bytes;
#include "engine/state/arenas.def"
#undef CLT_ARENA
    default:
        return 0;
    }
}

void clt_narrow_values(const float *values, uint64_t count, clt_dtype type, uint16_t *out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = type == CLT_BF16 ? clt_f32_to_bf16(values[i]) : clt_f32_to_f16(values[i]);
}

void clt_widen_values(const void *narrow, uint64_t count, clt_dtype type, float *out)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t value;
        memcpy(&value, (const uint8_t *)narrow + i * sizeof value, sizeof value);
        out[i] = type == CLT_BF16 ? clt_bf16_to_f32(value) : clt_f16_to_f32(value);
    }
}

static void low_precision(const clt_store_slot *slot, const float *values, clt_dtype type, void *out)
{
    clt_narrow_values(values, slot->elements, type, out);
}

const clt_derived *clt_derived_from(const clt_store_layout *layout, clt_arena_kind source)
{
    static const clt_derived all[] = {{CLT_ARENA_WORK, CLT_ARENA_PARAM, low_precision},
                                      {CLT_ARENA_EMA_WORK, CLT_ARENA_EMA, low_precision}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].source == source && clt_store_arena_bytes(layout, all[i].arena) > 0)
            return &all[i];
    return NULL;
}

uint64_t clt_store_arena_bytes(const clt_store_layout *layout, clt_arena_kind kind)
{
    uint64_t total = 0;
    for (int32_t s = 0; s < layout->n_slabs; s++)
        total += clt_store_slab_bytes(layout, kind, s);
    return total;
}

uint64_t clt_store_class_bytes(const clt_store_layout *layout, clt_tensor_class cls, bool evaluation)
{
    uint64_t total = 0;
    for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
        if (clt_arenas[kind].cls == cls && (clt_arenas[kind].evaluation || !evaluation))
            total += clt_store_arena_bytes(layout, (clt_arena_kind)kind);
    return total;
}
