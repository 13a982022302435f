/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the checker's results and writes them as JSON and JUnit XML. */
#ifndef CLI_VERIFY_REPORT_H
#define CLI_VERIFY_REPORT_H

#include "engine/verify/verify.h"

typedef struct verify_item {
    char *device, *name, *reason, *repeat;
    clt_verify_state state;
    double error, limit, ms;
} verify_item;

typedef struct verify_report {
    verify_item *items;
    size_t count, capacity;
    bool failed; /* out of memory */
} verify_report;

void verify_report_add(verify_report *report, const char *device, const clt_verify_result *result);
/* Either path may be NULL. */
clt_status verify_report_write(const verify_report *report, const char *json, const char *junit,
                               uint64_t seed);
void verify_report_free(verify_report *report);

#endif
