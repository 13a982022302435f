/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The bad driver of fault/driver_shim.c does what its grammar says. This program runs itself with the shim
 * loaded, once for each rule, as a small OpenCL program that builds, launches and reads one kernel and
 * records the results. */
#include "tests/unit/cl/cl_test.h"

#include "engine/base/thread.h"

#include <CL/cl.h>
#include <signal.h>
#include <sys/wait.h>

#define ITEMS 256

/* --- the victim --- */

/* As the engine's sources begin. */
static const char source[] = "#line 1 \"toy.cl\"\n"
                             "__kernel void toy_add(__global uint *y, __global const uint *x)\n"
                             "{ __local uint own[64];\n"
                             "  own[get_local_id(0)] = SUMMAND;\n"
                             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                             "  y[get_global_id(0)] = x[get_global_id(0)] + own[63 - get_local_id(0)]; }\n";

typedef struct victim {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem x, y;
} victim;

/* Where the rule makes this call hang, a long wait would prove nothing more. Elsewhere guard.sh ends what
 * hangs. */
static void expect_hang(const char *call)
{
    const char *shim = getenv("CLT_SHIM"), *patience = getenv("CLTRAIN_TEST_PATIENCE");
    bool hangs = shim && strstr(shim, ":hang") && strncmp(shim, call, strlen(call)) == 0;
    int times = patience ? atoi(patience) : 1;
    alarm(hangs ? 2 * (unsigned)(times > 1 ? times : 1) : 0);
}

static int build(victim *v)
{
    const char *text = source;
    cl_int code;
    char log[256] = "";
    cl_program program = clCreateProgramWithSource(v->context, 1, &text, NULL, &code);
    expect_hang("build");
    code = clBuildProgram(program, 1, &v->device, "-cl-std=CL1.2 -DSUMMAND=7", NULL, NULL);
    if (code != CL_SUCCESS)
        clGetProgramBuildInfo(program, v->device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    printf("build=%d %s\n", code, log);
    v->kernel = clCreateKernel(program, "toy_add", &code);
    printf("kernel=%d\n", code);
    return v->kernel != NULL;
}

static int wrong_words(const cl_uint *y)
{
    int wrong = 0;
    for (cl_uint i = 0; i < ITEMS; i++)
        wrong += y[i] != i + 7;
    return wrong;
}

/* Launches once with or without an event, and reads. */
static void launch(victim *v, bool with_event)
{
    size_t global = ITEMS, local = 64;
    cl_uint y[ITEMS] = {0};
    cl_event event = NULL, marker = NULL;
    cl_int status = 1;
    double begin = clt_now();
    printf("launch=%d\n", clEnqueueNDRangeKernel(v->queue, v->kernel, 1, NULL, &global, &local, 0, NULL,
                                                 with_event ? &event : NULL));
    expect_hang("launch"); /* the command hangs, not the call, since a driver may compile inside the call */
    if (!with_event)
        clEnqueueMarkerWithWaitList(v->queue, 0, NULL, &event);
    printf("wait=%d\n", event ? clWaitForEvents(1, &event) : 1);
    if (event)
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    printf("event=%d\n", status);
    printf("marker=%d\n", clEnqueueMarkerWithWaitList(v->queue, 0, NULL, &marker));
    printf("finish=%d\n", clFinish(v->queue));
    double took = clt_now() - begin;
    printf("read=%d\n", clEnqueueReadBuffer(v->queue, v->y, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    printf("wrong=%d\n", wrong_words(y));
    printf("slow=%d\n", took >= 0.1);
}

static void simulate(void)
{
    victim v = {0};
    cl_platform_id platforms[16];
    cl_uint n = 0, x[ITEMS], i;
    cl_int code;
    size_t limit = 0;
    cl_ulong bytes = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    clGetPlatformIDs(16, platforms, &n);
    for (cl_uint p = 0; p < n && !v.device; p++)
        clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &v.device, NULL);
    if (!v.device)
        exit(TEST_SKIPPED);
    for (i = 0; i < ITEMS; i++)
        x[i] = i;
    v.context = clCreateContext(NULL, 1, &v.device, NULL, NULL, &code);
    v.queue = clCreateCommandQueue(v.context, v.device, 0, &code);
    v.x = clCreateBuffer(v.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
    v.y = clCreateBuffer(v.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
    if (!build(&v))
        exit(0);
    clGetKernelWorkGroupInfo(v.kernel, v.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit, &limit, NULL);
    printf("limit=%zu\n", limit);
    clGetKernelWorkGroupInfo(v.kernel, v.device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    printf("local=%llu\n", (unsigned long long)bytes);
    clSetKernelArg(v.kernel, 0, sizeof v.y, &v.y);
    clSetKernelArg(v.kernel, 1, sizeof v.x, &v.x);
    for (i = 0; i < 2; i++)
        launch(&v, i == 1);
    exit(0);
}

/* --- the test --- */

static const char *self;
static char output[4096], log_text[4096];

/* Exit code, or -signal; fills output and log_text. */
static int run(const char *shim)
{
    char log_path[] = "/tmp/clt_shim_XXXXXX", variable[512], sanitizer[1024];
    const char *options = getenv("ASAN_OPTIONS");
    int ends[2], result, log = mkstemp(log_path);
    assert_true(log >= 0 && pipe(ends) == 0);
    (void)snprintf(variable, sizeof variable, "%s;log=%s", shim, log_path);
    (void)snprintf(sanitizer, sizeof sanitizer, "%s%sverify_asan_link_order=0:detect_leaks=0",
                   options ? options : "", options ? ":" : "");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        setenv("CLT_SHIM", variable, 1);
        setenv("ASAN_OPTIONS", sanitizer, 1);
        setenv("LD_PRELOAD", CLT_TEST_DRIVER_SHIM, 1);
        execl(self, self, "victim", (char *)NULL);
        _exit(98);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used < sizeof output - 1 && (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0)
        used += (size_t)got;
    output[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &result, 0), child);
    got = read(log, log_text, sizeof log_text - 1);
    log_text[got > 0 ? got : 0] = '\0';
    close(log);
    unlink(log_path);
    return WIFSIGNALED(result) ? -WTERMSIG(result) : WEXITSTATUS(result);
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* One entry: how the victim ends, what it prints, and how many calls were hit. */
static const struct {
    const char *shim;
    int code, hits;
    const char *says[4];
} entries[] = {
    {"build:nothing:abort", 0, 0, {"build=0", "launch=0\nwait=0\nevent=0", "wrong=0"}},
    {"build:*:abort", -SIGABRT, 1, {0}},
    {"build:toy:segfault", -SIGSEGV, 1, {0}},
    {"build:family=toy:hang", -SIGALRM, 1, {0}},
    {"build:family=to:abort", 0, 0, {"build=0"}},
    {"build:option=SUMMAND=7:error", 0, 1, {"build=-11 shim.cl:1:1: error", "kernel=-45"}},
    {"build:option=SUMMAND=8:error", 0, 0, {"build=0"}},
    {"build:source=get_global_id+!toy:error", 0, 0, {"build=0"}},
    {"build:source=get_global_id+!other:error=-6", 0, 1, {"build=-6"}},
    {"kernel:kernel=toy_add:error", 0, 1, {"kernel=-5"}},
    {"group:*:limit=32", 0, 1, {"limit=32\n", "launch=-54"}},
    {"local:toy_add:times", 0, 1, {"local=512\n", "wrong=0"}},
    {"local:toy_add:times=3", 0, 1, {"local=768\n"}},
    {"local:*:limit=32", 99, 0, {0}},
    {"launch:toy_add:error", 0, 2, {"launch=-5", "wrong=256"}},
    {"launch:toy_add:error=-54:nth=2", 0, 1, {"launch=0\nwait=0", "launch=-54\nwait=1", "wrong=0"}},
    {"launch:toy_add:abort:from=2", -SIGABRT, 1, {"wrong=0"}},
    {"launch:toy_add:hang", -SIGALRM, 1, {"launch=0\n"}},
    {"launch:toy_add:dead", 0, 1, {"launch=0\nwait=1\n", "finish=-36", "launch=-36", "read=-36"}},
    {"launch:toy_add:dead=-9999", 0, 1, {"launch=0\nwait=1\n", "finish=-9999\nread=-9999"}},
    {"launch:toy_add:garbage:nth=1", 0, 1, {"wrong=256", "wrong=0"}},
    {"launch:toy_add:garbage=0.01:nth=1", 0, 1, {"wrong=3", "wrong=0"}},
    {"launch:toy_add:event", 0, 2, {"launch=0\nwait=-14\nevent=-5\nmarker=0\nfinish=0", "wrong=256"}},
    {"launch:toy_add:idle=100000",
     0,
     2,
     {"launch=0\nwait=0\nevent=0\nmarker=0\nfinish=0", "wrong=256\nslow=1"}},
    {"read:*:flip", 0, 2, {"wrong=1"}},
    {"read:bytes=1024:nan:nth=1", 0, 1, {"wrong=1", "wrong=0"}},
    {"read:bytes=1000:nan", 0, 0, {"wrong=0"}},
    {"build:threads=2:abort", 0, 0, {"wrong=0"}},
    {"build:threads=1:abort", -SIGABRT, 1, {0}},
    {"build:*:garbage", 99, 0, {0}},
    {"launch:*:nonsense", 99, 0, {0}},
    {"launch:*", 99, 0, {0}},
};

TEST(test_entries)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        int code = run(entries[i].shim);
        if (code == TEST_SKIPPED)
            skip();
        if (strstr(entries[i].shim, ":idle") && strstr(output, "launch=-59")) {
            print_message("%s: the device runs no native kernels\n", entries[i].shim);
            continue;
        }
        if (code != entries[i].code)
            fail_msg("%s: it ended with %d, not %d: %s", entries[i].shim, code, entries[i].code, output);
        for (int s = 0; s < 4 && entries[i].says[s]; s++)
            if (!strstr(output, entries[i].says[s]))
                fail_msg("%s: no '%s' in %s", entries[i].shim, entries[i].says[s], output);
        if (count_lines(log_text) != entries[i].hits)
            fail_msg("%s: not %d calls were hit: %s", entries[i].shim, entries[i].hits, log_text);
    }
}

TEST(test_log)
{
    int code = run("launch:toy_add:garbage:nth=2");
    if (code == TEST_SKIPPED)
        skip();
    assert_int_equal(code, 0);
    assert_contains(log_text, " launch toy toy_add garbage 2\n");
}

static void play_victim(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "victim") == 0)
        simulate();
}

TEST_PROGRAM(.begin = play_victim);
