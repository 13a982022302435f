/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases: of several processes, on one host or on several that share a folder, only one may work on a name
 * at a time, and when it dies another one may take over. Each change of holder creates a file with the next
 * number, "NAME.1", "NAME.2" and so on. Of all processes that try to create it only one succeeds, and the
 * holder of the newest file holds the lease. This needs only that creating a file fails if it exists, and it
 * compares no clocks: a holder on another machine counts as dead when its file has not changed for some
 * time. */
#ifndef ENGINE_SWEEP_SWEEP_LEASE_H
#define ENGINE_SWEEP_SWEEP_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* The knowledge of this process about the lease of a name. All zeros: nothing yet. */
typedef struct clt_lease {
    int number;         /* number of the newest file that this process has seen; 0: none */
    int64_t changed[2]; /* modification time of that file: seconds, nanoseconds */
    double since;       /* when this process saw that change, by clt_now */
    bool held;          /* this process holds it; `since`: when it last renewed the lease */
} clt_lease;

/* Tries to take the lease; lease->held tells. `path` is the name with its folder. A lease can be taken if
 * nobody has held it, its holder gave it back, its holder's process was on this machine and is gone, or its
 * file has not changed for `expiry` seconds up to `now`. CLT_ESTORAGE. */
clt_status clt_lease_take(const char *path, double now, double expiry, clt_lease *lease);
/* For the holder, several times in `expiry` seconds: renews the lease. lease->held is false afterwards if
 * another process has taken the lease, or this one could not renew it for `expiry` seconds. */
void clt_lease_renew(const char *path, double now, double expiry, clt_lease *lease);
/* For the holder: gives the lease back. */
clt_status clt_lease_release(const char *path, clt_lease *lease);
/* True if somebody holds the lease, as far as can be seen without waiting; `who` gets "process 12 on
 * node1". */
bool clt_lease_holder(const char *path, char *who, size_t size);

#endif
