/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Where the figures of devices come from: NVML as each kind of tests/fault/nvml_stub.c simulates it, and
 * made-up files of amdgpu, i915 and xe, of the processor and its control group. */
#include "tests/unit/monitor/monitor_test.h"

static char trouble[256];

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
    return lay_out_environment();
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
    EXPECT(MEMORY_USED, 1299345920.0); /* without the memory that the driver reserves */
    EXPECT(TEMPERATURE, 64);
    EXPECT(THROTTLED_HEAT, 1);
    EXPECT(PCIE_TX, 1.5e6);
    EXPECT(PCIE_RX, 2.5e6);
    EXPECT(PCIE_REPLAYS, 2);
    EXPECT(FAN, 2150);
    assert_string_equal(sample.trouble, "");
    assert_int_equal(sample.xids, 1);
    assert_int_equal(sample.xid[0], 79);
    double energy = sample.energy;
    look(&clt_monitor_nvml, opened, 11);
    near_to(sample.energy - energy, 100);
    assert_int_equal(sample.xids, 0);
    clt_monitor_nvml.close(opened);
    assert_null(open_nvml("all", "0000:66:00.0")); /* not the library's device */
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

/* Of two parts the run uses the one that the environment names; a part has its own memory. */
TEST(a_part_of_a_divided_gpu_has_its_own_memory)
{
    static const struct {
        const char *given;
        double used; /* NAN: the part is not known */
    } cases[] = {{NULL, NAN},   {"0", NAN}, {"MIG-1", 4e9}, {"MIG-2", 4e9 + 1}, {"MIG-2,MIG-1", 4e9 + 1},
                 {"MIG-7", NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].given)
            setenv("CUDA_VISIBLE_DEVICES", cases[i].given, 1);
        void *opened = open_nvml("mig", PCI);
        assert_non_null(opened);
        look(&clt_monitor_nvml, opened, 10);
        ABSENT(UTILIZATION);
        if (isnan(cases[i].used)) { /* the memory of the whole GPU includes that of other users */
            ABSENT(MEMORY_USED);
            ABSENT(MEMORY_SIZE);
            assert_string_equal(facts.name, "Test GPU 80GB");
        } else {
            EXPECT(MEMORY_USED, cases[i].used);
            EXPECT(MEMORY_SIZE, 1e10);
            assert_string_equal(facts.name, "Test GPU 80GB MIG 1g.10gb");
        }
        EXPECT(POWER, 312.5); /* of the whole GPU */
        assert_string_equal(sample.trouble, "");
        clt_monitor_nvml.close(opened);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(rows_that_are_to_be_remapped_are_told_once)
{
    void *opened = open_nvml("rows", PCI);
    look(&clt_monitor_nvml, opened, 10);
    assert_contains(sample.trouble, "spare rows replace it when the GPU is reset");
    assert_contains(sample.trouble, "uncorrected errors: 2");
    EXPECT(UTILIZATION, 0.37);
    look(&clt_monitor_nvml, opened, 11);
    assert_string_equal(sample.trouble, "");
    look(&clt_monitor_nvml, opened, 12); /* now it has failed */
    assert_contains(sample.trouble, "replace the GPU");
    look(&clt_monitor_nvml, opened, 13);
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
    put_sensor(pci, "fan1_input", "1430\n");
    put_value(pci, "pcie_replay_count", "5\n");
    put_value(pci, "pcie_bw", "2000 3000 256\n"); /* packets, and the most bytes in one */
    look(&clt_monitor_amdgpu, opened, 11);
    EXPECT(FAN, 1430);
    EXPECT(PCIE_REPLAYS, 5);
    ABSENT(PCIE_RX); /* reading it takes a second, so few samples have it */
    int with_bus = 0;
    for (int i = 0; i < 20; i++) {
        look(&clt_monitor_amdgpu, opened, 12 + i);
        with_bus += !isnan(sample.value[CLT_MONITOR_PCIE_RX]);
        if (!isnan(sample.value[CLT_MONITOR_PCIE_RX])) {
            EXPECT(PCIE_RX, 512000);
            EXPECT(PCIE_TX, 768000);
        }
    }
    assert_int_equal(with_bus, 2);
    put_value(pci, "pcie_bw", "garbage\n");
    for (int i = 0; i < 10; i++) {
        look(&clt_monitor_amdgpu, opened, 40 + i);
        ABSENT(PCIE_RX);
    }
    put_sensor(pci, "power1_average", "195500000\n"); /* the average, where it exists */
    look(&clt_monitor_amdgpu, opened, 50);
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
    put_client("8", client); /* the same client in another file */
    put_client("9", "drm-pdev:\t0000:05:00.0\ndrm-client-id:\t13\ndrm-engine-render:\t99 ns\n");
    void *opened = open_source(&clt_monitor_i915, pci, false);
    assert_non_null(opened);
    look(&clt_monitor_i915, opened, 10);
    ABSENT(UTILIZATION); /* this takes two samples */
    EXPECT(MEMORY_USED, 2097152);
    EXPECT(POWER_LIMIT, 150);
    near_to(sample.energy, 5);
    put_sensor(pci, "energy1_input", "125000000\n");
    put_client("7", "drm-pdev:\t0000:04:00.0\ndrm-client-id:\t12\ndrm-engine-render:\t1200000000 ns\n"
                    "drm-engine-compute:\t3700000000 ns\ndrm-engine-capacity-compute:\t4\n");
    (void)remove(in_dir("proc/self/fdinfo/8"));
    look(&clt_monitor_i915, opened, 12);
    EXPECT(UTILIZATION, 0.4); /* 3.2 s of 2 s on four engines; the other engine is at 0.1 */
    near_to(sample.energy, 125);
    /* closing one client does not reduce what another one uses */
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
    put_sensor(pci, "fan1_input", "1900\n");
    put_client(
        "7", "drm-pdev:\t0000:06:00.0\ndrm-client-id:\t3\ndrm-cycles-ccs:\t100\ndrm-total-cycles-ccs:\t1000\n"
             "drm-memory-vram0:\t9 MiB\ndrm-resident-vram0:\t5 MiB\n");
    void *opened = open_source(&clt_monitor_xe, pci, false);
    look(&clt_monitor_xe, opened, 10);
    EXPECT(MEMORY_USED, 5242880);
    EXPECT(POWER_LIMIT, 190);
    EXPECT(TEMPERATURE, 55);
    EXPECT(MEMORY_TEMPERATURE, 58);
    EXPECT(FAN, 1900);
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
    EXPECT(UTILIZATION, 0); /* the counter went back */
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
    put_text("class/powercap/intel-rapl:0/energy_uj", "30000000\n"); /* wrapped around at its maximum */
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
    EXPECT(HOST_CPU, 0.8);        /* 2.4 s in 2 s, with one and a half processors */
    EXPECT(HOST_THROTTLED, 0.25); /* 10 of 40 periods */
    ABSENT(UTILIZATION);
    ABSENT(MEMORY_SIZE);
    clt_monitor_cpu.close(opened);
}

TEST_PROGRAM(.before = lay_out, .fresh_folder = true);
