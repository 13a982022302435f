/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done about PoCL's cache of kernels (engine/files/pocl_cache.h) before PoCL is loaded: it gets a folder that can
 * be used, and kernels that are cut off are removed. Both are told by a warning. */
#ifndef CL_POCL_H
#define CL_POCL_H

#include "engine/files/pocl_cache.h"

typedef struct ocl_pocl_report {
    bool looked;            /* PoCL is among the drivers, and this process has looked at its cache */
    clt_pocl_folder folder; /* as chosen */
    uint64_t removed;       /* number of files that were cut off */
} ocl_pocl_report;

/* Before the first OpenCL call of a process that is no child of ours, if PoCL is among the drivers. It sets
 * POCL_CACHE_DIR where PoCL's own folder cannot be used. A cache of more than OCL_POCL_MANY files is looked
 * at once in OCL_POCL_SECONDS, and again after a process that was ended by force; but if another process,
 * which ran beside that one, has ended by itself since, only when the seconds are over. CLT_ENOMEM. */
#define OCL_POCL_MANY 300
#define OCL_POCL_SECONDS 60
clt_status ocl_pocl_prepare(void);
/* Makes ocl_pocl_prepare look at every file, whenever that was done before: for the doctor. */
void ocl_pocl_look_at_all(void);
/* What was done; the report belongs to the process. */
const ocl_pocl_report *ocl_pocl_done(void);
/* Looks at every file after a child process has crashed in PoCL; true if any was cut off and is removed, so that another
 * try may succeed. Any thread may call it. */
bool ocl_pocl_mend(void);

#endif
