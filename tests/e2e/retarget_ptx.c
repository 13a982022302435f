/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts PTX for sm_90 from standard input to the same program for sm_90a on standard output, as
 * cl/program/retarget.h does with a driver's binary; for the scripts that examine kernels with NVIDIA's
 * assembler. */
#include <stdio.h>

#include "cl/program/retarget.h"

int main(void)
{
    clt_str in = {0}, out = {0};
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, stdin)) > 0;)
        clt_str_append_n(&in, piece, n);
    clt_status status = clt_str_check(&in);
    if (status == CLT_OK)
        status = ocl_retarget_text(in.text ? in.text : "", in.length, &out);
    if (status == CLT_OK)
        fputs(out.text, stdout);
    else
        fprintf(stderr, "retarget_ptx: %s\n", clt_error_text());
    clt_str_free(&in);
    clt_str_free(&out);
    return status == CLT_OK && fflush(stdout) == 0 ? 0 : 1;
}
