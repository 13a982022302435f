/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges with other ranks in the middle of a micro-batch (clt_exchange, engine/plan/plan.h), such as statistics of
 * synchronised batch norms. Each rank gives a record and gets those of all; a device needs them for its next command,
 * so they are urgent and do not queue behind gradients (comm.h). They are all-gathers, so every rank combines the same
 * records in the same order. */
#ifndef ENGINE_TRAIN_EXCHANGES_H
#define ENGINE_TRAIN_EXCHANGES_H

#include "cl/command/command.h"
#include "engine/train/ranks/flight.h"

typedef struct clt_exchanges clt_exchanges;

/* Of the run's training plan, with results kept for `steps` steps. *out is NULL where it exchanges nothing, in
 * which all ranks agree; rank 0 warns if the key parallel.sync_batch_norm asks for it all the same. Collective. */
clt_status clt_exchanges_create(clt_flights *shared, int64_t steps, clt_exchanges **out);
/* All flights have ended. NULL is fine. */
void clt_exchanges_destroy(clt_exchanges *x);
/* Of a step: it begins; no exchange of it follows. In between each exchange is as often as there are micro-batches. */
void clt_exchanges_begin(clt_exchanges *x, int64_t step);
void clt_exchanges_close(clt_exchanges *x);
/* Carries out a host command: GIVE or GET. Outside of steps a rank only gets its own record, and empty ones for the
 * others. */
clt_status clt_exchanges_host(clt_exchanges *x, const ocl_command *command);
/* Ends the exchanges of a step, whose results have arrived. Adds their times: inside, and while the device, which
 * had come to the result, waited. */
clt_status clt_exchanges_end(clt_exchanges *x, int64_t step, double *inside, double *waited);
uint64_t clt_exchanges_bytes(const clt_exchanges *x); /* that this rank gives in a step */

#endif
