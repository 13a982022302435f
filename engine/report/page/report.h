/* SPDX-License-Identifier: Apache-2.0
 *
 * A report on one or several runs as one self-contained HTML page: it needs no network and no other file, and
 * can be read without scripts. */
#ifndef ENGINE_REPORT_PAGE_REPORT_H
#define ENGINE_REPORT_PAGE_REPORT_H

#include "engine/report/read/run_record.h"

#define CLT_REPORT_RUNS 8

/* A table whose content the caller gives, such as the trials of a sweep. */
typedef struct clt_report_table {
    const char *title, *note;
    const char *const *heads;
    int columns;
    const char *const *cells; /* row by row */
    int rows;
} clt_report_table;

typedef struct clt_report_options {
    const char *title;             /* any text; NULL: the runs' names */
    const clt_report_table *table; /* table above the runs; NULL: none */
    double now; /* time of the report in seconds since 1970, shown at the end of the page */
} clt_report_options;

/* Writes the page. 1 to CLT_REPORT_RUNS records; CLT_EUSAGE for more. */
clt_status clt_report_html(clt_run_record *const *records, int count, const clt_report_options *options,
                           clt_str *out);

/* The only script of the page, which shows the values under the pointer. The page's content security policy
 * allows no other: it contains the script's SHA-256 in base64. */
extern const char clt_report_script[], clt_report_script_sha256[], clt_report_style[];

#endif
