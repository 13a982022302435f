/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange between ranks in the middle of a pass: each rank gives a record of f32 numbers and gets the
 * records of all ranks, in the order of the ranks. Ops with the flag CLT_OP_EXCHANGES emit it as two host
 * commands, between which other work may run. This file does not know who runs the commands or how records
 * travel. */
#ifndef ENGINE_OPS_EXCHANGE_H
#define ENGINE_OPS_EXCHANGE_H

#include "engine/ops/op.h"

/* Codes of host commands. Sums over ranks (engine/plan/plan.h): POST starts a sum, and the device waits for
 * it at WAIT; args[0] is its tensor, args[1] its number. Exchanges: GIVE starts one, and the device waits
 * for it at GET; args[0] is this rank's record, args[1] the number of the exchange, args[2] the records of
 * all ranks. */
typedef enum clt_host_code { CLT_HOST_POST, CLT_HOST_WAIT, CLT_HOST_GIVE, CLT_HOST_GET } clt_host_code;

/* Emits an exchange of call->ranks records of `elements` numbers: `own` (elements) -> `all`
 * (ranks,elements). The plan sets its number. */
void clt_emit_exchange(ocl_emitter *e, const clt_call *call, int32_t own, int32_t all, uint64_t elements);

#endif
