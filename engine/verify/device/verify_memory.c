/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of global memory without ops: atomic operations for which items of all groups compete, and places
 * more than 2 and 4 GiB from the start of a buffer. Knows no op. */
#include <stdlib.h>
#include <string.h>

#include "engine/verify/device/atomics_shared.clh"
#include "engine/verify/verify_internal.h"

/* --- atomics --- */

#define ITEMS 32768u

typedef struct atomic_check {
    const char *name;
    uint32_t operation, cells;
    clt_status (*judge)(const struct atomic_check *c, const uint32_t *x, uint32_t *y,
                        clt_verify_outcome *outcome);
} atomic_check;

/* Every answer of a counter, from 0 to the last, must occur once. The answers are sorted by cell into
 * `seen`. */
static clt_status judge_counts(const atomic_check *c, const uint32_t *x, uint32_t *y,
                               clt_verify_outcome *outcome)
{
    uint32_t count[64] = {0}, first[65] = {0};
    for (uint32_t i = 0; i < ITEMS; i++)
        count[x[i]]++;
    for (uint32_t cell = 0; cell < c->cells; cell++) {
        first[cell + 1] = first[cell] + count[cell];
        if (y[ITEMS + cell] != count[cell])
            clt_verify_set(outcome, CLT_VERIFY_FAIL, "counter %u of %u is %u after %u additions of 1", cell,
                           c->cells, y[ITEMS + cell], count[cell]);
    }
    CLT_FREED uint8_t *seen = NULL;
    CLT_TRY(clt_alloc(&seen, ITEMS, sizeof *seen, "answers of atomic operations"));
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t at = first[x[i]] + y[i];
        if (y[i] >= count[x[i]] || seen[at])
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "work-item %u got the number %u from counter %u of %u, %s", i, y[i], x[i],
                           c->cells, y[i] >= count[x[i]] ? "which does not exist" : "as did another one");
        else
            seen[at] = 1;
    }
    return CLT_OK;
}

/* The 32 items of a word set one bit each; the answer is the word before that. */
static clt_status judge_bits(const atomic_check *c, const uint32_t *x, uint32_t *y,
                             clt_verify_outcome *outcome)
{
    (void)x;
    for (uint32_t cell = 0; cell < c->cells; cell++) {
        uint32_t by_count = 0;
        for (uint32_t bit = 0; bit < 32; bit++) {
            uint32_t before = y[32 * cell + bit], set = (uint32_t)__builtin_popcount(before);
            if (before >> bit & 1u)
                clt_verify_set(outcome, CLT_VERIFY_FAIL,
                               "work-item %u found its bit %u set in %08x before it set it", 32 * cell + bit,
                               bit, before);
            by_count |= set < 32 ? 1u << set : 0;
        }
        if (by_count != UINT32_MAX || y[ITEMS + cell] != UINT32_MAX)
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "32 work-items set the bits of word %u one after the other; it is %08x", cell,
                           y[ITEMS + cell]);
    }
    return CLT_OK;
}

/* Items exchange their numbers with one cell, one after the other: each number comes out once, and one
 * stays. */
static clt_status judge_exchange(const atomic_check *c, const uint32_t *x, uint32_t *y,
                                 clt_verify_outcome *outcome)
{
    (void)c;
    (void)x;
    CLT_FREED uint8_t *seen = NULL;
    CLT_TRY(clt_alloc(&seen, ITEMS + 1, sizeof *seen, "answers of atomic operations"));
    for (uint32_t i = 0; i <= ITEMS; i++) {
        if (y[i] > ITEMS || seen[y[i]])
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "the number %u came out of the cell twice, or never went in", y[i]);
        else
            seen[y[i]] = 1;
    }
    return CLT_OK;
}

static const atomic_check atomics[] = {{"tickets", ATOMICS_INCREMENT, 1, judge_counts},
                                       {"counts", ATOMICS_INCREMENT, 64, judge_counts},
                                       {"bits", ATOMICS_OR, ITEMS / 32, judge_bits},
                                       {"exchange", ATOMICS_EXCHANGE, 1, judge_exchange}};

static clt_status check_atomics(clt_verify_session *session, const atomic_check *c,
                                clt_verify_outcome *outcome)
{
    CLT_FREED uint32_t *x = NULL, *y = NULL;
    clt_verify_stream stream = clt_verify_stream_make(session->seed, "atomics", 0);
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_alloc(&x, ITEMS, sizeof *x, "cells of atomic operations"));
    CLT_TRY(clt_alloc(&y, ITEMS + c->cells, sizeof *y, "answers of atomic operations"));
    for (uint32_t i = 0; i < ITEMS; i++)
        x[i] = c->operation == ATOMICS_OR ? i / 32 : clt_verify_word(&stream, i) % c->cells;
    CLT_TRY(clt_verify_command_begin(session, "atomics", &list, &e));
    ocl_kernel_begin(&e, "atomics", "atomic_cells");
    ocl_arg_inout(&e, 0, CLT_U32, ITEMS + c->cells);
    ocl_arg_in(&e, 1, CLT_U32, ITEMS);
    ocl_arg_u32(&e, ITEMS);
    ocl_arg_u32(&e, c->operation);
    ocl_kernel_end_items(&e, ITEMS, 0, 0.0);
    CLT_TRY(clt_verify_command_answer(session, &e, x, ITEMS * sizeof *x, y, (ITEMS + c->cells) * sizeof *y));
    CLT_TRY(c->judge(c, x, y, outcome));
    return CLT_OK;
}

/* --- large buffers --- */

#define MIB (UINT64_C(1) << 20)

typedef struct far_check {
    const char *form;
    uint64_t bytes;
    /* Bytes from one place to the next: a divisor of 2^32, so that an offset that loses its upper 32 bits
     * leads to another place. Large buffers have few places, because the system may give 2 MiB of memory for
     * each. */
    uint64_t apart;
    bool small;
} far_check;
static const far_check far[] = {{"16m", 16 * MIB, MIB / 16, true},
                                {"above_2g", 2112 * MIB, 32 * MIB, false},
                                {"above_4g", 4224 * MIB, 32 * MIB, false}};

/* Writes to the places of the buffer, or reads them into the buffer of answers. The first place is one
 * element before the end of the first piece, so that the last one is the end of the buffer. */
static clt_status far_run(clt_verify_session *session, const far_check *c, clt_dtype type, bool write,
                          ocl_buffer **buffers)
{
    const uint64_t unit = clt_dtype_bytes(type), places = c->bytes / c->apart;
    const ocl_tensor_ref from = {write ? 0 : 1, c->apart - unit};
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_verify_command_begin(session, "far offsets", &list, &e));
    ocl_kernel_begin(&e, "far_offsets", write ? "far_write" : "far_read");
    ocl_define_text(&e, "DT", clt_dtype_name(type));
    if (!write)
        ocl_arg_out(&e, 0, CLT_U32, places);
    ocl_arg_tensor(&e, write ? OCL_WRITE : OCL_READ, from, type, places);
    ocl_arg_u64(&e, c->apart / unit);
    ocl_arg_u32(&e, (uint32_t)places);
    if (write)
        ocl_arg_u32(&e, (uint32_t)session->seed);
    ocl_kernel_end_items(&e, places, 0, 0.0);
    return clt_verify_command_run(session, &e, buffers);
}

/* Compares the values that the kernel has read, and those that the host reads, with the written ones. */
static clt_status far_judge(const clt_verify_session *session, const far_check *c, clt_dtype type,
                            ocl_buffer *large, const uint32_t *read, clt_verify_outcome *outcome)
{
    const uint64_t unit = clt_dtype_bytes(type);
    const uint32_t places = (uint32_t)(c->bytes / c->apart), mask = unit == 1 ? 0xffu : 0xffffffffu;
    for (uint32_t i = 0; i < places && !clt_verify_bad(outcome); i++) {
        const uint64_t offset = c->apart - unit + i * c->apart;
        uint32_t want = (((i ^ (uint32_t)session->seed) * 0x9e3779b1u) >> 8) & mask, held = 0;
        CLT_TRY(ocl_read(large, offset, &held, unit));
        if (held != want || read[i] != want)
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "the %s at byte %llu of a buffer of %llu is %08x for a kernel and %08x for the "
                           "host, and must be %08x",
                           clt_dtype_name(type), (unsigned long long)offset, (unsigned long long)c->bytes,
                           read[i], held, want);
    }
    clt_verify_add_bits(outcome, read, places * sizeof *read);
    return CLT_OK;
}

static clt_status check_far(clt_verify_session *session, const far_check *c, clt_verify_outcome *outcome)
{
    /* counted in bytes, the element numbers are above 2^32, too */
    static const clt_dtype types[] = {CLT_U32, CLT_U8};
    const uint64_t places = c->bytes / c->apart;
    CLT_SCOPED(ocl_buffer) *large = NULL, *answers = NULL;
    CLT_FREED uint32_t *read = NULL;
    CLT_TRY(clt_alloc(&read, places, sizeof *read, "words at far places"));
    CLT_TRY(ocl_buffer_create(session->device, c->bytes, "large buffer", &large));
    CLT_TRY(ocl_buffer_create(session->device, places * sizeof *read, "far answers", &answers));
    for (size_t t = 0; t < (c->small ? 1 : 2) && !clt_verify_bad(outcome); t++) {
        CLT_TRY(far_run(session, c, types[t], true, (ocl_buffer *[]){large}));
        CLT_TRY(far_run(session, c, types[t], false, (ocl_buffer *[]){answers, large}));
        CLT_TRY(ocl_read(answers, 0, read, places * sizeof *read));
        CLT_TRY(far_judge(session, c, types[t], large, read, outcome));
    }
    return CLT_OK;
}

clt_status clt_verify_memory(clt_verify_session *session)
{
    clt_verify_outcome outcome;
    for (size_t i = 0; i < sizeof atomics / sizeof atomics[0]; i++) {
        clt_verify_item item = {"atomics", atomics[i].name, NULL, CLT_VERIFY_CORRECT, true, false};
        if (clt_verify_wants(session, &item, &outcome))
            CLT_TRY(clt_verify_finish(session, &outcome, check_atomics(session, &atomics[i], &outcome)));
    }
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        clt_verify_item item = {"memory", "offsets", far[i].form, CLT_VERIFY_CORRECT, far[i].small, false};
        if (clt_verify_wants(session, &item, &outcome))
            CLT_TRY(clt_verify_finish(session, &outcome, check_far(session, &far[i], &outcome)));
    }
    return CLT_OK;
}
