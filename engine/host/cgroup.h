/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of this process's control groups (versions 1 and 2, or both at once). Used by host.c. `root`
 * is a prefix of every path ("" on a real system), so that a test can use /proc and /sys of its own. */
#ifndef ENGINE_HOST_CGROUP_H
#define ENGINE_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The CPU quota in processors (1.5: one and a half processors' time), the smallest of all levels; 0: no
 * quota. */
double clt_cgroup_cpus(const char *root);
/* Bytes left under the tightest level (limit minus use, file cache not counted as use); false if nothing
 * limits it. */
bool clt_cgroup_memory(const char *root, uint64_t *left);

/* The resources that this process's control group (version 2) has used; NAN: unknown. */
typedef struct clt_cgroup_use {
    double cpu_seconds;  /* processor time */
    double memory_bytes; /* without the cache of files */
} clt_cgroup_use;
clt_cgroup_use clt_cgroup_use_of(const char *root);
/* Periods of the smallest CPU quota, counted since its group exists, and in how many of them it held the
 * group back. False: there is no quota, or the kernel does not count. */
bool clt_cgroup_periods(const char *root, double *periods, double *held);

#endif
