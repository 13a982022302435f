/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a kernel: groups one after the other in random order, the warps of a group in random turns, the lanes
 * of a warp together while they take the same path. If paths differ, the lanes at the earliest instruction
 * run first, and wait for the others where the paths meet. All rules of convergence are checked here: all
 * lanes must reach an instruction of the whole warp, all threads a barrier, and asynchronous copies must be
 * waited for. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_machine.h"

#define MOST_INSTRUCTIONS UINT64_C(400000000) /* instructions of a warp; with more, it counts as hanging */

void ptx_fail(const ptx_warp *w, const ptx_instruction *i, int lane, const char *format, ...)
{
    ptx_machine *m = w->machine;
    char what[PTX_TEXT / 2];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    snprintf(m->message, PTX_TEXT, "%.60s: group (%u, %u, %u), thread %u: %.180s; at '%.90s'",
             m->launch->kernel->name, m->group_id[0], m->group_id[1], m->group_id[2],
             w->first + (uint32_t)lane, what, i ? i->text : "its end");
    longjmp(m->failed, 1);
}

uint32_t ptx_random(ptx_machine *m)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->random >> 33);
}

/* --- where lanes are --- */

/* Chooses the lanes that run: of the lanes that are not blocked, those at the earliest instruction. False:
 * all remaining lanes are blocked. */
static bool pick(ptx_warp *w)
{
    uint32_t ready = w->alive & ~w->blocked, first = UINT32_MAX, next = UINT32_MAX;
    for (int l = 0; l < PTX_LANES; l++)
        if ((ready >> l & 1) && w->lane_pc[l] < first)
            first = w->lane_pc[l];
    w->mask = 0;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(ready >> l & 1))
            continue;
        if (w->lane_pc[l] == first)
            w->mask |= 1u << l;
        else if (w->lane_pc[l] < next)
            next = w->lane_pc[l];
    }
    w->pc = first;
    w->other_pc = next;
    w->split = w->mask != w->alive;
    return w->mask != 0;
}

static void leave(ptx_warp *w, uint32_t mask, uint32_t pc)
{
    for (int l = 0; l < PTX_LANES; l++)
        if (mask >> l & 1)
            w->lane_pc[l] = pc;
}

/* Called when all lanes are blocked: if they are at the same instruction, they continue together; otherwise
 * the launch fails. */
static void meet(ptx_warp *w)
{
    const ptx_kernel *k = w->machine->launch->kernel;
    int first = __builtin_ctz(w->alive);
    for (int l = first; l < PTX_LANES; l++)
        if ((w->alive >> l & 1) && w->lane_pc[l] != w->lane_pc[first])
            ptx_fail(w, &k->code[w->lane_pc[first]], l, "another lane of its warp waits at '%.80s'",
                     k->code[w->lane_pc[l]].text);
    w->blocked = 0;
    w->mask = w->alive;
    w->pc = w->lane_pc[first];
    w->split = false;
}

static void jump(ptx_warp *w, const ptx_instruction *i, uint32_t taken)
{
    if (taken == 0) {
        w->pc++;
    } else if (taken == w->mask) {
        w->pc = i->target;
    } else {
        leave(w, taken, i->target);
        leave(w, w->mask & ~taken, w->pc + 1);
        pick(w);
    }
}

static void end_lanes(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    for (int l = 0; l < PTX_LANES; l++)
        if ((mask >> l & 1) && w->lanes[l].n_copies)
            ptx_fail(w, i, l, "ends with %u copies under way", w->lanes[l].n_copies);
    if (w->products)
        ptx_products_end(w, i);
    w->alive &= ~mask;
    leave(w, w->mask & ~mask, w->pc + 1);
    if (w->alive == 0)
        w->state = PTX_ENDED;
    else if (!pick(w))
        meet(w);
}

/* --- one instruction --- */

static uint32_t guarded(const ptx_warp *w, const ptx_instruction *i)
{
    if (i->guard < 0)
        return w->mask;
    const uint32_t *value = (const uint32_t *)(w->registers + (size_t)i->guard * 128);
    uint32_t on = 0;
    for (int l = 0; l < PTX_LANES; l++)
        on |= (uint32_t)(value[l] != 0) << l;
    return w->mask & (i->guard_not ? ~on : on);
}

static void compute(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    uint64_t result[PTX_LANES];
    const void *arg[4] = {NULL};
    for (int a = 1; a < i->n_args; a++)
        arg[a] = ptx_at(w, i->args[a]);
    if (mask == PTX_ALL) {
        i->alu(ptx_at(w, i->args[0]), arg[1], arg[2], arg[3]);
        return;
    }
    i->alu(result, arg[1], arg[2], arg[3]);
    if (i->args[0].words == 2) {
        uint64_t *to = ptx_at(w, i->args[0]);
        for (int l = 0; l < PTX_LANES; l++)
            to[l] = mask >> l & 1 ? result[l] : to[l];
    } else {
        uint32_t *to = ptx_at(w, i->args[0]);
        const uint32_t *from = (const uint32_t *)result;
        for (int l = 0; l < PTX_LANES; l++)
            to[l] = mask >> l & 1 ? from[l] : to[l];
    }
}

static void parameter(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    const ptx_launch *launch = w->machine->launch;
    uint64_t value = 0;
    if (i->offset < 0 || (uint64_t)i->offset + i->bytes > launch->kernel->param_bytes)
        ptx_fail(w, i, 0, "reads a parameter that is not there");
    memcpy(&value, launch->params + i->offset, i->bytes);
    if (i->sign && i->bytes < 4)
        value = (uint64_t)((int64_t)(value << (64 - 8 * i->bytes)) >> (64 - 8 * i->bytes));
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        if (i->args[0].words == 2)
            ((uint64_t *)ptx_at(w, i->args[0]))[l] = value;
        else
            ((uint32_t *)ptx_at(w, i->args[0]))[l] = (uint32_t)value;
    }
}

/* Makes the running lanes wait for the others of their warp. True: no lane is missing. */
static bool together(ptx_warp *w)
{
    if (!w->split)
        return true;
    leave(w, w->mask, w->pc);
    w->blocked |= w->mask;
    if (!pick(w))
        meet(w);
    return false;
}

static void run_warp_op(ptx_warp *w, ptx_instruction *i)
{
    if (!together(w))
        return;
    if (guarded(w, i) != PTX_ALL)
        ptx_fail(w, i, __builtin_ctz(~guarded(w, i)), "only lanes 0x%08x of the warp run it", guarded(w, i));
    i->warp_op(w, i);
    i->counts.executed++;
    w->pc++;
}

static void run_barrier(ptx_warp *w, const ptx_instruction *i)
{
    if (!together(w))
        return;
    if (guarded(w, i) != w->born)
        ptx_fail(w, i, __builtin_ctz(w->born & ~guarded(w, i)),
                 "does not come to a barrier at which others wait");
    w->state = PTX_AT_BARRIER;
}

static void step_memory(ptx_warp *w, ptx_instruction *i, uint32_t mask)
{
    switch (i->kind) {
    case PTX_LOAD:
        ptx_load(w, i, mask);
        break;
    case PTX_STORE:
        ptx_store(w, i, mask);
        break;
    case PTX_ATOMIC:
        ptx_atomic_run(w, i, mask);
        break;
    case PTX_COPY:
        ptx_copy_start(w, i, mask);
        break;
    case PTX_COMMIT:
        ptx_copy_commit(w, mask);
        break;
    case PTX_WAIT:
        ptx_copy_wait(w, i, mask);
        break;
    case PTX_PROXY:
        ptx_proxy_fence(w, mask);
        break;
    default:
        break;
    }
}

static void step(ptx_warp *w)
{
    ptx_instruction *i = &w->machine->launch->kernel->code[w->pc];
    if (w->products)
        ptx_products_look(w, i);
    if (i->kind == PTX_WARP) {
        run_warp_op(w, i);
        return;
    }
    if (i->kind == PTX_BARRIER) {
        run_barrier(w, i);
        return;
    }
    uint32_t mask = guarded(w, i);
    i->counts.executed++;
    if (i->kind == PTX_BRANCH) {
        jump(w, i, mask);
        return;
    }
    if (i->kind == PTX_RETURN && mask) {
        end_lanes(w, i, mask);
        return;
    }
    if (i->kind == PTX_ALU)
        compute(w, i, mask);
    else if (i->kind == PTX_PARAM)
        parameter(w, i, mask);
    else if (mask)
        step_memory(w, i, mask);
    w->pc++;
}

static void run_warp(ptx_warp *w, uint32_t most)
{
    for (uint32_t n = 0; n < most && w->state == PTX_RUNS; n++) {
        step(w);
        if (w->split && w->state == PTX_RUNS && w->pc >= w->other_pc) {
            leave(w, w->mask, w->pc);
            pick(w);
        }
        if (++w->executed > MOST_INSTRUCTIONS)
            ptx_fail(w, NULL, 0, "does not end");
    }
}

/* --- groups --- */

static uint64_t start_value(const ptx_machine *m, const ptx_start *s, uint32_t thread, int lane)
{
    const ptx_launch *launch = m->launch;
    const uint32_t *group = launch->group;
    switch (s->what) {
    case PTX_CONSTANT:
        return s->value;
    case PTX_TID:
        return s->axis == 0   ? thread % group[0]
               : s->axis == 1 ? thread / group[0] % group[1]
                              : thread / group[0] / group[1];
    case PTX_NTID:
        return group[s->axis];
    case PTX_CTAID:
        return m->group_id[s->axis];
    case PTX_NCTAID:
        return launch->grid[s->axis];
    case PTX_LANEID:
        return (uint64_t)lane;
    }
    return 0;
}

/* Fills the registers with values that no kernel expects. */
static void start_warp(ptx_machine *m, ptx_warp *w)
{
    const ptx_kernel *k = m->launch->kernel;
    uint32_t left = m->n_threads - w->first;
    memset(w->registers, 0xcd, (size_t)k->units * 128);
    w->born = w->alive = w->mask = left >= PTX_LANES ? PTX_ALL : (1u << left) - 1;
    w->pc = w->blocked = 0;
    w->split = false;
    w->state = PTX_RUNS;
    w->executed = 0;
    w->looked_at = w->looks = 0;
    for (int l = 0; l < PTX_LANES; l++)
        w->lanes[l].n_copies = w->lanes[l].batches = 0;
    if (w->products)
        ptx_products_start(w);
    for (size_t s = 0; s < k->n_starts; s++)
        for (int l = 0; l < PTX_LANES; l++) {
            uint64_t value = start_value(m, &k->starts[s], w->first + (uint32_t)l, l);
            if (k->starts[s].at.words == 2)
                ((uint64_t *)ptx_at(w, k->starts[s].at))[l] = value;
            else
                ((uint32_t *)ptx_at(w, k->starts[s].at))[l] = (uint32_t)value;
        }
}

/* Called when every warp waits or has ended: passes the barrier if all warps wait at it; otherwise the
 * launch fails. */
static bool pass_barrier(ptx_machine *m)
{
    const ptx_warp *waits = NULL, *ended = NULL;
    const ptx_instruction *code = m->launch->kernel->code;
    for (uint32_t w = 0; w < m->n_warps; w++) {
        const ptx_warp *warp = &m->warps[w];
        if (warp->state == PTX_ENDED)
            ended = warp;
        else if (waits && warp->pc != waits->pc)
            ptx_fail(warp, &code[warp->pc], 0, "thread %u waits at another barrier", waits->first);
        else
            waits = warp;
    }
    if (!waits)
        return false;
    if (ended)
        ptx_fail(ended, NULL, 0, "has ended, and thread %u waits at a barrier", waits->first);
    for (uint32_t w = 0; w < m->n_warps; w++) {
        m->warps[w].state = PTX_RUNS;
        m->warps[w].pc++;
    }
    ptx_order_barrier(m);
    m->segment++;
    return true;
}

static void run_group(ptx_machine *m)
{
    memset(m->shared, 0xff, m->shared_bytes); /* NaN as a float of any width */
    memset(m->shared_shadow, 0, (m->shared_bytes / 4 + 1) * sizeof *m->shared_shadow);
    ptx_order_group(m);
    m->segment++;
    for (uint32_t w = 0; w < m->n_warps; w++)
        start_warp(m, &m->warps[w]);
    do {
        uint32_t running = 1;
        while (running > 0) {
            running = 0;
            uint32_t first = ptx_random(m) % m->n_warps;
            for (uint32_t n = 0; n < m->n_warps; n++) {
                ptx_warp *w = &m->warps[(first + n) % m->n_warps];
                run_warp(w, 1 + ptx_random(m) % 400);
                running += w->state == PTX_RUNS;
            }
        }
    } while (pass_barrier(m));
}

/* --- launches --- */

static void *allocate(size_t size)
{
    void *memory = calloc(size ? size : 1, 1);
    if (!memory)
        abort(); /* the tests cannot run without memory */
    return memory;
}

static void create_machine(ptx_machine *m, const ptx_launch *launch, char *message)
{
    const ptx_kernel *k = launch->kernel;
    memset(m, 0, sizeof *m);
    m->launch = launch;
    m->message = message;
    m->random = launch->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    m->n_threads = launch->group[0] * launch->group[1] * launch->group[2];
    m->n_warps = (m->n_threads + PTX_LANES - 1) / PTX_LANES;
    m->shared_bytes = k->shared_bytes + launch->dynamic_shared;
    m->shared = allocate(m->shared_bytes);
    m->shared_shadow = allocate((m->shared_bytes / 4 + 1) * sizeof *m->shared_shadow);
    ptx_order_create(m);
    m->warps = allocate(m->n_warps * sizeof *m->warps);
    for (uint32_t w = 0; w < m->n_warps; w++) {
        m->warps[w].machine = m;
        m->warps[w].first = w * PTX_LANES;
        m->warps[w].registers = aligned_alloc(128, (size_t)(k->units + 1) * 128);
        m->warps[w].local = allocate((size_t)k->local_bytes * PTX_LANES);
        m->warps[w].lanes = allocate(PTX_LANES * sizeof *m->warps[w].lanes);
    }
    ptx_products_create(m);
}

static void destroy_machine(ptx_machine *m)
{
    ptx_products_destroy(m);
    for (uint32_t w = 0; w < m->n_warps; w++) {
        free(m->warps[w].registers);
        free(m->warps[w].local);
        free(m->warps[w].lanes);
    }
    free(m->warps);
    ptx_order_destroy(m);
    free(m->shared);
    free(m->shared_shadow);
}

static void set_group(ptx_machine *m, uint32_t group)
{
    const uint32_t *grid = m->launch->grid;
    m->group = group;
    m->group_id[0] = group % grid[0];
    m->group_id[1] = group / grid[0] % grid[1];
    m->group_id[2] = group / grid[0] / grid[1];
}

static uint32_t *shuffled(ptx_machine *m, uint32_t n)
{
    uint32_t *order = allocate(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = ptx_random(m) % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

bool ptx_run(const ptx_launch *launch, char message[PTX_TEXT])
{
    static uint32_t last_segment; /* the buffers keep the marks of earlier launches */
    ptx_machine machine, *m = &machine;
    uint32_t groups = launch->grid[0] * launch->grid[1] * launch->grid[2];
    volatile bool ok = true;
    create_machine(m, launch, message);
    m->segment = m->first_segment = last_segment + 1;
    uint32_t *order = shuffled(m, groups);
    if (setjmp(m->failed)) {
        ok = false;
    } else {
        for (uint32_t g = 0; g < groups; g++) {
            set_group(m, order[g]);
            run_group(m);
        }
    }
    last_segment = m->segment;
    free(order);
    destroy_machine(m);
    return ok;
}
