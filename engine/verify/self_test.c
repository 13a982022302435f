/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of the checker that decide whether a capability may be used. They run kernels that use the
 * capability, in sizes that are not multiples of any tile, and compare results with double precision on the
 * host. Only kernels that the engine would use on such a device are run, in few programs, because compiling
 * takes most of the time. Knows no kernel. */
#include "engine/verify/self_test.h"

#include <stdio.h>
#include <string.h>

#include "cl/probes/asking.h"
#include "engine/verify/verify_internal.h"

#define SEED 20231 /* the same data every time, because results are cached */

#define FLOOR_CASES "gemm.odd_nt[simple]/correct", "relu.tail[flat]/correct", "known.philox/correct"

/* The test of an addition to a kernel (such as prefetching) comes before the test of the kernel, so that its
 * failure costs only the addition. The two child processes take about equally long. */
static const ocl_self_test tests[] = {
    /* For every device: the variants that accept everything. In style lanes these kernels use float16
     * vectors, but also work without them. This style is tested first, so that a driver that fails in it
     * loses wide_vectors and not the device. */
    {"floor_lanes", OCL_CAP_WIDE_VECTORS, 0, OCL_WITH_LANES, OCL_TEST_CASES(FLOOR_CASES)},
    {"floor", 0, 0, OCL_ANY_DEVICE, OCL_TEST_CASES(FLOOR_CASES)},
    /* Kernels of style lanes with prefetching, and with nontemporal stores (which a bitwise check uses for
     * arrays of any size). If these fail, the next test shows whether the style works without them. The
     * product uses a program that training builds as well. */
    {"prefetch", OCL_CAP_PREFETCH, 0, OCL_WITH_LANES, OCL_TEST_CASES("gemm.deep_columns[lane]/correct")},
    {"nontemporal", OCL_CAP_NONTEMPORAL, 1, OCL_WITH_LANES, OCL_TEST_CASES("relu.chunk[lane]/bitwise")},
    {"wide_vectors", OCL_CAP_WIDE_VECTORS, 0, OCL_WITH_LANES,
     OCL_TEST_CASES("gemm.deep_columns[lane]/correct")},
    {"attention_lanes", OCL_CAP_WIDE_VECTORS, 1, OCL_WITH_LANES,
     OCL_TEST_CASES("attention.odd[lane]/correct")},
    {"local", OCL_CAP_LOCAL, 1, OCL_WITH_GROUPS,
     OCL_TEST_CASES(OCL_TEST_PRODUCTS("tile"), "softmax.odd[group]/correct", "layernorm.odd[group]/correct")},
    /* Not on CPUs: compiling these kernels takes long there, PoCL 3.0 hangs in it, and products and the
     * update work well without them. */
    {"attention", OCL_CAP_LOCAL, 0, OCL_ON_GPUS,
     OCL_TEST_CASES("attention.odd[group]/correct", "layernorm.vectors[blocks]/correct")},
    {"wg256", OCL_CAP_WG256, 0, OCL_WITHOUT_UNITS,
     OCL_TEST_CASES("gemm.tails_nn[tile_64x64x16_4x4_k1]/correct")},
    {"update_group", OCL_CAP_LOCAL, 0, OCL_WITH_GROUPS, OCL_TEST_CASES("update.adamw[group]/correct")},
    {"update_lanes", OCL_CAP_WIDE_VECTORS, 0, OCL_WITH_LANES, OCL_TEST_CASES("update.adamw[lane]/correct")},
    /* for every device: there is no alternative to this variant */
    {"update", 0, 0, OCL_WITHOUT_LOCAL, OCL_TEST_CASES("update.adamw[lane]/correct")},
    {.name = NULL}};

static bool wanted(const ocl_self_test *test, const ocl_device_desc *device)
{
    bool lanes = ocl_prefers_lanes(device);
    switch (test->devices) {
    case OCL_WITH_LANES:
        return lanes;
    case OCL_ON_GPUS:
        return !lanes && !device->is_cpu;
    case OCL_WITHOUT_LOCAL:
        return lanes || (device->caps & OCL_CAP_LOCAL) == 0;
    case OCL_WITH_GROUPS:
        return !lanes;
    case OCL_WITHOUT_UNITS:
        return !lanes && !ocl_has_unit(device, CLT_F16) && !ocl_has_unit(device, CLT_BF16) &&
               !ocl_has_unit(device, CLT_F32);
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
    finding f = {false, CLT_OK, reason, size};
    for (const char *const *name = test->cases; *name && !f.wrong; name++)
        CLT_TRY(run_case(device, *name, &f));
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
    char reason[64]; /* unused: every case fails when it requests its first program */
    for (const char *const *name = test->cases; *name; name++) {
        (void)run_case(device, *name, &(finding){.reason = reason, .size = sizeof reason});
        clt_error_clear();
    }
}

void clt_self_test_register(void)
{
    static const ocl_self_test_set set = {tests, wanted, run, note};
    ocl_self_tests_register(&set);
}
