/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads near the device: on a host with several NUMA nodes the threads of a rank (loader, communication,
 * writer, the driver's own) run on the cores of the node that its GPU is attached to, so that what they
 * copy crosses no link between nodes. */
#ifndef ENGINE_TRAIN_RANKS_BINDING_H
#define ENGINE_TRAIN_RANKS_BINDING_H

#include "engine/host/cores.h"
#include "engine/train/run/run.h"

typedef struct clt_nearness {
    /* The cores near the run's GPU that this process may use; none: there is no choice to make, because
     * the host has one NUMA node, the device is not a GPU, or the kernel does not tell where it is. */
    clt_cores cores;
    int node;  /* node that the GPU is attached to; -1: not known */
    bool far;  /* this process may use cores, but none near the GPU */
    bool bind; /* parallel.bind asks for it, and the process has cores that are not near */
    bool near; /* all cores that this process may use are near, as after an earlier binding */
} clt_nearness;

void clt_find_near_cores(const clt_run *run, clt_nearness *near);
/* Binds all threads of the process if near->bind; warns if the kernel refuses it. `sharing`: ranks of this
 * host that are near the same node, this one included; they share this rank's cores once it is bound, now
 * or by an earlier attempt. */
void clt_bind_near_device(clt_run *run, const clt_nearness *near, int sharing);

#endif
