/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of the host: processor time and memory of this process's control group, or of the whole host if no
 * group limits them. If the device is the processor, they are also the device's figures, together with its
 * energy (RAPL, which only root may read on most systems) and its temperature. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/host/cgroup.h"
#include "engine/host/cores.h"
#include "engine/monitor/monitor_source.h"

#define MOST_PACKAGES 16

typedef struct package {
    char folder[CLT_MONITOR_PATH];
    double range, before, total; /* the counter's range, its previous value, and the energy so far, in J */
} package;

typedef struct cpu {
    char root[CLT_MONITOR_PATH], sensor[CLT_MONITOR_PATH]; /* sensor: its folder; "": there is none */
    bool is_device;
    package packages[MOST_PACKAGES];
    int n_packages;
    double at, busy, all, used, periods, held; /* values of the previous sample; NAN: unknown */
} cpu;

/* --- the processor's sensors --- */

static void find_packages(cpu *c)
{
    char name[64];
    for (int i = 0; i < MOST_PACKAGES; i++) {
        package *p = &c->packages[c->n_packages];
        (void)snprintf(p->folder, sizeof p->folder, "%s/class/powercap/intel-rapl:%d", clt_sysfs(), i);
        if (!clt_monitor_line(p->folder, "name", name, sizeof name) || strncmp(name, "package", 7) != 0)
            continue;
        p->range = clt_monitor_number(p->folder, "max_energy_range_uj", 1e-6);
        p->before = clt_monitor_number(p->folder, "energy_uj", 1e-6);
        c->n_packages += !isnan(p->before);
    }
}

/* The energy of all packages together. A package's counter wraps to 0 at the end of its range. */
static double energy_of(cpu *c)
{
    double sum = c->n_packages > 0 ? 0 : NAN;
    for (int i = 0; i < c->n_packages; i++) {
        package *p = &c->packages[i];
        double now = clt_monitor_number(p->folder, "energy_uj", 1e-6), more = now - p->before;
        if (more < 0)
            more += p->range;
        if (more >= 0)
            p->total += more;
        p->before = now;
        sum += p->total;
    }
    return sum;
}

static void find_sensor(cpu *c)
{
    static const char *const drivers[] = {"coretemp", "k10temp", "zenpower"};
    char name[64];
    for (int i = 0; i < 64; i++) {
        (void)snprintf(c->sensor, sizeof c->sensor, "%s/class/hwmon/hwmon%d", clt_sysfs(), i);
        if (clt_monitor_line(c->sensor, "name", name, sizeof name))
            for (size_t k = 0; k < sizeof drivers / sizeof *drivers; k++)
                if (strcmp(name, drivers[k]) == 0)
                    return;
    }
    c->sensor[0] = '\0';
}

static void open_cpu(const clt_monitor_options *o, clt_monitor_facts *facts, char trouble[256], void **state)
{
    cpu *c;
    (void)facts;
    (void)trouble;
    if (clt_alloc(&c, 1, sizeof *c, "a source of figures") != CLT_OK)
        return;
    (void)snprintf(c->root, sizeof c->root, "%s", o->root);
    c->is_device = o->cpu;
    c->at = c->busy = c->all = c->used = c->periods = c->held = NAN;
    if (o->cpu) {
        find_packages(c);
        find_sensor(c);
    }
    *state = c;
}

/* --- processor time and memory --- */

/* Ticks of all processors since the host started. False: the kernel does not say. */
static bool host_ticks(const cpu *c, double *busy, double *all)
{
    char line[512];
    double t[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
    char folder[CLT_MONITOR_PATH + 8];
    (void)snprintf(folder, sizeof folder, "%s/proc", c->root);
    if (!clt_monitor_line(folder, "stat", line, sizeof line) ||
        sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) < 4)
        return false;
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += t[i];
    *busy = *all - t[3] - t[4];
    return true;
}

/* The host's memory in bytes, and how much of it programs use. */
static void host_memory(const cpu *c, double *used, double *size)
{
    char path[CLT_MONITOR_PATH + 16], line[128];
    double total = NAN, available = NAN;
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", c->root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        (void)sscanf(line, "MemTotal: %lf", &total);
        (void)sscanf(line, "MemAvailable: %lf", &available);
    }
    if (file)
        (void)fclose(file);
    *size = total * 1024;
    *used = (total - available) * 1024;
}

static double share(double part, double whole)
{
    return whole > 0 && !isnan(part) ? fmin(fmax(part / whole, 0), 1) : NAN;
}

static void sample_cpu(void *state, clt_monitor_sample *out)
{
    cpu *c = state;
    clt_cgroup_use group = clt_cgroup_use_of(c->root);
    double busy = NAN, all = NAN, seconds = out->at - c->at, cpus = clt_cgroup_cpus(c->root);
    double used = cpus > 0 ? group.cpu_seconds : NAN, memory, size, load;
    double periods = NAN, held = NAN, slowed;
    uint64_t left;
    (void)host_ticks(c, &busy, &all);
    load = isnan(used) ? share(busy - c->busy, all - c->all) : share(used - c->used, seconds * cpus);
    /* counts throttled periods, because the kernel adds up throttled time over all processors, so that it
     * cannot be compared with the time that passed */
    (void)clt_cgroup_periods(c->root, &periods, &held);
    slowed = share(held - c->held, periods - c->periods);
    host_memory(c, &memory, &size);
    if (!isnan(group.memory_bytes) && clt_cgroup_memory(c->root, &left)) {
        memory = group.memory_bytes;
        size = memory + (double)left;
    }
    out->value[c->is_device ? CLT_MONITOR_UTILIZATION : CLT_MONITOR_HOST_CPU] = load;
    out->value[c->is_device ? CLT_MONITOR_MEMORY_USED : CLT_MONITOR_HOST_MEMORY] = memory;
    out->value[c->is_device ? CLT_MONITOR_THROTTLED : CLT_MONITOR_HOST_THROTTLED] = slowed;
    if (c->is_device) {
        out->value[CLT_MONITOR_MEMORY_SIZE] = size;
        out->energy = energy_of(c);
        if (c->sensor[0])
            out->value[CLT_MONITOR_TEMPERATURE] = clt_monitor_number(c->sensor, "temp1_input", 1e-3);
    }
    c->at = out->at;
    c->busy = busy;
    c->all = all;
    c->used = used;
    c->periods = periods;
    c->held = held;
}

const clt_monitor_source clt_monitor_cpu = {"cpu", open_cpu, sample_cpu, free, NULL};
