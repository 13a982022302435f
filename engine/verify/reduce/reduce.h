/* SPDX-License-Identifier: Apache-2.0
 *
 * `cltrain verify --reduce`: makes the case of a failing check smaller while it still fails, and writes a
 * folder for a driver's vendor (docs/drivers.md, "A folder for the vendor"). Trials run in a worker process,
 * because the driver may crash or hang; the worker alone opens the device. */
#ifndef ENGINE_VERIFY_REDUCE_REDUCE_H
#define ENGINE_VERIFY_REDUCE_REDUCE_H

#include "engine/verify/reduce/reduce_options.h"

typedef struct clt_reduced {
    bool written;
    int trials;
    char reason[1024]; /* if written: what is wrong in the reduced case; else: why nothing was written */
    char shape[1024];  /* the reduced case: "x0.dim0=1 x0.dim1=3" */
} clt_reduced;

/* CLT_OK with `written` false: this check cannot be reduced, or fails only sometimes. CLT_ESTORAGE: the
 * folder cannot be written. CLT_EDEVICE: the worker cannot open the device. */
clt_status clt_reduce(const clt_reduce_options *options, clt_reduced *out);
/* The worker's side, for a hidden command of the program. options: they select the one check, without
 * callbacks. */
clt_status clt_reduce_work(const clt_verify_options *options);

#endif
