/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * ctest-full: all
 *
 * Figures of devices: NVML as tests/fault/nvml_stub.c plays it in each of its kinds, the files of amdgpu,
 * i915 and xe, of the processor and its control group, all laid out here; sums of samples; the thread. */
#include "tests/unit/test.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/monitor/monitor_source.h"
#include "engine/monitor/prometheus.h"

#define PCI "0000:65:00.0"

static clt_monitor_sample sample;
static clt_monitor_facts facts;
static char trouble[256];

static void near_to(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.17g instead of %.17g", value, expected);
}
#define EXPECT(figure, expected) near_to(sample.value[CLT_MONITOR_##figure], expected)
#define ABSENT(figure) assert_true(isnan(sample.value[CLT_MONITOR_##figure]))

static int known(void)
{
    int count = 0;
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        count += !isnan(sample.value[i]);
    return count;
}

static void *open_source(const clt_monitor_source *source, const char *pci, bool cpu)
{
    void *state = NULL;
    const clt_monitor_options options = {.pci = pci, .cpu = cpu, .seconds = 1, .root = test_folder()};
    trouble[0] = '\0';
    facts = (clt_monitor_facts){0};
    source->open(&options, &facts, trouble, &state);
    return state;
}

static void look(const clt_monitor_source *source, void *state, double at)
{
    clt_monitor_sample_clear(&sample, at);
    source->sample(state, &sample);
}

/* A driver's device at `pci`, as the kernel shows it. */
static void put_device(const char *pci, const char *driver)
{
    char path[256], target[64];
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/vendor", pci);
    put_text(path, "0x0000\n");
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/driver", pci);
    (void)snprintf(target, sizeof target, "../../drivers/%s", driver);
    assert_int_equal(symlink(target, in_dir(path)), 0);
}

static void put_sensor(const char *pci, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/hwmon/hwmon4/%s", pci, name);
    put_text(path, text);
}

static void put_value(const char *pci, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/%s", pci, name);
    put_text(path, text);
}

FIXTURE(lay_out)
{
    setenv("CLTRAIN_SYSFS", test_folder(), 1);
    setenv("CLTRAIN_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    return 0;
}

/* --- NVML --- */

static void *open_nvml(const char *kind, const char *pci)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s_%s.so", CLT_TEST_NVML, kind);
    setenv("CLTRAIN_NVML", path, 1);
    return open_source(&clt_monitor_nvml, pci, false);
}

static void expect_old_figures(void)
{
    EXPECT(UTILIZATION, 0.37);
    EXPECT(MEMORY_SIZE, 85899345920.0);
    EXPECT(POWER, 312.5);
    EXPECT(POWER_LIMIT, 700);
    EXPECT(CLOCK, 1755e6);
    EXPECT(MEMORY_CLOCK, 2619e6);
    EXPECT(THROTTLED, 1);
    EXPECT(ECC_CORRECTED, 3);
    EXPECT(ECC_UNCORRECTED, 0);
}

TEST(nvml_tells_all_that_it_has)
{
    void *opened = open_nvml("all", PCI);
    assert_non_null(opened);
    assert_string_equal(facts.name, "Test GPU 80GB");
    look(&clt_monitor_nvml, opened, 10);
    expect_old_figures();
    EXPECT(MEMORY_USED, 1299345920.0); /* without what the driver reserves */
    EXPECT(TEMPERATURE, 64);
    EXPECT(THROTTLED_HEAT, 1);
    EXPECT(PCIE_TX, 1.5e6);
    EXPECT(PCIE_RX, 2.5e6);
    EXPECT(PCIE_REPLAYS, 2);
    assert_int_equal(sample.xids, 1);
    assert_int_equal(sample.xid[0], 79);
    double energy = sample.energy;
    look(&clt_monitor_nvml, opened, 11);
    near_to(sample.energy - energy, 100);
    assert_int_equal(sample.xids, 0);
    clt_monitor_nvml.close(opened);
    assert_null(open_nvml("all", "0000:66:00.0")); /* another device than the library's */
    assert_string_equal(trouble, "");
    assert_null(open_nvml("all", ""));
    assert_null(open_nvml("that_does_not_exist", PCI));
    assert_string_equal(trouble, "");
}

TEST(older_functions_serve_where_newer_ones_are_missing_or_refuse)
{
    void *opened = open_nvml("old", PCI);
    assert_non_null(opened);
    look(&clt_monitor_nvml, opened, 10);
    expect_old_figures();
    EXPECT(MEMORY_USED, 1899345920.0);
    EXPECT(TEMPERATURE, 63);
    EXPECT(THROTTLED_HEAT, 0);
    ABSENT(PCIE_RX);
    ABSENT(PCIE_REPLAYS);
    assert_true(isnan(sample.energy));
    clt_monitor_nvml.close(opened);
    opened = open_nvml("struct", PCI);
    look(&clt_monitor_nvml, opened, 10);
    expect_old_figures();
    EXPECT(MEMORY_USED, 1899345920.0);
    EXPECT(TEMPERATURE, 63);
    clt_monitor_nvml.close(opened);
}

TEST(what_nvml_does_not_support_is_absent)
{
    void *opened = open_nvml("none", PCI);
    assert_non_null(opened);
    look(&clt_monitor_nvml, opened, 10);
    assert_int_equal(known(), 0);
    assert_true(isnan(sample.energy));
    assert_string_equal(sample.trouble, "");
    clt_monitor_nvml.close(opened);
}

TEST(a_lost_gpu_is_told_once)
{
    void *opened = open_nvml("lost", PCI);
    look(&clt_monitor_nvml, opened, 10);
    assert_int_equal(known(), 0);
    assert_contains(sample.trouble, "the GPU is lost");
    look(&clt_monitor_nvml, opened, 11);
    assert_string_equal(sample.trouble, "");
    clt_monitor_nvml.close(opened);
}

TEST(a_library_of_another_version_is_explained)
{
    assert_null(open_nvml("mismatch", PCI));
    assert_contains(trouble, "code 18");
    assert_contains(trouble, "restart the machine");
}

TEST(an_address_has_one_form)
{
    static const char *const cases[][2] = {{"0000:65:00.0", PCI},
                                           {"00000000:65:00.0", PCI},
                                           {"0000:3B:0A.1", "0000:3b:0a.1"},
                                           {"00010000:E1:00.0", "10000:e1:00.0"},
                                           {"65:00.0", NULL},
                                           {"0000:65:00", NULL},
                                           {"0000:65:00.0 ", NULL},
                                           {"0000:65:00.01", NULL},
                                           {"GPU-1234", NULL},
                                           {"0", NULL}};
    char pci[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(clt_monitor_address(cases[i][0], pci), cases[i][1] != NULL);
        if (cases[i][1])
            assert_string_equal(pci, cases[i][1]);
    }
}

/* --- amdgpu, i915, xe --- */

TEST(amdgpu_is_read)
{
    const char *pci = "0000:03:00.0";
    put_device(pci, "amdgpu");
    assert_null(open_source(&clt_monitor_i915, pci, false));
    void *bare = open_source(&clt_monitor_amdgpu, pci, false);
    look(&clt_monitor_amdgpu, bare, 10);
    assert_int_equal(known(), 0); /* none of its files is there */
    clt_monitor_amdgpu.close(bare);
    put_value(pci, "gpu_busy_percent", "83\n");
    put_value(pci, "mem_info_vram_used", "1048576000\n");
    put_value(pci, "mem_info_vram_total", "17163091968\n");
    put_sensor(pci, "power1_input", "201000000\n");
    put_sensor(pci, "power1_cap", "300000000\n");
    put_sensor(pci, "temp1_label", "edge\n");
    put_sensor(pci, "temp1_input", "61000\n");
    put_sensor(pci, "temp2_label", "junction\n");
    put_sensor(pci, "temp2_input", "72000\n");
    put_sensor(pci, "temp3_label", "mem\n");
    put_sensor(pci, "temp3_input", "70500\n");
    put_sensor(pci, "freq1_input", "2304000000\n");
    put_sensor(pci, "freq2_input", "1000000000\n");
    void *opened = open_source(&clt_monitor_amdgpu, pci, false);
    assert_non_null(opened);
    look(&clt_monitor_amdgpu, opened, 10);
    EXPECT(UTILIZATION, 0.83);
    EXPECT(MEMORY_USED, 1048576000);
    EXPECT(MEMORY_SIZE, 17163091968.0);
    EXPECT(POWER, 201);
    EXPECT(POWER_LIMIT, 300);
    EXPECT(TEMPERATURE, 61);
    EXPECT(MEMORY_TEMPERATURE, 70.5);
    EXPECT(CLOCK, 2304e6);
    EXPECT(MEMORY_CLOCK, 1e9);
    assert_int_equal(known(), 9);
    put_sensor(pci, "power1_average", "195500000\n"); /* where there is a mean, it counts */
    look(&clt_monitor_amdgpu, opened, 11);
    EXPECT(POWER, 195.5);
    clt_monitor_amdgpu.close(opened);
}

static void put_client(const char *file, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "proc/self/fdinfo/%s", file);
    put_text(path, text);
}

TEST(i915_is_read)
{
    const char *pci = "0000:04:00.0";
    put_device(pci, "i915");
    put_sensor(pci, "energy1_input", "5000000\n");
    put_sensor(pci, "power1_max", "150000000\n");
    static const char client[] = "pos:\t0\ndrm-driver:\ti915\ndrm-pdev:\t0000:04:00.0\ndrm-client-id:\t12\n"
                                 "drm-engine-render:\t1000000000 ns\ndrm-engine-compute:\t500000000 ns\n"
                                 "drm-engine-capacity-compute:\t4\ndrm-memory-local0:\t2048 KiB\n"
                                 "drm-memory-system0:\t4096 KiB\n";
    put_client("7", client);
    put_client("8", client); /* the same client by another file */
    put_client("9", "drm-pdev:\t0000:05:00.0\ndrm-client-id:\t13\ndrm-engine-render:\t99 ns\n");
    void *opened = open_source(&clt_monitor_i915, pci, false);
    assert_non_null(opened);
    look(&clt_monitor_i915, opened, 10);
    ABSENT(UTILIZATION); /* it takes two looks */
    EXPECT(MEMORY_USED, 2097152);
    EXPECT(POWER_LIMIT, 150);
    near_to(sample.energy, 5);
    put_sensor(pci, "energy1_input", "125000000\n");
    put_client("7", "drm-pdev:\t0000:04:00.0\ndrm-client-id:\t12\ndrm-engine-render:\t1200000000 ns\n"
                    "drm-engine-compute:\t3700000000 ns\ndrm-engine-capacity-compute:\t4\n");
    (void)remove(in_dir("proc/self/fdinfo/8"));
    look(&clt_monitor_i915, opened, 12);
    EXPECT(UTILIZATION, 0.4); /* 3.2 s of 2 s on four engines; the other engine 0.1 */
    near_to(sample.energy, 125);
    /* a client that is closed takes nothing from what another one uses */
    (void)remove(in_dir("proc/self/fdinfo/7"));
    put_client("8", "drm-pdev:\t0000:04:00.0\ndrm-client-id:\t14\ndrm-engine-render:\t500000000 ns\n");
    look(&clt_monitor_i915, opened, 13);
    EXPECT(UTILIZATION, 0.5);
    clt_monitor_i915.close(opened);
}

TEST(xe_is_read)
{
    const char *pci = "0000:06:00.0";
    put_device(pci, "xe");
    put_sensor(pci, "energy2_input", "7000000\n");
    put_sensor(pci, "power1_rated_max", "190000000\n");
    put_sensor(pci, "temp2_label", "pkg\n");
    put_sensor(pci, "temp2_input", "55000\n");
    put_sensor(pci, "temp3_label", "vram\n");
    put_sensor(pci, "temp3_input", "58000\n");
    put_client(
        "7", "drm-pdev:\t0000:06:00.0\ndrm-client-id:\t3\ndrm-cycles-ccs:\t100\ndrm-total-cycles-ccs:\t1000\n"
             "drm-memory-vram0:\t9 MiB\ndrm-resident-vram0:\t5 MiB\n");
    void *opened = open_source(&clt_monitor_xe, pci, false);
    look(&clt_monitor_xe, opened, 10);
    EXPECT(MEMORY_USED, 5242880);
    EXPECT(POWER_LIMIT, 190);
    EXPECT(TEMPERATURE, 55);
    EXPECT(MEMORY_TEMPERATURE, 58);
    near_to(sample.energy, 7);
    put_client(
        "7",
        "drm-pdev:\t0000:06:00.0\ndrm-client-id:\t3\ndrm-cycles-ccs:\t900\ndrm-total-cycles-ccs:\t2000\n");
    look(&clt_monitor_xe, opened, 11);
    EXPECT(UTILIZATION, 0.8);
    put_client(
        "7",
        "drm-pdev:\t0000:06:00.0\ndrm-client-id:\t3\ndrm-cycles-ccs:\t850\ndrm-total-cycles-ccs:\t3000\n");
    look(&clt_monitor_xe, opened, 12);
    EXPECT(UTILIZATION, 0); /* the counter stepped back */
    clt_monitor_xe.close(opened);
}

/* --- the processor --- */

TEST(the_processor_is_read)
{
    put_text("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n");
    put_text("proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:    12000 kB\n");
    put_text("class/powercap/intel-rapl:0/name", "package-0\n");
    put_text("class/powercap/intel-rapl:0/energy_uj", "90000000\n");
    put_text("class/powercap/intel-rapl:0/max_energy_range_uj", "100000000\n");
    put_text("class/powercap/intel-rapl:1/name", "psys\n");
    put_text("class/powercap/intel-rapl:1/energy_uj", "1\n");
    put_text("class/hwmon/hwmon2/name", "coretemp\n");
    put_text("class/hwmon/hwmon2/temp1_input", "48000\n");
    void *opened = open_source(&clt_monitor_cpu, "", true);
    assert_non_null(opened);
    look(&clt_monitor_cpu, opened, 10);
    ABSENT(UTILIZATION);
    ABSENT(THROTTLED);
    EXPECT(MEMORY_USED, 4000 * 1024);
    EXPECT(MEMORY_SIZE, 16000 * 1024);
    EXPECT(TEMPERATURE, 48);
    near_to(sample.energy, 0);
    put_text("proc/stat", "cpu  150 0 110 940 0 0 0 0 0 0\n");
    put_text("class/powercap/intel-rapl:0/energy_uj", "30000000\n"); /* began again beyond its range */
    look(&clt_monitor_cpu, opened, 12);
    EXPECT(UTILIZATION, 0.3);
    near_to(sample.energy, 40);
    ABSENT(HOST_CPU);
    clt_monitor_cpu.close(opened);
}

TEST(a_control_group_is_read)
{
    put_text("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n");
    put_text("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    12000 kB\n");
    put_text("proc/self/cgroup", "0::/job\n");
    put_text("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put_text("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    put_text("sys/fs/cgroup/job/cpu.stat", "usage_usec 7000000\n");
    put_text("sys/fs/cgroup/job/memory.current", "5000000\n");
    put_text("sys/fs/cgroup/job/memory.max", "8000000\n");
    put_text("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 400000\nactive_file 600000\n");
    /* the level above has the tighter quota, so its periods count; on many processors, throttled_usec is more
     * than the time that passed */
    put_text("sys/fs/cgroup/cpu.max", "75000 50000\n");
    put_text("sys/fs/cgroup/cpu.stat", "nr_periods 100\nnr_throttled 3\nthrottled_usec 500000\n");
    void *opened = open_source(&clt_monitor_cpu, PCI, false);
    look(&clt_monitor_cpu, opened, 10);
    EXPECT(HOST_MEMORY, 4000000); /* without the cache of files */
    ABSENT(HOST_CPU);
    put_text("sys/fs/cgroup/job/cpu.stat", "usage_usec 9400000\n");
    put_text("sys/fs/cgroup/cpu.stat", "nr_periods 140\nnr_throttled 13\nthrottled_usec 9500000\n");
    look(&clt_monitor_cpu, opened, 12);
    EXPECT(HOST_CPU, 0.8);        /* 2.4 s of 2 s on one and a half processors */
    EXPECT(HOST_THROTTLED, 0.25); /* 10 of 40 periods */
    ABSENT(UTILIZATION);
    ABSENT(MEMORY_SIZE);
    clt_monitor_cpu.close(opened);
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

/* The power of a device that changes like a training's: what is added up is within 1 % of what it took. */
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

/* A reader sees whole pages alone, however often they are written. */
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
    assert_false(clt_monitor_take(m, value)); /* there is no newer one */
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
    (void)clt_monitor_take_xid(m, &xid, &at); /* another test of this program may have had it */
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
    clt_monitor_freshen(m, 0.05); /* the sample never comes */
    assert_false(clt_monitor_take(m, value));
    clt_monitor_close(m); /* this test hangs if it waits for the thread */
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
    assert_int_equal(clt_monitor_list(devices, 2), 2); /* the processor keeps its place */
    assert_string_equal(devices[1].source, "cpu");
}

TEST_PROGRAM(.before = lay_out, .fresh_folder = true);
