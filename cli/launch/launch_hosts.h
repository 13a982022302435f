/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a job, read from a list of names or Open MPI's hostfile, and how many devices each host has.
 * Knows nothing of jobs. */
#ifndef CLI_LAUNCH_LAUNCH_HOSTS_H
#define CLI_LAUNCH_LAUNCH_HOSTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/mem.h"

typedef struct launch_host {
    char name[256];
    int slots;     /* ranks that the list asks for; 0: one for each device */
    int ranks;     /* ranks to start there; 0: the host did not answer */
    bool cpu;      /* its devices are CPUs, which the ranks share */
    char why[320]; /* the reason why it did not answer */
} launch_host;

typedef struct launch_hosts {
    launch_host *host;
    int count;
    bool far; /* the list names hosts, so the job may run on hosts other than this one */
} launch_hosts;

/* text: "a,b:4", or the path of a file with lines "NAME [slots=N]" and comments after '#'; NULL: only this
 * host. CLT_EUSAGE: the text is neither, or names a host twice. */
clt_status launch_hosts_read(const char *text, launch_hosts *out);
void launch_hosts_free(launch_hosts *hosts);
/* Asks all hosts in parallel how many devices of `spec` (NULL: the usual ones) they have, and fills `ranks`
 * and `cpu` of each. ranks: the host's `slots`, else `devices`, else one for each device. Other hosts are
 * reached with the program that Open MPI starts its daemons with (ssh, or $OMPI_MCA_plm_rsh_agent); it runs
 * `program` there. CLT_EDEVICE: a host has fewer GPUs than ranks; a host does not answer within two minutes
 * and `all` is set; or no host answers. CLT_EINTERRUPTED: *stop was set; no child is left running. */
clt_status launch_hosts_ask(launch_hosts *hosts, const char *program, const char *spec, int devices, bool all,
                            const atomic_int *stop);
/* Appends the hosts that have ranks, in the form of mpirun's --host: "a:4,b:4". */
clt_status launch_hosts_print(const launch_hosts *hosts, clt_str *out);

#endif
