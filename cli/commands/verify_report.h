/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the checker's results and writes them as JSON and JUnit XML. */
#ifndef CLI_COMMANDS_VERIFY_REPORT_H
#define CLI_COMMANDS_VERIFY_REPORT_H

#include "engine/verify/verify.h"

typedef struct verify_item {
    char *device, *name, *reason, *repeat;
    int run; /* number of the device, from 1 */
    uint64_t index;
    clt_verify_state state;
    double error, limit, ms;
} verify_item;

typedef struct verify_report {
    verify_item *items;
    size_t count, capacity;
    int runs;    /* number of devices so far */
    bool failed; /* out of memory */
} verify_report;

/* Call it before adding the results of another device. */
void verify_report_device(verify_report *report);
void verify_report_add(verify_report *report, const char *device, const clt_verify_result *result);
/* Sorts the results into the order of the list of checks and writes them. Either path may be NULL. */
clt_status verify_report_write(verify_report *report, const char *json, const char *junit, uint64_t seed);
/* Prints the most frequent reasons why checks were skipped. own_forms: variants that the device does not use
 * were skipped as well (--quick), which a line then says. */
void verify_report_skips(const verify_report *report, bool own_forms);
void verify_report_free(verify_report *report);

#endif
