/* SPDX-License-Identifier: Apache-2.0
 *
 * Executors: a command list made ready for a device. Creating one builds (or finds) programs, creates one
 * kernel object for each kernel command and binds every argument; running one only enqueues. */
#ifndef CL_EXEC_EXEC_H
#define CL_EXEC_EXEC_H

#include "engine/base/scope.h"
#include "cl/command/command.h"
#include "cl/command/memory.h"
#include "cl/program/programs.h"

typedef struct ocl_exec ocl_exec;

/* Looks up the buffer of a tensor, and the tensor's byte offset in it. */
typedef clt_status (*ocl_resolve_fn)(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset);
/* Called for OCL_CMD_HOST while the list is being enqueued. */
typedef clt_status (*ocl_host_fn)(void *context, const ocl_command *command);

struct ocl_refusal;

/* A command list whose executor is created later. Its programs are built together with the programs of this
 * executor's list, so that all cores stay busy. A failed build is ignored now; the program is built again,
 * and the failure reported, when its own executor is created. */
#define OCL_AHEAD_MAX 2
typedef struct ocl_exec_ahead {
    const ocl_command_list *list; /* NULL: none */
    ocl_resolve_fn resolve;
    void *resolve_context;
} ocl_exec_ahead;

typedef struct ocl_exec_options {
    ocl_exec_ahead ahead[OCL_AHEAD_MAX];
    ocl_resolve_fn resolve;
    void *resolve_context;
    ocl_host_fn host;
    void *host_context;
    ocl_progress_fn progress; /* may be NULL */
    void *progress_context;
    /* gets the refused command if the driver refuses one (cl/command/fallback.h); may be NULL */
    struct ocl_refusal *refusal;
} ocl_exec_options;

/* Calls of the watcher: before the programs of a list are built (`exec` is NULL, the range is the whole
 * list), and before its commands [first, last) are enqueued, except those whose `derives` has a bit of
 * `without`. */
typedef struct ocl_exec_event {
    const ocl_command_list *list;
    size_t first, last;
    uint32_t without;
    const ocl_exec *exec;
    ocl_resolve_fn resolve;
    void *resolve_context;
} ocl_exec_event;
typedef struct ocl_exec_watcher {
    /* a failure ends the creation of the executor, or the run */
    clt_status (*watch)(void *context, const ocl_exec_event *event);
    void *context;
} ocl_exec_watcher;
/* Sets the watcher that every executor of the device calls. It must outlive the executors; NULL: no watcher.
 * It is for `verify --reduce`; trainings have none. */
void ocl_exec_watch(ocl_device *device, const ocl_exec_watcher *watcher);
/* The group size with which a kernel command is enqueued: the command's own size, or a smaller one. */
const size_t *ocl_exec_local(const ocl_exec *exec, size_t command);

/* Creates an executor; the list must outlive it. The message of CLT_EBUILD contains the build log, the
 * options and the path of the saved source. */
clt_status ocl_exec_create(ocl_device *device, const ocl_command_list *list, const ocl_exec_options *options,
                           ocl_exec **out);
void ocl_exec_destroy(ocl_exec *exec);
CLT_SCOPED_POINTER(ocl_exec, ocl_exec_destroy)
/* Enqueues every command on the compute queue. Never blocks, builds or allocates (except for CLBlast's own
 * calls). The first command on the device waits for `wait` (may be NULL). */
clt_status ocl_exec_run(ocl_exec *exec, ocl_event *wait);
/* Enqueues commands [first, last). */
clt_status ocl_exec_run_range(ocl_exec *exec, size_t first, size_t last, ocl_event *wait);
/* The same, but skips commands whose `derives` has one of these bits, because their results from an earlier
 * run are still valid. */
clt_status ocl_exec_run_without(ocl_exec *exec, size_t first, size_t last, uint32_t derives, ocl_event *wait);

#endif
