/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that ranks make before they build anything: whether all have the same program, config and data, a
 * GPU of their own and links that work; and what may make them slow: different devices or drivers, too few
 * cores. */
#ifndef ENGINE_TRAIN_RANKS_PREFLIGHT_H
#define ENGINE_TRAIN_RANKS_PREFLIGHT_H

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/train/ranks/binding.h"
#include "engine/train/run/run.h"

/* The facts that a rank sends to the others; their layout is the same on all of them. */
typedef struct clt_preflight_message {
    char host[64], version[32];
    char platform[OCL_NAME_SIZE], device[OCL_NAME_SIZE], driver[OCL_NAME_SIZE];
    char place[32]; /* place of a GPU: on the PCI bus, or "device 0:0" if that is unknown; "": no GPU */
    char data[CLT_HASH64_TEXT], eval_data[CLT_HASH64_TEXT]; /* fingerprints, "": the data has none */
    uint64_t program;                                       /* hash of the program's file; 0: not known */
    int64_t samples;                                        /* samples of the training data; -1: none */
    int32_t local_ranks, is_cpu;
    int32_t rounds_correctly;      /* divisions and square roots round correctly if kernels ask for it */
    int32_t cores, launcher_cores; /* cores that this process and its parent may use; 0: not known */
    int32_t node, far;             /* members of clt_nearness; a node of -1: not known */
} clt_preflight_message;

/* Compares the config: CLT_ERANKS names the first rank whose config is not rank 0's, and a line that
 * differs. Collective. */
clt_status clt_preflight_config(clt_run *run);
/* Compares everything else, when data and device are open, sets run->on_gpu and divides the memory of a GPU
 * among its ranks. *sharing: ranks of this host whose devices are on the same NUMA node, this one included; 1
 * where the node is not known. CLT_ERANKS on all ranks if something is refused; warnings come from rank 0.
 * Collective. */
clt_status clt_preflight(clt_run *run, const clt_nearness *near, int *sharing);

/* Pure, for tests. refuse: CLT_ERANKS if `messages` show a mistake. warnings: one a line. sharing: as
 * above. */
clt_status clt_preflight_refuse(const clt_preflight_message *messages, int ranks, bool share_devices);
void clt_preflight_warnings(const clt_preflight_message *messages, int ranks, clt_str *out);
int clt_preflight_sharing(const clt_preflight_message *messages, int ranks, int rank);
int clt_preflight_on_gpu(const clt_preflight_message *messages, int ranks,
                         int rank); /* ranks on its GPU; 1: a CPU */

#endif
