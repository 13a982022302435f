/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of figures (monitor_*.c) share: one record for each, the sample that it fills in, and
 * reading the files of the kernel. */
#ifndef ENGINE_MONITOR_MONITOR_SOURCE_H
#define ENGINE_MONITOR_MONITOR_SOURCE_H

#include "engine/monitor/monitor.h"

#define CLT_MONITOR_XIDS 8

/* The figures of a source at one moment. All values are NAN before the source fills them in. */
typedef struct clt_monitor_sample {
    double at; /* clt_now() */
    double value[CLT_MONITOR_COUNT];
    double energy; /* a counter in J of any beginning; POWER and ENERGY follow from it where they are NAN */
    int xid[CLT_MONITOR_XIDS];
    int xids;
    char trouble[256]; /* "": none */
} clt_monitor_sample;

void clt_monitor_sample_clear(clt_monitor_sample *sample, double now);

typedef struct clt_monitor_source {
    const char *name;
    /* Finds the device. *state stays NULL if the device does not belong to this source, or if the source is
     * missing; then `trouble` may give the reason. Fills in the facts that the source knows from the
     * name. */
    void (*open)(const clt_monitor_options *options, clt_monitor_facts *facts, char trouble[256],
                 void **state);
    void (*sample)(void *state, clt_monitor_sample *out);
    void (*close)(void *state);
    /* Writes the addresses of its devices; NULL: it has none on the PCI bus. */
    int (*list)(clt_monitor_device *devices, int most);
} clt_monitor_source;

extern const clt_monitor_source clt_monitor_nvml, clt_monitor_amdgpu, clt_monitor_i915, clt_monitor_xe,
    clt_monitor_cpu;

/* The samples of a monitor, added up: since the last take, and in all. */
typedef struct clt_monitor_sums {
    clt_monitor_span since[CLT_MONITOR_COUNT], all[CLT_MONITOR_COUNT];
    double at, counter, power, energy; /* of the previous sample; energy: in J since the first one */
    bool any;
} clt_monitor_sums;

/* Adds a sample: power and energy follow from the counter, or energy from power over time. */
void clt_monitor_add(clt_monitor_sums *sums, clt_monitor_sample *sample);
/* Writes the figures since the last call, each combined by its fold, and begins a new interval. */
void clt_monitor_fold_since(clt_monitor_sums *sums, double value[CLT_MONITOR_COUNT]);

/* --- files of the kernel (monitor_files.c) --- */

#define CLT_MONITOR_PATH 512
/* The first number of the file FOLDER/NAME times `unit`; NAN if there is none. */
double clt_monitor_number(const char *folder, const char *name, double unit);
/* The first line; false: it cannot be read. */
bool clt_monitor_line(const char *folder, const char *name, char *line, size_t size);
/* The folder of a device below clt_sysfs(), if its driver is the named one. */
bool clt_monitor_pci_folder(const char *pci, const char *driver, char folder[CLT_MONITOR_PATH]);
/* The first folder hwmonN of a device; false: it has none. */
bool clt_monitor_hwmon(const char *folder, char out[CLT_MONITOR_PATH]);
/* The temperature in degrees Celsius whose label is one of two words, the second may be NULL; else of the
 * number `otherwise` if it has no label. NAN: there is none. */
double clt_monitor_temperature(const char *hwmon, const char *label, const char *or_label, int otherwise);
/* The devices of a driver. */
int clt_monitor_list_driver(const char *driver, clt_monitor_device *devices, int most);

#endif
