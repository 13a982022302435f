/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of the files of questions: a run of a probe kernel (probe_run.c), the records of
 * matrix units (unit_*.c). No file outside cl/probes includes this header. */
#ifndef CL_PROBES_PROBES_INTERNAL_H
#define CL_PROBES_PROBES_INTERNAL_H

#include "cl/device/internal.h"

typedef struct ocl_probe {
    const char *options; /* build options of the program */
    const char *kernel;  /* its source is probe.cl, or a file with the kernel's name */
    const void *in;      /* in_bytes */
    size_t in_bytes;
    void *out; /* out_bytes; uploaded before the run, read back after it */
    size_t out_bytes;
    cl_uint n;
    size_t global, local; /* local 0: the largest group size up to 64 that the kernel allows */
    /* bytes of local memory for the kernel's fourth argument; 0: the kernel has three arguments */
    size_t local_bytes;
} ocl_probe;

typedef struct ocl_probe_objects {
    cl_kernel kernel;
    cl_mem in, out;
    size_t limit; /* largest group size that the driver allows for this kernel */
} ocl_probe_objects;

/* Runs a probe and reads its result. */
clt_status ocl_probe_run(ocl_device *device, const ocl_probe *run);
/* ocl_probe_run in steps. The first creates what the run needs, which must be released even after a failure;
 * the second launches it once. */
clt_status ocl_probe_create(ocl_device *device, const ocl_probe *run, ocl_probe_objects *objects);
clt_status ocl_probe_launch(ocl_device *device, const ocl_probe *run, const ocl_probe_objects *objects);
void ocl_probe_release(ocl_probe_objects *objects);
CLT_SCOPED_VALUE(ocl_probe_objects, ocl_probe_release)
/* Seconds of the fastest of three runs. */
clt_status ocl_probe_time(ocl_device *device, const ocl_probe *run, double *best);

clt_status ocl_answer_yes(ocl_item *item, uint64_t value);
clt_status ocl_answer_with(ocl_item *item, ocl_answer what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fills in the answer for a wrong result: NO if the result shows that the compiler lacks the feature, else
 * WRONG. */
clt_status ocl_answer_wrong(ocl_item *item, const void *out, size_t bytes);

/* Whether the device has the capability, according to the answers so far. */
static inline bool ocl_probe_has(const ocl_probe_state *state, uint32_t cap)
{
    return (state->caps & cap) != 0;
}
/* Whether the device's compiler is NVIDIA's. */
bool ocl_probe_want_ptx(const ocl_probe_state *state, char *why, size_t size);

#endif
