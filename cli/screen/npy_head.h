/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of .npy files that commands write. */
#ifndef CLI_SCREEN_NPY_HEAD_H
#define CLI_SCREEN_NPY_HEAD_H

#include <stdint.h>

#define NPY_HEADER 192 /* bytes; enough for any shape */

/* Writes the header of a row-major array of f32. dim: its `n` dimensions, at most 3. */
void npy_head(const int64_t *dim, int n, char head[NPY_HEADER]);

#endif
