/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks every access to memory: it must be inside a buffer and aligned, must read only values that were
 * written, must not touch the target of an asynchronous copy in flight, and must not be a race. Shared
 * memory starts without values. A race is two threads that access a byte, at least one of them writing,
 * without a barrier of their group between them, or two groups between which nothing orders the accesses
 * (ptx_order.c). Acquiring loads and releasing stores do not race with each other. */
#include <string.h>

#include "tests/ptx/ptx_machine.h"
#include "tests/ptx/ptx_numbers.h"

/* The bytes of a word, as a mask, that an access of `bytes` bytes at `address` touches. */
static uint8_t byte_mask(uint64_t address, uint32_t bytes)
{
    uint32_t in_word = (uint32_t)address & 3;
    return (uint8_t)(((1u << (bytes < 4 ? bytes : 4)) - 1) << in_word);
}

/* --- races --- */

static const char *where_of(const ptx_warp *w, uint32_t group, uint32_t thread, char text[64])
{
    if (group == w->machine->group)
        snprintf(text, 64, "thread %u of the group", thread);
    else
        snprintf(text, 64, "thread %u of group %u", thread, group);
    return text;
}

/* True if another thread wrote some of the bytes and nothing orders that write before this access. strong:
 * this access may be concurrent with a releasing store. */
static bool written_by_other(const ptx_machine *m, const ptx_shadow *s, uint8_t bytes, uint32_t thread,
                             bool strong)
{
    return (s->written & bytes) && !(s->write_group == m->group && s->write_thread == thread) &&
           !(strong && s->strong) && !ptx_ordered(m, thread, s->write_group, s->write_segment);
}

static void note_read(ptx_warp *w, const ptx_instruction *i, int lane, ptx_shadow *s, uint8_t bytes)
{
    ptx_machine *m = w->machine;
    uint32_t thread = w->first + (uint32_t)lane;
    char text[64];
    bool strong = i->kind == PTX_LOAD && i->mode == PTX_ACQUIRE;
    if (written_by_other(m, s, bytes, thread, strong))
        ptx_fail(w, i, lane, "a race: reads what %s wrote, without a barrier in between",
                 where_of(w, s->write_group, s->write_thread, text));
    if (strong)
        return;
    if (s->read_segment != m->segment || s->read_group != m->group)
        s->read = s->many = 0;
    for (int k = 0; k < 4; k++) {
        uint8_t byte = (uint8_t)(bytes & 1u << k);
        if ((s->read & byte) && s->read_thread[k] != thread)
            s->many |= byte;
        if (byte)
            s->read_thread[k] = (uint16_t)thread;
    }
    s->read |= bytes;
    s->read_segment = m->segment;
    s->read_group = m->group;
}

/* A byte among `bytes` that another thread of this or another group has read; -1: none. */
static int read_by_other(const ptx_machine *m, const ptx_shadow *s, uint8_t bytes, uint32_t thread)
{
    for (int k = 0; k < 4; k++)
        if ((s->read & bytes & 1 << k) &&
            (s->read_group != m->group || s->read_thread[k] != thread || (s->many & 1 << k)))
            return k;
    return -1;
}

static void note_write(ptx_warp *w, const ptx_instruction *i, int lane, ptx_shadow *s, uint8_t bytes)
{
    ptx_machine *m = w->machine;
    uint32_t thread = w->first + (uint32_t)lane;
    char text[64];
    bool strong = i->kind == PTX_STORE && i->mode == PTX_RELEASE;
    if (written_by_other(m, s, bytes, thread, strong))
        ptx_fail(w, i, lane, "a race: writes what %s wrote, without a barrier in between",
                 where_of(w, s->write_group, s->write_thread, text));
    int other = read_by_other(m, s, bytes, thread);
    if (other >= 0 && !ptx_ordered(m, thread, s->read_group, s->read_segment))
        ptx_fail(w, i, lane, "a race: writes what %s read, without a barrier in between",
                 where_of(w, s->read_group, s->read_thread[other], text));
    if (s->write_segment != m->segment || s->write_group != m->group || s->write_thread != thread)
        s->written = 0;
    s->written |= bytes;
    s->strong = strong;
    s->write_segment = m->segment;
    s->write_group = m->group;
    s->write_thread = (uint16_t)thread;
    s->stamp = m->fences;
}

/* --- places --- */

static void check_align(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint32_t align)
{
    if (address % align != 0)
        ptx_fail(w, i, lane, "address 0x%llx is not a multiple of %u", (unsigned long long)address, align);
}

uint8_t *ptx_shared_read(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint32_t bytes,
                         uint32_t align)
{
    ptx_machine *m = w->machine;
    uint64_t at = address - PTX_SHARED_FIRST;
    check_align(w, i, lane, address, align);
    if (at > m->shared_bytes || bytes > m->shared_bytes - at)
        ptx_fail(w, i, lane, "reads %u bytes at %lld of %u bytes of shared memory", bytes, (long long)at,
                 m->shared_bytes);
    for (uint64_t word = at / 4; word <= (at + bytes - 1) / 4; word++) {
        ptx_shadow *s = &m->shared_shadow[word];
        uint8_t mask = bytes < 4 ? byte_mask(at, bytes) : 15;
        if (s->pending)
            ptx_fail(w, i, lane, "reads byte %llu of shared memory, to which a copy is under way",
                     (unsigned long long)(4 * word));
        if ((s->valid & mask) != mask)
            ptx_fail(w, i, lane, "reads byte %llu of shared memory, which was never written",
                     (unsigned long long)(4 * word));
        note_read(w, i, lane, s, mask);
    }
    return m->shared + at;
}

uint8_t *ptx_shared_write(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint32_t bytes,
                          uint32_t align)
{
    ptx_machine *m = w->machine;
    uint64_t at = address - PTX_SHARED_FIRST;
    check_align(w, i, lane, address, align);
    if (at > m->shared_bytes || bytes > m->shared_bytes - at)
        ptx_fail(w, i, lane, "writes %u bytes at %lld of %u bytes of shared memory", bytes, (long long)at,
                 m->shared_bytes);
    for (uint64_t word = at / 4; word <= (at + bytes - 1) / 4; word++) {
        ptx_shadow *s = &m->shared_shadow[word];
        uint8_t mask = bytes < 4 ? byte_mask(at, bytes) : 15;
        if (s->pending)
            ptx_fail(w, i, lane, "writes byte %llu of shared memory, to which a copy is under way",
                     (unsigned long long)(4 * word));
        if (s->reading)
            ptx_fail(w, i, lane, "writes byte %llu of shared memory, which a product under way reads",
                     (unsigned long long)(4 * word));
        note_write(w, i, lane, s, mask);
        s->valid |= mask;
    }
    return m->shared + at;
}

static ptx_buffer *buffer_of(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address,
                             uint32_t bytes, const char *does)
{
    const ptx_launch *launch = w->machine->launch;
    uint64_t number = address >> PTX_BUFFER_SHIFT, at = address & ((UINT64_C(1) << PTX_BUFFER_SHIFT) - 1);
    ptx_buffer *b = number < launch->n_buffers ? &launch->buffers[number] : NULL;
    check_align(w, i, lane, address, bytes);
    if (!b || !b->used)
        ptx_fail(w, i, lane, "%s %u bytes at 0x%llx, where no buffer is", does, bytes,
                 (unsigned long long)address);
    if (at > b->bytes || bytes > b->bytes - at)
        ptx_fail(w, i, lane, "%s %u bytes at %llu of buffer %llu, which has %llu bytes", does, bytes,
                 (unsigned long long)at, (unsigned long long)number, (unsigned long long)b->bytes);
    return b;
}

/* Fails if the lane reads the pattern, which marks memory without a value: guard zones, and results before
 * they are written. */
static void check_poison(ptx_warp *w, const ptx_instruction *i, int lane, const uint8_t *data, uint64_t at,
                         uint32_t bytes)
{
    uint32_t pattern = w->machine->launch->poison, word;
    if (pattern == 0)
        return;
    for (uint64_t first = at & ~UINT64_C(3); first < at + bytes; first += 4) {
        memcpy(&word, data + first, 4);
        uint32_t mask = bytes < 4 ? ((1u << (8 * bytes)) - 1) << (8 * (at & 3)) : ~0u;
        if (bytes > 1 && (word & mask) == (pattern & mask))
            ptx_fail(w, i, lane, "reads byte %llu of a buffer, which has no value", (unsigned long long)at);
    }
}

static uint8_t *global_at(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint32_t bytes,
                          bool write)
{
    ptx_buffer *b = buffer_of(w, i, lane, address, bytes, write ? "writes" : "reads");
    uint64_t at = address & ((UINT64_C(1) << PTX_BUFFER_SHIFT) - 1);
    for (uint64_t word = at / 4; word <= (at + bytes - 1) / 4; word++) {
        uint8_t mask = bytes < 4 ? byte_mask(at, bytes) : 15;
        if (write)
            note_write(w, i, lane, &b->shadow[word], mask);
        else
            note_read(w, i, lane, &b->shadow[word], mask);
    }
    if (!write)
        check_poison(w, i, lane, b->data, at, bytes);
    return b->data + at;
}

static uint8_t *local_at(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, uint32_t bytes)
{
    uint32_t size = w->machine->launch->kernel->local_bytes;
    uint64_t at = address - PTX_LOCAL_FIRST;
    check_align(w, i, lane, address, bytes);
    if (at > size || bytes > size - at)
        ptx_fail(w, i, lane, "%u bytes at %lld of %u bytes of local memory", bytes, (long long)at, size);
    return w->local + (uint64_t)lane * size + at;
}

static ptx_space space_at(const ptx_instruction *i, uint64_t address)
{
    if (i->space != PTX_GENERIC)
        return i->space;
    return address >= UINT64_C(1) << PTX_BUFFER_SHIFT ? PTX_GLOBAL
           : address >= PTX_LOCAL_FIRST               ? PTX_LOCAL
                                                      : PTX_SHARED;
}

static uint8_t *place(ptx_warp *w, const ptx_instruction *i, int lane, uint64_t address, bool write)
{
    uint32_t bytes = i->bytes * i->vector;
    switch (space_at(i, address)) {
    case PTX_SHARED:
        return write ? ptx_shared_write(w, i, lane, address, bytes, bytes)
                     : ptx_shared_read(w, i, lane, address, bytes, bytes);
    case PTX_LOCAL:
        return local_at(w, i, lane, address, bytes);
    default:
        return global_at(w, i, lane, address, bytes, write);
    }
}

/* --- counters --- */

static void count_sectors(ptx_instruction *i, const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    uint64_t seen[2 * PTX_LANES], lanes = 0;
    int n = 0;
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        lanes++;
        for (uint64_t s = address[l] / 32; s <= (address[l] + bytes - 1) / 32; s++) {
            int k = n;
            while (k > 0 && seen[k - 1] != s)
                k--;
            if (k == 0)
                seen[n++] = s;
        }
    }
    i->counts.moved += (uint64_t)n;
    i->counts.ideal += (lanes * bytes + 31) / 32;
}

/* With 16 or 8 bytes per lane, a quarter or a half of the warp is served at a time. */
void ptx_count_banks(ptx_instruction *i, const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    int at_once = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    for (int first = 0; first < PTX_LANES; first += at_once) {
        uint64_t words[32][32];
        int count[32] = {0}, most = 0;
        for (int l = first; l < first + at_once; l++) {
            if (!(mask >> l & 1))
                continue;
            for (uint64_t word = address[l] / 4; word <= (address[l] + bytes - 1) / 4; word++) {
                int bank = (int)(word % 32), k = 0;
                while (k < count[bank] && words[bank][k] != word)
                    k++;
                if (k == count[bank])
                    words[bank][count[bank]++] = word;
                most = count[bank] > most ? count[bank] : most;
            }
        }
        i->counts.moved += (uint64_t)most;
        i->counts.ideal += most > 0;
    }
}

static void count(ptx_warp *w, ptx_instruction *i, const uint64_t *address, uint32_t mask)
{
    if (!w->machine->launch->count || mask == 0)
        return;
    ptx_space space = space_at(i, address[__builtin_ctz(mask)]);
    if (space == PTX_GLOBAL)
        count_sectors(i, address, mask, i->bytes * i->vector);
    else if (space == PTX_SHARED)
        ptx_count_banks(i, address, mask, i->bytes * i->vector);
}

/* --- instructions --- */

static void addresses(const ptx_warp *w, const ptx_instruction *i, uint64_t out[PTX_LANES])
{
    for (int l = 0; l < PTX_LANES; l++)
        out[l] = ptx_value(w, i->args[0], l) + (uint64_t)i->offset;
}

static uint64_t widen(uint64_t value, uint32_t bytes, bool sign)
{
    if (!sign || bytes == 8)
        return value;
    uint32_t shift = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(value << shift) >> shift);
}

static void put(const ptx_warp *w, ptx_operand operand, int lane, uint64_t value)
{
    if (operand.words == 2)
        ((uint64_t *)ptx_at(w, operand))[lane] = value;
    else
        ((uint32_t *)ptx_at(w, operand))[lane] = (uint32_t)value;
}

void ptx_load(ptx_warp *w, ptx_instruction *i, uint32_t mask)
{
    uint64_t address[PTX_LANES];
    addresses(w, i, address);
    count(w, i, address, mask);
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        const uint8_t *at = place(w, i, l, address[l], false);
        for (uint32_t v = 0; v < i->vector; v++) {
            uint64_t value = 0;
            memcpy(&value, at + v * i->bytes, i->bytes);
            put(w, i->args[1 + v], l, widen(value, i->bytes, i->sign));
            if (i->mode == PTX_ACQUIRE)
                ptx_order_acquire(w, i, l, address[l], value);
        }
    }
}

void ptx_store(ptx_warp *w, ptx_instruction *i, uint32_t mask)
{
    uint64_t address[PTX_LANES];
    addresses(w, i, address);
    count(w, i, address, mask);
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        uint8_t *at = place(w, i, l, address[l], true);
        for (uint32_t v = 0; v < i->vector; v++) {
            uint64_t value = ptx_value(w, i->args[1 + v], l);
            memcpy(at + v * i->bytes, &value, i->bytes);
        }
        if (i->mode == PTX_RELEASE)
            ptx_order_release(w->machine, w->first + (uint32_t)l, address[l]);
    }
}

static uint64_t combined(const ptx_instruction *i, uint64_t old, uint64_t x, uint64_t y)
{
    bool less = i->sign ? (int64_t)widen(x, i->bytes, true) < (int64_t)widen(old, i->bytes, true) : x < old;
    switch ((ptx_atomic)i->mode) {
    case PTX_ATOM_ADD:
        return old + x;
    case PTX_ATOM_EXCH:
        return x;
    case PTX_ATOM_CAS:
        return old == x ? y : old;
    case PTX_ATOM_MIN:
        return less ? x : old;
    case PTX_ATOM_MAX:
        return less ? old : x;
    case PTX_ATOM_OR:
        return old | x;
    case PTX_ATOM_AND:
        return old & x;
    case PTX_ATOM_INC:
        return old >= x ? 0 : old + 1;
    }
    return old;
}

/* Atomic operations do not race with each other; a plain access to the same word is not checked. */
void ptx_atomic_run(ptx_warp *w, ptx_instruction *i, uint32_t mask)
{
    ptx_machine *m = w->machine;
    uint64_t address[PTX_LANES];
    addresses(w, i, address);
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        uint8_t *at;
        if (space_at(i, address[l]) == PTX_SHARED) {
            at = ptx_shared_read(w, i, l, address[l], i->bytes, i->bytes);
        } else {
            ptx_buffer *b = buffer_of(w, i, l, address[l], i->bytes, "changes");
            uint64_t offset = address[l] & ((UINT64_C(1) << PTX_BUFFER_SHIFT) - 1);
            if (i->mode != PTX_ATOM_EXCH)
                check_poison(w, i, l, b->data, offset, i->bytes);
            at = b->data + offset;
            ptx_order_atomic(m);
        }
        uint64_t old = 0, x = ptx_value(w, i->args[2], l);
        memcpy(&old, at, i->bytes);
        uint64_t y = i->mode == PTX_ATOM_CAS ? ptx_value(w, i->args[3], l) : 0;
        uint64_t value = combined(i, old, x, y);
        memcpy(at, &value, i->bytes);
        if (i->n)
            put(w, i->args[1], l, old);
    }
}

/* --- copies --- */

static ptx_shadow *target_words(ptx_machine *m, const ptx_copy *c)
{
    return &m->shared_shadow[(c->to - PTX_SHARED_FIRST) / 4];
}

/* Moves a copy's bytes. At random this happens when the copy starts, or at the latest time that is
 * allowed. */
static void land(ptx_warp *w, ptx_copy *c)
{
    ptx_machine *m = w->machine;
    uint8_t *to = m->shared + (c->to - PTX_SHARED_FIRST);
    memset(to, 0, c->size);
    if (c->bytes > 0) {
        const ptx_buffer *b = &m->launch->buffers[c->from >> PTX_BUFFER_SHIFT];
        memcpy(to, b->data + (c->from & ((UINT64_C(1) << PTX_BUFFER_SHIFT) - 1)), c->bytes);
    }
    c->landed = true;
}

static void finish(ptx_warp *w, const ptx_instruction *i, int lane, ptx_copy *c)
{
    ptx_machine *m = w->machine;
    if (!c->landed)
        land(w, c);
    for (uint32_t word = 0; word < c->size / 4; word++)
        target_words(m, c)[word].pending--;
    ptx_shared_write(w, i, lane, c->to, c->size,
                     c->size); /* written at the latest now: others see it after a barrier */
}

static void start_copy(ptx_warp *w, ptx_instruction *i, int lane)
{
    ptx_machine *m = w->machine;
    ptx_lane *own = &w->lanes[lane];
    ptx_copy c = {.to = ptx_value(w, i->args[0], lane),
                  .from = ptx_value(w, i->args[1], lane),
                  .bytes = (uint32_t)ptx_value(w, i->args[2], lane),
                  .size = i->bytes,
                  .by = i};
    check_align(w, i, lane, c.from, i->bytes);
    if (c.bytes > c.size)
        ptx_fail(w, i, lane, "copies %u of %u bytes", c.bytes, c.size);
    if (own->n_copies == PTX_MAX_COPIES)
        ptx_fail(w, i, lane, "has %u copies under way", own->n_copies);
    ptx_shared_write(w, i, lane, c.to, c.size, c.size);
    if (c.bytes == 0) /* reads no bytes, but the PTX ISA does not allow an invalid address */
        (void)buffer_of(w, i, lane, c.from, 1, "copies nothing from");
    /* Elements may have 2 or 4 bytes. A finite float can have the pattern's lower half but not its upper
     * half, so the lower half is checked alone only where the upper half is not copied. */
    for (uint32_t at = 0; at < c.bytes; at += 4) {
        global_at(w, i, lane, c.from + at, c.bytes - at < 4 ? 2 : 4, false);
        if (c.bytes - at >= 4)
            global_at(w, i, lane, c.from + at + 2, 2, false);
    }
    for (uint32_t word = 0; word < c.size / 4; word++)
        target_words(m, &c)[word].pending++;
    if (ptx_random(m) & 1)
        land(w, &c);
    own->copies[own->n_copies++] = c;
}

void ptx_copy_start(ptx_warp *w, ptx_instruction *i, uint32_t mask)
{
    uint64_t to[PTX_LANES], from[PTX_LANES];
    uint32_t reads = 0; /* lanes that copy some bytes, not only zeros */
    for (int l = 0; l < PTX_LANES; l++) {
        to[l] = ptx_value(w, i->args[0], l);
        from[l] = ptx_value(w, i->args[1], l);
        if (mask >> l & 1)
            start_copy(w, i, l);
        if ((mask >> l & 1) && ptx_value(w, i->args[2], l) != 0)
            reads |= 1u << l;
    }
    if (w->machine->launch->count && mask) {
        ptx_count_banks(i, to, mask, i->bytes);
        count_sectors(i, from, reads, i->bytes);
    }
}

void ptx_copy_commit(ptx_warp *w, uint32_t mask)
{
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        ptx_lane *own = &w->lanes[l];
        own->batches++;
        for (uint32_t c = 0; c < own->n_copies; c++)
            if (own->copies[c].batch == 0)
                own->copies[c].batch = own->batches;
    }
}

/* Completes all copies except those of the last n batches. */
void ptx_copy_wait(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        ptx_lane *own = &w->lanes[l];
        uint32_t kept = 0;
        for (uint32_t c = 0; c < own->n_copies; c++) {
            ptx_copy *copy = &own->copies[c];
            if (copy->batch != 0 && copy->batch + (uint32_t)i->n <= own->batches)
                finish(w, i, l, copy);
            else
                own->copies[kept++] = *copy;
        }
        own->n_copies = kept;
    }
}
