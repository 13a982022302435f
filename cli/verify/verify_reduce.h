/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify --reduce: a folder for the vendor for each op or subject that fails. */
#ifndef CLI_VERIFY_VERIFY_REDUCE_H
#define CLI_VERIFY_VERIFY_REDUCE_H

#include "cli/verify/verify_report.h"

/* CLT_ESTORAGE if the folder exists and is not empty, or cannot be created. Call it before the checks
 * run. */
clt_status verify_reduce_possible(const char *folder);
/* Reduces the first failing check of each subject on each device, and prints what was written. options:
 * the options of the run; limit: seconds for one trial. */
clt_status verify_reduce(const verify_report *report, const clt_verify_options *options, double limit,
                         const char *folder);

#endif
