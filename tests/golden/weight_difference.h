/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the tensors of two files to the bit, for test_golden_pytorch.c and for the tool same_weights. */
#ifndef TESTS_GOLDEN_WEIGHT_DIFFERENCE_H
#define TESTS_GOLDEN_WEIGHT_DIFFERENCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"

/* Bytes of an element by the name of its type: the number at the end of "BF16" and "I64", in bits; 1 of
 * "BOOL". */
static inline size_t weight_bytes(const char *type)
{
    size_t digits = strcspn(type, "0123456789");
    return type[digits] ? (size_t)atoi(type + digits) / 8 : 1;
}

/* Writes the first difference of two files into `text`, "" if there is none: names, types, shapes, values. */
static inline void weight_difference(const clt_safetensors *file, const clt_safetensors *other, char *text,
                                     size_t size)
{
    text[0] = '\0';
    if (clt_safetensors_count(file) != clt_safetensors_count(other))
        (void)snprintf(text, size, "%d tensors and %d", clt_safetensors_count(file),
                       clt_safetensors_count(other));
    for (int i = 0; i < clt_safetensors_count(other) && !text[0]; i++) {
        const clt_named_tensor *b = clt_safetensors_at(other, i), *a = clt_safetensors_find(file, b->name);
        const char *type = clt_safetensors_type(other, b);
        size_t bytes = (size_t)clt_shape_elements(&b->shape) * weight_bytes(type);
        if (!a)
            (void)snprintf(text, size, "%s is missing", b->name);
        else if (strcmp(clt_safetensors_type(file, a), type) != 0)
            (void)snprintf(text, size, "%s is %s and %s", b->name, clt_safetensors_type(file, a), type);
        else if (!clt_shape_equal(&a->shape, &b->shape))
            (void)snprintf(text, size, "%s has two shapes", b->name);
        else if (bytes > 0 && memcmp(a->data, b->data, bytes) != 0)
            (void)snprintf(text, size, "%s has other values", b->name);
    }
}

#endif
