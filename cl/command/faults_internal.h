/* SPDX-License-Identifier: Apache-2.0
 *
 * How the files of cl/ that enqueue hand over the events of their commands. Nobody else includes it. */
#ifndef CL_FAULTS_INTERNAL_H
#define CL_FAULTS_INTERNAL_H

#include "cl/command/faults.h"
#include "cl/device/internal.h"

clt_status ocl_faults_create(ocl_device *device);
void ocl_faults_destroy(ocl_device *device);
/* Retains the event of a command that was just enqueued. what: the command's label, or the buffer's name;
 * kernel: the kernel's name or "". */
clt_status ocl_faults_add(ocl_device *device, const char *what, const char *kernel, cl_event event);

#endif
