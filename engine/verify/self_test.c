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

/* A test: its name, the capability that it decides about, the child process that runs it on CPUs, the kind of
 * device, the cases. */
#define TEST(name, capability, child, devices, ...)                                                          \
    {                                                                                                        \
        name, capability, &(const test_cases){devices, {__VA_ARGS__}}, child                                 \
    }
#define FLOOR_CASES "gemm.odd_nt[simple]/correct", "relu.tail[flat]/correct", "known.philox/correct"
/* Every layout of a product. */
#define PRODUCTS(variant)                                                                                    \
    "gemm.odd_nn[" variant "]/correct", "gemm.odd_nt[" variant "]/correct",                                  \
        "gemm.odd_tn[" variant "]/correct", "gemm.odd_tt[" variant "]/correct"

/* The test of an addition to a kernel (such as prefetching) comes before the test of the kernel, so that its
 * failure costs only the addition. The two child processes take about equally long. */
static const ocl_self_test tests[] = {
    /* For every device: the variants that accept everything. In style lanes these kernels use float16
     * vectors, but also work without them. This style is tested first, so that a driver that fails in it
     * loses wide_vectors and not the device. */
    TEST("floor_lanes", OCL_CAP_WIDE_VECTORS, 0, WITH_LANES, FLOOR_CASES),
    TEST("floor", 0, 0, ANY_DEVICE, FLOOR_CASES),
    /* Kernels of style lanes with prefetching, and with nontemporal stores (which a bitwise check uses for
     * arrays of any size). If these fail, the next test shows whether the style works without them. The
     * product uses a program that training builds as well. */
    TEST("prefetch", OCL_CAP_PREFETCH, 0, WITH_LANES, "gemm.deep_columns[lane]/correct"),
    TEST("nontemporal", OCL_CAP_NONTEMPORAL, 1, WITH_LANES, "relu.chunk[lane]/bitwise"),
    TEST("wide_vectors", OCL_CAP_WIDE_VECTORS, 0, WITH_LANES, "gemm.deep_columns[lane]/correct"),
    TEST("attention_lanes", OCL_CAP_WIDE_VECTORS, 1, WITH_LANES, "attention.odd[lane]/correct"),
    TEST("local", OCL_CAP_LOCAL, 1, WITH_GROUPS, PRODUCTS("tile"), "softmax.odd[group]/correct",
         "layernorm.odd[group]/correct"),
    /* Not on CPUs: compiling takes long there, PoCL 3.0 hangs in it, and products and the update are useful
     * without this. */
    TEST("attention", OCL_CAP_LOCAL, 0, ON_GPUS, "attention.odd[group]/correct",
         "layernorm.vectors[blocks]/correct"),
    TEST("wg256", OCL_CAP_WG256, 0, WITHOUT_UNITS, "gemm.tails_nn[tile_64x64x16_4x4_k1]/correct"),
    TEST("update_group", OCL_CAP_LOCAL, 0, WITH_GROUPS, "update.adamw[group]/correct"),
    TEST("update_lanes", OCL_CAP_WIDE_VECTORS, 0, WITH_LANES, "update.adamw[lane]/correct"),
    /* for every device: there is no alternative to this variant */
    TEST("update", 0, 0, WITHOUT_LOCAL, "update.adamw[lane]/correct"),
    TEST("mma_f16", OCL_CAP_MMA_F16, 0, WITH_GROUPS, PRODUCTS("mma_f16"), "attention.f16_odd[mma]/correct"),
    TEST("mma_bf16", OCL_CAP_MMA_BF16, 0, WITH_GROUPS, PRODUCTS("mma_bf16"),
         "attention.bf16_shared[mma]/correct"),
    TEST("mma_tf32", OCL_CAP_MMA_TF32, 0, WITH_GROUPS, PRODUCTS("mma_tf32")),
    TEST("mma_f16_k8", OCL_CAP_MMA_F16_K8, 0, WITH_GROUPS, PRODUCTS("mma_f16"),
         "attention.f16_odd[mma]/correct"),
    /* The older instructions are only used for products. */
    TEST("wmma_f16", OCL_CAP_WMMA_F16, 0, WITH_GROUPS, PRODUCTS("mma_f16")),
    /* All layouts, both types, and more steps of k than pipeline slots. The largest tiles are tested
     * separately, so that the others remain if they fail. */
    TEST("wgmma_wide", OCL_CAP_WGMMA_WIDE, 0, WITH_GROUPS, "gemm.tails_nt[wgmma_f16_192x256_s4_k1]/correct",
         "gemm.tails_tn[wgmma_bf16_192x256_s4_k2]/correct",
         "gemm.line_sums_forms[wgmma_bf16_192x256_s4_k2]/correct",
         "gemm.line_sums_forms[wgmma_bf16_192x256_s4_stream3]/correct"),
    TEST("wgmma_large", OCL_CAP_WGMMA_LARGE, 0, WITH_GROUPS,
         "gemm.tails_nt[wgmma_bf16_128x256_s4_k1]/correct", "gemm.tails_tn[wgmma_bf16_256x128_s4_k2]/correct",
         "gemm.line_sums_forms[wgmma_bf16_128x128_s4_k2]/correct",
         "gemm.tails_nn[wgmma_f16_128x128_s3_k1]/correct",
         "gemm.tails_tn[wgmma_bf16_128x256_s4_stream5]/correct"),
    TEST("wgmma", OCL_CAP_WGMMA, 0, WITH_GROUPS, "gemm.large_nn[wgmma_f16]/correct",
         "gemm.large_tn[wgmma_bf16]/correct", "gemm.large_tt[wgmma_f16]/correct",
         "gemm.deep[wgmma_bf16]/correct", "gemm.tails_tn[wgmma_f16_64x64_s2_stream29]/correct"),
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
