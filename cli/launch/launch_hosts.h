/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a job: a list of names or Open MPI's hostfile, and what each host says of its devices. Knows nothing
 * of jobs. */
#ifndef CLI_LAUNCH_LAUNCH_HOSTS_H
#define CLI_LAUNCH_LAUNCH_HOSTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/mem.h"

typedef struct launch_host {
    char name[256];
    int slots;     /* ranks that the list asks for; 0: one for each device */
    int ranks;     /* to start there; 0: it did not answer */
    bool cpu;      /* they share CPU devices */
    char why[320]; /* it did not answer */
} launch_host;

typedef struct launch_hosts {
    launch_host *host;
    int count;
    bool far; /* the job may run on others than this one */
} launch_hosts;

/* NULL: this host. "a,b:4" or the path of a file with lines "NAME [slots=N]" and comments after '#'. CLT_EUSAGE: neither, or a name comes
 * twice. */
clt_status launch_hosts_read(const char *text, launch_hosts *out);
void launch_hosts_free(launch_hosts *hosts);
/* Asks all hosts at once how many devices of SPEC (NULL: the usual ones) they have and fills ranks and cpu: slots, else
 * `devices`, else one for each device. They are asked by the program that Open MPI starts its daemons with (ssh, or
 * $OMPI_MCA_plm_rsh_agent), which runs `program` there. CLT_EDEVICE: a host has fewer GPUs than ranks are asked for, or, where
 * `all` have to, one does not answer within two minutes, or none does. CLT_EINTERRUPTED: *stop was set; nothing is left
 * running. */
clt_status launch_hosts_ask(launch_hosts *hosts, const char *program, const char *spec, int devices, bool all,
                            const atomic_int *stop);
/* "a:4,b:4", the hosts with ranks in the form of mpirun's --host. */
clt_status launch_hosts_print(const launch_hosts *hosts, clt_str *out);

#endif
