/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `cltrain data verify`. */
#ifndef CLI_DATA_DATA_VERIFY_H
#define CLI_DATA_DATA_VERIFY_H

#include "cli/screen/cmd.h"

/* argv[0] is "verify". CLT_EDATA if any of the data is wrong; an error does not keep the rest from being
 * checked. */
clt_status data_verify(cmd_context *context, int argc, char **argv);

#endif
