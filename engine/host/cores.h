/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of cores, which of them are near a device on the PCI bus, and binding the threads of this process to some.
 * What the kernel tells is read under clt_sysfs(). Knows nothing of ranks. */
#ifndef ENGINE_BASE_CORES_H
#define ENGINE_BASE_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define CLT_MOST_CORES 8192

typedef struct clt_cores {
    uint64_t bit[CLT_MOST_CORES / 64]; /* core i: bit i % 64 of word i / 64 */
} clt_cores;

/* From the kernel's form "0-3,8,10-11", with or without a line's end. False: it is none, or a core is too large. */
bool clt_cores_read(const char *text, clt_cores *out);
/* In the same form; a list that is too long ends with "...". Returns text. */
const char *clt_cores_print(const clt_cores *cores, char *text, size_t size);
int clt_cores_count(const clt_cores *cores);
void clt_cores_common(const clt_cores *a, const clt_cores *b, clt_cores *out);

/* "/sys", or $CLTRAIN_SYSFS, with which tests lay out a machine. */
const char *clt_sysfs(void);
/* NUMA nodes of this machine that have cores; 1 if that is not known. */
int clt_numa_nodes(void);
/* The cores near the device at this place on the PCI bus, "0000:3b:00.0", and its NUMA node, -1: not known. False:
 * the kernel does not tell. */
bool clt_cores_near(const char *pci, clt_cores *out, int *node);

/* The cores that the main thread of this process may run on. False: the kernel does not tell. */
bool clt_cores_of_process(clt_cores *out);
/* Binds every thread of this process; those that they start later are bound as well. CLT_EUNSUPPORTED: the kernel
 * refuses it. */
clt_status clt_cores_bind(const clt_cores *cores);

#endif
