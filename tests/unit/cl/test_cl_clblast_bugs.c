/* SPDX-License-Identifier: Apache-2.0
 *
 * Two bugs of CLBlast's strided-batched GEMM that return wrong numbers with status 0: the indirect path
 * ignores offsets and batch strides, and with a kernel that unrolls k (GEMMK=1) it reads beyond the data.
 * The library is first called as a user would (printed only: a fixed library must not fail this test), then
 * the GEMM layer has to be right for exactly the same inputs, whatever the process-global tuning parameters
 * are. The second bug, which needs a kernel of its own, is in the long list alone.
 * ctest-labels: quick ctest-full: all ctest-cost: 12 ctest-optimise: no */
#include "tests/unit/cl/cl_test.h"

#include <clblast_c.h>
#include <math.h>

#include "cl/gemm/gemm.h"
#include "cl/device/internal.h"

#define BATCH 3
#define MOVE 64 /* what is added to an offset or a stride */

/* One problem: tensors 0, 1, 2 are A, B, C in three buffers, from their first byte. */
typedef struct bugs {
    ocl_device *device;
    ocl_device_desc desc;
    test_tensors tensors;
    float *a, *b, *c; /* ELEMENTS each */
    double *want;     /* ELEMENTS */
    int wrong_library, calls_library;
} bugs;

#define ELEMENTS (BATCH * (144 * 144 + 2 * MOVE) + 4096)

static int begin(void **state)
{
    bugs *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->device = test_open(false);
    t->desc = *ocl_device_describe(t->device);
    float **host[3] = {&t->a, &t->b, &t->c};
    for (int i = 0; i < 3; i++) {
        *host[i] = malloc(ELEMENTS * sizeof(float));
        assert_non_null(*host[i]);
        assert_ok(ocl_buffer_create(t->device, ELEMENTS * sizeof(float), "operand", &t->tensors.buffer[i]));
    }
    t->want = malloc(ELEMENTS * sizeof *t->want);
    assert_non_null(t->want);
    for (size_t i = 0; i < ELEMENTS; i++) {
        t->a[i] = (float)(37 * i % 101) / 101.0f - 0.5f;
        t->b[i] = (float)(53 * i % 97) / 97.0f - 0.5f;
    }
    assert_ok(ocl_write(t->tensors.buffer[0], 0, t->a, ELEMENTS * sizeof(float)));
    assert_ok(ocl_write(t->tensors.buffer[1], 0, t->b, ELEMENTS * sizeof(float)));
    *state = t;
    return 0;
}

static int end(void **state)
{
    CLT_FREED bugs *t = *state;
    for (int i = 0; i < 3; i++)
        ocl_buffer_destroy(t->tensors.buffer[i]);
    ocl_device_close(t->device);
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->want);
    return 0;
}

static void clear_c(bugs *t)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        t->c[i] = 77.0f;
    assert_ok(ocl_write(t->tensors.buffer[2], 0, t->c, ELEMENTS * sizeof(float)));
}

/* t->want: the right C of every batch item, dense. Rows of op(B) are laid out contiguously first, so that it
 * does not take long. */
static void compute_want(bugs *t, const ocl_gemm *g)
{
    CLT_FREED double *row = malloc((size_t)(g->k * g->n) * sizeof *row);
    assert_non_null(row);
    for (int64_t z = 0; z < g->batch; z++) {
        const float *a = t->a + g->a.offset / 4 + z * g->stride_a,
                    *b = t->b + g->b.offset / 4 + z * g->stride_b;
        double *want = t->want + z * g->m * g->n;
        for (int64_t p = 0; p < g->k; p++)
            for (int64_t j = 0; j < g->n; j++)
                row[p * g->n + j] = (double)b[g->tb ? j * g->ldb + p : p * g->ldb + j];
        memset(want, 0, (size_t)(g->m * g->n) * sizeof *want);
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t p = 0; p < g->k; p++)
                for (int64_t j = 0; j < g->n; j++)
                    want[i * g->n + j] +=
                        (double)a[g->ta ? p * g->lda + i : i * g->lda + p] * row[p * g->n + j];
    }
}

/* Largest error of C, infinite for NaN, and whether any other byte of its buffer changed. */
static double error_of(bugs *t, const ocl_gemm *g, bool *stray)
{
    double worst = 0.0;
    assert_ok(ocl_read(t->tensors.buffer[2], 0, t->c, ELEMENTS * sizeof(float)));
    for (int64_t z = 0; z < g->batch; z++) {
        float *c = t->c + g->c.offset / 4 + z * g->stride_c;
        for (int64_t i = 0; i < g->m; i++) {
            for (int64_t j = 0; j < g->n; j++) {
                double error = fabs((double)c[i * g->ldc + j] - t->want[(z * g->m + i) * g->n + j]);
                worst = isnan(error) ? HUGE_VAL : error > worst ? error : worst;
                c[i * g->ldc + j] = 77.0f;
            }
        }
    }
    *stray = false;
    for (size_t i = 0; i < ELEMENTS; i++)
        *stray = *stray || t->c[i] != 77.0f;
    return worst;
}

/* The call that a user of the library would make. */
static void call_library(bugs *t, const ocl_gemm *g, const char *what)
{
    cl_command_queue queue = t->device->queue[OCL_QUEUE_COMPUTE];
    bool stray;
    clear_c(t);
    CLBlastStatusCode code = CLBlastSgemmStridedBatched(
        CLBlastLayoutRowMajor, g->ta ? CLBlastTransposeYes : CLBlastTransposeNo,
        g->tb ? CLBlastTransposeYes : CLBlastTransposeNo, (size_t)g->m, (size_t)g->n, (size_t)g->k, 1.0f,
        t->tensors.buffer[0]->mem, g->a.offset / 4, (size_t)g->lda, (size_t)g->stride_a,
        t->tensors.buffer[1]->mem, g->b.offset / 4, (size_t)g->ldb, (size_t)g->stride_b, 0.0f,
        t->tensors.buffer[2]->mem, g->c.offset / 4, (size_t)g->ldc, (size_t)g->stride_c, (size_t)g->batch,
        &queue, NULL);
    assert_ok(ocl_finish(t->device, OCL_QUEUE_COMPUTE));
    double error = error_of(t, g, &stray);
    bool wrong = code == CLBlastSuccess && (error > 1e-4 || stray);
    t->calls_library++;
    t->wrong_library += wrong;
    if (wrong)
        print_message("  CLBlastSgemmStridedBatched %s, %c%c: status 0, max abs error %.3g%s\n", what,
                      g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', error, stray ? ", wrote outside C" : "");
}

typedef enum route { BY_CHOICE, BY_LIST, BY_LIBRARY_COMMAND } route;

/* The layer's own routes: the choice for a user on this device; the ordered list, as on a device that does
 * not prefer `simple`; and the library command itself, which the layer would have refused. */
static void call_layer(bugs *t, const ocl_gemm *g, route way, const char *what)
{
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &t->desc, .label = "bug", .variant = "library"};
    ocl_exec_options options = {.resolve = test_resolve, .resolve_context = &t->tensors};
    ocl_exec *exec = NULL;
    bool stray;
    assert_ok(clt_arena_create(&list.arena));
    t->desc.caps = ocl_device_describe(t->device)->caps;
    if (way == BY_LIST)
        t->desc.caps &= ~(uint32_t)OCL_CAP_WIDE_VECTORS;
    if (way == BY_LIBRARY_COMMAND) {
        ocl_emit_library_gemm(&e, g, ocl_gemm_library());
        assert_ok(ocl_emit_status(&e));
    } else {
        assert_ok(ocl_gemm_emit(&e, g, NULL));
    }
    clear_c(t);
    assert_ok(ocl_exec_create(t->device, &list, &options, &exec));
    assert_ok(ocl_exec_run(exec, NULL));
    assert_ok(ocl_finish(t->device, OCL_QUEUE_COMPUTE));
    double error = error_of(t, g, &stray);
    if (!(error < 5e-6) || stray)
        fail_msg("%s, %c%c, m=%lld n=%lld k=%lld batch %lld, by %s: max abs error %.3g%s", what,
                 g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', (long long)g->m, (long long)g->n, (long long)g->k,
                 (long long)g->batch, list.commands[0].variant, error, stray ? ", wrote outside C" : "");
    ocl_exec_destroy(exec);
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
}

static void check(bugs *t, ocl_gemm g, const char *what)
{
    g.a.tensor = 0;
    g.b.tensor = 1;
    g.c.tensor = 2;
    compute_want(t, &g);
    call_library(t, &g, what);
    call_layer(t, &g, BY_CHOICE, what);
    call_layer(t, &g, BY_LIST, what);
    call_layer(t, &g, BY_LIBRARY_COMMAND, what);
}

static void set_switch(bugs *t, size_t size)
{
    const char *name = "XGEMM_MIN_INDIRECT_SIZE";
    assert_int_equal(
        CLBlastOverrideParameters(t->device->id, "GemmRoutine", CLBlastPrecisionSingle, 1, &name, &size),
        CLBlastSuccess);
}

static bool usable(const bugs *t)
{
    if ((t->desc.caps & OCL_CAP_LOCAL) != 0 && t->desc.max_work_group >= 64)
        return true;
    print_message("skipped: the device has no local memory or work-groups of 64\n");
    return false;
}

/* One displacement at a time, then all together. */
static const struct {
    const char *what;
    int a, b, c, stride_a, stride_b, stride_c;
} moves[] = {{"tight", 0, 0, 0, 0, 0, 0},        {"A offset 64", 1, 0, 0, 0, 0, 0},
             {"B offset 64", 0, 1, 0, 0, 0, 0},  {"C offset 64", 0, 0, 1, 0, 0, 0},
             {"A stride +64", 0, 0, 0, 1, 0, 0}, {"B stride +64", 0, 0, 0, 0, 1, 0},
             {"C stride +64", 0, 0, 0, 0, 0, 1}, {"all offsets", 1, 1, 1, 0, 0, 0},
             {"all strides", 0, 0, 0, 1, 1, 1},  {"all together", 1, 1, 1, 1, 1, 1}};

static void displaced(bugs *t, int64_t size)
{
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(size, size, size, layout >> 1, layout & 1);
            g.batch = BATCH;
            g.a.offset = 4 * MOVE * (uint64_t)moves[i].a;
            g.b.offset = 4 * MOVE * (uint64_t)moves[i].b;
            g.c.offset = 4 * MOVE * (uint64_t)moves[i].c;
            g.stride_a += MOVE * moves[i].stride_a;
            g.stride_b += MOVE * moves[i].stride_b;
            g.stride_c += MOVE * moves[i].stride_c;
            check(t, g, moves[i].what);
        }
    }
}

static void summarize(const bugs *t, const char *bug)
{
    print_message("  this CLBlast: %d of %d direct calls wrong with status 0 (%s)\n", t->wrong_library,
                  t->calls_library, bug);
}

TEST(test_offsets_and_strides)
{
    bugs *t = *state;
    if (!usable(t))
        skip();
    set_switch(t, 1); /* somebody in the process forces the indirect path */
    displaced(t, 128);
    summarize(t, "indirect path, offsets and strides");
}

/* The last test, because its parameters cannot be taken back. */
TEST(test_unrolled_k)
{
    static const char *const names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                                        "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN"};
    static const size_t values[] = {1, 4, 1, 1, 4, 4, 32, 8, 8, 32, 0, 0, 0, 0, 4, 4};
    static const int64_t sizes[][3] = {{64, 64, 128}, {64, 64, 129}, {64, 64, 130}, {70, 50, 131}};
    bugs *t = *state;
    if (!run_everything || !usable(t))
        skip();
    set_switch(t, 1);
    assert_int_equal(CLBlastOverrideParameters(t->device->id, "Xgemm", CLBlastPrecisionSingle,
                                               sizeof values / sizeof values[0],
                                               (const char **)(uintptr_t)names, values),
                     CLBlastSuccess);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
            g.batch = BATCH;
            check(t, g, "GEMMK=1");
            g.batch = 1; /* the list takes the library for this one, too */
            check(t, g, "GEMMK=1");
        }
    }
    summarize(t, "GEMMK=1");
}

TEST_PROGRAM(.device = true, .before = begin, .after = end);
