/* SPDX-License-Identifier: Apache-2.0
 *
 * A report on one or several runs as one HTML page that needs nothing else: no script to be looked at, no
 * network, no other file. */
#ifndef ENGINE_REPORT_REPORT_H
#define ENGINE_REPORT_REPORT_H

#include "engine/report/run_record.h"

#define CLT_REPORT_RUNS 8

typedef struct clt_report_options {
    const char *title; /* any text; NULL: the runs' names */
    double now;        /* seconds since 1970, told at the foot of the page */
} clt_report_options;

/* Writes the page. 1 to CLT_REPORT_RUNS records; CLT_EUSAGE for more. */
clt_status clt_report_html(clt_run_record *const *records, int count, const clt_report_options *options,
                           clt_str *out);

/* The page's only script, which adds values under the pointer; the page allows no other. Its SHA-256 in
 * base64 is in the page's policy. */
extern const char clt_report_script[], clt_report_script_sha256[], clt_report_style[];

#endif
