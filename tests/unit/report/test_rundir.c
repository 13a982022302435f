/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The run folder's metrics.jsonl: truncation to a step, whatever a crash has left in the file; and lines
 * that wait in memory while the file cannot be written, so that none is lost or torn. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/report/read/run_record.h"
#include "engine/report/write/rundir.h"
#include "engine/report/write/runlog.h"

static char root[64], run[80], metrics[128];
static clt_config *config;
static int warnings;

/* Replaces the C library's function, so that a test can set the wall clock. */
static long set_by;
int clock_gettime(clockid_t clock, struct timespec *out)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, out);
    out->tv_sec += clock == CLOCK_REALTIME ? set_by : 0;
    return failed;
}

/* Until the test ends, metrics.jsonl cannot grow, since it has the maximum file size; other files can. */
#define FULL_BYTES (8 << 20)
static struct rlimit before_full;
static bool is_full;
static void fill_disk(void)
{
    int fd = open(metrics, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0 && ftruncate(fd, FULL_BYTES) == 0);
    assert_int_equal(close(fd), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before_full), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){FULL_BYTES, before_full.rlim_max}), 0);
    is_full = true;
}

static void count_warning(void *context, clt_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    warnings++;
}

FIXTURE(set_up)
{
    (void)snprintf(root, sizeof root, "/tmp/cltrain-test-rundir-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(run, sizeof run, "%s/run", root);
    (void)snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
    warnings = 0;
    clt_log_set_sink(count_warning, NULL, CLT_LOG_WARN);
    signal(SIGXFSZ, SIG_IGN);
    return clt_config_parse("{\"model\": {\"type\": \"mlp\"}, \"data\": {\"type\": \"synthetic\", \"shape\": "
                            "[4], \"classes\": 2}, \"train\": {\"steps\": 100}}",
                            "test", NULL, 0, &config) == CLT_OK
               ? 0
               : -1;
}

FIXTURE(tear_down)
{
    if (is_full && setrlimit(RLIMIT_FSIZE, &before_full) != 0)
        return -1;
    is_full = false;
    clt_config_destroy(config);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_remove_tree(root) == CLT_OK ? 0 : -1;
}

static void put(const char *text)
{
    assert_ok(clt_mkdir_p(run));
    assert_ok(clt_file_write(metrics, text, strlen(text)));
}

static void assert_metrics(const char *text)
{
    CLT_FREED char *data = NULL;
    size_t size;
    assert_ok(clt_file_read(metrics, false, 0, CLT_EDATA, &data, &size));
    assert_string_equal(data, text);
}

/* Lines of metrics.jsonl, each of which must be whole. */
static int whole_lines(void)
{
    CLT_FREED char *data = NULL;
    size_t size;
    int count = 0;
    assert_ok(clt_file_read(metrics, false, 0, CLT_EDATA, &data, &size));
    for (char *line = data; *line; count++) {
        char *end = strchr(line, '\n');
        clt_json_doc *doc;
        assert_non_null(end);
        assert_ok(clt_json_parse(line, (size_t)(end - line), "line", CLT_EDATA, &doc));
        int64_t step = 0;
        assert_true(clt_json_int(clt_json_get(clt_json_root(doc), "step"), &step) && step == count + 1);
        clt_json_destroy(doc);
        line = end + 1;
    }
    return count;
}

static void cut_back(int64_t step)
{
    clt_rundir *dir;
    assert_ok(clt_rundir_open(run, config, true, &dir));
    assert_ok(clt_rundir_truncate(dir, step));
    assert_ok(
        clt_rundir_step(dir, &(clt_step_metrics){.step = step + 1})); /* goes to the end of the new file */
    clt_rundir_close(dir);
}

TEST(metrics_are_cut_back)
{
    static const char lines[] =
        "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"eval_loss\":2}\n"
        "{\"step\":3,\"loss\":1}\n";
    static const char *const tails[] = {
        "", "{\"step\":4,\"lo", "{\"step\":4}", "garbage\n", "{}\n", "[1]\n", "{\"step\":\"4\"}\n", "\n"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char text[512], *data;
        size_t size;
        (void)snprintf(text, sizeof text, "%s%s", lines, tails[i]);
        put(text);
        cut_back(2);
        assert_ok(clt_file_read(metrics, false, 0, CLT_EDATA, &data, &size));
        const size_t kept = (size_t)(strstr(lines, "{\"step\":3") - lines);
        assert_memory_equal(data, lines, kept);
        assert_memory_equal(data + kept, "{\"step\":3,\"update\":0,", 21);
        free(data);
    }
    put(lines);
    clt_rundir *dir;
    assert_ok(clt_rundir_open(run, config, true, &dir));
    assert_ok(clt_rundir_truncate(dir, 3));
    assert_metrics(lines);
    assert_ok(clt_rundir_truncate(dir, 0));
    assert_metrics("");
    clt_rundir_close(dir);
}

/* A limit of the file's size simulates a full disk: a part of a line fits, then nothing does. */
TEST(lines_wait_while_the_disk_is_full)
{
    clt_rundir *dir;
    struct rlimit old, small;
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (int64_t step = 1; step <= 5; step++)
        assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = step}));
    clt_rundir_poll(dir);
    assert_int_equal(whole_lines(), 5);
    (void)usleep(250000); /* after 0.2 s the next line is written at once */
    small = old;
    small.rlim_cur = 5 * 300 + 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int64_t step = 6; step <= 20; step++)
        assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = step}));
    assert_int_equal(clt_rundir_flush(dir), CLT_ESTORAGE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(warnings, 1);
    assert_in_range(whole_lines(), 5, 19);
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 21}));
    assert_int_equal(whole_lines(), 21);
    assert_ok(clt_rundir_flush(dir));
    clt_rundir_close(dir);
    assert_int_equal(whole_lines(), 21);
}

TEST(too_many_waiting_lines_are_an_error)
{
    clt_rundir *dir;
    assert_ok(clt_mkdir_p(run));
    fill_disk();
    assert_ok(clt_rundir_open(run, config, false, &dir));
    clt_status status = CLT_OK;
    int64_t step = 0;
    for (; status == CLT_OK && step < 1000000; step++)
        status = clt_rundir_step(dir, &(clt_step_metrics){.step = step + 1});
    assert_int_equal(status, CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "File too large"));
    assert_in_range(step, 1000, 999999);
    assert_int_equal(warnings, 1);
    clt_rundir_close(dir);
}

/* All lines of the file, as written; free() them. */
static char *all_lines(void)
{
    char *data;
    size_t size;
    assert_ok(clt_file_read(metrics, false, 0, CLT_EDATA, &data, &size));
    return data;
}

TEST(events_are_lines_like_steps)
{
    clt_rundir *dir;
    const clt_event_field init[] = {CLT_FIELD_TEXT("file", "a\"b\n\xff"), CLT_FIELD_INT("tensors", 52)};
    const clt_event_field fields[] = {CLT_FIELD_TEXT("device", "GPU <é>"), CLT_FIELD_TEXT("absent", NULL),
                                      CLT_FIELD_NUMBER("seconds", 1.5),    CLT_FIELD_NUMBER("nan", NAN),
                                      CLT_FIELD_OBJECT("init", init, 2),   CLT_FIELD_OBJECT("none", init, 0)};
    double before = clt_wall_time(), time;
    assert_ok(clt_rundir_event(NULL, "start", 0, fields, 6)); /* without a folder it does nothing */
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_ok(clt_rundir_event(dir, "start", 0, fields, 6));
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 1, .time = 1700000000.1234}));
    assert_ok(clt_rundir_eval(dir, &(clt_eval_metrics){.step = 1}));
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 2}));
    assert_ok(clt_rundir_event(dir, "warning", -1, fields, 1));
    char *text = all_lines();
    const char *first = "{\"event\":\"start\",\"step\":0,\"time\":";
    assert_memory_equal(text, first, strlen(first));
    assert_int_equal(sscanf(text + strlen(first), "%lf", &time), 1);
    assert_true(time > before - 0.01 && time < clt_wall_time() + 0.01);
    assert_non_null(strstr(text, ",\"device\":\"GPU <é>\",\"seconds\":1.5,\"nan\":null,\"init\":{\"file\":"));
    assert_null(strstr(text, "absent"));
    assert_null(strstr(text, "none"));
    assert_non_null(strstr(text, ",\"time\":1700000000.123}\n{\"step\":1,\"eval_loss\""));
    assert_non_null(strstr(text, "{\"event\":\"warning\",\"step\":2,\"time\":"));
    int lines = 0;
    for (char *line = text; *line; lines++) { /* each is an object that a strict reader takes */
        char *end = strchr(line, '\n');
        clt_json_doc *doc;
        assert_ok(clt_json_parse(line, (size_t)(end - line), "line", CLT_EDATA, &doc));
        assert_non_null(clt_json_get(clt_json_root(doc), "time"));
        clt_json_destroy(doc);
        line = end + 1;
    }
    assert_int_equal(lines, 5);
    free(text);
    assert_ok(clt_rundir_truncate(dir, 4));
    assert_false(clt_rundir_advised(dir));
    assert_ok(clt_rundir_event(dir, "advice", 3, fields, 1));
    assert_ok(clt_rundir_flush(dir));
    assert_ok(clt_rundir_truncate(dir, 1)); /* events after that step are removed with it */
    assert_true(clt_rundir_advised(dir));   /* advice counts as given nevertheless */
    text = all_lines();
    assert_non_null(strstr(text, "\"start\""));
    assert_null(strstr(text, "\"warning\""));
    free(text);
    assert_ok(clt_rundir_event(dir, "warning", -1, fields, 1));
    text = all_lines();
    assert_non_null(strstr(text, "{\"event\":\"warning\",\"step\":1,"));
    free(text);
    clt_rundir_close(dir);
}

static void *warn_often(void *context)
{
    (void)context;
    for (int i = 0; i < 200; i++)
        CLT_WARN("warning number %d", i);
    return NULL;
}

/* Warnings come from any thread, while the trainer writes steps; and the full disk is warned about, too. */
TEST(logged_warnings_are_events)
{
    clt_rundir *dir;
    clt_runlog *log;
    struct rlimit old, small;
    clt_thread *threads[3];
    assert_ok(clt_runlog_begin(config, &log));
    CLT_WARN("said %s", "early");
    assert_ok(clt_rundir_open(run, config, false, &dir));
    clt_runlog_attach(log, dir);
    for (int i = 0; i < 3; i++)
        assert_ok(clt_thread_start(&threads[i], "warner", warn_often, NULL));
    for (int64_t step = 1; step <= 200; step++)
        assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = step}));
    for (int i = 0; i < 3; i++)
        clt_thread_join(threads[i]);
    clt_rundir_poll(dir);
    char *text = all_lines();
    assert_non_null(strstr(text, "\"text\":\"said early\"}"));
    int events = 0;
    for (const char *at = text; (at = strstr(at, "{\"event\":\"warning\"")) != NULL; at++)
        events++;
    assert_int_equal(events, 601);
    free(text);
    (void)usleep(250000); /* after 0.2 s the next line is written at once */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 201}));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_ok(clt_rundir_flush(dir));
    text = all_lines();
    assert_non_null(strstr(text, "{\"event\":\"warning\",\"step\":201,"));
    assert_non_null(strstr(text, "its metrics wait in memory"));
    free(text);
    clt_runlog_end(log);
    clt_rundir_close(dir);
}

static clt_runlog *begin_on_full_disk(void)
{
    clt_runlog *log;
    assert_ok(clt_mkdir_p(run));
    fill_disk();
    assert_ok(clt_runlog_begin(config, &log));
    return log;
}

/* A warning that cannot be written does not report that itself; the next line does. */
TEST(a_warning_meets_a_full_disk)
{
    clt_rundir *dir;
    clt_runlog *log = begin_on_full_disk();
    assert_ok(clt_rundir_open(run, config, false, &dir));
    clt_runlog_attach(log, dir);
    CLT_WARN("said %s", "late");
    assert_int_equal(warnings, 1);
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 1}));
    assert_int_equal(warnings, 2);
    clt_runlog_attach(log, NULL);
    clt_rundir_close(dir);
    clt_runlog_end(log);
}

/* A full disk that a poll finds is reported with the next line. Lines within 0.2 s wait for the poll; on a
 * slow machine the second line may find the full disk itself. */
TEST(a_poll_meets_a_full_disk)
{
    clt_rundir *dir;
    struct rlimit old, small;
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 10;
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 1}));
    assert_ok(clt_rundir_flush(dir));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 2}));
    clt_rundir_poll(dir);
    assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 3}));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(warnings, 1);
    clt_rundir_close(dir);
}

/* The warning that the disk is full comes while the lines from before the run folder are written. */
TEST(the_disk_is_full_from_the_start)
{
    clt_rundir *dir;
    clt_runlog *log = begin_on_full_disk();
    CLT_WARN("said %s", "early");
    assert_ok(clt_rundir_open(run, config, false, &dir));
    clt_runlog_attach(log, dir);
    assert_int_equal(warnings, 2);
    clt_runlog_attach(log, NULL);
    clt_rundir_close(dir);
    clt_runlog_end(log);
}

/* Setting the clock forward or back does not change the duration of a session. */
TEST(a_clock_that_is_set_changes_no_seconds)
{
    static const long jumps[] = {36000, -36000};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        clt_rundir *dir;
        clt_run_record *record = NULL;
        set_by = 0;
        assert_ok(clt_rundir_open(run, config, true, &dir));
        assert_ok(clt_rundir_event(dir, "start", 0, NULL, 0));
        const double before = clt_wall_time(), begun = clt_rundir_time(dir, clt_now());
        assert_true(fabs(begun - before) < 3600);
        set_by = jumps[i];
        assert_true(fabs(clt_wall_time() - before) > 30000); /* the replaced clock is in use */
        assert_ok(clt_rundir_step(dir, &(clt_step_metrics){.step = 1, .step_ms = 0.001}));
        assert_ok(clt_rundir_event(dir, "end", 1, NULL, 0));
        const double all = clt_rundir_time(dir, clt_now()) - begun;
        clt_rundir_close(dir);
        assert_ok(clt_run_record_load(run, &record));
        const double seconds = clt_run_seconds(record);
        assert_true(seconds > 0 && seconds <= all + 0.002); /* times are rounded to milliseconds */
        clt_run_record_free(record);
        set_by = 0;
        assert_ok(clt_remove_tree(run));
    }
}

TEST_PROGRAM(.before = set_up, .after = tear_down);
