/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 12, memory: gives every tensor its offset in memory. Lifetimes follow from the reads and writes that
 * commands declare; a use of a view counts as a use of the tensor that owns the bytes. Greedy best-fit
 * placement is tried in three orders, and the smallest result is kept. A tensor larger than the device's
 * largest buffer is an error that names it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan_internal.h"

typedef struct item {
    int32_t tensor;
    uint64_t bytes; /* aligned */
    uint32_t first, last;
    int32_t slab;
    uint64_t offset;
} item;

/* A time, and the bytes whose lifetime begins or ends at that time. */
typedef struct moment {
    uint64_t time, begin, end;
} moment;

/* The items placed in a slab, in the order of their offsets. They are copies, so that the search for a gap
 * reads memory sequentially. */
typedef struct slab_items {
    item *items;
    size_t n, room;
} slab_items;

typedef struct placement {
    item *items;
    slab_items slab[CLT_MAX_PLAN_SLABS];
    size_t n;
    uint64_t slab_bytes[CLT_MAX_PLAN_SLABS];
    int32_t n_slabs;
    uint64_t limit, start; /* largest size that a slab may have; first free byte of slab 0 */
} placement;

int32_t clt_plan_owner(const clt_plan *plan, int32_t tensor)
{
    while (clt_graph_tensor(plan->graph, tensor)->view_of >= 0)
        tensor = clt_graph_tensor(plan->graph, tensor)->view_of;
    return tensor;
}

clt_status clt_plan_kept(const clt_plan *plan, bool **kept)
{
    CLT_TRY(clt_alloc(kept, plan->graph->n_tensors, sizeof **kept, "kept tensors"));
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        if (t->is_output || t->persistent)
            (*kept)[clt_plan_owner(plan, (int32_t)i)] = true;
    }
    return CLT_OK;
}

clt_status clt_plan_store_tensor(clt_plan *plan, const char *name, clt_dtype dtype, int64_t elements,
                                 clt_arena_kind arena, int32_t slab, uint64_t offset, int32_t *id)
{
    clt_shape shape = clt_shape1(elements);
    size_t have = plan->n_place;
    CLT_TRY(clt_graph_new_tensor(plan->graph, name, dtype, &shape, clt_arenas[arena].cls, id));
    CLT_TRY(clt_grow(&plan->place, &have, (size_t)*id + 1, sizeof *plan->place, "tensor places"));
    plan->n_place = have;
    plan->place[*id] =
        (clt_place){CLT_PLACE_STORE, arena, slab, offset, (uint64_t)elements * clt_dtype_bytes(dtype), 0, 0};
    return CLT_OK;
}

static uint64_t tensor_bytes(const clt_tensor *t)
{
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

/* Places of parameters, their gradients, run state and loss records, for plans that use the store. */
static void place_store(clt_plan *plan)
{
    const clt_store_layout *store = plan->store;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        clt_place *place = &plan->place[i];
        if (place->kind != CLT_PLACE_NONE || t->param < 0)
            continue;
        const clt_store_slot *slot = clt_store_layout_find(store, plan->graph->params[t->param].name);
        place->kind = CLT_PLACE_STORE;
        bool averaged =
            plan->options.mode == CLT_PLAN_EVAL && clt_store_evaluated(store, slot) == CLT_ARENA_EMA;
        place->arena = t->cls != CLT_TC_PARAM ? CLT_ARENA_GRAD : averaged ? CLT_ARENA_EMA : CLT_ARENA_PARAM;
        if (t->cls == CLT_TC_PARAM && slot->narrow)
            place->arena = CLT_ARENA_BASE;
        else if (t->cls == CLT_TC_PARAM && t->dtype != CLT_F32)
            place->arena = clt_derived_from(store, place->arena)->arena;
        place->slab = slot->slab;
        place->offset = slot->offset * clt_dtype_bytes(t->dtype);
        place->bytes = tensor_bytes(t);
    }
    if (plan->options.mode != CLT_PLAN_TRAIN)
        return;
    int32_t last = store->n_slabs - 1;
    plan->place[plan->losses] = (clt_place){CLT_PLACE_STORE,
                                            CLT_ARENA_GRAD,
                                            last,
                                            store->trainable_elements[last] * sizeof(float),
                                            tensor_bytes(clt_graph_tensor(plan->graph, plan->losses)),
                                            0,
                                            0};
    plan->place[plan->state] =
        (clt_place){CLT_PLACE_STORE, CLT_ARENA_STATE, 0, 0, ST_WORDS * sizeof(uint32_t), 0, 0};
}

/* Checks that the input region fits into one buffer, and that all slots of the staging ring together do,
 * because the feed allocates them as one buffer. */
static clt_status check_inputs(const clt_plan *plan)
{
    uint64_t limit = plan->device.max_alloc_bytes, largest = 0;
    const char *name = "?";
    if (plan->options.mode != CLT_PLAN_CHECK)
        limit /= CLT_STAGING_SLOTS;
    for (size_t i = 0; i < plan->graph->n_fields; i++) {
        uint64_t bytes = tensor_bytes(clt_graph_tensor(plan->graph, plan->graph->fields[i].tensor));
        if (bytes > largest) {
            largest = bytes;
            name = plan->graph->fields[i].name;
        }
    }
    if (plan->input_bytes > limit)
        CLT_FAIL(CLT_EDEVMEM,
                 "planning: the batch fields need %llu bytes, of which '%s' needs %llu; device '%s' allows "
                 "%llu; use a smaller data.micro_batch (now %lld)",
                 (unsigned long long)plan->input_bytes, name, (unsigned long long)largest, plan->device.name,
                 (unsigned long long)limit, (long long)plan->graph->micro_batch);
    return CLT_OK;
}

/* Places fields, the step block and constants side by side at the start of slab 0, so that one copy fills
 * them all. */
static clt_status place_inputs(clt_plan *plan)
{
    uint64_t offset = 0, guard = plan->options.guard_bytes, align = plan->device.align_bytes;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        if (t->cls != CLT_TC_FIELD && t->cls != CLT_TC_STEP && t->cls != CLT_TC_CONSTANT)
            continue;
        offset = clt_align_up(offset + guard, align);
        plan->place[i] = (clt_place){CLT_PLACE_PLAN, 0, 0, offset, tensor_bytes(t), 0, UINT32_MAX};
        if (t->cls == CLT_TC_STEP)
            plan->step_offset = offset;
        offset += tensor_bytes(t) + guard;
    }
    plan->input_bytes = clt_align_up(offset, align);
    return check_inputs(plan);
}

static void touch(clt_plan *plan, const ocl_arg *arg, uint32_t time, uint32_t *first, uint32_t *last)
{
    if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
        return;
    int32_t owner = clt_plan_owner(plan, arg->ref.tensor);
    if (time < first[owner])
        first[owner] = time;
    if (time > last[owner] || last[owner] == 0)
        last[owner] = time;
}

static void find_lifetimes(clt_plan *plan, uint32_t *first, uint32_t *last)
{
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++)
            for (int a = 0; a < plan->phase[p].commands[c].n_args; a++)
                touch(plan, &plan->phase[p].commands[c].args[a], plan->time[p][c], first, last);
    for (size_t i = 0; i < plan->graph->n_tensors; i++)
        if (clt_graph_tensor(plan->graph, (int32_t)i)->is_output)
            last[clt_plan_owner(plan, (int32_t)i)] = UINT32_MAX;
}

/* Collects the tensors that the plan's slabs must hold. In CHECK mode each one lives for the whole plan,
 * between guard zones. */
static clt_status collect(clt_plan *plan, placement *p, const uint32_t *first, const uint32_t *last)
{
    uint64_t align = plan->device.align_bytes, guard = plan->options.guard_bytes;
    bool check = plan->options.mode == CLT_PLAN_CHECK;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        if (plan->place[i].kind != CLT_PLACE_NONE || t->view_of >= 0)
            continue;
        if (first[i] == UINT32_MAX && !check && !t->is_output)
            continue; /* no command uses it */
        uint64_t bytes = tensor_bytes(t);
        if (bytes > p->limit)
            CLT_FAIL(CLT_EDEVMEM,
                     "planning: tensor '%s' needs %llu bytes in one buffer; device '%s' allows %llu; use a "
                     "smaller data.micro_batch (now %lld)",
                     t->name, (unsigned long long)bytes, plan->device.name, (unsigned long long)p->limit,
                     (long long)plan->graph->micro_batch);
        p->items[p->n++] = (item){(int32_t)i,
                                  clt_align_up(bytes + 2 * guard, align),
                                  check || t->persistent ? 0 : first[i],
                                  check || t->persistent ? UINT32_MAX : last[i],
                                  0,
                                  0};
    }
    return CLT_OK;
}

static int by_size(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->tensor < y->tensor ? -1 : 1;
}

static int by_start(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_size(a, b);
}

static int by_length(const void *a, const void *b)
{
    const item *x = a, *y = b;
    uint32_t lx = x->last - x->first, ly = y->last - y->first;
    if (lx != ly)
        return lx > ly ? -1 : 1;
    return by_size(a, b);
}

/* Finds the smallest gap of a slab that can hold `it` between the items that are live at the same time.
 * False: there is none. */
static bool best_gap(const placement *p, int32_t slab, item *it)
{
    const slab_items *held = &p->slab[slab];
    uint64_t end = slab == 0 ? p->start : 0, best = UINT64_MAX;
    for (size_t i = 0; i < held->n; i++) {
        const item *live = &held->items[i];
        if (live->first > it->last || it->first > live->last)
            continue;
        if (live->offset > end && live->offset - end >= it->bytes && live->offset - end < best) {
            best = live->offset - end;
            it->offset = end;
        }
        if (live->offset + live->bytes > end)
            end = live->offset + live->bytes;
    }
    if (best != UINT64_MAX)
        return true;
    it->offset = end;
    return end + it->bytes <= p->limit;
}

static clt_status put_into_slab(slab_items *held, const item *it)
{
    if (held->n == held->room)
        CLT_TRY(clt_grow(&held->items, &held->room, held->n + 1, sizeof *held->items, "memory plan"));
    size_t low = 0, high = held->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (held->items[middle].offset <= it->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&held->items[low + 1], &held->items[low], (held->n - low) * sizeof *it);
    held->items[low] = *it;
    held->n++;
    return CLT_OK;
}

static clt_status place_items(placement *p)
{
    memset(p->slab_bytes, 0, sizeof p->slab_bytes);
    p->slab_bytes[0] = p->start;
    p->n_slabs = 1;
    for (int s = 0; s < CLT_MAX_PLAN_SLABS; s++)
        p->slab[s].n = 0;
    for (size_t i = 0; i < p->n; i++) {
        item *it = &p->items[i];
        int32_t slab = 0;
        while (slab < CLT_MAX_PLAN_SLABS && !best_gap(p, slab, it))
            slab++;
        if (slab == CLT_MAX_PLAN_SLABS)
            CLT_FAIL(CLT_EDEVMEM, "planning: activations need more than %d buffers", CLT_MAX_PLAN_SLABS);
        it->slab = slab;
        CLT_TRY(put_into_slab(&p->slab[slab], it));
        if (slab >= p->n_slabs)
            p->n_slabs = slab + 1;
        if (it->offset + it->bytes > p->slab_bytes[slab])
            p->slab_bytes[slab] = it->offset + it->bytes;
    }
    return CLT_OK;
}

static uint64_t total_bytes(const placement *p)
{
    uint64_t total = 0;
    for (int32_t s = 0; s < p->n_slabs; s++)
        total += p->slab_bytes[s];
    return total;
}

static void keep(clt_plan *plan, const placement *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const item *it = &p->items[i];
        uint64_t bytes = tensor_bytes(clt_graph_tensor(plan->graph, it->tensor));
        uint64_t offset = it->offset + clt_align_up(plan->options.guard_bytes, plan->device.align_bytes);
        plan->place[it->tensor] =
            (clt_place){CLT_PLACE_PLAN, 0, it->slab, offset, bytes, it->first, it->last};
    }
    memcpy(plan->slab_bytes, p->slab_bytes, sizeof p->slab_bytes);
    plan->n_slabs = p->n_slabs;
    plan->activation_bytes = total_bytes(p) - p->start;
}

static int by_time(const void *a, const void *b)
{
    const uint64_t x = ((const moment *)a)->time, y = ((const moment *)b)->time;
    return x < y ? -1 : x > y;
}

/* Computes the most bytes that are live at any one time, without alignment: no placement can need less. */
static clt_status live_bound(const clt_plan *plan, const placement *p, uint64_t *bound)
{
    CLT_FREED moment *moments = NULL;
    uint64_t sum = 0;
    CLT_TRY(clt_alloc(&moments, 2 * p->n, sizeof *moments, "memory plan"));
    for (size_t i = 0; i < p->n; i++) {
        uint64_t bytes = tensor_bytes(clt_graph_tensor(plan->graph, p->items[i].tensor));
        moments[2 * i] = (moment){p->items[i].first, bytes, 0};
        moments[2 * i + 1] = (moment){(uint64_t)p->items[i].last + 1, 0, bytes};
    }
    qsort(moments, 2 * p->n, sizeof *moments, by_time);
    *bound = 0;
    for (size_t i = 0; i < 2 * p->n; i++) {
        sum += moments[i].begin - moments[i].end;
        bool settled = i + 1 == 2 * p->n || moments[i + 1].time != moments[i].time;
        *bound = settled && sum > *bound ? sum : *bound;
    }
    return CLT_OK;
}

/* Moves the item that ends highest in the last slab to the front of the order, so that the next try
 * places it first. */
static void promote_top(placement *p)
{
    size_t top = 0;
    uint64_t highest = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].slab == p->n_slabs - 1 && p->items[i].offset + p->items[i].bytes > highest) {
            highest = p->items[i].offset + p->items[i].bytes;
            top = i;
        }
    item it = p->items[top];
    memmove(&p->items[1], &p->items[0], top * sizeof it);
    p->items[0] = it;
}

/* How many tries each order gets. The work of a try grows with n^2, so large plans get a single one. */
static int tries_of(size_t n)
{
    size_t tries = (size_t)4000000 / (n * n + 1);
    return tries < 1 ? 1 : tries > 64 ? 64 : (int)tries;
}

static clt_status place_all(clt_plan *plan, placement *p)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_start, by_length};
    uint64_t best = UINT64_MAX;
    CLT_TRY(live_bound(plan, p, &plan->activation_bound));
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        qsort(p->items, p->n, sizeof *p->items, orders[o]);
        for (int t = tries_of(p->n); t > 0 && best > p->start + plan->activation_bound; t--) {
            CLT_TRY(place_items(p));
            if (total_bytes(p) < best) {
                best = total_bytes(p);
                keep(plan, p);
            }
            if (p->n > 0)
                promote_top(p);
        }
    }
    return CLT_OK;
}

static void placement_end_scope(placement *p)
{
    for (int s = 0; s < CLT_MAX_PLAN_SLABS; s++)
        free(p->slab[s].items);
    free(p->items);
}

static void place_views(clt_plan *plan)
{
    for (size_t i = 0; i < plan->graph->n_tensors; i++)
        if (clt_graph_tensor(plan->graph, (int32_t)i)->view_of >= 0)
            plan->place[i] = plan->place[clt_plan_owner(plan, (int32_t)i)];
}

clt_status clt_pass_memory(clt_plan *plan)
{
    size_t n = plan->graph->n_tensors, have = plan->n_place;
    CLT_FREED uint32_t *first = NULL;
    CLT_FREED uint32_t *last = NULL;
    CLT_SCOPED(placement) p = {.limit = plan->device.max_alloc_bytes};
    CLT_TRY(clt_grow(&plan->place, &have, n, sizeof *plan->place, "tensor places"));
    plan->n_place = have;
    if (plan->store)
        place_store(plan);
    CLT_TRY(place_inputs(plan));
    p.start = plan->input_bytes;
    CLT_TRY(clt_alloc(&first, n, sizeof *first, "lifetimes"));
    CLT_TRY(clt_alloc(&last, n, sizeof *last, "lifetimes"));
    CLT_TRY(clt_alloc(&p.items, n, sizeof *p.items, "memory plan"));
    memset(first, 0xff, n * sizeof *first);
    find_lifetimes(plan, first, last);
    CLT_TRY(collect(plan, &p, first, last));
    CLT_TRY(place_all(plan, &p));
    place_views(plan);
    return CLT_OK;
}
