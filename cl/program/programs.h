/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: kernels built for a device, kept by family and options (docs/programs.md). */
#ifndef CL_PROGRAM_PROGRAMS_H
#define CL_PROGRAM_PROGRAMS_H

#include "cl/device/device.h"

/* `family` is the source file without ".cl"; options as in ocl_command. Sources are embedded; the
 * environment variable CLTRAIN_KERNEL_DIR reloads them from a folder. cltrain resolves `#include "x.clh"`
 * lines itself, so that a driver's cache cannot miss a change. It adds the standard options (-cl-std=CL1.2
 * ...). */
typedef struct ocl_program ocl_program;
clt_status ocl_program_get(ocl_device *device, const char *family, const char *options, ocl_program **out);
/* The text that the driver's compiler gets for a program: the source with its headers inserted, and all
 * options. Free the source with free() and the options with clt_str_free(), also on failure. */
clt_status ocl_program_text(const char *family, const char *options, char **source, clt_str *full_options);
/* Lists the programs built since the device was opened, in one array that also holds all texts; free()
 * it. */
typedef struct ocl_program_info {
    const char *family, *options;
    double seconds;  /* time of the build, on one thread */
    bool from_cache; /* loaded from our cache of binaries; otherwise built from the source */
} ocl_program_info;
clt_status ocl_device_programs(ocl_device *device, ocl_program_info **out, size_t *count);
/* Called when a program build begins or ends, always on the thread that creates the executor. done, total:
 * programs of this executor; what: the family whose build began last. */
typedef void (*ocl_progress_fn)(void *context, int done, int total, const char *what);
/* Log of the last build of a program ("" if the compiler said nothing). */
const char *ocl_program_log(const ocl_program *program);

/* Ends the child processes that built programs for the device (docs/programs.md). Executors that are created
 * one after the other share them; call this after the last one. Closing the device ends them too. */
void ocl_builders_dismiss(ocl_device *device);

#endif
