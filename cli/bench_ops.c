/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench ops: the checker's cases in its perf mode, so that an op is measured where its cases are
 * written and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "engine/base/json.h"
#include "engine/verify/verify.h"

typedef struct ops_run {
    clt_json_writer writer;
    int measured;
} ops_run;

static void on_result(void *context, const clt_verify_result *result)
{
    ops_run *run = context;
    if (result->state != CLT_VERIFY_PASS) {
        printf("%-56s %s%s%s\n", result->name, clt_verify_state_name(result->state),
               result->reason ? ": " : "", result->reason ? result->reason : "");
        return;
    }
    printf("%-56s %10.4f ms\n", result->name, result->ms);
    run->measured++;
    clt_jw_object(&run->writer);
    clt_jw_kstring(&run->writer, "name", result->name);
    clt_jw_kdouble(&run->writer, "ms", result->ms);
    clt_jw_end_object(&run->writer);
}

clt_status bench_ops(int argc, char **argv)
{
    bench_common common = {0};
    const char *pattern = NULL;
    const args_option options[] = {BENCH_OPTIONS(common),
                                   {.name = "-t",
                                    .value = "PATTERN",
                                    .kind = ARGS_TEXT,
                                    .target = &pattern,
                                    .help = "only cases whose name matches"},
                                   {.name = NULL}};
    const args_usage usage = {.command = "bench ops",
                              .operands = "",
                              .summary = "Times the cases of every op.",
                              .options = options};
    args_result r;
    ocl_device_desc desc;
    clt_verify_summary summary;
    clt_str json = {0};
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(cmd_caps(common.caps, &common.caps_mask));
    CLT_TRY(cmd_describe_device(common.device, common.caps_mask, &desc));
    printf("device %s\n", desc.name);
    ops_run run = {.writer = clt_json_writer_make(&json, 2)};
    clt_jw_object(&run.writer);
    clt_jw_kstring(&run.writer, "bench", "ops");
    clt_jw_kstring(&run.writer, "device", desc.name);
    clt_jw_kstring(&run.writer, "driver", desc.driver);
    clt_jw_key(&run.writer, "rows");
    clt_jw_array(&run.writer);
    clt_verify_options verify = {.pattern = pattern,
                                 .modes = CLT_VERIFY_PERF,
                                 .device_spec = common.device,
                                 .caps_mask = common.caps_mask,
                                 .seed = 1,
                                 .result = on_result,
                                 .context = &run};
    memset(&summary, 0, sizeof summary);
    clt_status status = clt_verify_run(&verify, &summary);
    clt_jw_end_array(&run.writer);
    clt_jw_end_object(&run.writer);
    clt_str_append(&json, "\n");
    if (status == CLT_OK && run.measured == 0)
        status = clt_fail(CLT_EUSAGE, __FILE__, __LINE__,
                          "bench ops: no case matches '%s'; 'cltrain verify --mode list' lists them",
                          pattern ? pattern : "");
    if (status == CLT_OK)
        status = bench_finish(&common, &json);
    clt_str_free(&json);
    return status;
}
