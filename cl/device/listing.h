/* SPDX-License-Identifier: Apache-2.0
 *
 * Protection against drivers that crash or hang the process as soon as they are loaded or list their
 * devices. Before the first OpenCL call of a process a child process lists the devices; when it crashes or
 * hangs, further children find out which drivers do that, and this process loads only the others. The result
 * for a set of drivers is remembered until one of their files or the environment changes, or the machine is
 * restarted. A result in which a driver crashed and none hung is not remembered. */
#ifndef CL_DEVICE_LISTING_H
#define CL_DEVICE_LISTING_H

#include <stdbool.h>

#include "cl/device/device.h"

typedef struct ocl_dead_driver {
    char entry[256];   /* the ICD file's name */
    char library[512]; /* the library that the ICD file names */
    char reason[OCL_REASON_SIZE];
} ocl_dead_driver;

/* Hides harmful drivers from the OpenCL loader, and loads libraries that a remaining driver opens by name
 * and the dynamic linker would not find (cl/drivers/siblings.h). Only the first call of a process does
 * anything. CLT_EDEVICE: the harmful driver could not be identified, or no driver is left. */
clt_status ocl_listing_prepare(void);
/* The drivers that are not loaded because they crash or hang. */
int ocl_listing_dead(const ocl_dead_driver **list);
/* Ignores the remembered result; to be called before the first use of OpenCL. */
void ocl_listing_again(void);
/* The child's part, for the program's hidden command. */
clt_status ocl_listing_serve(void);

#endif
