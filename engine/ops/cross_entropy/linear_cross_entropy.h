/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of linear_cross_entropy's chunks of rows, which the fuse pass needs to know before it fuses. */
#ifndef ENGINE_OPS_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_H
#define ENGINE_OPS_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_H

#include <stdint.h>

/* The standard number of rows of a chunk, at most `rows`; the logits of a row take `row_bytes` bytes. */
int64_t clt_head_chunk(int64_t rows, int64_t row_bytes);

#endif
