/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma: asynchronous products of four warps, with both operands in shared memory, given by descriptors. A
 * product is computed when it is started. That gives correct results because nothing may touch the product's
 * registers and memory until its batch has been waited for. This file checks these rules:
 *   no other instruction uses the registers that the product adds to, from the last wgmma.fence on;
 *   the thread that writes the shared memory that the product reads executes fence.proxy.async and then a
 *       barrier before the product, and the memory is not written again;
 *   the four warps start the same products in the same order.
 * Operands are stored in rows of 128 bytes with the swizzle of that width; other layouts are not
 * supported. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_machine.h"
#include "tests/ptx/ptx_numbers.h"
#include "tests/ptx/ptx_parser.h"

#define GROUP_WARPS 4
#define MOST_COLUMNS 256
#define DEPTH 16 /* steps of k of one product */
#define CHUNK 8  /* elements in a chunk of 16 bytes, which the swizzle keeps together */

/* bits of ptx_instruction.mode */
enum { MODE_BF16 = 1, MODE_TURN_A = 2, MODE_TURN_B = 4, MODE_MINUS_A = 8, MODE_MINUS_B = 16 };

/* --- state --- */

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort(); /* the tests cannot run without memory */
    return memory;
}

void ptx_products_create(ptx_machine *m)
{
    const ptx_kernel *k = m->launch->kernel;
    if (!k->products)
        return;
    m->proxy = allocate(m->n_threads, sizeof *m->proxy);
    m->agreed = allocate((m->n_warps + GROUP_WARPS - 1) / GROUP_WARPS, sizeof *m->agreed);
    for (uint32_t w = 0; w < m->n_warps; w++) {
        ptx_products *own = allocate(1, sizeof *own);
        own->busy = allocate(k->units, sizeof *own->busy);
        own->used = allocate(k->units, sizeof *own->used);
        m->warps[w].products = own;
    }
}

void ptx_products_destroy(ptx_machine *m)
{
    for (uint32_t w = 0; w < m->n_warps; w++) {
        ptx_products *own = m->warps[w].products;
        if (own) {
            free(own->busy);
            free(own->used);
        }
        free(own);
    }
    free(m->proxy);
    free(m->agreed);
}

void ptx_products_start(ptx_warp *w)
{
    ptx_products *own = w->products;
    const ptx_machine *m = w->machine;
    memset(own->busy, 0, m->launch->kernel->units * sizeof *own->busy);
    memset(own->used, 0, m->launch->kernel->units * sizeof *own->used);
    own->n = own->batches = own->started = own->now = own->fence = 0;
    m->agreed[w->first / PTX_LANES / GROUP_WARPS].n = 0;
    memset(&m->proxy[w->first], 0, (size_t)__builtin_popcount(w->born) * sizeof *m->proxy);
}

void ptx_products_end(const ptx_warp *w, const ptx_instruction *i)
{
    if (w->products->n)
        ptx_fail(w, i, 0, "ends with %u products under way", w->products->n);
}

/* --- fences --- */

void ptx_proxy_fence(ptx_warp *w, uint32_t mask)
{
    ptx_machine *m = w->machine;
    m->fences++;
    for (int l = 0; m->proxy && l < PTX_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        ptx_proxy *p = &m->proxy[w->first + (uint32_t)l];
        if (p->segment != m->segment)
            p->earlier = p->last;
        p->last = m->fences;
        p->segment = m->segment;
    }
}

/* Checks that the thread that wrote this word has executed fence.proxy.async since, and, if another warp
 * wrote it, before the last barrier. */
static void check_fenced(ptx_warp *w, const ptx_instruction *i, uint64_t at, const ptx_shadow *s)
{
    const ptx_machine *m = w->machine;
    const ptx_proxy *p = &m->proxy[s->write_thread];
    bool own = s->write_thread >= w->first && s->write_thread < w->first + PTX_LANES;
    uint32_t fence = own || p->segment != m->segment ? p->last : p->earlier;
    if (fence <= s->stamp)
        ptx_fail(w, i, 0, "reads byte %llu of shared memory, which thread %u wrote without fence.proxy.async",
                 (unsigned long long)at, s->write_thread);
}

/* --- registers --- */

static void product(ptx_warp *w, ptx_instruction *i);

void ptx_products_look(ptx_warp *w, const ptx_instruction *i)
{
    ptx_products *own = w->products;
    own->now++;
    if (i->warp_op == product)
        return;
    for (int a = 0; a < i->n_args; a++)
        for (uint32_t word = 0; word < i->args[a].words; word++) {
            if (own->busy[i->args[a].unit + word])
                ptx_fail(w, i, 0, "uses a register that a product under way adds to");
            own->used[i->args[a].unit + word] = own->now;
        }
}

static void wgmma_fence(ptx_warp *w, ptx_instruction *i)
{
    (void)i;
    w->products->fence = w->products->now;
}

/* --- operands --- */

/* Address of a chunk of 8 elements: 8 steps of k in one line or, if `turned`, 8 lines in one step of k. The
 * swizzle changes bits of the address. */
static uint64_t chunk_address(uint64_t descriptor, bool turned, uint32_t line, uint32_t step)
{
    uint64_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4,
             stride = (descriptor >> 32 & 0x3fff) << 4, base = descriptor >> 49 & 7;
    uint64_t at = turned ? start + line / 64 * leading + step / 8 * stride + step % 8 * 128 + line % 64 * 2
                         : start + line / 8 * stride + line % 8 * 128 + step * 2;
    return at ^ ((((at >> 7) - base) & 7) << 4);
}

typedef void chunk_fn(ptx_warp *w, ptx_instruction *i, uint64_t address);

/* Calls `fn` for every chunk of `count` lines from line `first` on. values: gets the lines, DEPTH floats
 * each; may be NULL. */
static void for_chunks(ptx_warp *w, ptx_instruction *i, uint64_t descriptor, bool turned, uint32_t first,
                       uint32_t count, chunk_fn *fn, float (*values)[DEPTH])
{
    uint32_t down = turned ? count / CHUNK : count, across = turned ? DEPTH : DEPTH / CHUNK;
    for (uint32_t d = 0; d < down; d++)
        for (uint32_t s = 0; s < across; s++) {
            uint32_t line = turned ? CHUNK * d : d, step = turned ? s : CHUNK * s;
            uint64_t address = chunk_address(descriptor, turned, first + line, step);
            const uint8_t *data = ptx_shared_read(w, i, (int)(s % PTX_LANES), address, 16, 16);
            fn(w, i, address);
            for (uint32_t e = 0; values && e < CHUNK; e++) {
                uint16_t bits;
                memcpy(&bits, data + 2 * e, 2);
                values[line + (turned ? e : 0)][step + (turned ? 0 : e)] =
                    i->mode & MODE_BF16 ? ptx_float((uint32_t)bits << 16) : ptx_from_f16(bits);
            }
        }
}

static void hold(ptx_warp *w, ptx_instruction *i, uint64_t address)
{
    for (uint64_t at = address - PTX_SHARED_FIRST, end = at + 16; at < end; at += 4) {
        ptx_shadow *s = &w->machine->shared_shadow[at / 4];
        check_fenced(w, i, at, s);
        s->reading++;
    }
}

static void let_go(ptx_warp *w, ptx_instruction *i, uint64_t address)
{
    (void)i;
    for (uint64_t at = address - PTX_SHARED_FIRST, end = at + 16; at < end; at += 4)
        w->machine->shared_shadow[at / 4].reading--;
}

static uint64_t same_everywhere(ptx_warp *w, const ptx_instruction *i, int arg)
{
    for (int l = 1; l < PTX_LANES; l++)
        if (ptx_value(w, i->args[arg], l) != ptx_value(w, i->args[arg], 0))
            ptx_fail(w, i, l, "the lanes give different descriptors");
    return ptx_value(w, i->args[arg], 0);
}

static void check_descriptor(ptx_warp *w, const ptx_instruction *i, uint64_t d)
{
    if (d >> 62 != 1 || (d & UINT64_C(0x3ff1c000c000c000)) != 0)
        ptx_fail(w, i, 0, "descriptor 0x%016llx: only swizzles of 128 bytes are known here",
                 (unsigned long long)d);
}

/* --- the product --- */

/* Checks that the four warps start the same products: the warp that comes first determines the next one. */
static void agree(ptx_warp *w, const ptx_instruction *i, const ptx_product *mine)
{
    ptx_machine *m = w->machine;
    uint32_t warp = w->first / PTX_LANES, n = w->products->started++;
    ptx_agreed *group = &m->agreed[warp / GROUP_WARPS];
    if (m->n_threads % (GROUP_WARPS * PTX_LANES) != 0)
        ptx_fail(w, i, 0, "the last group of four warps is not whole");
    if (n == group->n) {
        group->list[group->n++ % PTX_MAX_PRODUCTS] = *mine;
        return;
    }
    const ptx_product *theirs = &group->list[n % PTX_MAX_PRODUCTS];
    if (n + PTX_MAX_PRODUCTS < group->n)
        ptx_fail(w, i, 0, "is %u products behind the other warps of its four", group->n - n);
    if (theirs->by != mine->by || theirs->a != mine->a || theirs->b != mine->b)
        ptx_fail(w, i, 0, "the four warps do not start the same product");
}

static bool adds_to_same(const ptx_instruction *a, const ptx_instruction *b)
{
    for (int d = 0; d < a->n / 2; d++)
        for (int e = 0; e < b->n / 2; e++)
            if (a->args[d].unit == b->args[e].unit)
                return true;
    return false;
}

/* Checks the registers d of the warp's sixteen rows. For every eight columns, a lane's registers hold
 * columns 2t and 2t + 1 of rows g and g + 8. */
static void check_registers(ptx_warp *w, const ptx_instruction *i)
{
    ptx_products *own = w->products;
    if (own->fence == 0)
        ptx_fail(w, i, 0, "no wgmma.fence before the first product");
    for (int d = 0; d < i->n / 2; d++) {
        uint32_t unit = i->args[d].unit;
        if (own->used[unit] > own->fence)
            ptx_fail(w, i, 0, "register %d was used since the last wgmma.fence", d);
        own->busy[unit]++;
    }
    for (uint32_t p = 0; p < own->n; p++)
        if (own->list[p].by->n != i->n && adds_to_same(own->list[p].by, i))
            ptx_fail(w, i, 0, "products of different shapes that add to the same registers are under way");
}

static void add_up(ptx_warp *w, const ptx_instruction *i, float (*a)[DEPTH], float (*b)[DEPTH], float sign,
                   bool keep)
{
    for (int d = 0; d < i->n / 2; d++) {
        float *sums = ptx_floats(w, i, d);
        for (int l = 0; l < PTX_LANES; l++) {
            const float *row = a[(l >> 2) + 8 * (d >> 1 & 1)], *column = b[d / 4 * 8 + 2 * (l & 3) + (d & 1)];
            double sum = 0.0;
            for (int k = 0; k < DEPTH; k++)
                sum += (double)row[k] * (double)column[k];
            sums[l] = (float)((keep ? (double)sums[l] : 0.0) + (double)sign * sum);
        }
    }
}

/* Operands: n / 2 registers, descriptors of A and B, and a predicate: add to the registers' values. */
static void product(ptx_warp *w, ptx_instruction *i)
{
    static float a[DEPTH][DEPTH], b[MOST_COLUMNS][DEPTH];
    ptx_products *own = w->products;
    int n = i->n / 2;
    ptx_product p = {i, same_everywhere(w, i, n), same_everywhere(w, i, n + 1), 0};
    uint32_t keep = ptx_words(w, i, n + 2)[0], warp = w->first / PTX_LANES % GROUP_WARPS;
    check_descriptor(w, i, p.a);
    check_descriptor(w, i, p.b);
    check_registers(w, i);
    agree(w, i, &p);
    if (own->n == PTX_MAX_PRODUCTS)
        ptx_fail(w, i, 0, "%u products are under way", own->n);
    for_chunks(w, i, p.a, i->mode & MODE_TURN_A, 16 * warp, 16, hold, a);
    for_chunks(w, i, p.b, i->mode & MODE_TURN_B, 0, (uint32_t)i->n, hold, b);
    bool minus = ((i->mode & MODE_MINUS_A) != 0) != ((i->mode & MODE_MINUS_B) != 0);
    add_up(w, i, a, b, minus ? -1.0f : 1.0f, keep != 0);
    own->list[own->n++] = p;
}

static void commit(ptx_warp *w, ptx_instruction *i)
{
    ptx_products *own = w->products;
    (void)i;
    own->batches++;
    for (uint32_t p = 0; p < own->n; p++)
        if (own->list[p].batch == 0)
            own->list[p].batch = own->batches;
}

/* Ends a product. It may read its operands until now, so a read is recorded now, too. */
static void finish(ptx_warp *w, const ptx_product *p)
{
    ptx_instruction *i = p->by;
    for_chunks(w, i, p->a, i->mode & MODE_TURN_A, 16 * (w->first / PTX_LANES % GROUP_WARPS), 16, let_go,
               NULL);
    for_chunks(w, i, p->b, i->mode & MODE_TURN_B, 0, (uint32_t)i->n, let_go, NULL);
    for (int d = 0; d < i->n / 2; d++)
        w->products->busy[i->args[d].unit]--;
}

static void wait_for(ptx_warp *w, ptx_instruction *i)
{
    ptx_products *own = w->products;
    uint32_t left = ptx_words(w, i, 0)[0], kept = 0;
    for (uint32_t p = 0; p < own->n; p++) {
        const ptx_product *one = &own->list[p];
        if (one->batch != 0 && one->batch + left <= own->batches)
            finish(w, one);
        else
            own->list[kept++] = *one;
    }
    own->n = kept;
}

/* --- text --- */

/* Parses an immediate that must be `plain` or `other`; sets `bit` for `other`. */
static bool one_of(const char *text, const char *plain, const char *other, uint32_t bit, uint32_t *mode)
{
    if (strcmp(text, other) == 0)
        *mode |= bit;
    return strcmp(text, other) == 0 || strcmp(text, plain) == 0;
}

static bool parse(ptx_parser *p, unsigned columns, uint32_t mode, char *operands)
{
    char *operand[PTX_MAX_OPERANDS];
    ptx_operand args[PTX_MAX_OPERANDS];
    int n = ptx_split(operands, true, operand, PTX_MAX_OPERANDS), registers = (int)columns / 2;
    if (columns % 8 != 0 || columns < 8 || columns > MOST_COLUMNS || n != registers + 7)
        return false;
    char **signs = operand + registers + 3;
    if (!one_of(signs[0], "1", "-1", MODE_MINUS_A, &mode) ||
        !one_of(signs[1], "1", "-1", MODE_MINUS_B, &mode) ||
        !one_of(signs[2], "0", "1", MODE_TURN_A, &mode) || !one_of(signs[3], "0", "1", MODE_TURN_B, &mode))
        return false;
    for (int a = 0; a < registers + 3; a++)
        if (!ptx_operand_of(p, operand[a], a == registers || a == registers + 1 ? 2 : 1, &args[a]))
            return true; /* the parser has reported the error */
    ptx_instruction *i = ptx_emit(p, PTX_WARP, args, registers + 3);
    i->warp_op = product;
    i->mode = mode;
    i->n = (int32_t)columns;
    p->kernel->products = true;
    return true;
}

bool ptx_product_statement(ptx_parser *p, const char *name, char *operands)
{
    static const struct {
        const char *name;
        ptx_warp_op *op;
    } others[] = {{"wgmma.fence.sync.aligned", wgmma_fence}, {"wgmma.commit_group.sync.aligned", commit}};
    unsigned columns = 0;
    char type[2][5];
    ptx_operand left;
    if (strncmp(name, "wgmma.", 6) != 0)
        return false;
    p->kernel->products = true;
    for (size_t o = 0; o < sizeof others / sizeof others[0]; o++)
        if (strcmp(name, others[o].name) == 0) {
            ptx_emit(p, PTX_WARP, NULL, 0)->warp_op = others[o].op;
            return true;
        }
    if (strcmp(name, "wgmma.wait_group.sync.aligned") == 0) {
        char *number;
        if (ptx_split(operands, true, &number, 1) == 1 && ptx_operand_of(p, number, 1, &left))
            ptx_emit(p, PTX_WARP, &left, 1)->warp_op = wait_for;
        return true;
    }
    bool known = sscanf(name, "wgmma.mma_async.sync.aligned.m64n%uk16.f32.%4[bf16].%4[bf16]", &columns,
                        type[0], type[1]) == 3 &&
                 strcmp(type[0], type[1]) == 0 &&
                 (strcmp(type[0], "f16") == 0 || strcmp(type[0], "bf16") == 0);
    if (!known || !parse(p, columns, type[0][0] == 'b' ? MODE_BF16 : 0, operands))
        ptx_parse_error(p, "unknown instruction '%s'", p->statement);
    return true;
}
