/* SPDX-License-Identifier: Apache-2.0
 *
 * A baseline: an earlier run of the checker, on this or another device, with which a run is compared. */
#ifndef CLI_VERIFY_VERIFY_BASELINE_H
#define CLI_VERIFY_VERIFY_BASELINE_H

#include "cli/verify/verify_report.h"
#include "engine/base/scope.h"

typedef struct verify_baseline verify_baseline;

/* Reads a file that verify_report_json has written. CLT_EUSAGE: the file has another format, is damaged or
 * was edited, or a newer cltrain wrote it. */
clt_status verify_baseline_open(const char *path, verify_baseline **out);
void verify_baseline_close(verify_baseline *baseline); /* NULL is fine */
CLT_SCOPED_POINTER(verify_baseline, verify_baseline_close)
/* The selection of checks with which the baseline was made. */
const verify_selection *verify_baseline_selection(const verify_baseline *baseline);
/* Appends the names of the checks that seem to be slower than in the baseline, separated by commas. Times are
 * compared only if the run and the baseline have one device each, of the same name. */
clt_status verify_baseline_suspects(const verify_baseline *baseline, const verify_report *report,
                                    clt_str *out);
/* Compares and prints. whole: the run selected what the baseline selected, so a check that only the baseline
 * has is missing. Marks the results that fail in both, and adds the missing checks to the report as
 * failures. A device is compared with the baseline's device of the same spec, or with its only one.
 * CLT_ECHECK: a check that passed in the baseline fails, is skipped, is missing or is slower, or a check
 * that the baseline lacks fails. A check that is slower becomes a failure of the report. */
clt_status verify_baseline_compare(const verify_baseline *baseline, verify_report *report, bool whole);

#endif
