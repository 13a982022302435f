/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of an op on a device, for all that time it: random operands, runs of one direction. Made of the
 * checker's plan of a case; what is right is the checker's business. */
#ifndef ENGINE_VERIFY_OP_BENCH_H
#define ENGINE_VERIFY_OP_BENCH_H

#include "engine/verify/verify_internal.h"

/* Plans a case for a device of that description, realises it and fills inputs, parameters and gradients. */
clt_status clt_op_bench_create(ocl_device *device, const ocl_device_desc *desc,
                               const clt_verify_subject *subject, const clt_verify_setup *setup,
                               uint32_t phases, clt_verify_bench **out);

/* Random data without a reference: blocks of CLT_BENCH_BLOCK elements again and again. */
#define CLT_BENCH_BLOCK 65536
typedef struct clt_bench_fill {
    clt_dtype dtype;
    clt_fill fill;
    int64_t max;     /* CLT_FILL_INDEX */
    double scale;    /* of real numbers */
    uint32_t stream; /* other numbers for each */
} clt_bench_fill;
clt_status clt_bench_write(ocl_buffer *buffer, uint64_t offset, uint64_t elements,
                           const clt_bench_fill *fill);

/* By which the tuner measures the families of ops. */
extern const ocl_family_bench clt_op_family_bench;

#endif
