/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of sums: additions of several arrays and conversions of 16-bit types, for the CPU of this
 * machine. */
#ifndef COMM_KERNELS_H
#define COMM_KERNELS_H

#include "comm/comm.h"

#define COMM_MOST_ADDED 8

/* Arrays of `count` elements, at any alignment; no output overlaps an input. The 16-bit types are COMM_F16
 * and COMM_BF16, rounded to nearest even. */
typedef struct comm_kernels {
    const char *name;
    /* Sums part[k][i] over k into out[i], in the order ((0 + 1) + (2 + 3)) + ... of k; 1 to COMM_MOST_ADDED
     * parts. */
    void (*add)(const float *const *part, int parts, int64_t count, float *restrict out);
    void (*widen)(const uint16_t *half, int64_t count, comm_type type, float *out);
    void (*narrow)(const float *values, int64_t count, comm_type type, uint16_t *out);
} comm_kernels;

/* The kernels that this CPU can run, the fastest first; NULL after the last. */
const comm_kernels *comm_kernels_at(size_t index);

#endif
