/* SPDX-License-Identifier: Apache-2.0
 *
 * The command `cltrain data fetch`. */
#ifndef CLI_DATA_DATA_FETCH_H
#define CLI_DATA_DATA_FETCH_H

#include "cli/screen/cmd.h"

/* argv[0] is "fetch". */
clt_status data_fetch(cmd_context *context, int argc, char **argv);

#endif
