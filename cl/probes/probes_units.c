/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions about matrix units: which of their instructions a device runs with right results. */
#include "cl/probes/probes_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/backends/gemm_wgmma.h"
#include "cl/program/retarget.h"
#include "engine/base/dtype.h"

/* One instruction form of matrix units. */
typedef struct unit_probe {
    uint32_t cap;
    const char *options;
    uint32_t from; /* compute capability from which on the instruction exists */
    clt_dtype type;
    int columns; /* columns of B */
} unit_probe;

static const unit_probe unit_probes[] = {
    {OCL_CAP_MMA_F16, "-DPROBE_MMA_F16=1", 80, CLT_F16, 8},
    {OCL_CAP_MMA_BF16, "-DPROBE_MMA_BF16=1", 80, CLT_BF16, 8},
    {OCL_CAP_MMA_TF32, "-DPROBE_MMA_TF32=1", 80, CLT_F32, 8},
    {OCL_CAP_MMA_F16_K8, "-DPROBE_MMA_F16_K8=1", 75, CLT_F16, 8},
    {OCL_CAP_WMMA_F16, "-DPROBE_WMMA_F16=1", 70, CLT_F16, 16},
};

static const unit_probe *unit_of(uint32_t cap)
{
    const unit_probe *p = unit_probes;
    while (p->cap != cap)
        p++;
    return p;
}

/* Stores an operand's element and returns its value as the instruction sees it. */
static float store_element(clt_dtype type, void *in, int i, float value)
{
    if (type != CLT_F32) {
        ((uint16_t *)in)[i] = type == CLT_BF16 ? clt_f32_to_bf16(value) : clt_f32_to_f16(value);
        return value;
    }
    ((float *)in)[i] = value;
    /* ties away from zero */
    return ldexpf(roundf(ldexpf(value, 10)), -10);
}

/* The operands are small integers, for which all products and sums are exact in f16, bf16 and f32, so the
 * result must be equal. For tf32 one element is half-way between two representable values. */
clt_status ocl_probe_ask_unit(const ocl_probe_state *state, ocl_item *item)
{
    const unit_probe *p = unit_of(state->question->cap);
    float a[16 * 16], b[16 * 16], out[16 * 16] = {0};
    union {
        uint16_t narrow[2 * 256];
        float wide[2 * 256];
    } in;
    int n = 16 * p->columns;
    for (int i = 0; i < 256; i++)
        a[i] = store_element(p->type, &in, i,
                             p->type == CLT_F32 && i == 0 ? 1.00048828125f
                                                          : (float)((i * 7 + i / 16 * 3) % 9 - 4));
    for (int i = 0; i < n; i++)
        b[i] = store_element(p->type, &in, 256 + i, (float)((i * 5 + i / p->columns * 2) % 7 - 3));
    ocl_probe run = {.options = p->options,
                     .kernel = "probe_mma",
                     .in = &in,
                     .in_bytes = (size_t)(256 + n) * clt_dtype_bytes(p->type),
                     .out = out,
                     .out_bytes = (size_t)n * sizeof *out,
                     .n = (cl_uint)n,
                     .global = 32,
                     .local = 32};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < p->columns; column++) {
            float want = 1.0f;
            for (int k = 0; k < 16; k++)
                want += a[row * 16 + k] * b[k * p->columns + column];
            if (out[row * p->columns + column] != want)
                return ocl_answer_with(item, OCL_ANSWER_WRONG,
                                       "the product of a probe kernel is wrong at (%d, %d)", row, column);
        }
    }
    return ocl_answer_yes(item, 0);
}

/* The most local memory that a program for sm_90a was shown to get: as an array or, if that gives more, as
 * an argument of *by_argument bytes; else 0. */
static uint64_t most_local(const ocl_device_desc *desc, uint64_t *by_argument)
{
    uint64_t argument = desc->local_argument_bytes;
    bool more = argument > desc->local_retargeted_bytes + OCL_WGMMA_ALIGNMENT;
    *by_argument = more ? argument : 0;
    return more ? (argument / OCL_WGMMA_ALIGNMENT - 1) * OCL_WGMMA_ALIGNMENT : desc->local_retargeted_bytes;
}

/* A product of two tiles of 64 x 64, one with rows along k and one with rows across it, by four warps. The
 * tiles are at both ends of local memory of the size that is asked for, or of the largest one that was shown
 * to work. value: its bytes. */
clt_status ocl_probe_ask_wgmma(const ocl_probe_state *state, ocl_item *item)
{
    enum { SIDE = 64 };
    struct operands {
        uint16_t a[SIDE][SIDE], b[SIDE][SIDE]; /* (m, k), (k, n) */
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

/* The compute capability only says what is worth trying; 0: unknown. */
bool ocl_probe_want_unit(const ocl_probe_state *state, char *why, size_t size)
{
    const unit_probe *p = unit_of(state->question->cap);
    uint32_t capability = state->desc->compute_capability;
    if (!ocl_probe_want_ptx(state, why, size))
        return false;
    if (capability != 0 && capability < p->from) {
        snprintf(why, size, "compute capability %u.%u has no such instruction", capability / 10,
                 capability % 10);
        return false;
    }
    return ocl_probe_has(state, OCL_CAP_PTX);
}

/* Asked only if the device has no newer kind of matrix instruction. */
bool ocl_probe_want_mma_f16_k8(const ocl_probe_state *state, char *why, size_t size)
{
    return ocl_probe_want_unit(state, why, size) && !ocl_probe_has(state, OCL_CAP_MMA_F16);
}

bool ocl_probe_want_wmma_f16(const ocl_probe_state *state, char *why, size_t size)
{
    return ocl_probe_want_unit(state, why, size) &&
           !ocl_probe_has(state, OCL_CAP_MMA_F16 | OCL_CAP_MMA_F16_K8);
}

/* Only one compute capability has WGMMA; later ones have other instructions. */
bool ocl_probe_want_wgmma(const ocl_probe_state *state, char *why, size_t size)
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

/* The driver's assembler has a limit for each target, so sizes that work in other programs say nothing here.
 * The largest size that works is wanted. Each size is a separate question, so that one that crashes the
 * driver leaves the smaller ones. */
bool ocl_probe_want_wgmma_memory(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_WGMMA) &&
           state->desc->local_retargeted_bytes < (uint64_t)state->question->parameter << 10;
}

bool ocl_probe_want_wgmma_large(const ocl_probe_state *state, char *why, size_t size)
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

bool ocl_probe_want_wgmma_wide(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_WGMMA_LARGE) && ocl_group_limit(state->desc) >= 384;
}
