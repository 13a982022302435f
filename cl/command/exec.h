/* SPDX-License-Identifier: Apache-2.0
 *
 * Executors: a command list realised on a device. Creating one builds (or finds) programs, creates one kernel
 * object per kernel command and binds every argument; running one only enqueues. */
#ifndef CL_EXEC_H
#define CL_EXEC_H

#include "cl/command/command.h"
#include "cl/device/memory.h"

typedef struct ocl_exec ocl_exec;

/* Where a tensor lives. */
typedef clt_status (*ocl_resolve_fn)(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset);
/* Called for OCL_CMD_HOST while the list is being enqueued. */
typedef clt_status (*ocl_host_fn)(void *context, const ocl_command *command);
/* Called when a program build begins or ends, always on the thread that creates the executor. done, total:
 * programs of this executor; what: the family whose build began last. */
typedef void (*ocl_progress_fn)(void *context, int done, int total, const char *what);

struct ocl_refusal;

/* Ends the child processes that built programs for the device (docs/programs.md). Executors that are created
 * one after the other share them; call this after the last one. Closing the device ends them too.
 */
void ocl_builders_dismiss(ocl_device *device);

/* A command list whose executor is created later: its programs are built together with those of the first
 * list, so that all cores stay busy. A failure is ignored now: that program is built again, and the failure
 * reported, when its executor is created. */
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
    /* filled in when the driver refuses a command (cl/command/fallback.h); may be NULL */
    struct ocl_refusal *refusal;
} ocl_exec_options;

/* The list must outlive the executor. The message of CLT_EBUILD has the build log, the options and the path
 * of the saved source. */
clt_status ocl_exec_create(ocl_device *device, const ocl_command_list *list, const ocl_exec_options *options,
                           ocl_exec **out);
void ocl_exec_destroy(ocl_exec *exec);
/* Enqueues every command on the compute queue. Never blocks, builds or allocates (CLBlast's own calls apart).
 * The first command on the device waits for `wait` (may be NULL). */
clt_status ocl_exec_run(ocl_exec *exec, ocl_event *wait);
/* Enqueues commands [first, last). */
clt_status ocl_exec_run_range(ocl_exec *exec, size_t first, size_t last, ocl_event *wait);
/* The same, but for commands whose `derives` has one of these bits: what they compute is there from an earlier run. */
clt_status ocl_exec_run_without(ocl_exec *exec, size_t first, size_t last, uint32_t derives, ocl_event *wait);

/* Programs (cl/command/program.c). `family` is the source file without ".cl"; options as in ocl_command.
 * Sources are embedded; the environment variable CLTRAIN_KERNEL_DIR reloads them from a folder. `#include
 * "x.clh"` lines are resolved by us, so that a driver's cache cannot miss a change. Standard options
 * (-cl-std=CL1.2 ...) are added inside. */
typedef struct ocl_program ocl_program;
clt_status ocl_program_get(ocl_device *device, const char *family, const char *options, ocl_program **out);
/* The programs that were built since the device was opened: an array that also holds all texts; free() it. */
typedef struct ocl_program_info {
    const char *family, *options;
    double seconds;  /* time of the build, on one thread */
    bool from_cache; /* loaded from our cache of binaries; else built from the source */
} ocl_program_info;
clt_status ocl_device_programs(ocl_device *device, ocl_program_info **out, size_t *count);
/* Log of the last build of a program ("" if the compiler said nothing). */
const char *ocl_program_log(const ocl_program *program);

/* Measured limits (cl/measure/measure.c): FMA peak in GFLOP/s and streaming bandwidth in GB/s, best of
 * several runs, on this device now. stream: triad with the best kind of stores; plain_stream: triad with
 * plain stores; copy, read: best kind. seconds = rough time budget. */
typedef struct ocl_limits {
    double fma_peak_gflops, stream_gbs, plain_stream_gbs, copy_gbs, read_gbs, h2d_gbs, d2h_gbs, launch_us;
} ocl_limits;
clt_status ocl_measure_limits(ocl_device *device, double seconds, ocl_limits *out);

/* The cost of launching an empty kernel in microseconds: alone, until the host knows that it has ended, and
 * as one of many in a row, as in a step: without events, and with one each that is kept and looked at. It
 * includes time stamps if the device was opened with them (ocl_open_options.profiling). */
typedef struct ocl_launch_times {
    double alone_us, in_row_us, in_row_event_us;
} ocl_launch_times;
clt_status ocl_measure_launches(ocl_device *device, double seconds, ocl_launch_times *out);

/* A STREAM benchmark over three arrays far larger than the caches (cl/measure/stream.c), for ratios: the
 * bandwidth of memory that is shared with other programs varies from second to second, so a measurement is
 * compared with streams run just before and after it. On a device without non-temporal stores those are plain
 * stores. Blocks. */
typedef struct ocl_stream ocl_stream;
clt_status ocl_stream_create(ocl_device *device, ocl_stream **out);
clt_status ocl_stream_triad(const ocl_stream *stream, bool nontemporal, double *gbs);
void ocl_stream_destroy(ocl_stream *stream);

#endif
