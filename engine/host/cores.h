/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of cores, the cores near a device on the PCI bus, and binding this process's threads to cores. The
 * kernel's files are read under clt_sysfs(). Knows nothing of ranks. */
#ifndef ENGINE_HOST_CORES_H
#define ENGINE_HOST_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define CLT_MOST_CORES 8192

typedef struct clt_cores {
    uint64_t bit[CLT_MOST_CORES / 64]; /* core i: bit i % 64 of word i / 64 */
} clt_cores;

/* Reads the kernel's form "0-3,8,10-11", which may end with a line end. False: the text is not of that form,
 * or the number of a core is too large. */
bool clt_cores_read(const char *text, clt_cores *out);
/* Writes the same form; a list that is too long for `size` ends with "...". Returns text. */
const char *clt_cores_print(const clt_cores *cores, char *text, size_t size);
int clt_cores_count(const clt_cores *cores);
void clt_cores_common(const clt_cores *a, const clt_cores *b, clt_cores *out);

/* "/sys", or $CLTRAIN_SYSFS, by which tests simulate a machine. */
const char *clt_sysfs(void);
/* Number of NUMA nodes with cores; 1 if unknown. */
int clt_numa_nodes(void);
/* The cores near the device with the PCI address `pci`, "0000:3b:00.0", and its NUMA node (-1: unknown).
 * False: the kernel does not say. */
bool clt_cores_near(const char *pci, clt_cores *out, int *node);

/* The cores on which the main thread of this process may run. False: the kernel does not say. */
bool clt_cores_of_process(clt_cores *out);
/* Binds every thread of this process; threads that these start later inherit the binding. CLT_EUNSUPPORTED:
 * the kernel refuses it. */
clt_status clt_cores_bind(const clt_cores *cores);

#endif
