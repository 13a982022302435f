/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Sets of cores, what the kernel reports about a machine (made-up files), and binding the threads of this
 * process. */
#include "tests/unit/test.h"

#include <sched.h>
#include <stdatomic.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/cores.h"

TEST(lists_are_read_and_printed)
{
    static const struct {
        const char *text, *printed;
        int count;
    } good[] = {{"0", "0", 1},
                {"0-3\n", "0-3", 4},
                {"0-1,8,10-12\n", "0-1,8,10-12", 6},
                {"3,1-2", "1-3", 3},
                {"\n", "", 0},
                {"63-64,8191", "63-64,8191", 3},
                {"0-8191", "0-8191", 8192}};
    static const char *const bad[] = {"x", "-1", "3-1", "1-", "0-3;", "8192", "1 2"};
    clt_cores cores;
    char text[64];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(clt_cores_read(good[i].text, &cores));
        assert_int_equal(clt_cores_count(&cores), good[i].count);
        assert_string_equal(clt_cores_print(&cores, text, sizeof text), good[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(clt_cores_read(bad[i], &cores));
    assert_true(clt_cores_read("0,2,4,6,8,10,12", &cores));
    assert_string_equal(clt_cores_print(&cores, text, 12), "0,2,4,6...");
    clt_cores some, both;
    assert_true(clt_cores_read("4-9,70", &some));
    clt_cores_common(&cores, &some, &both);
    assert_string_equal(clt_cores_print(&both, text, sizeof text), "4,6,8");
}

TEST(a_machine_is_read)
{
    clt_cores cores;
    char text[64];
    int node;
    setenv("CLTRAIN_SYSFS", test_folder(), 1);
    assert_int_equal(clt_numa_nodes(), 1);
    put_text("devices/system/node/online", "0-3\n");
    assert_int_equal(clt_numa_nodes(), 4);
    put_text("devices/system/node/has_cpu", "0,2\n"); /* nodes 1 and 3 are memory alone */
    assert_int_equal(clt_numa_nodes(), 2);
    put_text("bus/pci/devices/0000:3b:00.0/numa_node", "2\n");
    put_text("bus/pci/devices/0000:3b:00.0/local_cpulist", "16-31,48-63\n");
    assert_true(clt_cores_near("0000:3b:00.0", &cores, &node));
    assert_int_equal(node, 2);
    assert_string_equal(clt_cores_print(&cores, text, sizeof text), "16-31,48-63");
    put_text("bus/pci/devices/0000:3c:00.0/numa_node", "-1\n"); /* a virtual machine that does not tell */
    put_text("bus/pci/devices/0000:3c:00.0/local_cpulist", "\n");
    assert_false(clt_cores_near("0000:3c:00.0", &cores, &node));
    assert_int_equal(node, -1);
    assert_false(clt_cores_near("0000:3d:00.0", &cores, &node));
    assert_false(clt_cores_near("", &cores, &node));
    unsetenv("CLTRAIN_SYSFS");
}

static atomic_bool leave;

/* The cores of the calling thread. */
static void *look(void *context)
{
    if (sched_getaffinity(0, sizeof(clt_cores), context) != 0)
        memset(context, 0xff, sizeof(clt_cores));
    return NULL;
}

static void *stay_and_look(void *context)
{
    while (!atomic_load(&leave))
        usleep(1000);
    return look(context);
}

TEST(every_thread_is_bound)
{
    clt_cores all, one = {0}, of_old = {0}, of_new = {0};
    clt_thread *old, *new;
    assert_true(clt_cores_of_process(&all));
    assert_ok(clt_thread_start(&old, "old", stay_and_look, &of_old));
    for (int i = 0; i < CLT_MOST_CORES && clt_cores_count(&one) == 0; i++)
        one.bit[i / 64] = all.bit[i / 64] & (uint64_t)1 << (i % 64);
    assert_ok(clt_cores_bind(&one));
    assert_int_equal(clt_cpu_count(), 1);
    assert_ok(clt_thread_start(&new, "new", look, &of_new));
    clt_thread_join(new);
    assert_memory_equal(&of_new, &one, sizeof one);
    atomic_store(&leave, true);
    clt_thread_join(old);
    assert_memory_equal(&of_old, &one, sizeof one);
    const clt_cores none = {0}; /* the kernel refuses an empty set */
    assert_int_equal(clt_cores_bind(&none), CLT_EUNSUPPORTED);
    clt_error_clear();
    assert_ok(clt_cores_bind(&all));
}
