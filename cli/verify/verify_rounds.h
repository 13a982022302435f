/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of the checker within a budget of time (--seconds): each round runs every check with fresh data, so
 * that intermittent faults are found. */
#ifndef CLI_VERIFY_VERIFY_ROUNDS_H
#define CLI_VERIFY_VERIFY_ROUNDS_H

#include "cli/verify/verify_report.h"

/* Runs rounds of the selected checks on one device until `seconds` have passed; the last round may be cut
 * off, the first one, too. Prints how many rounds were made and which faults they would have found. The
 * summary counts each check once, by its state. CLT_ECHECK: a check failed in some round. */
clt_status verify_rounds(double seconds, double limit, int jobs, clt_verify_options *options,
                         verify_report *report, clt_verify_summary *summary);
/* The least share of runs in which a fault must occur so that the rounds find it with a probability of 95 %:
 * with `runs` independent runs, 1 - 0.05^(1 / runs). */
double verify_detectable_rate(uint64_t runs);

#endif
