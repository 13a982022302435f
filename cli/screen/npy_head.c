/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the header of a .npy file, format version 1.0. */
#include "cli/screen/npy_head.h"

#include <stdio.h>
#include <string.h>

void npy_head(const int64_t *dim, int n, char head[NPY_HEADER])
{
    char shape[96], text[NPY_HEADER], line[NPY_HEADER + 1];
    int at = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    snprintf(line, sizeof line, "%-*s\n", NPY_HEADER - 11, text);
    memcpy(head, "\x93NUMPY\x01\x00\xb6\x00", 10);
    memcpy(head + 10, line, NPY_HEADER - 10);
}
