/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The communication room. Started alone, this program tests the built-in transport, sums, launcher
 * detection and the module search (requests, groups, algorithms and deadlines: test_comm_algorithms.c).
 * Under mpirun (tests/comm/test_comm_mpi.sh) it checks the MPI transport: "test_comm" runs the collectives,
 * "test_comm abort|stuck|fail" end the job in three ways. */
#include "tests/unit/test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "comm/comm_internal.h"
#include "comm/kernels.h"
#include "engine/base/dtype.h"
#include "engine/base/scope.h"

#define MANY 64

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

/* --- alone --- */

static void self_leaves_data_alone(void **state)
{
    (void)state;
    comm *c = NULL;
    assert_ok(comm_create(&c));
    const comm_info *info = comm_describe(c);
    assert_string_equal(info->transport, "self");
    assert_int_equal(info->rank, 0);
    assert_int_equal(info->ranks, 1);
    assert_int_equal(info->local_rank, 0);
    assert_int_equal(info->local_ranks, 1);
    assert_true(strlen(info->host) > 0 && strlen(info->description) > 0);
    float x[3] = {1.5F, -2.0F, 3.25F};
    const float same[3] = {1.5F, -2.0F, 3.25F};
    assert_ok(comm_all_reduce(c, x, 3, COMM_F32, COMM_SUM));
    assert_ok(comm_broadcast(c, x, sizeof x, 0));
    assert_ok(comm_barrier(c));
    assert_ok(comm_all_reduce(c, NULL, 0, COMM_F32, COMM_SUM));
    assert_memory_equal(x, same, sizeof x);
    assert_ok(comm_check_equal(c, x, sizeof x, "the test data"));
    assert_int_equal(comm_broadcast(c, x, sizeof x, 1), CLT_EINTERNAL);
    assert_int_equal(comm_all_reduce(c, x, -1, COMM_F32, COMM_SUM), CLT_EINTERNAL);
    comm_abort(c, CLT_ECOMM); /* with one rank it only returns */
    comm_destroy(c);
    comm_destroy(NULL);
    comm_abort(NULL, CLT_ECOMM);
}

/* --- launcher and module --- */

static const char *const launcher_names[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",      "PMI_RANK",       "PMIX_RANK",
    "SLURM_PROCID",         "PMI_FD",        "PMIX_NAMESPACE", "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",         "SLURM_STEP_ID", "SLURM_STEPID"};

FIXTURE(clear_launcher)
{
    for (size_t i = 0; i < sizeof launcher_names / sizeof launcher_names[0]; i++)
        unsetenv(launcher_names[i]);
    return 0;
}

static void launcher_is_detected(void **state)
{
    (void)state;
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
    assert_false(comm_under_launcher());
    for (size_t i = 0; i < 4; i++) {
        setenv(signs[i], "2", 1);
        assert_true(comm_under_launcher());
        setenv(signs[i], "", 1);
        assert_false(comm_under_launcher());
        unsetenv(signs[i]);
    }
    setenv("SLURM_PROCID", "0", 1); /* set in a batch script, too */
    assert_false(comm_under_launcher());
    setenv("PMI_FD", "7", 1);
    assert_true(comm_under_launcher());
    unsetenv("PMI_FD");
    setenv("PMIX_NAMESPACE", "slurm.pmix.1", 1);
    assert_true(comm_under_launcher());
}

static void tasks_without_pmi_are_counted(void **state)
{
    (void)state;
    setenv("SLURM_NTASKS", "4", 1); /* as in a batch script */
    assert_int_equal(comm_tasks_alone(), 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(comm_tasks_alone(), 1);
    setenv("SLURM_STEP_ID", "0", 1); /* a task of srun; older versions give no number of tasks */
    assert_int_equal(comm_tasks_alone(), 4);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_int_equal(comm_tasks_alone(), 1);
    setenv("SLURM_STEP_NUM_TASKS", "3", 1);
    assert_int_equal(comm_tasks_alone(), 3);
    setenv("SLURM_STEP_NUM_TASKS", "3x", 1);
    assert_int_equal(comm_tasks_alone(), 4);
    setenv("PMIX_RANK", "0", 1);
    assert_int_equal(comm_tasks_alone(), 1);
}

static void launcher_says_how_many(void **state)
{
    (void)state;
    assert_int_equal(comm_launcher_ranks(), 0);
    setenv("PMI_SIZE", "3", 1);
    assert_int_equal(comm_launcher_ranks(), 3);
    setenv("OMPI_COMM_WORLD_SIZE", "5", 1);
    assert_int_equal(comm_launcher_ranks(), 5);
    setenv("OMPI_COMM_WORLD_SIZE", "five", 1);
    assert_int_equal(comm_launcher_ranks(), 0);
}

static void make_folder(char *path, size_t size, const char *name)
{
    (void)snprintf(path, size, "/tmp/cltrain-test-comm-%ld-%s", (long)getpid(), name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_folder(const char *path)
{
    char file[256];
    (void)snprintf(file, sizeof file, "%s/%s", path, COMM_MODULE_FILE);
    (void)unlink(file);
    assert_int_equal(rmdir(path), 0);
}

static void missing_module_lists_every_file_and_reason(void **state)
{
    (void)state;
    char empty[128], text[128], other[128], file[256];
    make_folder(empty, sizeof empty, "empty");
    make_folder(text, sizeof text, "text");
    make_folder(other, sizeof other, "other");
    (void)snprintf(file, sizeof file, "%s/%s", text, COMM_MODULE_FILE);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs("this is not a program", f);
    assert_int_equal(fclose(f), 0);
    Dl_info cmocka;
    assert_int_not_equal(dladdr((void *)(uintptr_t)_cmocka_run_group_tests, &cmocka), 0);
    (void)snprintf(file, sizeof file, "%s/%s", other, COMM_MODULE_FILE);
    char library[4096];
    assert_non_null(realpath(cmocka.dli_fname, library));
    assert_int_equal(symlink(library, file), 0);

    const char *folders[] = {empty, text, other};
    const comm_transport *transport = NULL;
    assert_int_equal(comm_load_module(folders, 3, &transport), CLT_ECOMM);
    assert_null(transport);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(file, sizeof file, "%s/%s", folders[i], COMM_MODULE_FILE);
        assert_text_has(file);
    }
    assert_text_has("no such file");
    assert_text_has("cannot be loaded");
    assert_text_has("not a transport module");
    assert_text_has("CLTRAIN_MODULE_DIR");
    remove_folder(empty);
    remove_folder(text);
    remove_folder(other);
}

/* Every 16-bit number of both types, doubled; a sum that would be wrong if it were rounded twice; the order
 * of the tree. */
static void halves_are_added_in_f32(void **state)
{
    (void)state;
    enum { ALL = 65536 };
    static uint16_t part[ALL], out[ALL];
    const void *twice[2] = {part, part};
    for (int i = 0; i < ALL; i++)
        part[i] = (uint16_t)i;
    for (int bf = 0; bf < 2; bf++) {
        comm_sum_parts(twice, 2, ALL, bf ? COMM_BF16 : COMM_F16, (void *[]){out}, 1);
        for (int i = 0; i < ALL; i++) {
            float one = bf ? clt_bf16_to_f32((uint16_t)i) : clt_f16_to_f32((uint16_t)i), two = one + one;
            uint16_t want = bf ? clt_f32_to_bf16(two) : clt_f32_to_f16(two);
            if (isnan(one) ? !isnan(bf ? clt_bf16_to_f32(out[i]) : clt_f16_to_f32(out[i])) : out[i] != want)
                fail_msg("%s %04x twice: got %04x, expected %04x", bf ? "bf16" : "f16", (unsigned)i,
                         (unsigned)out[i], (unsigned)want);
        }
    }
    /* 1 + 2^-11 + 2^-11: each alone would be rounded away */
    const uint16_t one = clt_f32_to_f16(1), small = clt_f32_to_f16(0x1p-11F);
    comm_sum_parts((const void *[]){&one, &small, &small}, 3, 1, COMM_F16, (void *[]){out}, 1);
    assert_int_equal(out[0], clt_f32_to_f16(1 + 0x1p-10F));
}

/* Checks the conversions in every set of loops that this CPU can run, at odd addresses: all 16-bit numbers,
 * and f32 numbers near every boundary of rounding. */
static void check_widening(const comm_kernels *kernels, comm_type type)
{
    enum { ALL = 65536 };
    static uint16_t half[ALL + 1];
    static float wide[ALL + 1];
    for (int i = 0; i < ALL; i++)
        half[i + 1] = (uint16_t)i;
    kernels->widen(half + 1, ALL - 1, type, wide + 1);
    for (int i = 0; i < ALL - 1; i++) {
        float want = type == COMM_F16 ? clt_f16_to_f32((uint16_t)i) : clt_bf16_to_f32((uint16_t)i);
        if (isnan(want) ? !isnan(wide[i + 1]) : memcmp(&want, &wide[i + 1], sizeof want) != 0)
            fail_msg("%s: %s %04x is %a, not %a", kernels->name, type == COMM_F16 ? "f16" : "bf16",
                     (unsigned)i, (double)wide[i + 1], (double)want);
    }
}

static void check_narrowing(const comm_kernels *kernels, comm_type type)
{
    enum { NEAR = 16, CELLS = 1 << 19, LENGTH = 4099 };
    static float value[LENGTH + 1];
    static uint16_t half[LENGTH + 1];
    int n = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++)
        for (int k = 0; k < NEAR; k++) {
            /* around each multiple of 2^12 and 2^13, where bits are cut off, and something in between */
            const uint32_t bits = (cell << 13) + (k < 4   ? (uint32_t)k - 1
                                                  : k < 8 ? 4096u + (uint32_t)k - 5
                                                          : cell * 2654435761U % 8192 + (uint32_t)k);
            memcpy(&value[1 + n++], &bits, sizeof bits);
            if (n < LENGTH && (cell + 1 < CELLS || k + 1 < NEAR))
                continue;
            kernels->narrow(value + 1, n, type, half + 1);
            for (int i = 1; i <= n; i++) {
                uint16_t want = type == COMM_F16 ? clt_f32_to_f16(value[i]) : clt_f32_to_bf16(value[i]);
                if (half[i] != want)
                    fail_msg("%s: %a becomes %04x, not %04x", kernels->name, (double)value[i],
                             (unsigned)half[i], (unsigned)want);
            }
            n = 0;
        }
}

static void loops_of_every_cpu_agree(void **state)
{
    (void)state;
    int sets = 0;
    for (; comm_kernels_at((size_t)sets); sets++)
        for (int bf = 0; bf < 2; bf++) {
            check_widening(comm_kernels_at((size_t)sets), bf ? COMM_BF16 : COMM_F16);
            check_narrowing(comm_kernels_at((size_t)sets), bf ? COMM_BF16 : COMM_F16);
        }
    assert_true(sets >= 1);
}

/* The sum in the order of the drawn tree, for every number of parts; the order changes the sum of these
 * numbers. */
static float tree(const float *value, int first, int count, int width)
{
    if (count <= 1)
        return value[first];
    while (width >= count)
        width /= 2;
    return tree(value, first, width, width) + tree(value, first + width, count - width, width);
}

enum { MOST_PARTS = 40, COLUMNS = 1100 };

static void check_tree(float values[MOST_PARTS][COLUMNS], int n, const float *sum)
{
    for (int i = 0; i < COLUMNS; i++) {
        float column[MOST_PARTS];
        for (int p = 0; p < n; p++)
            column[p] = values[p][i];
        float want = tree(column, 0, n, 64);
        if (memcmp(&sum[i], &want, sizeof want) != 0)
            fail_msg("%d parts, element %d: %a instead of %a", n, i, (double)sum[i], (double)want);
    }
}

static void parts_are_added_as_a_tree(void **state)
{
    (void)state;
    static float values[MOST_PARTS][COLUMNS];
    const void *part[MOST_PARTS];
    float sum[COLUMNS];
    uint32_t random = 1;
    for (int p = 0; p < MOST_PARTS; p++) {
        part[p] = values[p];
        for (int i = 0; i < COLUMNS; i++) {
            random = random * 1664525U + 1013904223U;
            values[p][i] = ldexpf((float)(random >> 8), (int)(random % 37) - 40);
        }
    }
    for (int n = 1; n <= MOST_PARTS; n++) {
        comm_sum_parts(part, n, COLUMNS, COMM_F32, (void *[]){sum}, 1);
        check_tree(values, n, sum);
        for (int k = 0; n <= COMM_MOST_ADDED && comm_kernels_at((size_t)k); k++) {
            comm_kernels_at((size_t)k)->add((const float *const *)part, n, COLUMNS, sum);
            check_tree(values, n, sum);
        }
    }
    /* the sum is written into two of the parts, as it is for all local ranks */
    comm_sum_parts(part, 5, COLUMNS, COMM_F32, (void *[]){sum}, 1);
    comm_sum_parts(part, 5, COLUMNS, COMM_F32, (void *[]){values[0], values[3]}, 2);
    assert_memory_equal(values[0], sum, sizeof sum);
    assert_memory_equal(values[3], sum, sizeof sum);
}

/* Shares cover every element once, in order, in whole grains. */
static void shares_cover_everything(void **state)
{
    (void)state;
    for (int64_t count = 0; count < 200; count += 7)
        for (int64_t grain = 1; grain < 40; grain += 13)
            for (int ranks = 1; ranks < 9; ranks++) {
                int64_t next = 0, first, length;
                for (int r = 0; r < ranks; r++) {
                    comm_share(count, grain, ranks, r, &first, &length);
                    assert_true(first == next && length >= 0 && (first % grain == 0 || length == 0));
                    next += length;
                }
                assert_int_equal(next, count);
            }
}

static int run_alone(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_leaves_data_alone),
        cmocka_unit_test(halves_are_added_in_f32),
        cmocka_unit_test(loops_of_every_cpu_agree),
        cmocka_unit_test(parts_are_added_as_a_tree),
        cmocka_unit_test(shares_cover_everything),
        cmocka_unit_test_setup_teardown(launcher_is_detected, clear_launcher, clear_launcher),
        cmocka_unit_test_setup_teardown(launcher_says_how_many, clear_launcher, clear_launcher),
        cmocka_unit_test_setup_teardown(tasks_without_pmi_are_counted, clear_launcher, clear_launcher),
        cmocka_unit_test(missing_module_lists_every_file_and_reason),
    };
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}

/* --- under a launcher: one communicator for the whole program --- */

static comm *world;

static void mpi_describes_itself(void **state)
{
    (void)state;
    const comm_info *info = comm_describe(world);
    assert_string_equal(info->transport, "mpi");
    assert_true(info->rank >= 0 && info->rank < info->ranks);
    assert_int_equal(info->ranks, comm_launcher_ranks());
    assert_true(strlen(info->host) > 0 && strlen(info->description) > 0);
    /* The script starts all ranks on one host. */
    assert_int_equal(info->local_ranks, info->ranks);
    assert_int_equal(info->local_rank, info->rank);
}

static void mpi_reduces_every_type(void **state)
{
    (void)state;
    const comm_info *info = comm_describe(world);
    const int n = info->ranks, me = info->rank;
    const int sum = n * (n + 1) / 2;
    float f[5];
    double d[5];
    int64_t i[5], least = 100 - me, big = INT64_C(1) << 40;
    uint8_t u[5];
    for (int k = 0; k < 5; k++) {
        f[k] = (float)((me + 1) * (k + 1));
        d[k] = (double)((me + 1) * (k + 1)) * 0.5;
        i[k] = (me + 1) * (k + 1) + big;
        u[k] = (uint8_t)(me + k);
    }
    assert_ok(comm_all_reduce(world, f, 5, COMM_F32, COMM_SUM));
    assert_ok(comm_all_reduce(world, d, 5, COMM_F64, COMM_SUM));
    assert_ok(comm_all_reduce(world, i, 5, COMM_I64, COMM_SUM));
    assert_ok(comm_all_reduce(world, u, 5, COMM_U8, COMM_MAX));
    for (int k = 0; k < 5; k++) {
        assert_true(f[k] == (float)(sum * (k + 1)));
        assert_true(d[k] == (double)(sum * (k + 1)) * 0.5);
        assert_int_equal(i[k], sum * (k + 1) + n * big);
        assert_int_equal(u[k], n - 1 + k);
    }
    f[0] = (float)-me;
    d[0] = (double)me;
    assert_ok(comm_all_reduce(world, f, 1, COMM_F32, COMM_MAX));
    assert_ok(comm_all_reduce(world, d, 1, COMM_F64, COMM_MAX));
    assert_ok(comm_all_reduce(world, &least, 1, COMM_I64, COMM_MIN));
    assert_true(f[0] == 0.0F && d[0] == (double)(n - 1));
    assert_int_equal(least, 100 - (n - 1));
}

/* Counts below, at and above multiples of the number of ranks and of pieces; all ranks get the same bits. */
static void mpi_sums_halves(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 2, 1000, (INT64_C(1) << 21), (INT64_C(1) << 22) + 12345};
    const comm_info *info = comm_describe(world);
    CLT_FREED uint16_t *x = malloc((size_t)counts[5] * sizeof *x);
    assert_non_null(x);
    for (int bf = 0; bf < 2; bf++)
        for (int c = 0; c < 6; c++) {
            int64_t wrong = 0;
            for (int64_t k = 0; k < counts[c]; k++) {
                float value = (float)((k * 31 + info->rank * 17) % 2003) * 0.01F;
                x[k] = bf ? clt_f32_to_bf16(value) : clt_f32_to_f16(value);
            }
            assert_ok(comm_all_reduce(world, x, counts[c], bf ? COMM_BF16 : COMM_F16, COMM_SUM));
            for (int64_t k = 0; k < counts[c]; k++) {
                float part[16];
                for (int r = 0; r < info->ranks; r++) {
                    float value = (float)((k * 31 + r * 17) % 2003) * 0.01F;
                    part[r] =
                        bf ? clt_bf16_to_f32(clt_f32_to_bf16(value)) : clt_f16_to_f32(clt_f32_to_f16(value));
                }
                float sum = tree(part, 0, info->ranks, 64);
                wrong += x[k] != (bf ? clt_f32_to_bf16(sum) : clt_f32_to_f16(sum));
            }
            assert_int_equal(wrong, 0);
            assert_ok(comm_check_equal(world, x, counts[c] * 2, "the sums"));
        }
}

/* More elements than one MPI call takes (2^24): the parts must meet without a gap. */
static void mpi_reduces_large_counts(void **state)
{
    (void)state;
    const comm_info *info = comm_describe(world);
    const int64_t count = (INT64_C(1) << 24) + 12345;
    const float sum = (float)(info->ranks * (info->ranks + 1) / 2);
    CLT_FREED float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (int64_t k = 0; k < count; k++)
        x[k] = (float)(info->rank + 1) * (float)(k % 97);
    assert_ok(comm_all_reduce(world, x, count, COMM_F32, COMM_SUM));
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; k++)
        wrong += x[k] != sum * (float)(k % 97);
    assert_int_equal(wrong, 0);
    if (info->rank == info->ranks - 1)
        for (int64_t k = 0; k < count; k++)
            x[k] = (float)(k % 101);
    assert_ok(comm_broadcast(world, x, count * 4, info->ranks - 1));
    for (int64_t k = 0; k < count; k++)
        wrong += x[k] != (float)(k % 101);
    assert_int_equal(wrong, 0);
}

static void mpi_runs_posted_requests(void **state)
{
    (void)state;
    enum { POSTED = 6, LENGTH = 1000 };
    static float x[POSTED][LENGTH];
    const comm_info *info = comm_describe(world);
    comm_request *r[POSTED];
    for (int p = 0; p < POSTED; p++) {
        for (int k = 0; k < LENGTH; k++)
            x[p][k] = (float)(p * 10 + info->rank);
        assert_ok(comm_all_reduce_post(world, x[p], LENGTH, COMM_F32, COMM_SUM, &r[p]));
    }
    /* Ranks finish their work in different orders; the order of the collectives is the order of posting. */
    for (int p = 0; p < POSTED; p++)
        comm_request_ready(r[info->rank % 2 ? p : POSTED - 1 - p], true);
    for (int p = 0; p < POSTED; p++) {
        assert_ok(comm_request_wait(r[p]));
        float expected = (float)(info->ranks * p * 10 + info->ranks * (info->ranks - 1) / 2);
        assert_true(x[p][0] == expected && x[p][LENGTH - 1] == expected);
    }
    assert_ok(comm_barrier(world));
}

static void mpi_check_equal_names_the_rank(void **state)
{
    (void)state;
    const comm_info *info = comm_describe(world);
    char config[64] = "the same configuration on every rank";
    assert_ok(comm_check_equal(world, config, sizeof config, "the configuration"));
    assert_ok(comm_check_equal(world, NULL, 0, "nothing"));
    if (info->rank == info->ranks - 1)
        config[5] ^= 1;
    assert_int_equal(comm_check_equal(world, config, sizeof config, "the configuration"), CLT_ERANKS);
    char name[160];
    (void)snprintf(name, sizeof name, "the configuration: rank %d of %d (on %s)", info->ranks - 1,
                   info->ranks, info->host);
    assert_text_has(name);
    /* Every rank but 0 differs, only in the length: the first of them is named. */
    memset(config, 0, sizeof config);
    assert_int_equal(comm_check_equal(world, config, info->rank == 0 ? 32 : 33, "lengths"), CLT_ERANKS);
    assert_text_has("rank 1 of");
    assert_ok(comm_barrier(world)); /* a disagreement is not a failure of the transport */
}

static int run_under_launcher(void)
{
    clt_status status = comm_create(&world);
    if (status != CLT_OK) {
        fprintf(stderr, "comm_create: %s\n", clt_error_text());
        return clt_status_exit_code(status);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpi_describes_itself),     cmocka_unit_test(mpi_reduces_every_type),
        cmocka_unit_test(mpi_sums_halves),          cmocka_unit_test(mpi_reduces_large_counts),
        cmocka_unit_test(mpi_runs_posted_requests), cmocka_unit_test(mpi_check_equal_names_the_rank),
    };
    int failed = cmocka_run_group_tests_name("comm-mpi", tests, NULL, NULL);
    if (failed)
        comm_abort(world, CLT_ECHECK);
    comm_destroy(world);
    return failed;
}

static atomic_bool inside;

/* On the communication thread. */
static clt_status sum_alone(void *context)
{
    atomic_store(&inside, true);
    return comm_run_all_reduce(world, context, 1, COMM_F32, COMM_SUM);
}

/* abort: the last rank ends the job while the others wait in a barrier (exit code 6). stuck: rank 0 ends it
 * while its own communication thread is inside a collective that nobody joins (exit code 10). fail: rank
 * 0's work on the device fails, and rank 0 ends. */
static int end_the_job(const char *how)
{
    if (comm_create(&world) != CLT_OK) {
        fprintf(stderr, "comm_create: %s\n", clt_error_text());
        return 1;
    }
    const comm_info *info = comm_describe(world);
    float x = 0;
    comm_request *r = NULL;
    if (strcmp(how, "abort") == 0) {
        if (info->rank == info->ranks - 1)
            comm_abort(world, CLT_ENUMERIC);
        (void)comm_barrier(world);
    } else if (strcmp(how, "stuck") == 0) {
        while (info->rank != 0)
            pause();
        comm_request stuck = {.body = sum_alone, .context = &x, .what = "all-reduce"};
        comm_engine_post(world->engine, &stuck);
        comm_request_ready(&stuck, true);
        while (!atomic_load(&inside))
            usleep(1000);
        comm_abort(world, CLT_EDEVLOST);
    } else {
        (void)comm_all_reduce_post(world, &x, 1, COMM_F32, COMM_SUM, &r);
        comm_request_ready(r, info->rank != 0);
        clt_status status = comm_request_wait(r);
        fprintf(stderr, "rank %d: %s\n", info->rank, clt_error_text());
        comm_abort(world, status);
    }
    return 1; /* not reached: the job has ended */
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return end_the_job(argv[1]);
    return comm_under_launcher() ? run_under_launcher() : run_alone();
}
