/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of this process's control groups (version 1, version 2, or both together). Used by host.c.
 * `root` is a prefix of every path ("" on a real system), so that a test can simulate /proc and /sys. */
#ifndef ENGINE_HOST_CGROUP_H
#define ENGINE_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The CPU quota in processors (1.5: the time of one and a half processors), the smallest quota of all
 * levels; 0: there is none. */
double clt_cgroup_cpus(const char *root);
/* Bytes that the tightest level still allows (limit minus use without file cache); false if nothing limits
 * it. */
bool clt_cgroup_memory(const char *root, uint64_t *left);

/* The resources that this process's control group (version 2) has used; NAN: unknown. */
typedef struct clt_cgroup_use {
    double cpu_seconds;  /* processor time */
    double memory_bytes; /* without file cache */
} clt_cgroup_use;
clt_cgroup_use clt_cgroup_use_of(const char *root);
/* Periods of the smallest CPU quota since its group was made, and in how many of them the quota held the
 * group back. False: there is no quota, or the kernel does not count. */
bool clt_cgroup_periods(const char *root, double *periods, double *held);

#endif
