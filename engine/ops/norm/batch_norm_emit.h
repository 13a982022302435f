/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the emission of batch_norm's forward and backward kernels share: the sizes of a call, the
 * beginning and end of a kernel of batch_norm.cl, and the records that ranks with shared statistics
 * exchange. */
#ifndef ENGINE_OPS_NORM_BATCH_NORM_EMIT_H
#define ENGINE_OPS_NORM_BATCH_NORM_EMIT_H

#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/op.h"

enum { CLT_BATCH_NORM_NONE, CLT_BATCH_NORM_RELU }; /* choices of `activation` */

typedef struct clt_batch_norm {
    const clt_call *call;
    clt_style style;
    uint64_t rows, cols, tile, items;
    clt_column_blocks blocks; /* depend only on the matrix's size, so results do not depend on the device */
    uint64_t span, parts;     /* blocks in a part (clt_bn_span_of); number of parts */
    clt_column_blocks pass;   /* rows of an item in kernels without sums */
    bool affine, batch, relu; /* batch: normalises by the statistics of the batch */
    int32_t ranks;            /* number of ranks that share these statistics; 1: none are shared */
    int32_t residual;         /* -1: there is none */
    int32_t running_mean, running_var;
} clt_batch_norm;

clt_batch_norm clt_bn_measure(const ocl_emitter *e, const clt_call *call, clt_style style);
/* Number of blocks of a part; 1: the blocks are the parts. */
uint64_t clt_bn_span_of(uint64_t blocks);

/* Begins a kernel with the defines that all kernels of batch_norm.cl have, and sets n->items and n->tile. */
void clt_bn_begin(ocl_emitter *e, clt_batch_norm *n, const char *kernel);
/* Lets the kernel store its result of type `dtype` with stores that bypass the caches, where that is faster
 * (clt_define_stores). */
void clt_bn_define_stores(ocl_emitter *e, const clt_batch_norm *n, clt_dtype dtype, bool accumulate);
/* For kernels that loop over blocks of rows: adds the size arguments, and sets how the kernel is launched. */
void clt_bn_arg_rows(ocl_emitter *e, const clt_batch_norm *n, const clt_column_blocks *blocks);
void clt_bn_end_rows(ocl_emitter *e, const clt_batch_norm *n, const clt_column_blocks *blocks,
                     double flops_per_element);
/* Ends a kernel whose work is per channel, or per channel and part. */
void clt_bn_end_channels(ocl_emitter *e, const clt_batch_norm *n, double flops_per_channel);
void clt_bn_end_parts(ocl_emitter *e, const clt_batch_norm *n, uint64_t parts, double flops);
/* Adds the arguments mean and rstd, which the call saves, f32 (C) each. */
void clt_bn_arg_mean_rstd(ocl_emitter *e, const clt_batch_norm *n);

/* A rank gives a record to an exchange: 2 * C + 1 f32 numbers, two for each channel and then the number of
 * rows (batch_norm.cl). A rank without a micro-batch gives an empty record, of no rows. */
uint64_t clt_bn_record_words(const clt_batch_norm *n);
int32_t clt_bn_new_record(ocl_emitter *e, const clt_batch_norm *n);
int32_t clt_bn_empty_record(ocl_emitter *e, const clt_batch_norm *n);
/* Returns the records of all ranks. */
int32_t clt_bn_exchange(ocl_emitter *e, const clt_batch_norm *n, int32_t record);
/* Adds the arguments of kernels that combine the records of all ranks. */
void clt_bn_arg_records(ocl_emitter *e, const clt_batch_norm *n, int32_t all);

#endif
