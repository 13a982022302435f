/* SPDX-License-Identifier: Apache-2.0
 *
 * How long processes that are ready to run wait for a core, because others use the machine. Source:
 * Linux's /proc/PID/task/N/schedstat, whose second number is that time in nanoseconds. */
#ifndef ENGINE_HOST_STARVED_H
#define ENGINE_HOST_STARVED_H

#include <sys/types.h>

/* Seconds that the present threads of the process have waited since they began, added up over the threads. 0
 * if the system does not say, or the process is gone. */
double clt_process_starved(pid_t process);
/* The same for all processes of the process group `leader` except the leader itself. */
double clt_group_starved(pid_t leader);

#endif
