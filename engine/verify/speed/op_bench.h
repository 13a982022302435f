/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of an op on a device, for all code that times it: random operands, runs of one direction. Uses
 * the checker's plan of a case, but does not check results. */
#ifndef ENGINE_VERIFY_SPEED_OP_BENCH_H
#define ENGINE_VERIFY_SPEED_OP_BENCH_H

#include "engine/verify/verify_internal.h"

/* Plans a case with the description `desc`, realises it and fills inputs, parameters and gradients. */
clt_status clt_op_bench_create(ocl_device *device, const ocl_device_desc *desc,
                               const clt_verify_subject *subject, const clt_verify_setup *setup,
                               uint32_t phases, clt_verify_bench **out);

/* Random data that is not compared with a reference: the same CLT_BENCH_BLOCK elements repeated. */
#define CLT_BENCH_BLOCK 65536
typedef struct clt_bench_fill {
    clt_dtype dtype;
    clt_fill fill;
    int64_t max;     /* CLT_FILL_INDEX */
    double scale;    /* of floating-point numbers */
    uint32_t stream; /* each number gives different data */
} clt_bench_fill;
clt_status clt_bench_write(ocl_buffer *buffer, uint64_t offset, uint64_t elements,
                           const clt_bench_fill *fill);

/* The bench of the families of ops, for the tuner. */
extern const ocl_family_bench clt_op_family_bench;

#endif
