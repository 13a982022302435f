/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a source of figures (monitor_*.c), the sample that a source fills in, and functions that
 * read the kernel's files. */
#ifndef ENGINE_MONITOR_MONITOR_SOURCE_H
#define ENGINE_MONITOR_MONITOR_SOURCE_H

#include "engine/monitor/monitor.h"

#define CLT_MONITOR_XIDS 8

/* The figures of a source at one moment. All values are NAN before the source fills them in. */
typedef struct clt_monitor_sample {
    double at; /* clt_now() */
    double value[CLT_MONITOR_COUNT];
    double energy; /* a counter in J, from any beginning; gives POWER and ENERGY if they are NAN */
    int xid[CLT_MONITOR_XIDS];
    int xids;
    char trouble[256]; /* "": none */
} clt_monitor_sample;

void clt_monitor_sample_clear(clt_monitor_sample *sample, double now);

typedef struct clt_monitor_source {
    const char *name;
    /* Finds the device. *state stays NULL if the device does not belong to this source, or if the source is
     * missing; then `trouble` may give the reason. Fills in facts->name if the source knows it. */
    void (*open)(const clt_monitor_options *options, clt_monitor_facts *facts, char trouble[256],
                 void **state);
    void (*sample)(void *state, clt_monitor_sample *out);
    void (*close)(void *state);
    /* Writes the PCI addresses of the source's devices; NULL: it has none on the PCI bus. */
    int (*list)(clt_monitor_device *devices, int most);
} clt_monitor_source;

extern const clt_monitor_source clt_monitor_nvml, clt_monitor_amdgpu, clt_monitor_i915, clt_monitor_xe,
    clt_monitor_cpu;

/* The sums of a monitor's samples: `since` the previous take, and of `all`. */
typedef struct clt_monitor_sums {
    clt_monitor_span since[CLT_MONITOR_COUNT], all[CLT_MONITOR_COUNT];
    double at, counter, power, energy; /* of the previous sample; energy: in J since the first sample */
    bool any;
} clt_monitor_sums;

/* Adds a sample. Missing power and energy are computed from the counter, or energy from power and time. */
void clt_monitor_add(clt_monitor_sums *sums, clt_monitor_sample *sample);
/* Writes the figures since the last call, each combined by its fold, and begins a new interval. */
void clt_monitor_fold_since(clt_monitor_sums *sums, double value[CLT_MONITOR_COUNT]);

/* --- files of the kernel (monitor_files.c) --- */

#define CLT_MONITOR_PATH 512
/* The first number in the file `folder`/`name`, times `unit`; NAN if there is none. */
double clt_monitor_number(const char *folder, const char *name, double unit);
/* Reads the first line of a file; false: it cannot be read. */
bool clt_monitor_line(const char *folder, const char *name, char *line, size_t size);
/* Finds a device's folder below clt_sysfs(). False: there is none, or the device has another driver. */
bool clt_monitor_pci_folder(const char *pci, const char *driver, char folder[CLT_MONITOR_PATH]);
/* Finds the first folder hwmonN of a device; false: it has none. */
bool clt_monitor_hwmon(const char *folder, char out[CLT_MONITOR_PATH]);
/* The temperature in degrees Celsius of the sensor whose label is `label` or `or_label`, which may be NULL;
 * else of the sensor with the number `otherwise`, if it has no label. NAN: there is none. */
double clt_monitor_temperature(const char *hwmon, const char *label, const char *or_label, int otherwise);
/* Lists the devices of a driver. */
int clt_monitor_list_driver(const char *driver, clt_monitor_device *devices, int most);

#endif
