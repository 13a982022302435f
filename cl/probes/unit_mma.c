/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix unit `mma`: instructions of a warp (mma.sync, and wmma on Volta). Its probes find out which of
 * them a device runs with right results. */
#include <math.h>
#include <stdio.h>

#include "cl/backends/gemm_mma.h"
#include "cl/device/matrix_unit.h"
#include "cl/probes/asking.h"
#include "cl/probes/probes_internal.h"

/* One instruction form of matrix units. */
typedef struct unit_probe {
    uint32_t cap;
    const char *options;
    uint32_t from; /* the lowest compute capability that has the instruction */
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

/* Stores an element of an operand, and returns its value as the instruction sees it. */
static float store_element(clt_dtype type, void *in, int i, float value)
{
    if (type != CLT_F32) {
        ((uint16_t *)in)[i] = type == CLT_BF16 ? clt_f32_to_bf16(value) : clt_f32_to_f16(value);
        return value;
    }
    ((float *)in)[i] = value;
    /* rounds ties away from zero */
    return ldexpf(roundf(ldexpf(value, 10)), -10);
}

/* The operands are small integers, for which all products and sums are exact in f16, bf16 and f32, so the
 * result must equal the host's. For tf32 one element is half-way between two representable values. */
static clt_status ask_instruction(const ocl_probe_state *state, ocl_item *item)
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

/* Whether to try the instruction of this probe: the device must run PTX, and its compute capability must be
 * unknown (0) or high enough. Only the probe's result proves that the instruction works. */
static bool want_instruction(const ocl_probe_state *state, char *why, size_t size)
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
static bool want_f16_k8(const ocl_probe_state *state, char *why, size_t size)
{
    return want_instruction(state, why, size) && !ocl_probe_has(state, OCL_CAP_MMA_F16);
}

static bool want_wmma_f16(const ocl_probe_state *state, char *why, size_t size)
{
    return want_instruction(state, why, size) && !ocl_probe_has(state, OCL_CAP_MMA_F16 | OCL_CAP_MMA_F16_K8);
}

static const ocl_question questions[] = {
    {"mma_f16", OCL_CAP_MMA_F16, want_instruction, ask_instruction, 0},
    {"mma_bf16", OCL_CAP_MMA_BF16, want_instruction, ask_instruction, 0},
    {"mma_tf32", OCL_CAP_MMA_TF32, want_instruction, ask_instruction, 0},
    {"mma_f16_k8", OCL_CAP_MMA_F16_K8, want_f16_k8, ask_instruction, 0},
    {"wmma_f16", OCL_CAP_WMMA_F16, want_wmma_f16, ask_instruction, 0},
    {NULL, 0, NULL, NULL, 0},
};

static const ocl_self_test tests[] = {
    {"mma_f16", OCL_CAP_MMA_F16, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES(OCL_TEST_PRODUCTS("mma_f16"), "attention.f16_odd[mma]/correct")},
    {"mma_bf16", OCL_CAP_MMA_BF16, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES(OCL_TEST_PRODUCTS("mma_bf16"), "attention.bf16_shared[mma]/correct")},
    {"mma_tf32", OCL_CAP_MMA_TF32, 0, OCL_WITH_GROUPS, OCL_TEST_CASES(OCL_TEST_PRODUCTS("mma_tf32"))},
    {"mma_f16_k8", OCL_CAP_MMA_F16_K8, 0, OCL_WITH_GROUPS,
     OCL_TEST_CASES(OCL_TEST_PRODUCTS("mma_f16"), "attention.f16_odd[mma]/correct")},
    /* Volta's instructions are used only for products, so other kernels have no tests here. */
    {"wmma_f16", OCL_CAP_WMMA_F16, 0, OCL_WITH_GROUPS, OCL_TEST_CASES(OCL_TEST_PRODUCTS("mma_f16"))},
    {.name = NULL}};

const ocl_matrix_unit ocl_unit_mma = {
    .name = "mma",
    .types = {{CLT_F16, "f16", OCL_CAP_MMA_F16 | OCL_CAP_MMA_F16_K8 | OCL_CAP_WMMA_F16},
              {CLT_BF16, "bf16", OCL_CAP_MMA_BF16},
              {CLT_F32, "tf32", OCL_CAP_MMA_TF32}},
    .any_layout = true,
    .emulated = true,
    .questions = questions,
    .tests = tests,
    .products = &ocl_mma_family};
