/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each command of a list takes, added up over runs. Benches and checks get it from the recorder
 * (cl/command/record.h) this way. */
#ifndef CL_COMMAND_COMMAND_TIMES_H
#define CL_COMMAND_COMMAND_TIMES_H

#include "cl/command/record.h"

typedef struct ocl_command_time {
    uint64_t calls, total_ns;
    uint64_t last_start_ns, last_end_ns;
} ocl_command_time;

typedef struct ocl_command_times {
    ocl_device *device;
    const ocl_command_list *list;
    ocl_command_time *at; /* one element per command */
    bool complete;        /* every collected command has a time */
} ocl_command_times;

/* Records the commands of the list from now on, up to `runs` runs of the whole list between two collections.
 * The device must have no other recorder, and its queues must give time stamps (ocl_open_options.profiling),
 * else CLT_EUNSUPPORTED. */
clt_status ocl_command_times_start(ocl_device *device, const ocl_command_list *list, int runs,
                                   ocl_command_times **out);
/* Waits for the commands under way and adds up their times. CLT_EDEVICE when a time is missing. */
clt_status ocl_command_times_collect(ocl_command_times *times);
void ocl_command_times_stop(ocl_command_times *times); /* NULL is fine */
CLT_SCOPED_POINTER(ocl_command_times, ocl_command_times_stop)

#endif
