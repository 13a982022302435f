/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which accesses of other threads a thread sees. Of its own group it sees everything before the last
 * barrier. Of another group it sees everything that the other group did or had acquired before a release
 * (st.release) that the thread's group has acquired (ld.acquire). The acquiring thread sees it immediately,
 * other threads of its group after a barrier. This is the order of the PTX ISA, "Memory Consistency Model",
 * except that a releasing thread's own accesses since the last barrier do not count. An atomic operation
 * counts as a release and an acquire at all addresses. Groups run one after the other in random order. So if
 * a thread waits for a value that no group has stored yet, it waits for a group that has not started, and on
 * a device need not have started either: an error. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_machine.h"

#define MOST_LOOKS 1000000u

struct ptx_release {
    uint64_t address;
    uint32_t *clock; /* for each group: accesses before this segment happened before the release */
};
struct ptx_acquire {
    uint32_t thread;
    const uint32_t *clock;
};

static void *must(void *memory)
{
    if (!memory)
        abort(); /* the tests cannot run without memory */
    return memory;
}

void ptx_order_create(ptx_machine *m)
{
    const uint32_t *grid = m->launch->grid;
    ptx_order *o = &m->order;
    o->groups = grid[0] * grid[1] * grid[2];
    o->atomic = must(calloc((size_t)o->groups + 1, sizeof *o->atomic));
    o->clock = must(calloc((size_t)o->groups + 1, sizeof *o->clock));
}

void ptx_order_destroy(ptx_machine *m)
{
    ptx_order *o = &m->order;
    for (size_t r = 0; r < o->n_releases; r++)
        free(o->releases[r].clock);
    free(o->releases);
    free(o->acquires);
    free(o->atomic);
    free(o->clock);
}

void ptx_order_group(ptx_machine *m)
{
    ptx_order *o = &m->order;
    if (o->n_releases > 0)
        memset(o->clock, 0, o->groups * sizeof *o->clock);
    o->n_acquires = 0;
}

static void join(uint32_t *to, const uint32_t *from, uint32_t groups)
{
    for (uint32_t g = 0; g < groups; g++)
        to[g] = from[g] > to[g] ? from[g] : to[g];
}

void ptx_order_barrier(ptx_machine *m)
{
    ptx_order *o = &m->order;
    for (size_t a = 0; a < o->n_acquires; a++)
        join(o->clock, o->acquires[a].clock, o->groups);
    o->n_acquires = 0;
}

bool ptx_ordered(const ptx_machine *m, uint32_t thread, uint32_t group, uint32_t segment)
{
    const ptx_order *o = &m->order;
    if (segment < m->first_segment)
        return true; /* an earlier launch */
    if (group == m->group)
        return segment < m->segment;
    if (o->atomic[group] >= segment && o->atomic[m->group] > o->atomic[group])
        return true;
    bool seen = o->clock[group] > segment;
    for (size_t a = 0; a < o->n_acquires && !seen; a++)
        seen = o->acquires[a].thread == thread && o->acquires[a].clock[group] > segment;
    return seen;
}

void ptx_order_atomic(ptx_machine *m)
{
    m->order.atomic[m->group] = m->segment;
}

void ptx_order_release(ptx_machine *m, uint32_t thread, uint64_t address)
{
    ptx_order *o = &m->order;
    o->releases = must(realloc(o->releases, (o->n_releases + 1) * sizeof *o->releases));
    struct ptx_release *r = &o->releases[o->n_releases++];
    r->address = address;
    r->clock = must(calloc(o->groups, sizeof *r->clock));
    memcpy(r->clock, o->clock, o->groups * sizeof *r->clock);
    for (size_t a = 0; a < o->n_acquires; a++)
        if (o->acquires[a].thread == thread)
            join(r->clock, o->acquires[a].clock, o->groups);
    r->clock[m->group] = m->segment;
}

/* The thread has read the address with an acquiring load: it now sees what came before the last release
 * there. */
static void acquire(ptx_machine *m, uint32_t thread, uint64_t address)
{
    ptx_order *o = &m->order;
    size_t r = o->n_releases;
    while (r > 0 && o->releases[r - 1].address != address)
        r--;
    if (r == 0)
        return;
    for (size_t a = 0; a < o->n_acquires; a++)
        if (o->acquires[a].thread == thread && o->acquires[a].clock == o->releases[r - 1].clock)
            return;
    o->acquires = must(realloc(o->acquires, (o->n_acquires + 1) * sizeof *o->acquires));
    o->acquires[o->n_acquires++] = (struct ptx_acquire){thread, o->releases[r - 1].clock};
}

void ptx_order_acquire(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint64_t value)
{
    bool again = w->looked_at == address && w->looked_value == value;
    w->looks = again ? w->looks + 1 : 0;
    w->looked_at = address;
    w->looked_value = value;
    if (w->looks > MOST_LOOKS)
        ptx_fail(w, i, lane, "waits for a value that none of the groups which have started stores");
    acquire(w->machine, w->first + (uint32_t)lane, address);
}
