/* SPDX-License-Identifier: Apache-2.0
 *
 * The library of an OpenCL driver that ends the process, or never returns, when it is loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void harm(void)
{
#ifdef HARM_abort
    fputs("bad_driver: cannot find my compiler\n", stderr);
    abort();
#else
    for (;;)
        sleep(1000);
#endif
}
