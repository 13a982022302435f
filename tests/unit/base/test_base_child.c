/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes, simulated by shell commands: lines one by one, many at once, incomplete, too long, with
 * NUL bytes; a child that crashes, hangs, leaves a grandchild, or ends without a message; what it inherits;
 * where the program is looked for. Knows only engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"

/* A limit that is never reached: guard.sh ends a test that hangs. */
#define NO_LIMIT 1e9

static clt_child *shell(const char *script)
{
    const char *arguments[] = {"-c", script, NULL};
    clt_child *child = NULL;
    if (clt_child_start("/bin/sh", arguments, 0, &child) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return child;
}

static void expect_line(clt_child *child, const char *want)
{
    const char *line;
    assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_LINE);
    assert_string_equal(line, want);
}

static void expect_loss(const clt_child_end *end, const char *want)
{
    char text[512];
    clt_child_loss(end, "it ended with", "it said nothing for", "it said nonsense", text, sizeof text);
    assert_string_equal(text, want);
}

static void expect_end(clt_child *child, const char *text, const char *words)
{
    const char *line;
    clt_child_end end;
    char loss[512];
    assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_ENDED);
    clt_child_stop(child, &end);
    assert_string_equal(end.text, text);
    assert_string_equal(end.last_line, words);
    snprintf(loss, sizeof loss, "it ended with %s%s%s", text, words[0] ? ": " : "", words);
    expect_loss(&end, loss);
}

TEST(test_lines)
{
    clt_child *child = shell("echo one >&3; echo two three >&3; echo >&3; exit 3");
    expect_line(child, "one");
    expect_line(child, "two three");
    expect_line(child, "");
    expect_end(child, "exit code 3", "");
}

/* Output of the child reaches neither stdout nor stderr of this process; its last line is reported. */
TEST(test_words)
{
    clt_child *child = shell("echo first; echo 'last words' >&2; printf '\\n\\n'; kill -ABRT $$");
    expect_end(child, "SIGABRT", "last words");
}

TEST(test_many_lines)
{
    clt_child *child = shell("i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i + 1)); done >&3");
    char want[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(want, sizeof want, "line %d", i);
        expect_line(child, want);
    }
    expect_end(child, "exit code 0", "");
}

TEST(test_partial_line)
{
    clt_child *child = shell("echo whole >&3; printf half >&3; kill -SEGV $$");
    expect_line(child, "whole");
    expect_end(child, "SIGSEGV", "");
}

TEST(test_garbage)
{
    const char *line;
    clt_child *child =
        shell("printf 'a\\000b\\n' >&3; head -c 20000 /dev/zero | tr '\\0' x >&3; echo >&3; echo end >&3");
    expect_line(child, "a b");
    size_t total = 0;
    do {
        assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_LINE);
        total += strlen(line);
    } while (strcmp(line, "end") != 0);
    assert_true(total >=
                2 * (CLT_CHILD_LINE_SIZE - 1)); /* pieces of the long line, none longer than a line */
    expect_end(child, "exit code 0", "");
}

TEST(test_hang)
{
    const char *line;
    clt_child_end end;
    clt_child *child = shell("echo begun >&3; sleep 1000 & echo $! >&3; wait");
    expect_line(child, "begun");
    assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_LINE);
    pid_t grandchild = (pid_t)atoi(line);
    double start = clt_now();
    assert_int_equal(clt_child_next(child, 0.2, &line), CLT_CHILD_SILENT);
    assert_true(clt_now() - start >= 0.2);
    assert_int_equal(kill(grandchild, 0), 0);
    clt_child_stop(child, &end);
    assert_string_equal(end.text, "SIGKILL");
    expect_loss(&end, "it said nothing for 0.2 s");
    bool gone = false; /* killed with the group; init reaps it some time later */
    while (!gone) {
        char path[64], *text = NULL;
        size_t size;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
        gone =
            clt_file_read(path, false, 0, CLT_EDATA, &text, &size) != CLT_OK || strstr(text, ") Z ") != NULL;
        free(text);
        if (!gone)
            usleep(10000);
    }
    clt_error_clear();
}

/* Two children that never sleep share one core with this process, so that each of the three often waits for
 * the core. Then clt_child_next_awake waits half as long again as its limit at some point, and never less
 * than the limit. */
TEST(test_starved)
{
    const char *line;
    cpu_set_t all, one;
    int core = sched_getcpu();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET(core < 0 ? 0 : core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    /* the second child computes in a process that it has started */
    clt_child *child[2] = {shell("echo begun >&3; while :; do :; done"),
                           shell("(while :; do :; done) & echo begun >&3; wait")};
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(clt_child_next_awake(child[i], NO_LIMIT, &line), CLT_CHILD_LINE);
        assert_string_equal(line, "begun");
        for (double took = 0; took < 0.22 && access("/proc/self/schedstat", R_OK) == 0;) {
            double start = clt_now();
            assert_int_equal(clt_child_next_awake(child[i], 0.15, &line), CLT_CHILD_SILENT);
            took = clt_now() - start;
            assert_true(took >= 0.15);
        }
    }
    if (access("/proc/self/schedstat", R_OK) != 0)
        print_message("SKIP: this system does not tell how long a thread waits for a core\n");
    clt_child_end end;
    clt_child_stop(child[0], &end);
    if (access("/proc/self/schedstat", R_OK) == 0)
        expect_loss(&end, "it said nothing for 0.15 s"); /* the caller's limit, not the last wait's */
    clt_child_stop(child[1], NULL);
}

/* A child that is stopped after a line, since its parent does not want more of them. */
TEST(test_nonsense)
{
    clt_child_end end;
    clt_child *child = shell("echo what >&3; kill -STOP $$");
    expect_line(child, "what");
    clt_child_stop(child, &end);
    expect_loss(&end, "it said nonsense");
}

TEST(test_lines_in_time)
{
    clt_child *child = shell("echo a >&3; sleep 0.2; printf 'b' >&3; sleep 0.2; echo c >&3");
    expect_line(child, "a");
    expect_line(child, "bc"); /* in two writes */
    expect_end(child, "exit code 0", "");
}

TEST(test_no_program)
{
    const char *arguments[] = {NULL};
    clt_child *child;
    assert_int_equal(clt_child_start("/nowhere/cltrain", arguments, 0, &child), CLT_EUNSUPPORTED);
    assert_null(child);
    assert_non_null(strstr(clt_error_text(), "/nowhere/cltrain"));
    clt_child_stop(NULL, NULL);
}

/* A child does not inherit the variables by which an MPI launcher identifies its processes: it would take
 * itself for one. */
TEST(test_environment)
{
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("PMIX_RANK", "1", 1);
    setenv("CLTRAIN_TEST_KEPT", "kept", 1);
    int fd = open("/dev/null", O_RDONLY), high = fcntl(fd, F_DUPFD, 57); /* inherited by exec */
    clt_child *child = shell(
        "echo \"[$OMPI_COMM_WORLD_RANK][$PMIX_RANK][$CLTRAIN_TEST_KEPT]\" >&3; read x || echo empty >&3; "
        "[ -e /proc/self/fd/57 ] && echo open >&3 || echo closed >&3");
    expect_line(child, "[][][kept]");
    expect_line(child, "empty");
    assert_int_equal(high, 57);
#if __GLIBC_PREREQ(2, 34)
    expect_line(child, "closed");
#else
    const char *line;
    assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_LINE);
#endif
    close(fd);
    close(high);
    expect_end(child, "exit code 0", "");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMIX_RANK");
    unsetenv("CLTRAIN_TEST_KEPT");
}

/* clt_child_tell adds variables to the environment of children, but not to this process's own. */
TEST(test_told)
{
    clt_child_tell("CLTRAIN_TEST_TOLD=yes");
    clt_child_tell("CLTRAIN_TEST_TOLD=yes");
    for (int i = 0; i < 2; i++) {
        clt_child *child = shell("env | grep -c ^CLTRAIN_TEST_TOLD=yes >&3");
        expect_line(child, "1");
        expect_end(child, "exit code 0", "");
    }
    assert_null(getenv("CLTRAIN_TEST_TOLD"));
}

/* A child that stops this process for `seconds`, and prints a line 0.3 s after it continues. */
static clt_child *stopping(double seconds, const char *stop)
{
    char script[160];
    (void)snprintf(script, sizeof script,
                   "kill %s $PPID; sleep %.3f; kill -CONT $PPID; sleep 0.3; echo late >&3", stop, seconds);
    return shell(script);
}

/* Time in which this process was stopped, as with its whole job, does not count against the child. The
 * limit is many times what the child needs while this process runs, and less than the time for which this
 * process is stopped. */
TEST(test_stopped)
{
    const char *line;
    double start = clt_now();
    clt_child *child = stopping(0, "-0");
    expect_line(child, "late");
    double limit = 5 * (clt_now() - start);
    expect_end(child, "exit code 0", "");
    child = stopping(limit + 1, "-STOP");
    assert_int_equal(clt_child_next(child, limit, &line), CLT_CHILD_LINE);
    assert_string_equal(line, "late");
    expect_end(child, "exit code 0", "");
}

/* Sends more than the socket holds, to a child that reads late, to one that never reads, and to one that
 * has ended. */
TEST(test_send)
{
    enum { LENGTH = 4 << 20 };
    const char *const scripts[] = {"sleep 0.3; wc -c >&3", "echo stuck >&3; exec sleep 1000", "exit 0"};
    CLT_FREED char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, 'x', LENGTH);
    for (int i = 0; i < 3; i++) {
        const char *arguments[] = {"-c", scripts[i], NULL}, *line;
        clt_child *child = NULL;
        assert_ok(clt_child_start("/bin/sh", arguments, CLT_CHILD_INPUT, &child));
        double start = clt_now();
        clt_status status = clt_child_send(child, text, LENGTH, i == 1 ? 0.4 : NO_LIMIT);
        assert_int_equal(status, i == 0 ? CLT_OK : CLT_ESTORAGE);
        if (i == 1) {
            assert_true(clt_now() - start >= 0.4);
            assert_non_null(strstr(clt_error_text(), "read nothing for 0.4 s"));
            assert_int_equal(clt_child_next(child, NO_LIMIT, &line), CLT_CHILD_LINE);
        }
        clt_error_clear();
        clt_child_stop(child, NULL);
    }
}

/* Signals that this process ignores or blocks work in the child. */
TEST(test_signals)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &old);
    void (*before)(int) = signal(SIGTERM, SIG_IGN);
    clt_child *child = shell("kill -TERM $$; echo survived >&3");
    expect_end(child, "SIGTERM", "");
    signal(SIGTERM, before);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* A foreign program gets its environment and nothing else, writes to the end of a file, and does not stop
 * processes that it has started. */
TEST(test_foreign)
{
    char path[] = "/tmp/test_base_child_XXXXXX", text[64] = "";
    CLT_CLOSED int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(fcntl(file, F_SETFL, O_APPEND), 0);
    assert_int_equal(write(file, "old\n", 4), 4);
    const char *const arguments[] = {"-c", "echo $ONLY$HOME; sleep 1000 >/dev/null 2>&1 & echo $!; exit 2",
                                     NULL};
    const char *const environment[] = {"ONLY=one", "PATH=/bin:/usr/bin", NULL};
    clt_child *child = NULL;
    clt_child_end end;
    assert_ok(clt_child_start_program(&(clt_child_program){.path = "/bin/sh",
                                                           .arguments = arguments,
                                                           .environment = environment,
                                                           .flags = CLT_CHILD_FOREIGN | CLT_CHILD_FILE,
                                                           .output = file},
                                      &child));
    while (!clt_child_is_over(child))
        usleep(10000);
    clt_child_stop(child, &end);
    assert_string_equal(end.text, "exit code 2");
    assert_true(pread(file, text, sizeof text - 1, 0) > 8);
    assert_memory_equal(text, "old\none\n", 8);
    assert_string_equal(end.last_line, strtok(text + 8, "\n"));
    assert_int_equal(kill((pid_t)atoi(end.last_line), SIGKILL), 0);
    /* a program that is still running is killed, and has printed nothing */
    const char *const longer[] = {"1000", NULL};
    assert_ok(clt_child_start_program(&(clt_child_program){.path = "/bin/sleep",
                                                           .arguments = longer,
                                                           .flags = CLT_CHILD_FOREIGN | CLT_CHILD_FILE,
                                                           .output = file},
                                      &child));
    assert_false(clt_child_is_over(child));
    clt_child_stop(child, &end);
    assert_string_equal(end.text, "SIGKILL");
    assert_string_equal(end.last_line, "");
    unlink(path);
}

TEST(test_named)
{
    CLT_FREED char *kept = strdup(getenv("PATH")), *path = NULL;
    assert_non_null(kept);
    setenv("PATH", "relative:/nowhere:/bin:/usr/bin", 1);
    assert_ok(clt_program_named("sh", &path));
    assert_string_equal(path, "/bin/sh");
    free(CLT_TAKE(path));
    assert_ok(clt_program_named("/bin/../bin/sh", &path));
    assert_string_equal(path, "/bin/../bin/sh");
    free(CLT_TAKE(path));
    assert_int_equal(clt_program_named("no_such_program", &path), CLT_EUNSUPPORTED);
    assert_int_equal(clt_program_named("/bin", &path), CLT_EUNSUPPORTED);
    assert_int_equal(clt_program_named("/etc/passwd", &path), CLT_EUNSUPPORTED);
    assert_null(path);
    clt_error_clear();
    setenv("PATH", kept, 1);
}

TEST(test_find)
{
    char *path, *kept = getenv("CLTRAIN_PROGRAM") ? strdup(getenv("CLTRAIN_PROGRAM")) : NULL;
    setenv("CLTRAIN_PROGRAM", "/bin/sh", 1);
    assert_ok(clt_program_find(&path));
    assert_string_equal(path, "/bin/sh");
    free(path);
    setenv("CLTRAIN_PROGRAM", "/nowhere/cltrain", 1);
    assert_int_equal(clt_program_find(&path), CLT_EUNSUPPORTED);
    assert_non_null(strstr(clt_error_text(), "CLTRAIN_PROGRAM=/nowhere/cltrain"));
    unsetenv("CLTRAIN_PROGRAM");
    assert_ok(clt_program_find(&path)); /* in the build folder, which lies beside this test's folder */
    assert_non_null(strstr(path, "/cltrain"));
    free(path);
    clt_program_is_this();
    assert_ok(clt_program_find(&path));
    assert_string_equal(path, "/proc/self/exe");
    free(path);
    if (kept != NULL)
        setenv("CLTRAIN_PROGRAM", kept, 1);
    free(kept);
}
