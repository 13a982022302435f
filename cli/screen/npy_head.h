/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of .npy files that commands write. */
#ifndef CLI_SCREEN_NPY_HEAD_H
#define CLI_SCREEN_NPY_HEAD_H

#include <stdint.h>

#define NPY_HEADER 192 /* bytes, which have room for any shape */

/* The header of an array of f32 in the order of C; dim: its `n` dimensions, 3 at most. */
void npy_head(const int64_t *dim, int n, char head[NPY_HEADER]);

#endif
