/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the parts of `cltrain bench`: common options, and JSON records that can be compared with an
 * earlier file. */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/table.h"
#include "engine/base/mem.h"
#include "engine/json/json.h"

typedef struct bench_common {
    const char *device, *caps, *json, *compare;
    uint32_t caps_mask;
} bench_common;

/* Rows that come first in a part's table of options: BENCH_RECORDS for records that --compare reads;
 * BENCH_OPTIONS if the part also opens a device. */
#define BENCH_RECORDS(common)                                                                                \
    ARGS_TEXT("--json", "FILE", (common).json, "write the record as JSON; - for the standard output"),       \
        ARGS_TEXT("--compare", "FILE", (common).compare,                                                     \
                  "ratios against an earlier record; exit code 1 if anything is more than 10 % slower")
#define BENCH_OPTIONS(common) ARGS_DEVICE((common).device), ARGS_CAPS((common).caps), BENCH_RECORDS(common)

clt_status bench_allreduce(cmd_context *context, int argc, char **argv);
clt_status bench_build(cmd_context *context, int argc, char **argv);
clt_status bench_gemm(cmd_context *context, int argc, char **argv);
clt_status bench_loader(cmd_context *context, int argc, char **argv);
clt_status bench_memory(cmd_context *context, int argc, char **argv);
clt_status bench_ops(cmd_context *context, int argc, char **argv);
clt_status bench_step(cmd_context *context, int argc, char **argv);

/* bench_record begins a record {"bench": `name`, ...} in an empty text; bench_record_end completes it. */
clt_json_writer bench_record(clt_str *json, const char *name);
void bench_record_end(clt_json_writer *w, clt_str *json);
/* Print the titles, or a line, of a table that is as wide as the screen. */
void bench_titles(const table_column *columns, int count);
void bench_line(const table_column *columns, int count, const char *const *cells);

/* Checks the common options before anything is measured. */
clt_status bench_begin(bench_common *common);
/* Writes the JSON record, and compares it with an earlier one, if the options ask for it. */
clt_status bench_finish(const bench_common *common, const clt_str *json);

#endif
