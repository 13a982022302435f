/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits the two host commands of an exchange between ranks. */
#include "engine/ops/exchange.h"

/* Emits one of the two host commands. Both name both tensors, because their memory is in use from the first
 * command to the second. */
static void emit_half(ocl_emitter *e, const clt_call *call, clt_host_code code, int32_t own, int32_t all,
                      uint64_t elements)
{
    ocl_host_begin(e, code);
    if (code == CLT_HOST_GET)
        ocl_host_waits(e);
    ocl_arg_in(e, own, CLT_F32, elements);
    ocl_arg_u32(e, 0);
    ocl_arg_out(e, all, CLT_F32, (uint64_t)call->ranks * elements);
    ocl_host_end(e);
}

void clt_emit_exchange(ocl_emitter *e, const clt_call *call, int32_t own, int32_t all, uint64_t elements)
{
    emit_half(e, call, CLT_HOST_GIVE, own, all, elements);
    emit_half(e, call, CLT_HOST_GET, own, all, elements);
}
