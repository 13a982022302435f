/* SPDX-License-Identifier: Apache-2.0
 *
 * Watched runs: device times in the metrics, profiles and traces of a real run, advice for a run with a
 * slow loader; and that none of this changes a number.
 * ctest-labels: quick ctest-cost: 8 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/report/times/trace.h"

#define STEPS 20

static clt_config *small_config(void)
{
    return train_config("{\"model\":{\"type\":\"mlp\",\"hidden\":[32,24],\"dropout\":0.1},"
                        "\"data\":{\"type\":\"synthetic\",\"shape\":[20],\"classes\":5,\"samples\":64,"
                        "\"micro_batch\":8,\"global_batch\":16,\"workers\":2},"
                        "\"optimizer\":{\"type\":\"adamw\",\"clip\":1},"
                        "\"train\":{\"steps\":20,\"eval_every\":7},\"checkpoint\":{\"every\":5}}");
}

static double run_seconds; /* duration of the last run */

static void run(const clt_config *config, const char *out, bool profile, int64_t trace_from,
                clt_source *source, record *r)
{
    char path[256];
    clt_run_result result;
    snprintf(path, sizeof path, "%s", in_dir(out));
    clt_run_options options = {
        .config = config,
        .caps_mask = OCL_CAPS_ALL,
        .out_dir = path,
        .profile = profile,
        .trace_from = trace_from,
        .source = source,
        .observer = {.context = r, .step = record_step, .eval = record_eval, .message = record_message}};
    r->n = r->n_evals = 0;
    r->messages[0] = '\0';
    double begin = clt_now();
    must(clt_train(&options, &result), out);
    run_seconds = clt_now() - begin;
}

/* --- metrics --- */

TEST(test_metrics)
{
    record r = {.n = 0};
    CLT_SCOPED(clt_config) *config = small_config();
    run(config, "metrics", false, 0, NULL, &r);
    assert_int_equal(r.n, STEPS);
    for (int i = 0; i < r.n; i++) {
        const clt_step_metrics *m = &r.step[i];
        if (!(m->device_busy > 0 && m->device_busy <= 1))
            fail_msg("step %d: device_busy %g", i, m->device_busy);
        if (!(m->h2d_gbs > 0 && isfinite(m->h2d_gbs)) || !(m->d2h_gbs > 0 && isfinite(m->d2h_gbs)))
            fail_msg("step %d: h2d %g, d2h %g", i, m->h2d_gbs, m->d2h_gbs);
    }
    assert_false(clt_file_exists(in_dir("metrics/profile.txt")));
    assert_false(clt_file_exists(in_dir("metrics/trace.json")));
}

static int count_lines(const char *file, const char *part)
{
    size_t size;
    int n = 0;
    CLT_FREED char *text = read_bytes(file, &size);
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

/* A device without time stamps: its times are unknown, not zero, and nothing else changes. */
TEST(test_no_timestamps)
{
    record with = {.n = 0}, without = {.n = 0};
    CLT_SCOPED(clt_config) *config = small_config();
    run(config, "with", false, 0, NULL, &with);
    set(config, "device.timestamps", "false");
    run(config, "without", false, 0, NULL, &without);
    assert_int_equal(without.n, STEPS);
    for (int i = 0; i < STEPS; i++) {
        assert_true(isnan(without.step[i].device_busy) && isnan(without.step[i].h2d_gbs) &&
                    isnan(without.step[i].d2h_gbs));
        assert_true(with.step[i].loss == without.step[i].loss);
        assert_true(without.step[i].step_ms > 0);
    }
    assert_int_equal(count_lines("without/metrics.jsonl", "\"device_busy\":null"), STEPS);
    assert_int_equal(count_lines("without/metrics.jsonl", "\"h2d_gbs\":null"), STEPS);
    assert_int_equal(count_lines("with/metrics.jsonl", "\"d2h_gbs\":null"), 0);
    assert_int_equal(count_lines("with/metrics.jsonl", "\"d2h_gbs\":"), STEPS);
}

/* --- profile and trace --- */

static clt_json_doc *parse(const char *file)
{
    clt_json_doc *doc;
    must(clt_json_parse_file(in_dir(file), CLT_EINTERNAL, &doc), file);
    return doc;
}

static double member(const clt_json *object, const char *key)
{
    const clt_json *v = clt_json_get(object, key);
    if (!v || clt_json_typeof(v) != CLT_JSON_NUMBER)
        fail_msg("no number '%s'", key);
    return clt_json_number(v);
}

static const char *word(const clt_json *object, const char *key)
{
    const clt_json *v = clt_json_get(object, key);
    return v && clt_json_typeof(v) == CLT_JSON_STRING ? clt_json_string(v) : "";
}

static double sum_of(const clt_json *array, const char *key)
{
    double sum = 0;
    for (const clt_json *e = clt_json_first(array); e; e = clt_json_next(e))
        sum += member(e, key);
    return sum;
}

static void check_profile(const char *file)
{
    CLT_SCOPED(clt_json_doc) *doc = parse(file);
    const clt_json *root = clt_json_root(doc), *kernels = clt_json_get(root, "kernels"),
                   *commands = clt_json_get(root, "commands");
    double busy = member(root, "device_busy"), step_ms = member(root, "step_ms");
    assert_true(busy > 0 && busy <= 1 && step_ms > 0);
    assert_int_equal((int)member(root, "steps"), STEPS - 1); /* without the first step */
    assert_int_equal((int)member(root, "not_recorded"), 0);
    assert_true(clt_json_count(kernels) > 5 && clt_json_count(commands) > clt_json_count(kernels));
    /* the table, the commands and the busy time add up the same times */
    assert_close("kernels", 0, sum_of(kernels, "ms"), sum_of(commands, "ms"), 1e-6 * step_ms);
    assert_close("shares", 0, sum_of(kernels, "share"), 1, 1e-9);
    assert_close("busy", 0, sum_of(commands, "ms"), busy * step_ms, 0.05 * step_ms);
    double phases = 0;
    const clt_json *p = clt_json_get(root, "phases");
    for (const clt_json *e = clt_json_first(p); e; e = clt_json_next(e))
        phases += member(e, "ms");
    assert_close("phases", 0, phases, sum_of(commands, "ms"), 1e-6 * step_ms);
    assert_non_null(clt_json_get(p, "backward_add"));
    assert_true(member(clt_json_get(root, "limits"), "fma_peak_gflops") > 0);
    assert_true(member(clt_json_get(root, "host"), "opencl_calls") > 10);
    assert_true(member(clt_json_get(clt_json_get(root, "memory"), "classes"), "saved_activations") > 0);
    for (const clt_json *e = clt_json_first(commands); e; e = clt_json_next(e)) {
        const char *phase = word(e, "phase");
        if (strcmp(phase, "forward") == 0)
            assert_close("calls of a forward command", 0, member(e, "calls"), 2, 1e-9);
        if (strcmp(phase, "update") == 0)
            assert_close("calls of an update command", 0, member(e, "calls"), 1, 1e-9);
    }
}

/* Slices of a track of the trace. */
static int slices(const clt_json *events, int track, const char *track_name)
{
    int n = 0;
    bool named = false;
    for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e)) {
        if (!clt_json_get(e, "tid") || (int)member(e, "tid") != track + 1)
            continue;
        if (strcmp(word(e, "name"), "thread_name") == 0)
            named = strcmp(word(clt_json_get(e, "args"), "name"), track_name) == 0;
        if (strcmp(word(e, "ph"), "X") != 0)
            continue;
        assert_true(member(e, "ts") >= 0 && member(e, "dur") >= 0);
        n++;
    }
    if (!named)
        fail_msg("track %d is not called '%s'", track, track_name);
    return n;
}

/* Everything that the compute queue did in a step is inside the step's slice. */
static void check_nesting(const clt_json *events, int first, int last)
{
    for (int step = first; step <= last; step++) {
        double begin = -1, end = -1;
        int inside = 0;
        for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e))
            if (strcmp(word(e, "cat"), "step") == 0 && (int)member(clt_json_get(e, "args"), "step") == step) {
                begin = member(e, "ts");
                end = begin + member(e, "dur");
            }
        assert_true(end > begin && begin >= 0);
        for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e)) {
            if (!clt_json_get(e, "tid") || strcmp(word(e, "ph"), "X") != 0 || (int)member(e, "tid") != 3 ||
                (int)member(clt_json_get(e, "args"), "step") != step)
                continue;
            inside++;
            if (member(e, "ts") < begin - 0.01 || member(e, "ts") + member(e, "dur") > end + 0.01)
                fail_msg("'%s' lies outside of step %d", word(e, "name"), step);
        }
        assert_true(inside > 20);
    }
}

/* No command runs on the device more than a millisecond before the host has uploaded the step's data, or
 * after the run: the clocks agree. */
static void check_clocks(const clt_json *events, int step)
{
    double uploaded = INFINITY;
    for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e))
        if (strcmp(word(e, "cat"), "host") == 0 && strcmp(word(e, "name"), "upload") == 0 &&
            (int)member(clt_json_get(e, "args"), "id") == step)
            uploaded = fmin(uploaded, member(e, "ts"));
    assert_true(isfinite(uploaded));
    for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e))
        if (strcmp(word(e, "cat"), "forward") == 0 && (int)member(clt_json_get(e, "args"), "step") == step)
            assert_true(member(e, "ts") > uploaded - 1000 && member(e, "ts") < uploaded + 1e6 * run_seconds);
}

static void check_trace(const char *file, int first, int last)
{
    CLT_SCOPED(clt_json_doc) *doc = parse(file);
    const clt_json *events = clt_json_get(clt_json_root(doc), "traceEvents");
    int steps = last - first + 1;
    assert_int_equal(slices(events, CLT_TRACE_STEPS, "steps"), steps);
    assert_true(slices(events, CLT_TRACE_HOST, "host (enqueue)") >= 8 * steps);
    assert_true(slices(events, CLT_TRACE_COMPUTE, "compute queue") >= 20 * steps);
    assert_int_equal(slices(events, CLT_TRACE_COPY, "copy queue"),
                     2 * steps);                                /* an upload for each micro-batch */
    assert_true(slices(events, CLT_TRACE_SAVER, "saver") >= 1); /* steps 5, 10, 15 are saved */
    assert_true(
        slices(events, CLT_TRACE_LOADER, "loader 0") + slices(events, CLT_TRACE_LOADER + 1, "loader 1") >= 1);
    check_nesting(events, first, last);
    for (int step = first; step <= last; step++)
        check_clocks(events, step);
}

TEST(test_profile_and_trace)
{
    record plain = {.n = 0}, profiled = {.n = 0};
    CLT_SCOPED(clt_config) *config = small_config();
    run(config, "plain", false, 0, NULL, &plain);
    run(config, "profiled", true, 0, NULL, &profiled);
    for (int i = 0; i < STEPS; i++)
        assert_true(plain.step[i].loss == profiled.step[i].loss &&
                    plain.step[i].grad_norm == profiled.step[i].grad_norm);
    assert_true(files_equal("plain/checkpoints/step_20/model.safetensors",
                            "profiled/checkpoints/step_20/model.safetensors"));
    assert_non_null(strstr(profiled.messages, "trace.json (steps 4 to 11)"));
    assert_true(clt_file_exists(in_dir("profiled/profile.txt")));
    check_profile("profiled/profile.json");
    check_trace("profiled/trace.json", 4, 11);
    run(config, "later", true, 15, NULL, &profiled);
    assert_non_null(strstr(profiled.messages, "trace.json (steps 15 to 20)"));
    check_trace("later/trace.json", 15, 20);
    run(config, "beyond", true, STEPS + 1, NULL, &profiled);
    assert_non_null(strstr(profiled.messages, "no trace: the run ended before step"));
    assert_false(clt_file_exists(in_dir("beyond/trace.json")));
}

/* --- advice --- */

static useconds_t read_us; /* how long the read of a sample sleeps, in us */

static clt_status slow_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)source;
    (void)draw;
    if (to[0]) {
        if (read_us > 0)
            usleep(read_us);
        for (int i = 0; i < 6; i++)
            ((float *)to[0])[i] = (float)((index + i) % 5);
    }
    if (to[1])
        *(int32_t *)to[1] = (int32_t)(index % 3);
    return CLT_OK;
}

static void slow_close(clt_source *source)
{
    (void)source;
}

static clt_status slow_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                             int64_t ignore, bool *done)
{
    (void)source;
    (void)field;
    (void)has_ignore;
    (void)ignore;
    *done = bound >= 3;
    return CLT_OK;
}

/* Loading a micro-batch takes at least 32 ms, and 20 times as long as a step that does not wait for data. */
TEST(test_starved_run)
{
    enum { SAMPLES = 8, LEAST_US = 4000, TIMES = 20 };
    static const clt_config_part format = {.name = "slow", .help = ""};
    static const clt_source_type type = {
        .format = &format, .close = slow_close, .read = slow_read, .check_bound = slow_bound};
    clt_source source = {.type = &type, .n_fields = 2, .samples = 16, .scale = 1, .std = 1};
    source.fields[0] = (clt_source_field){"x", CLT_F32, clt_shape1(6), false, -1};
    source.fields[1] = (clt_source_field){"y", CLT_I32, {.ndim = 0}, true, 2};
    record r = {.n = 0};
    clt_config *config = train_config("{\"model\":{\"type\":\"mlp\",\"hidden\":[8],\"outputs\":3},"
                                      "\"data\":{\"type\":\"synthetic\",\"shape\":[6],\"classes\":3,"
                                      "\"micro_batch\":8,\"workers\":1},\"train\":{\"steps\":32},"
                                      "\"checkpoint\":{\"final\":false}}");
    read_us = 0;
    run(config, "fed", false, 0, &source, &r);
    double step_us = 0;
    for (int i = 2; i < r.n; i++)
        step_us += 1e3 * r.step[i].step_ms / (r.n - 2);
    read_us = (useconds_t)fmax(LEAST_US, TIMES * step_us / SAMPLES);
    run(config, "starved", false, 0, &source, &r);
    const char *advice = strstr(r.messages, "advice:");
    if (!advice || !strstr(advice, "data.workers=") || !strstr(advice, "waiting for data"))
        fail_msg("a run whose loader sleeps says: %s", r.messages);
    assert_null(strstr(advice + 1, "advice:")); /* one line */
    assert_int_equal(count_lines("starved/log.txt", "advice:"), 1);
    double busy = 0;
    for (int i = 2; i < r.n; i++)
        busy += r.step[i].device_busy / (r.n - 2);
    assert_true(busy < 0.9);
    clt_config_destroy(config);
}

/* A run that is too short to judge gets no advice. */
TEST(test_no_advice)
{
    record r = {.n = 0};
    CLT_SCOPED(clt_config) *config = small_config();
    set(config, "train.steps", "5");
    run(config, "short", false, 0, NULL, &r);
    assert_null(strstr(r.messages, "advice"));
}

TEST_PROGRAM(.device = true);
