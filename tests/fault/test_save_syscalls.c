/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick ctest-cost: 20 ctest-optimise: no
 * ctest-full: all
 *
 * The real program saves on storage that fails: `cltrain train` is killed at every system call of one save in
 * turn and restarted (without the argument "all": at every seventh call), and every call of a save fails in
 * turn, with each kind of error, while training goes on. fault/io_shim.c makes the calls fail; checkpoints
 * are opened here with the engine's own reader. */
#include "tests/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cl/device/device.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"

#define STEPS 12      /* of an uninterrupted run */
#define BASE_STEP 5   /* saved before a run is killed */
#define MAX_CALLS 130 /* upper limit: a save of this net makes fewer */

/* A checkpoint at each step, only the newest kept: every save also verifies and deletes. */
static const char config_text[] =
    "{\"model\": {\"type\": \"graph\", \"layers\": [{\"op\": \"linear\", \"name\": \"w\", \"out\": 3, "
    "\"bias\": false}, {\"op\": \"cross_entropy\"}]},\n"
    " \"data\": {\"type\": \"synthetic\", \"samples\": 52, \"shape\": [6], \"classes\": 3, "
    "\"micro_batch\": 4},\n"
    " \"optimizer\": {\"type\": \"sgd\", \"momentum\": 0.9, \"learning_rate\": 0.05},\n"
    " \"train\": {\"steps\": 1000}, \"checkpoint\": {\"every\": 1, \"keep\": 1}}\n";

static char root[64];
static char warnings[65536];

/* --- helpers --- */

static const char *in_root(const char *format, ...)
{
    static char paths[8][256];
    static int turn;
    char *path = paths[turn = (turn + 1) % 8];
    int used = snprintf(path, sizeof paths[0], "%s/", root);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(path + used, sizeof paths[0] - (size_t)used, format, args);
    va_end(args);
    return path;
}

static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    (void)level;
    size_t used = strlen(warnings);
    (void)snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

static char *read_text(const char *path, size_t *size)
{
    char *data = NULL;
    size_t length = 0;
    if (clt_file_read(path, false, 0, CLT_EDATA, &data, &length) != CLT_OK)
        fail_msg("%s", clt_error_text());
    if (size)
        *size = length;
    return data;
}

static void write_text(const char *path, const char *text)
{
    if (clt_file_write(path, text, strlen(text)) != CLT_OK)
        fail_msg("%s", clt_error_text());
}

static void copy_tree(const char *from, const char *to)
{
    char command[600];
    (void)snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
    assert_int_equal(system(command), 0);
}

/* The settings of the shim; all NULL: not loaded. */
typedef struct trouble {
    const char *plan, *action, *snapshot;
} trouble;

static void child_environment(const char *run, const trouble *t)
{
    char folder[300], sanitizer[1024];
    const char *options = getenv("ASAN_OPTIONS");
    setenv("CLTRAIN_GEMM", "simple", 1); /* has the shortest start-up */
    if (!t->plan)
        return;
    (void)snprintf(folder, sizeof folder, "%s/checkpoints", run);
    (void)snprintf(sanitizer, sizeof sanitizer, "%s%sverify_asan_link_order=0", options ? options : "",
                   options ? ":" : "");
    setenv("ASAN_OPTIONS", sanitizer, 1); /* the shim comes before the sanitizer */
    setenv("CLT_SHIM_FOLDER", folder, 1);
    setenv("CLT_SHIM_PLAN", t->plan, 1);
    setenv("CLT_SHIM_ACTION", t->action, 1);
    if (t->snapshot)
        setenv("CLT_SHIM_SNAPSHOT", t->snapshot, 1);
    setenv("LD_PRELOAD", CLT_TEST_IO_SHIM, 1);
}

#define KILLED (-SIGKILL)

/* cltrain train in root/NAME up to `steps`; returns the exit code, or -signal. *output (may be NULL): its
 * whole output. */
static int train(const char *name, int steps, trouble t, char **output)
{
    char run[256], config[256], max_steps[32];
    const char *log = in_root("output");
    (void)snprintf(run, sizeof run, "%s", in_root("%s", name));
    (void)snprintf(config, sizeof config, "%s", in_root("net.json"));
    (void)snprintf(max_steps, sizeof max_steps, "%d", steps);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(126);
        child_environment(run, &t);
        execl(getenv("CLTRAIN"), "cltrain", "train", config, "--out", run, "--resume", "auto", "--max-steps",
              max_steps, (char *)NULL);
        _exit(127);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    if (output)
        *output = read_text(log, NULL);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -WTERMSIG(result);
}

static void must_train(const char *name, int steps)
{
    CLT_FREED char *output = NULL;
    int code = train(name, steps, (trouble){0}, &output);
    if (code != 0)
        fail_msg("training %s up to step %d: code %d\n%s", name, steps, code, output);
}

/* The step of the newest checkpoint, which must load without skipping another one. */
static int64_t newest_step(const char *folder)
{
    clt_checkpoint *c = NULL;
    warnings[0] = '\0';
    if (clt_checkpoint_open(folder, &c) != CLT_OK)
        fail_msg("%s: %s", folder, clt_error_text());
    int64_t step = c->step;
    clt_checkpoint_close(c);
    if (warnings[0])
        fail_msg("%s: %s", folder, warnings);
    return step;
}

/* Number of entries of a folder whose names contain `part`. */
static int entries(const char *folder, const char *part)
{
    int count = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list));)
        count += strstr(entry->d_name, part) != NULL;
    (void)closedir(list);
    return count;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *text_a = read_text(a, &size_a), *text_b = read_text(b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(text_a, text_b, size_a);
    free(text_a);
    free(text_b);
}

/* The run's last step must equal that of an uninterrupted run. */
static void assert_straight(const char *name, int steps)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    assert_int_equal(newest_step(in_root("%s", name)), steps);
    assert_int_equal(entries(in_root("%s/checkpoints", name), ".tmp-"), 0);
    if (!clt_is_directory(in_root("straight%d", steps))) {
        char straight[32];
        (void)snprintf(straight, sizeof straight, "straight%d", steps);
        must_train(straight, steps);
    }
    for (int i = 0; i < 2; i++)
        assert_same_file(in_root("%s/checkpoints/step_%d/%s", name, steps, files[i]),
                         in_root("straight%d/checkpoints/step_%d/%s", steps, steps, files[i]));
}

static int occurrences(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

/* --- killed at every call of one save --- */

static void restart_completes(const char *name, int64_t from)
{
    char *output, said[64];
    int code = train(name, STEPS, (trouble){0}, &output);
    (void)snprintf(said, sizeof said, "at step %d\n", (int)from);
    if (code != 0 || !strstr(output, "resumed from") || !strstr(output, said))
        fail_msg("restart from step %d: code %d\n%s", (int)from, code, output);
    free(output);
    assert_straight(name, STEPS);
}

TEST(a_kill_at_any_call_of_a_save)
{
    int64_t previous = BASE_STEP;
    must_train("base", BASE_STEP);
    const int stride = run_everything ? 1 : 7;
    for (int call = 1; call < MAX_CALLS; call += stride) {
        char plan[16];
        (void)snprintf(plan, sizeof plan, "%d", call);
        copy_tree(in_root("base"), in_root("killed"));
        int code = train("killed", BASE_STEP + 1, (trouble){.plan = plan, .action = "kill"}, NULL);
        assert_true(code == KILLED || code == 0);
        int64_t step = newest_step(in_root("killed"));
        assert_in_range(step, previous, BASE_STEP + 1); /* the new checkpoint stays once it is there */
        /* Restarts take most of the time here: all near the moment of the change, a sample elsewhere. */
        if (step != previous || call % (run_everything ? 8 : 5) == 3)
            restart_completes("killed", step);
        previous = step;
        if (code == 0) {
            assert_int_equal(step, BASE_STEP + 1);
            assert_in_range(call, 40, MAX_CALLS);
            return;
        }
    }
    fail_msg("a save makes more than %d calls", MAX_CALLS);
}

/* --- a call of a save fails --- */

/* The plan "0,1,0,2,0,3": every other save is hit, each time one call later. */
static char *sweep_plan(void)
{
    static char plan[MAX_CALLS * 8];
    size_t used = 0;
    for (int call = 1; call <= MAX_CALLS; call++)
        used += (size_t)snprintf(plan + used, sizeof plan - used, "%s0,%d", call > 1 ? "," : "", call);
    return plan;
}

/* A save that was hit either succeeded and printed its line, or failed with one message, and then the
 * checkpoint before it loads. */
static bool check_hit(const char *output, const char *folder, int64_t step, const char *reason)
{
    char saved[64], failed[96];
    const char *left = in_root("%s/%d", folder, (int)step);
    (void)snprintf(saved, sizeof saved, "saved step %d to ", (int)step);
    (void)snprintf(
        failed, sizeof failed,
        "the checkpoint of step %d could not be written (1 in a row), training continues: ", (int)step);
    const char *message = strstr(output, failed);
    if (occurrences(output, saved) + occurrences(output, failed) != 1)
        fail_msg("step %d: neither saved nor failed, or both:\n%s", (int)step, output);
    int64_t newest = newest_step(left);
    assert_true(newest == step || (message && newest == step - 1));
    if (message) {
        assert_int_equal(entries(left, ".tmp-"), 0); /* nothing half-written stays */
        const char *end = strchr(message, '\n');
        const char *why = strstr(message, reason);
        if (!why || !end || why > end || !strstr(message, root))
            fail_msg("no reason or no path: %.900s", message);
    }
    return message != NULL;
}

static int sweep(const char *action, const char *reason)
{
    const int steps = 2 * MAX_CALLS + 1;
    int failures = 0, hits = 0;
    char *output, snapshot[256], folder[64];
    (void)snprintf(folder, sizeof folder, "after_%s", action);
    (void)snprintf(snapshot, sizeof snapshot, "%s", in_root("%s", folder));
    assert_int_equal(mkdir(snapshot, 0700), 0);
    int code = train(action, steps, (trouble){sweep_plan(), action, snapshot}, &output);
    if (code != 0)
        fail_msg("%s: code %d\n%s", action, code, output);
    for (int step = 2; step < steps; step += 2)
        if (clt_is_directory(in_root("%s/%d", folder, step))) {
            hits++;
            failures += check_hit(output, folder, step, reason);
        }
    assert_in_range(hits, 40, MAX_CALLS - 1); /* all calls were hit, and numbers were left over */
    assert_int_equal(occurrences(output, "could not be written"), failures);
    assert_straight(action, steps);
    free(output);
    return failures;
}

TEST(any_call_may_fail)
{
    assert_in_range(sweep("EIO", "Input/output error"), 30, MAX_CALLS);
    assert_in_range(sweep("ENOSPC", "No space left on device"), 30, MAX_CALLS);
    assert_in_range(sweep("EDQUOT", "quota exceeded"), 30, MAX_CALLS);
}

TEST(writes_may_be_short)
{
    assert_in_range(sweep("short", "No space left on device"), 6, MAX_CALLS);
    assert_int_equal(sweep("half", "-"), 0);
}

/* All calls from one on fail, including deletions: what could not be deleted is deleted by the next save. */
TEST(storage_may_stay_broken_for_a_save)
{
    CLT_FREED char *output = NULL;
    int code = train("readonly", STEPS, (trouble){"0,7+,0,2+,3+,0,30+,0,73+", "EROFS", NULL}, &output);
    if (code != 0)
        fail_msg("code %d\n%s", code, output);
    assert_int_equal(occurrences(output, "could not be written ("), 4);
    assert_true(occurrences(output, "Read-only file system; choose a place") >= 4);
    assert_int_equal(occurrences(output, "(2 in a row), training continues"), 1);
    assert_straight("readonly", STEPS);
}

TEST(three_failures_in_a_row_end_the_run)
{
    char *output;
    int code = train("three", STEPS, (trouble){"0,4,4,0,4,4,0,4,4,4", "ENOSPC", NULL}, &output);
    if (code != 8 || occurrences(output, "could not be written (") != 6 ||
        occurrences(output, "3 checkpoints in a row could not be written, the run ends: ") != 1)
        fail_msg("code %d\n%s", code, output);
    assert_int_equal(newest_step(in_root("three")), 7);
    assert_int_equal(entries(in_root("three/checkpoints"), "step_"), 1);
    free(output);
    restart_completes("three", 7);
}

/* The last checkpoint of a run is tried again. */
TEST(the_last_save_is_repeated)
{
    char *output;
    int code = train("last", 4, (trouble){"0,0,0,11,11", "EIO", NULL}, &output);
    if (code != 0 || occurrences(output, "the checkpoint of step 4 could not be written (") != 2 ||
        occurrences(output, "saved step 4 to ") != 1)
        fail_msg("code %d\n%s", code, output);
    free(output);
    assert_straight("last", 4);

    code = train("never", 4, (trouble){"0,0,0,11,11,11", "EIO", NULL}, &output);
    if (code != 8 || !strstr(output, "3 checkpoints in a row could not be written"))
        fail_msg("code %d\n%s", code, output);
    free(output);
    assert_int_equal(newest_step(in_root("never")), 3);
    restart_completes("never", 3);
}

/* Metrics that cannot be written: training finishes and saves, and the exit code reports it. */
TEST(metrics_may_be_lost)
{
    char *output;
    assert_ok(clt_mkdir_p(in_root("full")));
    /* the file has the maximum length of a file, with lines that a resumed run keeps; other files are
     * shorter */
    enum { FULL = 1 << 20 };
    static char lines[FULL];
    for (int i = 0; i < FULL; i += 32)
        memcpy(lines + i, "{\"step\": 0, \"event\": \"earlier\"}\n", 32);
    struct rlimit limit;
    int fd = open(in_root("full/metrics.jsonl"), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0 && write(fd, lines, FULL) == FULL);
    assert_int_equal(close(fd), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){FULL, limit.rlim_max}), 0);
    int code = train("full", STEPS, (trouble){0}, &output);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    if (code != 8 || occurrences(output, "its metrics wait in memory") != 1 ||
        !strstr(output, "File too large"))
        fail_msg("code %d\n%s", code, output);
    free(output);
    assert_straight("full", STEPS);
}

/* --- */

FIXTURE(set_up)
{
    /* Thousands of fsync calls: in memory where possible. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(root, sizeof root, "%s/cltrain-test-save-XXXXXX", base);
    if (!getenv("CLTRAIN"))
        fail_msg("set CLTRAIN to the cltrain program");
    if (!mkdtemp(root))
        return -1;
    clt_log_set_sink(keep_line, NULL, CLT_LOG_WARN);
    write_text(in_root("net.json"), config_text);
    return 0;
}

FIXTURE(tear_down)
{
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_remove_tree(root) == CLT_OK ? 0 : -1;
}

TEST_PROGRAM(.device = true, .set_up = set_up, .tear_down = tear_down);
