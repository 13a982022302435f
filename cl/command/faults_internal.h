/* SPDX-License-Identifier: Apache-2.0
 *
 * How files of cl/ that enqueue commands report the commands' events to cl/command/faults.c. No other file
 * includes this header. */
#ifndef CL_COMMAND_FAULTS_INTERNAL_H
#define CL_COMMAND_FAULTS_INTERNAL_H

#include "cl/command/faults.h"
#include "cl/device/internal.h"

clt_status ocl_faults_create(ocl_device *device);
void ocl_faults_destroy(ocl_device *device);

/* Commands enqueued on one in-order queue since the last command that had an event. */
typedef struct ocl_group {
    /* label (or name of the buffer) of the first and the last command; the kernel's name, or "" */
    const char *what[2], *kernel[2];
    int count;
} ocl_group;

/* How many commands may share one event on this device: 1, or more if a failure makes all later commands
 * fail too. */
int ocl_faults_group(const ocl_device *device);
void ocl_group_add(ocl_group *group, const char *what, const char *kernel);
/* Retains the event of the group's last command, which was just enqueued, and empties the group. */
clt_status ocl_faults_add(ocl_device *device, ocl_group *group, cl_event event);
/* The same for a single command. */
clt_status ocl_faults_add_one(ocl_device *device, const char *what, const char *kernel, cl_event event);
/* Closes a group whose last command has no event: enqueues a marker and uses its event. CLT_EDEVLOST: the
 * driver refuses even the marker, so a command has failed; the error names the first command known to have
 * failed, else the group. */
clt_status ocl_faults_close(ocl_device *device, cl_command_queue queue, ocl_group *group);

#endif
