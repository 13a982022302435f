/* SPDX-License-Identifier: Apache-2.0
 *
 * Repairs PoCL's cache of kernels (engine/files/pocl_cache.h) before PoCL is loaded: chooses a usable folder
 * and removes truncated kernels. Warnings report both. */
#ifndef CL_DEVICE_POCL_H
#define CL_DEVICE_POCL_H

#include "engine/files/pocl_cache.h"

typedef struct ocl_pocl_report {
    bool looked;            /* PoCL is among the drivers, and this process has looked at its cache */
    clt_pocl_folder folder; /* as chosen */
    uint64_t removed;       /* number of truncated files */
} ocl_pocl_report;

/* To be called if PoCL is among the drivers, before the first OpenCL call of a process, except in our child
 * processes. Sets POCL_CACHE_DIR if PoCL's own folder cannot be used. A cache of more than OCL_POCL_MANY
 * files is checked only once in OCL_POCL_SECONDS, and sooner after a process was killed, unless a process
 * that ran in parallel has exited normally since. CLT_ENOMEM. */
#define OCL_POCL_MANY 300
#define OCL_POCL_SECONDS 60
clt_status ocl_pocl_prepare(void);
/* Makes ocl_pocl_prepare check every file, even if that was done a short time ago. For the doctor. */
void ocl_pocl_look_at_all(void);
/* Reports what was done; the report belongs to the process. */
const ocl_pocl_report *ocl_pocl_done(void);
/* Checks every file after a child process has crashed in PoCL. True if it removed a truncated file, so that
 * another try may succeed. Any thread may call it. */
bool ocl_pocl_mend(void);

#endif
