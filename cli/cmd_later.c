/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are planned for a later release: they say so and fail with exit code 2. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"

clt_status cmd_later(cmd_context *context, int argc, char **argv)
{
    (void)context;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("cltrain %s: %s\n\nThis command arrives in a later release.\n", argv[0],
               cmd_find(argv[0])->summary);
        return CLT_OK;
    }
    CLT_FAIL(CLT_EUNSUPPORTED, "cltrain %s arrives in a later release; 'cltrain help' lists what is there",
             argv[0]);
}
