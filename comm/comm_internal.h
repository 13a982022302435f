/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share, and what its tests reach for: the built-in transport, the module loader,
 * and a communicator on a given transport. Other rooms use comm.h only. */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include <stddef.h>

#include "comm/comm.h"

#define COMM_MODULE_FILE "cltrain_comm_mpi.so"
#define COMM_MODULE_SYMBOL "comm_transport_entry"

extern const comm_transport comm_transport_self;

/* comm_create on a transport of the caller's choice. */
clt_status comm_create_with(const comm_transport *transport, comm **out);

/* comm_half.c: the all-reduce of 16-bit floats, and the sum that one rank makes in it: `parts` holds `count`
 * elements of rank 0, then `count` of rank 1, and so on. */
clt_status comm_half_all_reduce(const comm_transport *transport, const comm_info *info, uint16_t *data,
                                int64_t count, comm_type type);
void comm_half_sum(const uint16_t *parts, int ranks, int64_t count, comm_type type, uint16_t *out);

/* Tries COMM_MODULE_FILE in each folder in turn. A module stays loaded until the process ends: MPI can
 * neither be initialised twice nor be unloaded safely. */
clt_status comm_load_module(const char *const *folders, size_t count, const comm_transport **out);
/* The module from the folders named in comm.h. */
clt_status comm_load_mpi(const comm_transport **out);
/* Number of processes that the launcher's environment promises, 0 if it does not say. */
int comm_launcher_ranks(void);

#endif
