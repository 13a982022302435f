/* SPDX-License-Identifier: Apache-2.0
 *
 * Which cases of the checker decide whether a capability may be used: cases of kernels that use it, in sizes
 * that are not multiples of any tile, compared with double precision on the host. Only kernels that the
 * engine would use on such a device are run, in few programs, because compiling takes most of the time.
 * Knows no kernel. */
#include "engine/verify/self_test.h"

#include <stdio.h>
#include <string.h>

#include "cl/probes/asking.h"
#include "engine/verify/verify_internal.h"

#define SEED 20231 /* the same data every time, because results are cached */

/* Kinds of devices: those on which the engine uses the tested kernels. */
typedef enum device_kind {
    ANY_DEVICE,
    WITH_LANES,    /* style lanes (float16 vectors), mostly CPUs */
    WITHOUT_LOCAL, /* style lanes, and devices without local memory */
    ON_GPUS,       /* style groups (scalar work-items in work-groups), except CPUs */
    WITH_GROUPS,   /* style groups, mostly GPUs */
    WITHOUT_UNITS  /* style groups, and no matrix units that would compute the products */
} device_kind;

typedef struct test_cases {
    device_kind kind;
    const char *names[9];
} test_cases;

/* For every device: the variants that accept everything. In style lanes these kernels use float16 vectors,
 * but also work without them. This style is tested first, so that a driver that fails in it loses
 * wide_vectors and not the device. */
#define FLOOR_CASES                                                                                          \
    {                                                                                                        \
        "gemm.odd_nt[simple]/correct", "relu.tail[flat]/correct", "known.philox/correct"                     \
    }
#define UPDATE_CASES                                                                                         \
    {                                                                                                        \
        "update.adamw[lane]/correct"                                                                         \
    }
static const test_cases floor_lane_cases = {WITH_LANES, FLOOR_CASES};
static const test_cases floor_cases = {ANY_DEVICE, FLOOR_CASES};
static const test_cases update_lane_cases = {WITH_LANES, UPDATE_CASES};
static const test_cases update_cases = {WITHOUT_LOCAL, UPDATE_CASES};
static const test_cases update_group_cases = {WITH_GROUPS, {"update.adamw[group]/correct"}};
/* Kernels of style lanes with prefetching, and with nontemporal stores (which a bitwise check uses for
 * arrays of any size). If these fail, the next test shows whether the style works without them. The product
 * uses a program that training builds as well. */
static const test_cases prefetch_cases = {WITH_LANES, {"gemm.deep_columns[lane]/correct"}};
static const test_cases nontemporal_cases = {WITH_LANES, {"relu.chunk[lane]/bitwise"}};
static const test_cases lane_cases = {WITH_LANES, {"gemm.deep_columns[lane]/correct"}};
static const test_cases attention_lane_cases = {WITH_LANES, {"attention.odd[lane]/correct"}};
static const test_cases group_cases = {WITH_GROUPS,
                                       {"gemm.odd_nn[tile]/correct", "gemm.odd_nt[tile]/correct",
                                        "gemm.odd_tn[tile]/correct", "gemm.odd_tt[tile]/correct",
                                        "softmax.odd[group]/correct", "layernorm.odd[group]/correct"}};
/* Not on CPUs: compiling takes long there, PoCL 3.0 hangs in it, and products and the update are useful
 * without this. */
static const test_cases attention_cases = {
    ON_GPUS, {"attention.odd[group]/correct", "layernorm.vectors[blocks]/correct"}};
static const test_cases large_group_cases = {WITHOUT_UNITS, {"gemm.tails_nn[tile_64x64x16_4x4_k1]/correct"}};
#define UNIT_CASES(type, attention)                                                                          \
    {                                                                                                        \
        WITH_GROUPS,                                                                                         \
        {                                                                                                    \
            "gemm.odd_nn[mma_" type "]/correct", "gemm.odd_nt[mma_" type "]/correct",                        \
                "gemm.odd_tn[mma_" type "]/correct", "gemm.odd_tt[mma_" type "]/correct", attention          \
        }                                                                                                    \
    }
static const test_cases f16_cases = UNIT_CASES("f16", "attention.f16_odd[mma]/correct");
static const test_cases bf16_cases = UNIT_CASES("bf16", "attention.bf16_shared[mma]/correct");
/* All layouts, both types, and more steps of k than pipeline slots. The largest tiles are tested separately,
 * so that the others remain if they fail. */
static const test_cases wgmma_large_cases = {WITH_GROUPS,
                                             {"gemm.tails_nt[wgmma_bf16_128x256_s4_k1]/correct",
                                              "gemm.tails_tn[wgmma_bf16_256x128_s4_k2]/correct",
                                              "gemm.line_sums_forms[wgmma_bf16_128x128_s4_k2]/correct",
                                              "gemm.tails_nn[wgmma_f16_128x128_s3_k1]/correct",
                                              "gemm.tails_tn[wgmma_bf16_128x256_s4_stream5]/correct"}};
static const test_cases wgmma_wide_cases = {WITH_GROUPS,
                                            {"gemm.tails_nt[wgmma_f16_192x256_s4_k1]/correct",
                                             "gemm.tails_tn[wgmma_bf16_192x256_s4_k2]/correct",
                                             "gemm.line_sums_forms[wgmma_bf16_192x256_s4_k2]/correct",
                                             "gemm.line_sums_forms[wgmma_bf16_192x256_s4_stream3]/correct"}};
static const test_cases wgmma_cases = {WITH_GROUPS,
                                       {"gemm.large_nn[wgmma_f16]/correct",
                                        "gemm.large_tn[wgmma_bf16]/correct",
                                        "gemm.large_tt[wgmma_f16]/correct", "gemm.deep[wgmma_bf16]/correct",
                                        "gemm.tails_tn[wgmma_f16_64x64_s2_stream29]/correct"}};
static const test_cases tf32_cases = UNIT_CASES("tf32", NULL);
/* The older instructions are only used for products. */
static const test_cases wmma_cases = UNIT_CASES("f16", NULL);

/* The test of an addition to a kernel (such as prefetching) comes before the test of the kernel, so that its
 * failure costs only the addition. The last number says which of two child processes runs the test on CPUs;
 * both take about as long. */
static const ocl_self_test tests[] = {
    {"floor_lanes", OCL_CAP_WIDE_VECTORS, &floor_lane_cases, 0},
    {"floor", 0, &floor_cases, 0},
    {"prefetch", OCL_CAP_PREFETCH, &prefetch_cases, 0},
    {"nontemporal", OCL_CAP_NONTEMPORAL, &nontemporal_cases, 1},
    {"wide_vectors", OCL_CAP_WIDE_VECTORS, &lane_cases, 0},
    {"attention_lanes", OCL_CAP_WIDE_VECTORS, &attention_lane_cases, 1},
    {"local", OCL_CAP_LOCAL, &group_cases, 1},
    {"attention", OCL_CAP_LOCAL, &attention_cases, 0},
    {"wg256", OCL_CAP_WG256, &large_group_cases, 0},
    {"update_group", OCL_CAP_LOCAL, &update_group_cases, 0},
    {"update_lanes", OCL_CAP_WIDE_VECTORS, &update_lane_cases, 0},
    {"update", 0, &update_cases, 0}, /* for every device: there is no alternative to this variant */
    {"mma_f16", OCL_CAP_MMA_F16, &f16_cases, 0},
    {"mma_bf16", OCL_CAP_MMA_BF16, &bf16_cases, 0},
    {"mma_tf32", OCL_CAP_MMA_TF32, &tf32_cases, 0},
    {"mma_f16_k8", OCL_CAP_MMA_F16_K8, &f16_cases, 0},
    {"wmma_f16", OCL_CAP_WMMA_F16, &wmma_cases, 0},
    {"wgmma_wide", OCL_CAP_WGMMA_WIDE, &wgmma_wide_cases, 0},
    {"wgmma_large", OCL_CAP_WGMMA_LARGE, &wgmma_large_cases, 0},
    {"wgmma", OCL_CAP_WGMMA, &wgmma_cases, 0},
};

static bool wanted(const ocl_self_test *test, const ocl_device_desc *device)
{
    const test_cases *cases = test->data;
    bool lanes = ocl_prefers_lanes(device);
    switch (cases->kind) {
    case WITH_LANES:
        return lanes;
    case ON_GPUS:
        return !lanes && !device->is_cpu;
    case WITHOUT_LOCAL:
        return lanes || (device->caps & OCL_CAP_LOCAL) == 0;
    case WITH_GROUPS:
        return !lanes;
    case WITHOUT_UNITS:
        return !lanes && (device->caps & OCL_CAPS_UNITS) == 0;
    default:
        return true;
    }
}

/* The first failure: a wrong result, or a case that the driver did not carry out (status). */
typedef struct finding {
    bool wrong;
    clt_status status;
    char *reason;
    size_t size;
} finding;

static void on_result(void *context, const clt_verify_result *result)
{
    finding *f = context;
    bool fine = result->state == CLT_VERIFY_PASS || result->state == CLT_VERIFY_SKIP;
    if (f->wrong || (fine && result->status == CLT_OK))
        return;
    f->wrong = true;
    f->status = result->status;
    snprintf(f->reason, f->size, "%s: %s", result->name, result->reason ? result->reason : "");
}

static clt_status run_case(ocl_device *device, const char *name, finding *f)
{
    clt_verify_summary summary;
    const char *mode = strrchr(name, '/') + 1;
    clt_verify_options options = {.pattern = name,
                                  .modes =
                                      strcmp(mode, "bitwise") == 0 ? CLT_VERIFY_BITWISE : CLT_VERIFY_CORRECT,
                                  .caps_mask = OCL_CAPS_ALL,
                                  .seed = SEED,
                                  .result = on_result,
                                  .context = f};
    return clt_verify_on(device, &options, &summary);
}

static clt_status run(const ocl_self_test *test, ocl_device *device, bool *right, char *reason, size_t size)
{
    const test_cases *cases = test->data;
    finding f = {false, CLT_OK, reason, size};
    for (size_t i = 0; i < sizeof cases->names / sizeof cases->names[0] && cases->names[i] && !f.wrong; i++)
        CLT_TRY(run_case(device, cases->names[i], &f));
    if (f.status != CLT_OK) {
        char text[512];
        snprintf(text, sizeof text, "%s", reason);
        CLT_FAIL(f.status, "%s", text);
    }
    *right = !f.wrong;
    return CLT_OK;
}

static void note(const ocl_self_test *test, ocl_device *device)
{
    const test_cases *cases = test->data;
    char reason[64]; /* unused: every case fails when it asks for its first program */
    for (size_t i = 0; i < sizeof cases->names / sizeof cases->names[0] && cases->names[i]; i++) {
        (void)run_case(device, cases->names[i], &(finding){.reason = reason, .size = sizeof reason});
        clt_error_clear();
    }
}

void clt_self_test_register(void)
{
    static const ocl_self_test_set set = {tests, (int)(sizeof tests / sizeof tests[0]), wanted, run, note};
    ocl_self_tests_register(&set);
}
