/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of questions share: a run of a probe kernel (probe_run.c), the records of
 * matrix units (unit_*.c). Nobody outside cl/probes includes it. */
#ifndef CL_PROBES_PROBES_INTERNAL_H
#define CL_PROBES_PROBES_INTERNAL_H

#include "cl/device/internal.h"

typedef struct ocl_probe {
    const char *options; /* build options of the program */
    const char *kernel;  /* in probe.cl, or in a file with the kernel's name */
    const void *in;      /* in_bytes */
    size_t in_bytes;
    void *out; /* out_bytes; uploaded before the run, read back after it */
    size_t out_bytes;
    cl_uint n;
    size_t global, local; /* local 0: the largest group that the kernel allows, up to 64 */
    /* bytes of local memory for the kernel's fourth argument; 0: the kernel has three arguments */
    size_t local_bytes;
} ocl_probe;

typedef struct ocl_probe_objects {
    cl_kernel kernel;
    cl_mem in, out;
    size_t limit; /* largest group for this kernel */
} ocl_probe_objects;

/* Runs a probe and reads its result. */
clt_status ocl_probe_run(ocl_device *device, const ocl_probe *run);
/* ocl_probe_run in steps: creates what the run needs (to be released even after a failure), and launches it
 * once. */
clt_status ocl_probe_create(ocl_device *device, const ocl_probe *run, ocl_probe_objects *objects);
clt_status ocl_probe_launch(ocl_device *device, const ocl_probe *run, const ocl_probe_objects *objects);
void ocl_probe_release(ocl_probe_objects *objects);
CLT_SCOPED_VALUE(ocl_probe_objects, ocl_probe_release)
/* Best of three runs, in seconds. */
clt_status ocl_probe_time(ocl_device *device, const ocl_probe *run, double *best);

clt_status ocl_answer_yes(ocl_item *item, uint64_t value);
clt_status ocl_answer_with(ocl_item *item, ocl_answer what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Answers for a result that is not right: NO if the result says that the compiler lacks the feature, else
 * WRONG. */
clt_status ocl_answer_wrong(ocl_item *item, const void *out, size_t bytes);

/* Whether the device has the capability, by the answers so far. */
static inline bool ocl_probe_has(const ocl_probe_state *state, uint32_t cap)
{
    return (state->caps & cap) != 0;
}
/* Whether the device's compiler is NVIDIA's. */
bool ocl_probe_want_ptx(const ocl_probe_state *state, char *why, size_t size);

#endif
