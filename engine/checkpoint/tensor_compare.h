/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the values of a tensor, and how two tensors differ, for people who ask whether two trainings are
 * the same. Works on host memory, in double precision, and knows nothing of files. */
#ifndef ENGINE_CHECKPOINT_TENSOR_COMPARE_H
#define ENGINE_CHECKPOINT_TENSOR_COMPARE_H

#include "engine/checkpoint/checkpoint.h"

typedef struct clt_tensor_values {
    int64_t count, zeros, nonfinite;
    /* these are of the finite values; 0 if there are none. rms: square root of the mean of the squares;
     * largest: the largest magnitude */
    double mean, rms, largest;
} clt_tensor_values;
/* The tensor must have a type that the engine stores. */
clt_tensor_values clt_tensor_values_of(const clt_named_tensor *tensor);

typedef struct clt_tensor_difference {
    int64_t count;     /* values of each tensor */
    int64_t different; /* values that are not equal; two NaN are equal, and so are 0 and -0 */
    int64_t at;        /* row-major index of the largest difference; -1: all are equal */
    double a, b;       /* the values there */
    double largest;    /* |a - b|; infinite if one of the two is a NaN or an infinity */
    double relative;   /* `largest` over the largest magnitude in A; infinite if that is 0 */
    /* the largest distance in units in the last place of the larger value, in the type with fewer digits:
     * 0.5 or less means that one tensor is the other, rounded to its type. For integers the largest
     * difference. */
    double ulp;
    double cosine;  /* cosine of the angle between the two as vectors; 1 if both are zero, 0 if one is */
    bool same_bits; /* type and bytes are equal */
} clt_tensor_difference;
/* Compares tensors of equal shapes and of types that the engine stores. */
clt_tensor_difference clt_tensor_compare(const clt_named_tensor *a, const clt_named_tensor *b);

#endif
