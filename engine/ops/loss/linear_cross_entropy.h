/* SPDX-License-Identifier: Apache-2.0
 *
 * How the op linear_cross_entropy cuts its rows: the fuse pass asks before it fuses. */
#ifndef ENGINE_OPS_LINEAR_CROSS_ENTROPY_H
#define ENGINE_OPS_LINEAR_CROSS_ENTROPY_H

#include <stdint.h>

/* Rows of a chunk, at most `rows`, whose logits take row_bytes each. */
int64_t clt_head_chunk(int64_t rows, int64_t row_bytes);

#endif
