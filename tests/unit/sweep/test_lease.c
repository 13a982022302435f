/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Leases: one holder at a time, and exactly one among competing processes; holders that died, stopped
 * renewing, gave back or were overtaken. Time is an argument, so that no test waits. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/files/fileio.h"
#include "engine/files/process.h"
#include "engine/sweep/sweep_lease.h"

TEST_PROGRAM(.fresh_folder = true);

static bool take(const char *name, double now, clt_lease *lease)
{
    assert_ok(clt_lease_take(in_dir(name), now, 60, lease));
    return lease->held;
}

/* Replaces a text in the newest file of the lease by another one of the same length. */
static void edit(const char *file, const char *from, const char *to)
{
    CLT_FREED char *text = read_file(in_dir(file), NULL);
    char *at = strstr(text, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    put_text(file, text);
}

/* Sets the modification time of a file. */
static void touch(const char *file, time_t second)
{
    const struct timespec times[2] = {{second, 0}, {second, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_dir(file), times, 0), 0);
}

TEST(one_holder_at_a_time)
{
    clt_lease mine = {0}, other = {0};
    assert_true(take("t", 0, &mine));
    assert_false(take("t", 1, &other));
    clt_lease_renew(in_dir("t"), 30, 60, &mine);
    assert_true(mine.held);
    assert_ok(clt_lease_release(in_dir("t"), &mine));
    assert_false(mine.held);
    assert_true(take("t", 2, &other));
    assert_int_equal(other.number, 2);
    assert_false(take("t", 3, &mine));
}

TEST(a_silent_holder_loses_it)
{
    clt_lease mine = {0}, other = {0};
    assert_true(take("t", 1000, &mine));
    touch("t.1", 100);
    assert_false(take("t", 0, &other)); /* the clocks of two hosts are independent */
    assert_false(take("t", 59, &other));
    touch("t.1", 101); /* renewed */
    assert_false(take("t", 61, &other));
    assert_false(take("t", 120, &other));
    assert_true(take("t", 121, &other));
    clt_lease_renew(in_dir("t"), 1001, 60, &mine);
    assert_false(mine.held);
    assert_false(take("t", 1002, &mine));
    assert_int_equal(mine.number, 2);
}

TEST(who_cannot_renew_gives_up)
{
    clt_lease mine = {0};
    assert_true(take("t", 0, &mine));
    assert_int_equal(unlink(in_dir("t.1")), 0);
    clt_lease_renew(in_dir("t"), 59, 60, &mine);
    assert_true(mine.held);
    clt_lease_renew(in_dir("t"), 60, 60, &mine);
    assert_false(mine.held);
}

TEST(a_dead_process_of_this_machine_loses_it_at_once)
{
    clt_lease mine = {0};
    char who[300];
    const char *path = in_dir("t"); /* before the fork, since the first call makes the folder */
    pid_t child = fork();
    if (child == 0) {
        clt_lease its = {0};
        _exit(clt_lease_take(path, 0, 60, &its) == CLT_OK && its.held ? 0 : 1);
    }
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_int_equal(end, 0);
    assert_false(clt_lease_holder(in_dir("t"), who, sizeof who));
    assert_true(take("t", 0, &mine));
    assert_int_equal(mine.number, 2);
    assert_true(clt_lease_holder(in_dir("t"), who, sizeof who));
    assert_contains(who, "process ");
}

/* The process id of a dead holder may belong to another process by now. A holder on another machine, or
 * from before this machine's restart, may be alive although there is no such process here. */
TEST(holders_are_told_apart)
{
    clt_lease mine = {0}, other = {0};
    char boot[64], text[300];
    assert_true(take("t", 0, &mine));
    snprintf(text, sizeof text, "\"started\":%lld,", (long long)clt_process_start(getpid()));
    CLT_FREED char *wrong = strdup(text);
    wrong[strlen(wrong) - 2] = (char)(wrong[strlen(wrong) - 2] == '1' ? '2' : '1');
    edit("t.1", text, wrong);
    clt_boot_identity(boot, sizeof boot);
    if (strcmp(boot, "?") != 0)
        assert_true(take("t", 0, &other));
    clt_lease far = {0}, last = {0};
    assert_true(take("far", 0, &far));
    edit("far.1", text, wrong);
    CLT_FREED char *elsewhere = strdup(boot);
    elsewhere[0] = elsewhere[0] == 'a' ? 'b' : 'a';
    edit("far.1", boot, elsewhere);
    assert_false(take("far", 0, &last));
    assert_true(take("far", 60, &last));
}

/* While a host without hard links makes a file, the file is empty for a moment. */
TEST(a_damaged_file_counts_as_a_holder)
{
    clt_lease mine = {0};
    put_text("t.1", "");
    assert_false(take("t", 0, &mine));
    assert_true(take("t", 60, &mine));
}

/* A process that waits at the gate, tries once, reports the result, and lives until all have reported. */
static void contender(const char *path, const int *gate, const int *told, const int *end)
{
    clt_lease its = {0};
    char byte;
    close(gate[1]);
    close(end[1]);
    (void)!read(gate[0], &byte, 1);
    byte = clt_lease_take(path, 0, 60, &its) != CLT_OK ? 2 : its.held;
    (void)!write(told[1], &byte, 1);
    (void)!read(end[0], &byte, 1);
    _exit(0);
}

TEST(of_several_processes_exactly_one_takes_it)
{
    enum { PROCESSES = 8, ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        char name[32], byte;
        int gate[2], told[2], end[2], holders = 0;
        snprintf(name, sizeof name, "r%d", round);
        const char *path = in_dir(name);
        assert_int_equal(pipe(gate) + pipe(told) + pipe(end), 0);
        for (int i = 0; i < PROCESSES; i++) {
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0)
                contender(path, gate, told, end);
        }
        close(gate[0]);
        close(gate[1]); /* closing it opens the gate */
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(read(told[0], &byte, 1), 1);
            assert_true(byte < 2);
            holders += byte;
        }
        assert_int_equal(holders, 1);
        close(end[1]);
        while (wait(NULL) > 0)
            continue;
        close(end[0]);
        close(told[0]);
        close(told[1]);
    }
}
