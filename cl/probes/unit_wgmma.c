/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix unit `wgmma`: instructions of four warps with operands in local memory, for compute capability
 * 9.0, in programs that are loaded back as sm_90a (cl/program/retarget.h). */
#include <stdio.h>
#include <stdlib.h>

#include "cl/backends/gemm_wgmma.h"
#include "cl/device/matrix_unit.h"
#include "cl/probes/asking.h"
#include "cl/probes/probes_internal.h"
#include "cl/program/retarget.h"

/* The largest local memory that a program for sm_90a was shown to get. It is an array, and *by_argument is
 * 0; or, if an argument can be larger, it is an argument of *by_argument bytes. */
static uint64_t most_local(const ocl_device_desc *desc, uint64_t *by_argument)
{
    uint64_t argument = desc->local_argument_bytes;
    bool more = argument > desc->local_retargeted_bytes + OCL_WGMMA_ALIGNMENT;
    *by_argument = more ? argument : 0;
    return more ? (argument / OCL_WGMMA_ALIGNMENT - 1) * OCL_WGMMA_ALIGNMENT : desc->local_retargeted_bytes;
}

/* A product of two tiles of 64 x 64, one with rows along k and one with rows across it, by four warps. The
 * tiles are at the two ends of local memory, whose size is the question's parameter or, without one, the
 * largest one that was shown to work. value: its bytes. */
static clt_status ask_wgmma(const ocl_probe_state *state, ocl_item *item)
{
    enum { SIDE = 64 };
    struct operands {
        uint16_t a[SIDE][SIDE], b[SIDE][SIDE]; /* shapes (m, k) and (k, n) */
        float out[SIDE][SIDE];
    } * t;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a probe"));
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            t->a[i][j] = clt_f32_to_f16((float)((i * 7 + j * 3 + i / 16) % 9 - 4));
            t->b[i][j] = clt_f32_to_f16((float)((i * 5 + j * 2 + j / 16) % 7 - 3));
        }
    uint64_t local = 2 * sizeof t->a, by_argument = 0;
    if (state->question->parameter != 0)
        local = (uint64_t)state->question->parameter << 10;
    else if (state->question->cap != OCL_CAP_WGMMA)
        local = most_local(state->desc, &by_argument);
    size_t items = state->question->cap == OCL_CAP_WGMMA_WIDE ? 6 * SIDE : 2 * SIDE;
    char options[120];
    snprintf(options, sizeof options, OCL_RETARGET_OPTION " -DPROBE_BYTES=%u -DPROBE_ITEMS=%zu%s",
             (unsigned)local, items, by_argument ? " -DLOCAL_ARGUMENT=1" : "");
    ocl_probe run = {.options = options,
                     .kernel = "probe_wgmma",
                     .in = t->a,
                     .in_bytes = 2 * sizeof t->a,
                     .out = t->out,
                     .out_bytes = sizeof t->out,
                     .n = SIDE * SIDE,
                     .global = items,
                     .local = items,
                     .local_bytes = by_argument};
    clt_status status = ocl_probe_run(state->device, &run);
    if (status == CLT_OK)
        status = ocl_answer_yes(item, local);
    for (int i = 0; status == CLT_OK && i < SIDE * SIDE && item->answer == OCL_ANSWER_YES; i++) {
        float want = 0.0f;
        for (int k = 0; k < SIDE; k++)
            want += clt_f16_to_f32(t->a[i / SIDE][k]) * clt_f16_to_f32(t->b[k][i % SIDE]);
        if (t->out[i / SIDE][i % SIDE] != want)
            status =
                ocl_answer_with(item, OCL_ANSWER_WRONG, "the product of a probe kernel is wrong at (%d, %d)",
                                i / SIDE, i % SIDE);
    }
    free(t);
    return status;
}

/* Only compute capability 9.0 has WGMMA; later ones have other instructions. */
static bool want_wgmma(const ocl_probe_state *state, char *why, size_t size)
{
    uint32_t capability = state->desc->compute_capability;
    if (!ocl_probe_want_ptx(state, why, size))
        return false;
    if (capability != 90) {
        snprintf(why, size, "compute capability %u.%u has no such instruction", capability / 10,
                 capability % 10);
        return false;
    }
    return ocl_probe_has(state, OCL_CAP_PTX) && ocl_probe_has(state, OCL_CAP_LOCAL);
}

/* The driver's assembler has a limit for each target, so sizes that work in other programs prove nothing
 * here. These questions find the largest size that works. Each size has a separate question, so that one
 * that crashes the driver does not affect smaller ones. */
static bool want_memory(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_WGMMA) &&
           state->desc->local_retargeted_bytes < (uint64_t)state->question->parameter << 10;
}

static bool want_large(const ocl_probe_state *state, char *why, size_t size)
{
    if (!ocl_probe_has(state, OCL_CAP_WGMMA))
        return false;
    uint64_t by_argument;
    if (most_local(state->desc, &by_argument) > OCL_WGMMA_SMALL_BYTES)
        return true;
    const ocl_item *least = ocl_capabilities_find(state->capabilities, state->question[-1].name);
    if (least != NULL && least->answer == OCL_ANSWER_NO)
        snprintf(why, size, "a program for sm_90a has no more than %u KiB of local memory",
                 OCL_WGMMA_SMALL_BYTES >> 10);
    return false;
}

static bool want_wide(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_WGMMA_LARGE) && ocl_group_limit(state->desc) >= 384;
}

#define MEMORY(kib)                                                                                          \
    {                                                                                                        \
        OCL_ITEM_RETARGETED_MEMORY #kib, OCL_CAP_WGMMA_LARGE, want_memory, ask_wgmma, kib                    \
    }

/* The sizes in questions about local memory, in KiB. The first is all that the hardware has, because the
 * tile 192x256 with four stages and sums of lines needs 225 KiB. Smaller forms of cl/backends/gemm_wgmma.c
 * need the others. */
static const ocl_question questions[] = {
    {"wgmma", OCL_CAP_WGMMA, want_wgmma, ask_wgmma, 0},
    MEMORY(227),
    MEMORY(224),
    MEMORY(192),
    MEMORY(160),
    MEMORY(96),
    {"wgmma_large", OCL_CAP_WGMMA_LARGE, want_large, ask_wgmma, 0},
    {"wgmma_wide", OCL_CAP_WGMMA_WIDE, want_wide, ask_wgmma, 0},
    {NULL, 0, NULL, NULL, 0},
};

/* Tests of all layouts, both types, and more steps of k than pipeline slots. The largest tiles have separate
 * tests, so that other tiles stay usable if they fail. */
static const ocl_self_test tests[] = {
    {"wgmma_wide", OCL_CAP_WGMMA_WIDE, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES("gemm.tails_nt[wgmma_f16_192x256_s4_k1]/correct",
                    "gemm.tails_tn[wgmma_bf16_192x256_s4_k2]/correct",
                    "gemm.line_sums_forms[wgmma_bf16_192x256_s4_k2]/correct",
                    "gemm.line_sums_forms[wgmma_bf16_192x256_s4_stream3]/correct")},
    {"wgmma_large", OCL_CAP_WGMMA_LARGE, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES("gemm.tails_nt[wgmma_bf16_128x256_s4_k1]/correct",
                    "gemm.tails_tn[wgmma_bf16_256x128_s4_k2]/correct",
                    "gemm.line_sums_forms[wgmma_bf16_128x128_s4_k2]/correct",
                    "gemm.tails_nn[wgmma_f16_128x128_s3_k1]/correct",
                    "gemm.tails_tn[wgmma_bf16_128x256_s4_stream5]/correct")},
    {"wgmma", OCL_CAP_WGMMA, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES("gemm.large_nn[wgmma_f16]/correct", "gemm.large_tn[wgmma_bf16]/correct",
                    "gemm.large_tt[wgmma_f16]/correct", "gemm.deep[wgmma_bf16]/correct",
                    "gemm.tails_tn[wgmma_f16_64x64_s2_stream29]/correct")},
    {.name = NULL}};

const ocl_matrix_unit ocl_unit_wgmma = {
    .name = "wgmma",
    .types = {{CLT_F16, "f16", OCL_CAP_WGMMA}, {CLT_BF16, "bf16", OCL_CAP_WGMMA}},
    .need = OCL_CAP_WGMMA,
    .extras = {{OCL_CAP_WGMMA_WIDE, false}, {OCL_CAP_WGMMA_LARGE, true}},
    .questions = questions,
    .tests = tests,
    .products = &ocl_wgmma_family};
