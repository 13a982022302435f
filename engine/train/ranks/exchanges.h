/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges with other ranks in the middle of a micro-batch (clt_exchange, engine/plan/plan.h), such as
 * statistics of synchronised batch norms. Each rank gives a record and gets the records of all ranks. A
 * device needs these for its next command, so exchanges are urgent and do not queue after gradients
 * (comm.h). They are all-gathers, so every rank combines the same records in the same order. */
#ifndef ENGINE_TRAIN_RANKS_EXCHANGES_H
#define ENGINE_TRAIN_RANKS_EXCHANGES_H

#include "cl/command/command.h"
#include "engine/train/ranks/async.h"

typedef struct clt_exchanges clt_exchanges;

/* Makes the exchanges of the run's training plan, with a ring of results for `steps` steps. *out is NULL if
 * the plan, which is the same on all ranks, has no exchanges; rank 0 then warns if parallel.sync_batch_norm
 * is set. Collective. */
clt_status clt_exchanges_create(clt_async_shared *shared, int64_t steps, clt_exchanges **out);
/* All collectives must have ended. NULL is fine. */
void clt_exchanges_destroy(clt_exchanges *x);
CLT_SCOPED_POINTER(clt_exchanges, clt_exchanges_destroy)
/* begin: step `step` begins. close: its exchanges are over. In between, each runs once for each
 * micro-batch. */
void clt_exchanges_begin(clt_exchanges *x, int64_t step);
void clt_exchanges_close(clt_exchanges *x);
/* Carries out a host command: GIVE or GET. Outside of steps nothing is sent: GET gives the rank its own
 * record, and zeros for the others. */
clt_status clt_exchanges_host(clt_exchanges *x, const ocl_command *command);
/* Ends the exchanges of a step whose results have arrived. Adds to *inside the seconds spent in exchanges,
 * and to *waited the seconds that the device waited for results. */
clt_status clt_exchanges_end(clt_exchanges *x, int64_t step, double *inside, double *waited);
uint64_t clt_exchanges_bytes(const clt_exchanges *x); /* bytes that this rank gives in a step */

#endif
