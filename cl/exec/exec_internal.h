/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor's own structs, shared by cl/exec/exec_create.c (builds and binds) and cl/exec/exec.c
 * (enqueues). No other file includes this header. */
#ifndef CL_EXEC_EXEC_INTERNAL_H
#define CL_EXEC_EXEC_INTERNAL_H

#include "cl/device/internal.h"
#include "cl/exec/exec.h"

/* One command with its tensors resolved. Which fields are used depends on the command's kind. */
typedef struct exec_entry {
    cl_kernel kernel; /* KERNEL; also FILL under the quirk fill_by_kernel */
    /* group size: the command's own, or a smaller one if `free_local` allows it */
    size_t local[3];
    cl_mem target, source;               /* COPY, FILL */
    size_t target_offset, source_offset; /* bytes */
    size_t bytes;
    cl_uint pattern;
    size_t pattern_bytes; /* 4, or 1 if offset or size are not whole words */
    size_t fill_items;
    const ocl_library *library; /* GEMM */
    void *call;                 /* GEMM: the call that the library prepared */
} exec_entry;

struct ocl_exec {
    ocl_device *device;
    cl_command_queue queue;
    const ocl_command_list *list;
    ocl_exec_options options;
    exec_entry *entries; /* one entry per command */
};

/* Calls the device's watcher, if there is one. ready: the executor, or NULL before its programs are
 * built. */
clt_status ocl_exec_tell(const ocl_exec *exec, const ocl_exec *ready, size_t first, size_t last,
                         uint32_t without);

#endif
