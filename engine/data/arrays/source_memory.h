/* SPDX-License-Identifier: Apache-2.0
 *
 * A source over arrays that the caller keeps in memory: the public API's data. */
#ifndef ENGINE_DATA_ARRAYS_SOURCE_MEMORY_H
#define ENGINE_DATA_ARRAYS_SOURCE_MEMORY_H

#include "engine/data/data.h"

/* x: (samples, x_shape) f32. y: (samples, y_shape) of y_dtype, CLT_F32 or CLT_I32 (class numbers, checked
 * against the model). Both are borrowed and must stay valid while the source is open. Fails with CLT_EDATA
 * if values are not finite. */
clt_status clt_source_open_memory(int64_t samples, const float *x, const clt_shape *x_shape, const void *y,
                                  clt_dtype y_dtype, const clt_shape *y_shape, clt_source **out);

#endif
