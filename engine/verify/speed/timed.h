/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases that are timed: ops at the sizes of real work (clt_op_ref.timed), and the update of one matrix by
 * every optimizer. Nothing is measured here. */
#ifndef ENGINE_VERIFY_SPEED_TIMED_H
#define ENGINE_VERIFY_SPEED_TIMED_H

#include "engine/verify/verify_internal.h"

typedef struct clt_timed {
    const char *subject, *name; /* "gelu", "large"; "update", "adamw_large" */
    const clt_op *op;           /* NULL: an update */
    const clt_op_case *op_case;
    const struct clt_timed_update *update;
} clt_timed;

/* Case number `i`, from 0. False: there are fewer. */
bool clt_timed_at(int i, clt_timed *out);
/* Plans the case for the device, fills in data and runs each phase once. CLT_EDEVMEM: it does not fit into
 * the memory. */
clt_status clt_timed_create(ocl_device *device, const clt_timed *timed, clt_verify_bench **out);

#endif
