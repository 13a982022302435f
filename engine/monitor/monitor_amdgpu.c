/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of AMD's GPUs, from the files of the driver amdgpu. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/monitor/monitor_source.h"

/* Reading pcie_bw takes a second, in which the driver counts packets, so only one of BUS_SAMPLES samples
 * reads it. */
#define BUS_SAMPLES 10

typedef struct amdgpu {
    char folder[CLT_MONITOR_PATH], hwmon[CLT_MONITOR_PATH];
    bool sensors;
    int samples;
} amdgpu;

static void open_amdgpu(const clt_monitor_options *o, clt_monitor_facts *facts, char trouble[256],
                        void **state)
{
    char folder[CLT_MONITOR_PATH];
    amdgpu *a;
    (void)trouble;
    if (!clt_monitor_pci_folder(o->pci, "amdgpu", folder) ||
        clt_alloc(&a, 1, sizeof *a, "a source of figures") != CLT_OK)
        return;
    memcpy(a->folder, folder, sizeof folder);
    a->sensors = clt_monitor_hwmon(folder, a->hwmon);
    (void)clt_monitor_line(folder, "product_name", facts->name, sizeof facts->name);
    *state = a;
}

static void sample_sensors(const amdgpu *a, double *v)
{
    /* newer chips report the present power instead of its mean */
    v[CLT_MONITOR_POWER] = clt_monitor_number(a->hwmon, "power1_average", 1e-6);
    if (isnan(v[CLT_MONITOR_POWER]))
        v[CLT_MONITOR_POWER] = clt_monitor_number(a->hwmon, "power1_input", 1e-6);
    v[CLT_MONITOR_POWER_LIMIT] = clt_monitor_number(a->hwmon, "power1_cap", 1e-6);
    v[CLT_MONITOR_TEMPERATURE] = clt_monitor_temperature(a->hwmon, "edge", NULL, 1);
    if (isnan(v[CLT_MONITOR_TEMPERATURE])) /* chips for servers have no sensor at the edge */
        v[CLT_MONITOR_TEMPERATURE] = clt_monitor_temperature(a->hwmon, "junction", NULL, 2);
    v[CLT_MONITOR_MEMORY_TEMPERATURE] = clt_monitor_temperature(a->hwmon, "mem", NULL, 3);
    v[CLT_MONITOR_CLOCK] = clt_monitor_number(a->hwmon, "freq1_input", 1);
    v[CLT_MONITOR_MEMORY_CLOCK] = clt_monitor_number(a->hwmon, "freq2_input", 1);
    v[CLT_MONITOR_FAN] = clt_monitor_number(a->hwmon, "fan1_input", 1);
}

/* The file holds "received sent largest": packets per second, and the most bytes of a packet. So the figures
 * are upper limits. */
static void sample_bus(const amdgpu *a, double *v)
{
    char line[96];
    double received, sent, largest;
    v[CLT_MONITOR_PCIE_REPLAYS] = clt_monitor_number(a->folder, "pcie_replay_count", 1);
    if (a->samples % BUS_SAMPLES != BUS_SAMPLES / 2 ||
        !clt_monitor_line(a->folder, "pcie_bw", line, sizeof line) ||
        sscanf(line, "%lf %lf %lf", &received, &sent, &largest) != 3 || !(largest > 0))
        return;
    v[CLT_MONITOR_PCIE_RX] = received * largest;
    v[CLT_MONITOR_PCIE_TX] = sent * largest;
}

static void sample_amdgpu(void *state, clt_monitor_sample *out)
{
    amdgpu *a = state;
    double *v = out->value;
    v[CLT_MONITOR_UTILIZATION] = clt_monitor_number(a->folder, "gpu_busy_percent", 1e-2);
    v[CLT_MONITOR_MEMORY_USED] = clt_monitor_number(a->folder, "mem_info_vram_used", 1);
    v[CLT_MONITOR_MEMORY_SIZE] = clt_monitor_number(a->folder, "mem_info_vram_total", 1);
    if (a->sensors)
        sample_sensors(a, v);
    sample_bus(a, v);
    a->samples++;
}

static int list_amdgpu(clt_monitor_device *devices, int most)
{
    return clt_monitor_list_driver("amdgpu", devices, most);
}

const clt_monitor_source clt_monitor_amdgpu = {"amdgpu", open_amdgpu, sample_amdgpu, free, list_amdgpu};
