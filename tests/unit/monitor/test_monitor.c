/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * ctest-full: all
 *
 * The monitor of a device: sums of samples, the page for Prometheus, the thread. Where the figures come from:
 * test_monitor_sources.c. */
#include "tests/unit/monitor/monitor_test.h"

#include <stdatomic.h>

#include "engine/monitor/prometheus.h"

FIXTURE(lay_out)
{
    return lay_out_environment();
}

/* --- sums --- */

static void add(clt_monitor_sums *sums, double at, double power, double energy, double celsius)
{
    clt_monitor_sample_clear(&sample, at);
    sample.value[CLT_MONITOR_POWER] = power;
    sample.value[CLT_MONITOR_TEMPERATURE] = celsius;
    sample.energy = energy;
    clt_monitor_add(sums, &sample);
}

TEST(samples_are_folded)
{
    clt_monitor_sums sums = {0};
    double value[CLT_MONITOR_COUNT];
    add(&sums, 10, 100, NAN, 50);
    add(&sums, 11, 200, NAN, 70);
    add(&sums, 12, 300, NAN, 60);
    clt_monitor_fold_since(&sums, value);
    near_to(value[CLT_MONITOR_POWER], 200);
    near_to(value[CLT_MONITOR_TEMPERATURE], 70);
    near_to(value[CLT_MONITOR_ENERGY], 150 + 250);
    assert_true(isnan(value[CLT_MONITOR_UTILIZATION]));
    add(&sums, 14, 100, NAN, 40);
    clt_monitor_fold_since(&sums, value);
    near_to(value[CLT_MONITOR_POWER], 100);
    near_to(value[CLT_MONITOR_TEMPERATURE], 40);
    near_to(value[CLT_MONITOR_ENERGY], 400 + 400);
    near_to(sums.all[CLT_MONITOR_POWER].least, 100);
    near_to(sums.all[CLT_MONITOR_POWER].most, 300);
    near_to(sums.all[CLT_MONITOR_POWER].mean, 175);
}

TEST(a_counter_of_energy_gives_power)
{
    clt_monitor_sums sums = {0};
    double value[CLT_MONITOR_COUNT];
    add(&sums, 10, NAN, 5000, NAN);
    clt_monitor_fold_since(&sums, value);
    assert_true(isnan(value[CLT_MONITOR_POWER]));
    near_to(value[CLT_MONITOR_ENERGY], 0);
    add(&sums, 12, NAN, 5500, NAN);
    clt_monitor_fold_since(&sums, value);
    near_to(value[CLT_MONITOR_POWER], 250);
    near_to(value[CLT_MONITOR_ENERGY], 500);
    add(&sums, 13, 999, 30, NAN); /* the driver was loaded again */
    add(&sums, 14, 999, 130, NAN);
    clt_monitor_fold_since(&sums, value);
    near_to(value[CLT_MONITOR_ENERGY], 600);
}

/* The power of a device that changes as in a training: the sum is within 1 % of the energy that the device
 * took. */
TEST(energy_from_power_is_within_one_percent)
{
    clt_monitor_sums sums = {0};
    double joules = 0, fine = 1e-3, at = 0;
    for (int second = 0; second <= 600; second++) {
        double power = 300 + 80 * sin(second * 0.7) + (second % 60 < 5 ? -150 : 0);
        add(&sums, second, power, NAN, NAN);
        for (; at < second + 1 && second < 600; at += fine) {
            double whole = floor(at + 1e-9), next = whole + 1, part = at - whole;
            double a = 300 + 80 * sin(whole * 0.7) + ((int)whole % 60 < 5 ? -150 : 0);
            double b = 300 + 80 * sin(next * 0.7) + ((int)next % 60 < 5 ? -150 : 0);
            joules += (a + (b - a) * part) * fine;
        }
    }
    assert_true(fabs(sums.energy - joules) < 0.01 * joules);
}

/* --- the file for Prometheus --- */

TEST(a_page_is_of_the_form)
{
    CLT_SCOPED(clt_str) labels = {0}, page = {0};
    clt_prometheus_label(&labels, "run", "a\"b\\c\nd");
    clt_prometheus_label(&labels, "rank", "\xc3\xa4\xff");
    clt_prometheus_add(&page, labels.text, "loss", "Loss.", NAN);
    clt_prometheus_add(&page, labels.text, "steps_total", "Steps.", 12);
    clt_prometheus_add(&page, labels.text, "x_ratio", "X.", -INFINITY);
    assert_string_equal(page.text, "# HELP cltrain_loss Loss.\n# TYPE cltrain_loss gauge\n"
                                   "cltrain_loss{run=\"a\\\"b\\\\c\\nd\",rank=\"\xc3\xa4?\"} NaN\n"
                                   "# HELP cltrain_steps_total Steps.\n# TYPE cltrain_steps_total counter\n"
                                   "cltrain_steps_total{run=\"a\\\"b\\\\c\\nd\",rank=\"\xc3\xa4?\"} 12\n"
                                   "# HELP cltrain_x_ratio X.\n# TYPE cltrain_x_ratio gauge\n"
                                   "cltrain_x_ratio{run=\"a\\\"b\\\\c\\nd\",rank=\"\xc3\xa4?\"} -Inf\n");
}

TEST(a_page_has_a_place)
{
    static const struct {
        const char *where, *run;
        int rank;
        const char *path;
    } cases[] = {{"/var/metrics", "mine", 0, "/var/metrics/cltrain-mine.prom"},
                 {"/var/metrics", "my run", 2, "/var/metrics/cltrain-my_run-rank2.prom"},
                 {"x/a.prom", "mine", 0, "x/a.prom"},
                 {"x/a.prom", "mine", 1, "x/a-rank1.prom"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CLT_FREED char *path = NULL;
        assert_ok(clt_prometheus_path(cases[i].where, cases[i].run, cases[i].rank, &path));
        assert_string_equal(path, cases[i].path);
    }
    CLT_SCOPED(clt_str) page = {0};
    clt_str_append(&page, "x\n");
    assert_int_equal(clt_prometheus_write("/nowhere/at/all.prom", &page), CLT_ESTORAGE);
    clt_error_clear();
}

static atomic_bool read_on;
static atomic_int torn, whole;

/* Reads the page again and again: each time it must begin and end as pages do. */
static void *read_pages(void *context)
{
    char text[4096];
    while (atomic_load(&read_on)) {
        FILE *file = fopen(context, "re");
        size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
        text[size] = '\0';
        if (file)
            (void)fclose(file);
        bool fine = size > 4 && strncmp(text, "# HELP", 6) == 0 && strcmp(text + size - 4, "end\n") == 0;
        atomic_fetch_add(fine ? &whole : &torn, 1);
    }
    return NULL;
}

/* A reader sees only whole pages, however often they are written. */
TEST(no_reader_sees_a_part_of_a_page)
{
    CLT_FREED char *path = NULL;
    clt_thread *reader;
    assert_ok(clt_prometheus_path(test_folder(), "mine", 0, &path));
    for (int i = 0; i < (run_everything ? 10000 : 1000) || atomic_load(&whole) == 0; i++) {
        CLT_SCOPED(clt_str) page = {0};
        clt_str_append(&page, "# HELP ");
        for (int k = 0; k < i % 97; k++)
            clt_str_append(&page, "a line that makes pages differ in length\n");
        clt_str_append(&page, "end\n");
        assert_ok(clt_prometheus_write(path, &page));
        if (i == 0) {
            atomic_store(&read_on, true);
            assert_ok(clt_thread_start(&reader, "reader", read_pages, path));
        }
    }
    atomic_store(&read_on, false);
    clt_thread_join(reader);
    assert_int_equal(atomic_load(&torn), 0);
    print_message("%d pages read\n", atomic_load(&whole));
}

/* --- the thread --- */

static void await_sample(clt_monitor *m, double value[CLT_MONITOR_COUNT])
{
    while (!clt_monitor_take(m, value))
        usleep(1000);
}

TEST(the_thread_finds_the_source_and_takes_samples)
{
    const clt_monitor_options options = {.pci = PCI, .seconds = 3600, .root = test_folder()};
    double value[CLT_MONITOR_COUNT];
    char line[256];
    int xid;
    double at;
    CLT_SCOPED(clt_monitor) *m = NULL;
    setenv("CLTRAIN_NVML", CLT_TEST_NVML "_all.so", 1);
    assert_ok(clt_monitor_open(&options, &m));
    await_sample(m, value);
    near_to(value[CLT_MONITOR_UTILIZATION], 0.37);
    near_to(value[CLT_MONITOR_ENERGY], 0);
    assert_false(clt_monitor_take(m, value)); /* no newer sample */
    assert_true(clt_monitor_facts_of(m, &facts));
    assert_string_equal(facts.source, "nvml");
    assert_string_equal(facts.pci, PCI);
    clt_monitor_freshen(m, 3600);
    await_sample(m, value);
    near_to(value[CLT_MONITOR_ENERGY], 100);
    clt_monitor_span span[CLT_MONITOR_COUNT];
    assert_true(clt_monitor_spans(m, span));
    assert_int_equal(span[CLT_MONITOR_POWER].samples, 2);
    assert_true(isnan(span[CLT_MONITOR_MEMORY_TEMPERATURE].mean));
    assert_false(clt_monitor_take_trouble(m, line, sizeof line));
    (void)clt_monitor_take_xid(m, &xid, &at); /* may be left from another test of this program */
    assert_false(clt_monitor_take_xid(m, &xid, &at));
}

TEST(a_driver_that_hangs_holds_up_nobody)
{
    const clt_monitor_options options = {.pci = PCI, .seconds = 0.001, .root = test_folder()};
    double value[CLT_MONITOR_COUNT];
    clt_monitor *m;
    setenv("CLTRAIN_NVML", CLT_TEST_NVML "_hang.so", 1);
    assert_ok(clt_monitor_open(&options, &m));
    while (!clt_monitor_facts_of(m, &facts))
        usleep(1000);
    clt_monitor_freshen(m, 0.05); /* no sample comes */
    assert_false(clt_monitor_take(m, value));
    clt_monitor_close(m); /* a wait for the thread would never end */
}

TEST(the_trouble_of_a_library_is_told_once)
{
    const clt_monitor_options options = {.pci = PCI, .seconds = 0.001, .root = test_folder()};
    double value[CLT_MONITOR_COUNT];
    char line[256];
    CLT_SCOPED(clt_monitor) *m = NULL;
    setenv("CLTRAIN_NVML", CLT_TEST_NVML "_mismatch.so", 1);
    assert_ok(clt_monitor_open(&options, &m));
    await_sample(m, value);
    assert_true(clt_monitor_facts_of(m, &facts));
    assert_null(facts.source);
    assert_true(clt_monitor_take_trouble(m, line, sizeof line));
    assert_contains(line, "restart the machine");
    await_sample(m, value);
    assert_false(clt_monitor_take_trouble(m, line, sizeof line));
}

TEST(nobody_is_asked_without_a_monitor)
{
    double value[CLT_MONITOR_COUNT];
    clt_monitor_span span[CLT_MONITOR_COUNT];
    int xid;
    double at;
    assert_false(clt_monitor_take(NULL, value));
    assert_false(clt_monitor_spans(NULL, span));
    assert_false(clt_monitor_take_xid(NULL, &xid, &at));
    clt_monitor_freshen(NULL, 1);
    clt_monitor_close(NULL);
}

TEST(devices_are_listed)
{
    clt_monitor_device devices[4];
    put_device("0000:65:00.0", "nvidia");
    put_device("0000:03:00.0", "amdgpu");
    put_device("0000:07:00.0", "ahci");
    assert_int_equal(clt_monitor_list(devices, 4), 3);
    assert_string_equal(devices[0].source, "nvml");
    assert_string_equal(devices[0].pci, "0000:65:00.0");
    assert_string_equal(devices[1].source, "amdgpu");
    assert_string_equal(devices[2].source, "cpu");
    assert_int_equal(clt_monitor_list(devices, 2), 2); /* the processor is always listed */
    assert_string_equal(devices[1].source, "cpu");
}

TEST_PROGRAM(.before = lay_out, .fresh_folder = true);
