/* SPDX-License-Identifier: Apache-2.0
 *
 * A training step builds, allocates and waits for nothing, by the OpenCL calls that interpose.c counts: in
 * windows of steps, and by comparing a run with one twice as long. What a step does call is exactly what its
 * plan says, and every command has an event, or, where failures last, every 16th. CLBlast's own calls are
 * counted apart.
 * ctest-labels: quick ctest-cost: 9 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#include "cl/device/internal.h"
#include "engine/train/inspect/watch.h"
#include "tests/fault/interpose.h"

#define WARM_UP 3

static const char *const models[] = {
    "{\"type\":\"mlp\",\"hidden\":[40,24],\"activation\":\"gelu\",\"dropout\":0.1}",
    "{\"type\":\"graph\",\"layers\":[{\"op\":\"linear\",\"name\":\"stem\",\"inputs\":[\"x\"],\"out\":24},"
    "{\"op\":\"layernorm\",\"name\":\"norm\"},{\"op\":\"linear\",\"name\":\"fc1\",\"out\":48},{\"op\":"
    "\"silu\",\"name\":\"act\"},"
    "{\"op\":\"linear\",\"name\":\"fc2\",\"out\":24},{\"op\":\"add\",\"name\":\"sum\",\"inputs\":[\"stem\","
    "\"fc2\"]},"
    "{\"op\":\"reshape\",\"name\":\"grid\",\"shape\":[4,6]},{\"op\":\"softmax\",\"name\":\"soft\"},"
    "{\"op\":\"reduce\",\"name\":\"mean\",\"axes\":[1]},{\"op\":\"concat\",\"name\":\"all\",\"inputs\":["
    "\"mean\",\"sum\"]},"
    "{\"op\":\"linear\",\"name\":\"head\",\"out\":5},"
    "{\"op\":\"cross_entropy\",\"name\":\"loss\",\"inputs\":[\"head\",\"y\"]}]}"};

static clt_config *config_of(const char *model, int accumulation, int steps)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"model\":%s,\"data\":{\"type\":\"synthetic\",\"shape\":[20],\"classes\":5,\"samples\":64,"
             "\"micro_batch\":8,"
             "\"global_batch\":%d,\"workers\":2},\"optimizer\":{\"type\":\"adamw\",\"clip\":1},"
             "\"train\":{\"steps\":%d},\"checkpoint\":{\"final\":false}}",
             model, 8 * accumulation, steps);
    return train_config(text);
}

/* How many times a step runs a phase. */
static uint64_t times_of(const clt_plan *plan, int phase)
{
    uint64_t micro = (uint64_t)plan->options.accumulation;
    const uint64_t times[CLT_PHASE_COUNT] = {micro, 1, micro - 1, micro - 1, 1, 1, 1};
    return times[phase];
}

/* Number of commands of one kind in a step. */
static uint64_t planned(const clt_plan *plan, ocl_command_kind kind)
{
    uint64_t n = 0;
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++)
            n += plan->phase[p].commands[c].kind == kind ? times_of(plan, p) : 0;
    return n;
}

/* Number of the executor's events in a step: one for every command, or for every 16th and the last of each
 * phase; `opens`: for the first one, too. */
static uint64_t planned_events(const clt_plan *plan, bool grouped, bool opens)
{
    uint64_t n = 0;
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        uint64_t count = plan->phase[p].count, first = opens && count > 0;
        n += times_of(plan, p) * (grouped ? first + (count - first + 15) / 16 : count);
    }
    return n;
}

/* How closely steps are watched: not at all, as in every run, or as with --profile. */
typedef enum watching { UNWATCHED, WATCHED, PROFILED } watching;
static clt_watch *watch;

static void run_steps(clt_run *run, int64_t first, int64_t count)
{
    clt_step_result result;
    clt_step_metrics metrics = {.step = 0};
    bool have;
    for (int64_t step = first; step < first + count; step++) {
        clt_reporter_room(run->reporter);
        must(clt_reporter_take(run->reporter, false, &result, &have), "report");
        if (have && watch) {
            clt_watch_digest(watch, result.step, &metrics);
            assert_true(metrics.device_busy > 0 && metrics.device_busy <= 1);
        }
        if (watch)
            clt_watch_begin(watch, step);
        must(clt_step(run, step), "step");
        if (watch)
            clt_watch_end(watch, step);
    }
}

static void open_run(const clt_run_options *options, watching how, clt_run **run)
{
    must(clt_run_create(options, CLT_JOB_TRAIN, run), "run");
    const clt_job *job = (*run)->job;
    clt_feed_options feed = {.realized = (*run)->train,
                             .source = job->train_source,
                             .global_batch = job->global_batch,
                             .accumulation = job->accumulation,
                             .ranks = 1,
                             .shuffle = true,
                             .last_step = job->steps,
                             .workers = 2,
                             .prefetch = 4};
    clt_watch_options watch_options = {
        .profile = how == PROFILED, .trace = true, .trace_from = -1, .last_step = job->steps, .depth = 4};
    if (how != UNWATCHED)
        must(clt_watch_create(*run, &watch_options, &watch), "watch");
    must(clt_reporter_create((*run)->train, 4, &(*run)->reporter), "reporter");
    must(clt_feed_create(&feed, &(*run)->feed), "feed");
}

static void nothing_forbidden(const call_counts *c, const char *what)
{
    for (int kind = 0; kind < CALL_FORBIDDEN_COUNT; kind++)
        if (c->own[kind] != 0)
            fail_msg("%s: %llu %s", what, (unsigned long long)c->own[kind], call_name((call_kind)kind));
}

static void expect_count(const call_counts *c, call_kind kind, uint64_t wanted)
{
    if (c->own[kind] != wanted)
        fail_msg("%llu %s, the plan says %llu", (unsigned long long)c->own[kind], call_name(kind),
                 (unsigned long long)wanted);
}

/* A window of n steps after the first few. */
static void check_window(clt_run *run, int64_t first, uint64_t n, watching how)
{
    bool lasting = (run->device->desc.quirks & OCL_QUIRK_LASTING_FAILURES) != 0;
    const clt_plan *plan = run->job->train;
    uint64_t micro = (uint64_t)plan->options.accumulation;
    call_counts start = calls_now();
    run_steps(run, first, (int64_t)n);
    call_counts c = calls_since(&start);
    nothing_forbidden(&c, "inside steps");
    expect_count(&c, CALL_KERNEL, n * planned(plan, OCL_CMD_KERNEL));
    expect_count(&c, CALL_LIBRARY, n * planned(plan, OCL_CMD_GEMM));
    expect_count(&c, CALL_COPY,
                 n * (planned(plan, OCL_CMD_COPY) + micro)); /* ring slot to the plan's inputs */
    expect_count(&c, CALL_FILL, n * planned(plan, OCL_CMD_FILL));
    expect_count(&c, CALL_WRITE, n * micro);
    expect_count(&c, CALL_READ, n * 2); /* state block and loss records, not waited for */
    uint64_t transfers = 2 * micro + 2;
    uint64_t events = planned_events(plan, lasting && how != PROFILED, how == WATCHED);
    expect_count(&c, CALL_EVENT, n * (events + transfers) + c.own[CALL_MARKER]);
    if (how == UNWATCHED || planned(plan, OCL_CMD_GEMM) == 0)
        expect_count(&c, CALL_MARKER, 0);
    if (lasting && how == UNWATCHED)
        assert_true(8 * events < planned_events(plan, false, false));
}

static void close_run(clt_run *run)
{
    clt_watch_destroy(watch);
    watch = NULL;
    clt_run_destroy(run);
}

static void check_model(const char *model, int accumulation, bool library, bool lasting, watching how)
{
    CLT_SCOPED(clt_config) *config = config_of(model, accumulation, 64);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    clt_run *run;
    open_run(&options, how, &run);
    run->device->desc.quirks &= ~(uint32_t)OCL_QUIRK_LASTING_FAILURES;
    run->device->desc.quirks |= lasting ? OCL_QUIRK_LASTING_FAILURES : 0;
    assert_true(planned(run->job->train, OCL_CMD_KERNEL) > 10);
    assert_int_equal(planned(run->job->train, OCL_CMD_GEMM) > 0, library);
    run_steps(run, 0, WARM_UP);
    check_window(run, WARM_UP, 10, how);
    check_window(run, WARM_UP + 10, 20, how);
    close_run(run);
}

TEST(test_windows)
{
    setenv("CLTRAIN_GEMM", "simple", 1);
    check_model(models[0], 3, false, false, UNWATCHED);
    check_model(models[1], 1, false, false, UNWATCHED);
    check_model(models[0], 3, false, false, WATCHED);
    check_model(models[1], 1, false, false, PROFILED);
    check_model(models[0], 3, false, true, UNWATCHED);
    check_model(models[1], 1, false, true, WATCHED);
    check_model(models[0], 3, false, true, PROFILED);
}

#ifdef CLT_HAVE_CLBLAST
TEST(test_windows_with_library)
{
    setenv("CLTRAIN_GEMM", "clblast", 1);
    call_counts start = calls_now();
    check_model(models[0], 2, true, false, WATCHED);
    check_model(models[0], 2, true, true, UNWATCHED);
    call_counts c = calls_since(&start);
    /* the counters saw the library's inner calls, so they would have counted such calls of ours */
    assert_true(c.library[CALL_KERNEL] > 0 && c.library[CALL_SET_ARG] > 0);
}
#endif

/* The public trainer with twice the steps makes the same number of forbidden calls. */
TEST(test_longer_run)
{
    call_counts c[2];
    setenv("CLTRAIN_GEMM", "simple", 1);
    for (int i = 0; i < 2; i++) {
        record rec = {.n = 0};
        clt_run_result result;
        CLT_SCOPED(clt_config) *config = config_of(models[1], 2, i ? 40 : 20);
        set(config, "schedule.horizon", "40");
        call_counts start = calls_now();
        must(train_run(config, NULL, NULL, &rec, &result), "train");
        c[i] = calls_since(&start);
        assert_int_equal(rec.n, i ? 40 : 20);
    }
    for (int kind = 0; kind < CALL_FORBIDDEN_COUNT; kind++)
        if (c[0].own[kind] != c[1].own[kind])
            fail_msg("20 steps: %llu %s, 40 steps: %llu", (unsigned long long)c[0].own[kind],
                     call_name((call_kind)kind), (unsigned long long)c[1].own[kind]);
    assert_true(c[0].own[CALL_BUILD] > 0 && c[0].own[CALL_SET_ARG] > 0 && c[0].own[CALL_CREATE_MEMORY] > 0);
    assert_true(c[1].own[CALL_KERNEL] > c[0].own[CALL_KERNEL] + 20 * 10);
}

/* Tests the counters: a call that must not happen in a step is counted if it does happen. */
TEST(test_counters_see)
{
    float value;
    ocl_buffer *buffer;
    CLT_SCOPED(clt_config) *config = config_of(models[0], 1, 64);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    clt_run *run;
    open_run(&options, UNWATCHED, &run);
    call_counts start = calls_now();
    must(ocl_buffer_create(run->device, 4096, "test", &buffer), "buffer");
    must(ocl_read(buffer, 0, &value, sizeof value), "read");
    must(ocl_finish(run->device, OCL_QUEUE_COMPUTE), "finish");
    ocl_buffer_destroy(buffer);
    call_counts c = calls_since(&start);
    assert_int_equal(c.own[CALL_CREATE_MEMORY], 1);
    assert_int_equal(c.own[CALL_RELEASE], 1);
    assert_true(c.own[CALL_BLOCKING] + c.own[CALL_WAIT] >= 2);
    close_run(run);
}

TEST_PROGRAM(.device = true);
