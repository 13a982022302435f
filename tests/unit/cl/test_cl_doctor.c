/* SPDX-License-Identifier: Apache-2.0
 *
 * The doctor names the file or library at fault. Each case runs in a child process, since the OpenCL loader
 * reads its environment once. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "cl/device/device.h"
#include "cl/drivers/icd.h"
#include "cl/drivers/icd_loader.h"
#include "engine/base/thread.h"

typedef struct report {
    char text[32768];
    bool healthy;
} report;

static void on_finding(void *context, ocl_finding_level level, const char *text, const char *advice)
{
    static const char *const names[] = {"OK", "NOTE", "WARN", "ERROR"};
    dprintf(*(int *)context, "%s: %s | %s\n", names[level], text, advice);
}

static void child(int fd, const char *name, const char *value, bool as_nobody)
{
    static const char *const all[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"};
    bool healthy = false;
    for (int i = 0; name != NULL && i < 3; i++)
        unsetenv(all[i]);
    if (name != NULL)
        setenv(name, value, 1);
    if (as_nobody && geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(3);
    if (ocl_doctor(on_finding, &fd, &healthy) != CLT_OK)
        _exit(4);
    if (name != NULL) { /* what the other commands report then */
        ocl_device_desc *list;
        int count;
        clt_status status = ocl_list_devices(&list, &count);
        dprintf(fd, "list: %s: %s\n", clt_status_name(status), status == CLT_OK ? "" : clt_error_text());
    }
    _exit(healthy ? 1 : 2);
}

static void run(report *r, const char *name, const char *value, bool as_nobody)
{
    int fds[2], state;
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        child(fds[1], name, value, as_nobody);
    }
    close(fds[1]);
    size_t used = 0;
    for (ssize_t n;
         used < sizeof r->text - 1 && (n = read(fds[0], r->text + used, sizeof r->text - 1 - used)) > 0;)
        used += (size_t)n;
    r->text[used] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &state, 0), pid);
    if (!WIFEXITED(state) || WEXITSTATUS(state) < 1 || WEXITSTATUS(state) > 2)
        fail_msg("the child ended with 0x%x after: %s", state, r->text);
    r->healthy = WEXITSTATUS(state) == 1;
}

static void put(char path[256], const char *name, const char *content)
{
    snprintf(path, 256, "%s/%s", test_folder(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void check_no_platform(const report *r)
{
    assert_false(r->healthy);
    assert_contains(r->text, "ERROR: the loader found no OpenCL platform");
    assert_contains(r->text, "(-1001)");
    assert_contains(r->text, "list: CLT_EDEVICE");
    assert_contains(r->text, "cltrain doctor");
}

TEST(test_empty_folder)
{
    report r;
    char empty[256];
    snprintf(empty, sizeof empty, "%s/empty", test_folder());
    assert_int_equal(mkdir(empty, 0755), 0);
    run(&r, "OCL_ICD_VENDORS", empty, false);
    check_no_platform(&r);
    assert_contains(r.text, "/empty (from OCL_ICD_VENDORS) holds no .icd file");
    /* the system's own drivers are hidden, or it has none */
    bool hidden = strstr(r.text, "unset OCL_ICD_VENDORS: ") != NULL;
    assert_contains(r.text, hidden ? "names a driver that is installed" : "pocl-opencl-icd");
    run(&r, "OPENCL_VENDOR_PATH", empty, false);
    assert_contains(r.text, "/empty (from OPENCL_VENDOR_PATH) holds no .icd file");
}

TEST(test_missing_folder)
{
    report r;
    run(&r, "OCL_ICD_VENDORS", "/nonexistent/vendors/", false);
    check_no_platform(&r);
    assert_contains(r.text, "/nonexistent/vendors/");
}

TEST(test_missing_library)
{
    report r;
    char path[256];
    put(path, "gone.icd", "libno-such-driver.so.7\n");
    run(&r, "OCL_ICD_VENDORS", path, false);
    check_no_platform(&r);
    assert_contains(r.text, path);
    assert_contains(r.text, "libno-such-driver.so.7, which does not load: ");
    assert_contains(r.text, "cannot open shared object file");
}

TEST(test_missing_library_by_variable)
{
    report r;
    run(&r, "OCL_ICD_VENDORS", "libno-such-driver.so.8", false);
    assert_contains(r.text,
                    "OCL_ICD_VENDORS names the driver library libno-such-driver.so.8, which does not load");
    run(&r, "OCL_ICD_FILENAMES", "/x/libno-such-driver.so.9:libother.so", false);
    if (!ocl_loader_variables().filenames) {
        assert_contains(r.text, "OCL_ICD_FILENAMES=/x/libno-such-driver.so.9:libother.so has no effect");
        return;
    }
    assert_contains(
        r.text, "OCL_ICD_FILENAMES names the driver library /x/libno-such-driver.so.9, which does not load");
    assert_contains(r.text, "libother.so, which does not load");
}

TEST(test_unreadable_file)
{
    report r;
    char path[256];
    put(path, "locked.icd", "libpocl.so\n");
    assert_int_equal(chmod(path, 0), 0);
    run(&r, "OCL_ICD_VENDORS", path, true);
    assert_false(r.healthy);
    assert_contains(r.text, "locked.icd cannot be read: Permission denied");
    assert_contains(r.text, "chmod 644");
}

TEST(test_empty_file)
{
    report r;
    char path[256];
    put(path, "void.icd", "\n");
    run(&r, "OCL_ICD_VENDORS", path, false);
    assert_false(r.healthy);
    assert_contains(r.text, "void.icd is empty");
}

TEST(test_not_a_driver)
{
    report r;
    char path[256];
    put(path, "libm.icd", "libm.so.6\n"); /* loads, but offers no platform */
    run(&r, "OCL_ICD_VENDORS", path, false);
    check_no_platform(&r);
    assert_contains(r.text, "libm.so.6, and it loads");
    assert_contains(r.text, "a driver library loads but offers no platform");
}

/* Four ranks on this host: each sees at most a quarter of the host's memory and cores on CPU devices. */
static void share_child(void)
{
    ocl_device_desc *list;
    int count;
    unsetenv("POCL_MAX_PTHREAD_COUNT");
    unsetenv("POCL_CPU_MAX_CU_COUNT");
    ocl_prepare_process(4, 4);
    if (ocl_list_devices(&list, &count) != CLT_OK)
        _exit(TEST_SKIPPED);
    unsigned cores = clt_cpu_count() / 4 > 1 ? (unsigned)clt_cpu_count() / 4 : 1;
    for (int i = 0; i < count; i++) {
        if (!list[i].is_cpu)
            continue;
        if ((double)list[i].usable_bytes > 1.05 * (double)clt_memory_available() / 4.0)
            _exit(3);
        if (strstr(list[i].platform, "Portable Computing Language") != NULL && list[i].compute_units > cores)
            _exit(4);
    }
    _exit(0);
}

TEST(test_share_of_ranks)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        share_child();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == TEST_SKIPPED)
        skip(); /* reported by cmocka: there is no OpenCL device */
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void check_rusticl(const char *kernel, bool amd, bool intel, bool other, const char *expected)
{
    char out[64], copy[128];
    const char *list[8] = {NULL};
    int n = 0;
    snprintf(copy, sizeof copy, "%s", kernel);
    for (char *at = strtok(copy, " "); at != NULL; at = strtok(NULL, " "))
        list[n++] = at;
    ocl_icd_rusticl_drivers(list, amd, intel, other, out, sizeof out);
    assert_string_equal(out, expected);
}

/* rusticl is switched on for GPUs that no other driver serves, and for the processor when there is nothing
 * else. */
TEST(test_rusticl_switch)
{
    check_rusticl("", false, false, true, "");
    check_rusticl("", false, false, false, "llvmpipe");
    check_rusticl("amdgpu", false, false, true, "radeonsi");
    check_rusticl("amdgpu", true, false, true, "");
    check_rusticl("i915 xe amdgpu", true, false, true, "iris");
    check_rusticl("i915 amdgpu", false, true, true, "radeonsi");
    check_rusticl("nvidia virtio_gpu", false, false, true, "");
    check_rusticl("virtio_gpu", false, false, false, "llvmpipe");
    check_rusticl("nouveau amdgpu msm asahi", false, false, true, "nouveau,radeonsi,freedreno,asahi");
    char small[12];
    const char *two[] = {"amdgpu", "nouveau", NULL};
    ocl_icd_rusticl_drivers(two, false, false, true, small, sizeof small);
    assert_string_equal(small, "radeonsi"); /* the name is dropped, not cut */
}

/* With the machine's own drivers the verdict agrees with what opening a device says. */
TEST(test_this_machine)
{
    report r;
    run(&r, NULL, NULL, false);
    if (r.healthy) {
        assert_contains(r.text, "runs kernels; capabilities: ");
        assert_contains(r.text, "OK: platform 0 ");
    } else {
        assert_contains(r.text, "ERROR: ");
    }
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    ocl_device *device;
    if (ocl_device_open(&options, &device) == CLT_OK) {
        assert_true(r.healthy);
        ocl_device_close(device);
    }
}

FIXTURE(setup)
{
    return chmod(test_folder(), 0755);
}

TEST_PROGRAM(.set_up = setup);
