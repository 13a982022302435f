/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the parts of the report's page share. No other file includes them. */
#ifndef ENGINE_REPORT_PAGE_REPORT_INTERNAL_H
#define ENGINE_REPORT_PAGE_REPORT_INTERNAL_H

#include "engine/report/page/html.h"
#include "engine/report/page/report.h"

typedef struct report_page {
    clt_run_record *const *runs;
    int count;
    size_t points; /* most points of a curve */
    clt_config_entries configs[CLT_REPORT_RUNS];
    const clt_report_table *table; /* NULL: none */
    clt_str *out;
} report_page;

/* Frees a string that has been appended to `out`, and marks `out` as failed if that string had failed. */
static inline void report_release(clt_str *out, clt_str *piece)
{
    out->failed = out->failed || piece->failed;
    clt_str_free(piece);
}

/* report.c: the beginning of any page up to its first element, and its end. more_style: CSS that follows the
 * CSS of reports. script: include the script of charts. */
void report_open_page(clt_str *out, const char *title, const char *more_style);
void report_close_page(clt_str *out, double now, bool script);

/* report_charts.c: charts of all runs. */
clt_status report_charts(const report_page *page);
/* report_tables.c; each function writes nothing if it has nothing to show. */
void report_given_table(const report_page *page);
void report_sessions(const report_page *page, const clt_run_record *run);
void report_cost(const report_page *page, const clt_run_record *run); /* nothing without a price */
void report_samples(const report_page *page, const clt_run_record *run);
void report_environment(const report_page *page, const clt_run_record *run);
void report_events(const report_page *page, const clt_run_record *run);
void report_config(const report_page *page, int run);
void report_config_differences(const report_page *page);
/* report_classes.c: figures of classes and the confusion matrix; nothing if the run has none. CLT_ENOMEM. */
clt_status report_classes(const report_page *page, const clt_run_record *run);
/* report_summary.c: tiles for one run, or the table of several. */
void report_tiles(const report_page *page, const clt_run_record *run);
void report_runs_table(const report_page *page);

#endif
