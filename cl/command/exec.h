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
/* Called when a program build begins or ends, always by the thread that creates the executor: done/total
 * programs of this executor, the family that was begun last. */
typedef void (*ocl_progress_fn)(void *context, int done, int total, const char *what);

struct ocl_refusal;

/* Ends the child processes that built programs for the device (docs/programs.md). Executors that are created
 * one after the other share them, so whoever has created the last one says so; closing the device does, too.
 */
void ocl_builders_dismiss(ocl_device *device);

/* A list whose executor is created later: its programs are built with those of the first, so that no core
 * waits between the two. One that fails is built once more, and its failure told, when that executor is
 * created. */
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
    struct ocl_refusal
        *refusal; /* creating fills it when the driver refuses a command (cl/command/fallback.h); NULL */
} ocl_exec_options;

/* The list must outlive the executor. CLT_EBUILD carries the log, the options and the path of the saved
 * source. */
clt_status ocl_exec_create(ocl_device *device, const ocl_command_list *list, const ocl_exec_options *options,
                           ocl_exec **out);
void ocl_exec_destroy(ocl_exec *exec);
/* Enqueues every command on the compute queue. Never blocks, builds or allocates (CLBlast's own calls apart).
 * `wait` (may be NULL) is waited for by the first command on the device. */
clt_status ocl_exec_run(ocl_exec *exec, ocl_event *wait);
/* Enqueues commands [first, last). */
clt_status ocl_exec_run_range(ocl_exec *exec, size_t first, size_t last, ocl_event *wait);

/* Programs (cl/command/program.c). `family` is the source file without ".cl"; options as in ocl_command.
 * Sources are embedded; the environment variable CLTRAIN_KERNEL_DIR reloads them from a folder. `#include
 * "x.clh"` lines are resolved by us, so that a driver's cache cannot miss a change. Standard options
 * (-cl-std=CL1.2 ...) are added inside. */
typedef struct ocl_program ocl_program;
clt_status ocl_program_get(ocl_device *device, const char *family, const char *options, ocl_program **out);
/* What has been built since the device was opened, by copy: free() it, all texts lie in it. */
typedef struct ocl_program_info {
    const char *family, *options;
    double seconds;  /* that its build took, on one thread */
    bool from_cache; /* our cache of binaries; else from the source */
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

/* What a launch of a kernel that does nothing costs in microseconds: alone, until the host knows that it
 * ended, and as one of many in a row, which is what a step is made of. Time stamps
 * (ocl_open_options.profiling) are part of it: a device opened without them shows what they cost. */
typedef struct ocl_launch_times {
    double alone_us, in_row_us;
} ocl_launch_times;
clt_status ocl_measure_launches(ocl_device *device, double seconds, ocl_launch_times *out);

/* Streams over three arrays far larger than the caches (cl/measure/stream.c), for ratios: memory that others
 * use too is fast one second and slow the next, so what is compared with it is run between two of these.
 * Nontemporal on a device without that capability is a plain stream. Blocks. */
typedef struct ocl_stream ocl_stream;
clt_status ocl_stream_create(ocl_device *device, ocl_stream **out);
clt_status ocl_stream_triad(const ocl_stream *stream, bool nontemporal, double *gbs);
void ocl_stream_destroy(ocl_stream *stream);

#endif
