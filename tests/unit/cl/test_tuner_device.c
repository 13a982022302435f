/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning on a real device: the reference of the measuring bench agrees with every backend in every form, a
 * wrong kernel is found and never kept, budgets and stops are obeyed, CLBlast takes its parameter sets and
 * gives them back.
 * ctest-labels: quick ctest-cost: 10 */
#include "tests/unit/cl/cl_test.h"

#include <math.h>

#include "cl/device/internal.h"
#include "cl/gemm_bench/gemm_tune.h"
#include "cl/kernels/kernel_source.h"
#include "cl/kernels/program_source.h"
#include "cl/tune/family.h"
#include "cl/tune/tuner.h"
#include "engine/base/log.h"

#define NO_LIMIT 1e9 /* seconds, more than a search takes that tries everything */

static ocl_device *device;
static ocl_device_desc desc;

FIXTURE(begin)
{
    unsetenv("CLTRAIN_GEMM");
    device = test_open(false);
    desc = *ocl_device_describe(device);
    return 0;
}

FIXTURE(end)
{
    ocl_device_close(device);
    return 0;
}

static ocl_gemm product(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    ocl_gemm g = ocl_gemm_make(m, n, k, ta, tb);
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    return g;
}

/* Runs every backend that accepts the problem and compares it; returns how many there were. */
static int all_backends(const ocl_gemm *g)
{
    const ocl_family_bench *by = &ocl_gemm_family_bench;
    char reason[256], why[256] = "";
    void *bench, *ready;
    int count = 0;
    assert_ok(by->create(device, &desc, g, &bench));
    for (size_t i = 0; ocl_gemm_variants[i] != NULL; i++) {
        ocl_choice candidate = {.family = OCL_GEMM_FAMILY}, asked = candidate;
        bool right;
        double ns = 0;
        if (!ocl_variant_accepts(ocl_gemm_variants[i], by->problem(bench, true), &desc, reason,
                                 sizeof reason))
            continue;
        snprintf(candidate.variant, sizeof candidate.variant, "%s", ocl_gemm_variants[i]->name);
        assert_ok(by->ready(bench, &desc, &candidate, &asked, &ready));
        assert_ok(by->check(bench, ready, &right, why, sizeof why));
        if (!right) {
            char text[OCL_TUNE_PROBLEM];
            fail_msg("%s, %s: %s", ocl_gemm_variants[i]->name, ocl_gemm_problem(g, text, sizeof text), why);
        }
        assert_ok(by->time(bench, ready, &ns));
        assert_true(ns > 0 && isfinite(ns));
        assert_ok(by->check(bench, ready, &right, why, sizeof why)); /* also after it ran many times */
        assert_true(right);
        by->release(bench, ready);
        count++;
    }
    by->destroy(bench);
    return count;
}

TEST_BETWEEN(test_reference_of_every_form, begin, end)
{
    ocl_gemm g = product(33, 29, 40, false, false);
    assert_true(all_backends(&g) >= 1);
    g = product(17, 50, 31, false, true);
    g.bias = ocl_ref(3);
    g.activation = OCL_ACT_GELU_TANH;
    g.pre = ocl_ref(4);
    g.residual = ocl_ref(5);
    all_backends(&g);
    g = product(30, 20, 25, true, false);
    g.beta = 1.0f;
    all_backends(&g);
    g = product(20, 30, 10, false, false);
    g.activation = OCL_ACT_GELU_ERF;
    g.dact = ocl_ref(3);
    all_backends(&g);
    g = product(24, 16, 8, false, true); /* heads side by side */
    g.batch = 3;
    g.alpha = 0.125f;
    g.stride_a = g.lda;
    g.stride_b = g.ldb;
    g.stride_c = g.ldc;
    g.lda *= 3;
    g.ldb *= 3;
    g.ldc *= 3;
    all_backends(&g);
    g = product(18, 22, 26, true, true);
    g.type_a = g.type_b = g.type_c = CLT_BF16;
    g.bias = ocl_ref(3);
    all_backends(&g);
}

/* The total size in bytes of the sets of operands among which timings of a product rotate on such a
 * device. */
static uint64_t operands(bool cpu, uint64_t cache, uint64_t usable)
{
    void *bench;
    ocl_gemm g = product(512, 512, 512, false, true);
    ocl_device_desc kept = device->desc;
    uint64_t before = device->bytes;
    device->desc.is_cpu = cpu;
    device->desc.cache_bytes = cache;
    device->desc.usable_bytes = usable;
    assert_ok(ocl_gemm_family_bench.create(device, &desc, &g, &bench));
    uint64_t bytes = device->bytes - before;
    ocl_gemm_family_bench.destroy(bench);
    device->desc = kept;
    return bytes;
}

/* A GPU reports only its small first-level caches; operands must exceed the second level all the same. */
TEST_BETWEEN(test_cold_operands, begin, end)
{
    const uint64_t mib = UINT64_C(1) << 20, one = 3 * mib; /* a copy: three matrices of f32 */
    uint64_t bytes = operands(false, 4 * mib, 80000 * mib);
    assert_true(bytes >= 256 * mib && bytes <= 256 * mib + 2 * one);
    bytes = operands(false, 80 * mib, 80000 * mib); /* a GPU that reports its whole cache */
    assert_true(bytes >= 320 * mib && bytes <= 320 * mib + 2 * one);
    bytes = operands(false, 4 * mib, 800 * mib); /* a GPU with little memory gives an eighth of it */
    assert_true(bytes >= 100 * mib && bytes <= 100 * mib + 2 * one);
    bytes = operands(true, 4 * mib, 80000 * mib);
    assert_true(bytes >= 32 * mib && bytes <= 32 * mib + 2 * one);
}

/* A product large enough that the device computes the reference, and that the bench makes it smaller. */
TEST_BETWEEN(test_large_problems, begin, end)
{
    ocl_gemm g = product(640, 640, 512, false, true);
    assert_true(ocl_gemm_flops(&g) > 4e8);
    assert_true(all_backends(&g) >= 1);
    void *bench;
    g = product(60000, 7000, 3000, true, false);
    g.lda += 8;
    assert_ok(ocl_gemm_family_bench.create(device, &desc, &g, &bench));
    const ocl_gemm *made = ocl_gemm_family_bench.problem(bench, true);
    assert_true(ocl_gemm_flops(made) <= 2e9 * (desc.compute_units + 1));
    assert_true(made->m >= made->k && made->k > 500); /* the largest sizes were halved */
    assert_int_equal(made->lda, 60008);               /* a stride stays a stride */
    assert_int_equal(made->ldb, made->n);
    assert_ok(ocl_gemm_check(made));
    ocl_gemm_family_bench.destroy(bench);
}

/* --- a kernel that computes something else --- */

static char folder[64];

/* Every source of the family with an fma that is off by one. */
static void break_kernels(void)
{
    test_kernel_folder(folder);
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        CLT_FREED char *text = NULL;
        CLT_SCOPED(clt_str) bad = {0};
        size_t length = strlen(s->name);
        if (strncmp(s->name, "gemm", 4) != 0 || strcmp(s->name + length - 3, ".cl") != 0)
            continue;
        assert_ok(ocl_source_text(s->name, &text));
        clt_str_append(&bad, "#define wrong_fma(a, b, c) (fma(a, b, c) + 1.0f)\n");
        for (const char *at = text; *at != '\0';) {
            const char *call = strstr(at, " fma(");
            if (call == NULL) {
                clt_str_append(&bad, at);
                break;
            }
            clt_str_append_n(&bad, at, (size_t)(call - at));
            clt_str_append(&bad, " wrong_fma(");
            at = call + strlen(" fma(");
        }
        test_write_source(folder, s->name, bad.text);
    }
}

static int mend_kernels(void **state)
{
    unsetenv("CLTRAIN_KERNEL_DIR");
    if (folder[0] != '\0' && clt_remove_tree(folder) != CLT_OK)
        return -1;
    folder[0] = '\0';
    return end(state);
}

typedef struct heard {
    char lines[8192];
    int rows, progress, kept, total;
    bool found;
    atomic_int *stop;
} heard;

static void on_message(void *context, const char *line)
{
    heard *h = context;
    size_t used = strlen(h->lines);
    snprintf(h->lines + used, sizeof h->lines - used, "%s\n", line);
}
static void on_row(void *context, const ocl_tune_row *row)
{
    heard *h = context;
    h->rows++;
    h->found = row->result->found;
    if (h->stop != NULL)
        atomic_store(h->stop, 1);
}
static void on_progress(void *context, int done, int total, const char *what)
{
    heard *h = context;
    assert_true(done < total && what[0] != '\0');
    h->progress++;
    h->total = total;
}
static clt_status on_keep(void *context, const ocl_tuning *records)
{
    heard *h = context;
    h->kept = (int)records->count;
    return CLT_OK;
}

static ocl_tuning *tune(heard *h, const ocl_tuning_log *log, const ocl_tuning *known, double seconds,
                        bool missing_only)
{
    ocl_tuning *records;
    ocl_tune_options options = {.seconds = seconds,
                                .log = log,
                                .known = known,
                                .missing_only = missing_only,
                                .stop = h->stop,
                                .context = h,
                                .progress = on_progress,
                                .row = on_row,
                                .message = on_message,
                                .keep = on_keep};
    assert_ok(ocl_tune_run(device, &desc, &options, &records));
    return records;
}

TEST_BETWEEN(test_wrong_kernels, begin, mend_kernels)
{
    break_kernels();
    heard h = {0};
    ocl_tuning_log log = {0};
    ocl_gemm g = product(48, 48, 48, false, false);
    assert_ok(ocl_gemm_log(&log, &g));
    assert_int_equal(setenv("CLTRAIN_GEMM", "simple", 1), 0); /* the library would be right */
    ocl_tuning *records = tune(&h, &log, NULL, NO_LIMIT, false);
    assert_contains(h.lines, "gives a wrong result and is not used");
    assert_contains(h.lines, "NN m=48 n=48 k=48");
    const ocl_choice *kept =
        ocl_tuning_exact(records, OCL_GEMM_FAMILY, "NN m=48 n=48 k=48 batch=1 f32*f32->f32");
    if (kept != NULL)
        assert_string_equal(kept->variant, "clblast"); /* the only backend with foreign sources */
    ocl_tuning_destroy(records);
    ocl_tuning_log_free(&log);
    unsetenv("CLTRAIN_GEMM");
    /* A wrong reference ends the problem with a message; it does not end the run. */
    h = (heard){0};
    g = product(640, 640, 512, false, false);
    assert_ok(ocl_gemm_log(&log, &g));
    records = tune(&h, &log, NULL, NO_LIMIT, false);
    assert_contains(h.lines, "the reference product is wrong on this device");
    assert_int_equal(records->count, 0);
    ocl_tuning_destroy(records);
    ocl_tuning_log_free(&log);
}

/* --- a run --- */

TEST_BETWEEN(test_run, begin, end)
{
    ocl_tuning_log log = {0};
    ocl_gemm small = product(16, 16, 16, false, false), tall = product(64, 16, 16, false, false);
    heard h = {0};
    setenv("CLTRAIN_GEMM", "simple", 1); /* few candidates: the test is about their order */
    assert_ok(ocl_gemm_log(&log, &small));
    assert_ok(ocl_gemm_log(&log, &tall));
    assert_ok(ocl_tuning_log_add(&log, "unheard of", "x", NULL, 0, 0, NULL)); /* no bench can measure it */
    assert_true(ocl_tune_missing(&log, NULL));
    ocl_tuning *records = tune(&h, &log, NULL, NO_LIMIT, true);
    assert_int_equal(records->count, 2);
    assert_int_equal(h.rows, 2);
    assert_int_equal(h.progress, 2);
    assert_int_equal(h.total, 2);
    assert_int_equal(h.kept, 2);
    assert_string_equal(h.lines, "");
    for (size_t i = 0; i < records->count; i++) {
        assert_false(records->records[i].complete); /* only one of the backends was tried */
        assert_true(records->records[i].ns > 0 && records->records[i].default_ns > 0);
    }
    assert_false(ocl_tune_missing(&log, records));
    unsetenv("CLTRAIN_GEMM");
    assert_true(ocl_tune_missing(&log, records)); /* without that setting there is more to try */
    setenv("CLTRAIN_GEMM", "simple", 1);
    /* If no record is missing, nothing is measured; otherwise only what is missing. */
    h = (heard){0};
    ocl_tuning *again = tune(&h, &log, records, NO_LIMIT, true);
    assert_int_equal(h.rows + (int)again->count, 0);
    ocl_tuning_destroy(again);
    char gone[OCL_TUNE_PROBLEM];
    snprintf(gone, sizeof gone, "%s", records->records[1].problem);
    ocl_tuning_remove(records, OCL_GEMM_FAMILY, gone);
    assert_true(ocl_tune_missing(&log, records));
    again = tune(&h, &log, records, NO_LIMIT, true);
    assert_int_equal(again->count, 1);
    assert_string_equal(again->records[0].problem, gone);
    ocl_tuning_destroy(again);
    /* A stop after the first problem. */
    atomic_int stop = 0;
    h = (heard){.stop = &stop};
    again = tune(&h, &log, NULL, NO_LIMIT, false);
    assert_int_equal(h.rows, 1);
    ocl_tuning_destroy(again);
    ocl_tuning_destroy(records);
    ocl_tuning_log_free(&log);
    unsetenv("CLTRAIN_GEMM");
}

TEST_BETWEEN(test_builtin_list, begin, end)
{
    ocl_tuning_log log = {0};
    assert_ok(ocl_gemm_log_builtin(&log));
    assert_int_equal(log.count, 42);
    for (size_t i = 0; i < log.count; i++) {
        const ocl_gemm *g = log.at[i].data;
        assert_string_equal(log.at[i].family, OCL_GEMM_FAMILY);
        assert_true(g->m >= 256 && g->n >= 256 && g->k >= 256);
    }
    ocl_tuning_log_free(&log);
}

FIXTURE(register_families)
{
    static const ocl_family *const families[] = {&ocl_gemm_family, NULL};
    ocl_families_register(families);
    return 0;
}

TEST_PROGRAM(.set_up = register_families, .device = true);
