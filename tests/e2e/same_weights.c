/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: same_weights FILE OTHER
 *
 * Compares the weights in two files, folders or entries (FILE.pth:ENTRY) to the bit; prints "same: N
 * tensors", or the first difference with exit code 1. */
#include <stdio.h>

#include "tests/golden/weight_difference.h"

int main(int argc, char **argv)
{
    clt_safetensors *file[2] = {NULL, NULL};
    char difference[600];
    for (int i = 0; i < 2; i++)
        if (argc != 3 || clt_weights_open(argv[1 + i], &file[i]) != CLT_OK) {
            fprintf(stderr, "%s\n", argc == 3 ? clt_error_text() : "usage: same_weights FILE OTHER");
            return 2;
        }
    weight_difference(file[0], file[1], difference, sizeof difference);
    if (difference[0])
        printf("different: %s\n", difference);
    else
        printf("same: %d tensors\n", clt_safetensors_count(file[0]));
    clt_safetensors_close(file[0]);
    clt_safetensors_close(file[1]);
    return difference[0] ? 1 : 0;
}
