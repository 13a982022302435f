/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of the doctor's files. */
#ifndef CL_PROBES_DOCTOR_INTERNAL_H
#define CL_PROBES_DOCTOR_INTERNAL_H

#include "cl/device/device.h"

typedef struct ocl_doctor_state {
    ocl_finding_fn report;
    void *context;
    int drivers; /* number of libraries, named by ICD files or the environment, that load */
    /* path or name of NVIDIA's OpenCL library, if an ICD file or the environment names it; else NULL */
    char *nvidia;
} ocl_doctor_state;

#define OCL_INSTALL_ADVICE                                                                                   \
    "install a driver: your GPU vendor's OpenCL package, or for the CPU 'apt-get install pocl-opencl-icd'"

/* Reports one finding; advice may be NULL. */
void ocl_finding(ocl_doctor_state *d, ocl_finding_level level, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* doctor_drivers.c: the loader, the variables and ICD files that it reads, the libraries that they name, and
 * what cltrain added (cl/drivers/icd.h). */
void ocl_doctor_drivers(ocl_doctor_state *d);
/* Advice when no driver is found: unset the variable that hides the system's drivers, or install a
 * driver. */
#define OCL_ADVICE_SIZE 512
const char *ocl_doctor_other_drivers(char buffer[OCL_ADVICE_SIZE]);
/* doctor_nvidia.c: whether NVIDIA's OpenCL library has the other libraries of its driver, and whether all of
 * them have the version of the kernel module. */
void ocl_doctor_nvidia(ocl_doctor_state *d);

#endif
