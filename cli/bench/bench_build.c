/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench build: builds the programs of a config; shows the seconds, registers and spills of each
 * program. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/bench/bench.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/train/inspect/bench_programs.h"

enum { SECONDS, REGISTERS, SPILLED, STACK, LOCAL, COMMANDS, KERNEL, BINARY, COLUMNS };
static const table_column columns[COLUMNS] = {{"seconds", 7, 0, 0, true},  {"registers", 9, 0, 3, true},
                                              {"spilled", 7, 0, 3, true},  {"stack", 5, 0, 3, true},
                                              {"local", 6, 0, 3, true},    {"commands", 8, 0, 2, true},
                                              {"kernel", 34, 0, 0, false}, {"binary", 40, 20, 1, false}};

static const char *number(int64_t value, char out[24])
{
    if (value < 0)
        return "-";
    snprintf(out, 24, "%" PRId64, value);
    return out;
}

static void begin(void *unused, const ocl_device_desc *device, size_t count)
{
    (void)unused;
    terminal_say("device %s, driver %s: %zu program%s\n", device->name, device->driver, count,
                 CLT_PLURAL(count));
    bench_titles(columns, COLUMNS);
}

static void each(void *unused, const clt_built *built)
{
    (void)unused;
    const ocl_examined *p = built->program;
    char seconds[24], numbers[5][24];
    const char *cells[COLUMNS] = {[KERNEL] = built->kernel, [BINARY] = p->binary};
    snprintf(seconds, sizeof seconds, "%.3f", p->seconds);
    cells[SECONDS] = p->error.status == CLT_OK ? seconds : "REFUSED";
    cells[REGISTERS] = number(p->resources.registers, numbers[0]);
    cells[SPILLED] = number(p->resources.spilled_bytes, numbers[1]);
    cells[STACK] = number(p->resources.stack_bytes, numbers[2]);
    cells[LOCAL] = number(p->resources.static_local_bytes, numbers[3]);
    cells[COMMANDS] = number(built->commands, numbers[4]);
    bench_line(columns, COLUMNS, cells);
    if (p->error.status == CLT_OK)
        return;
    clt_str text = {0};
    clt_str_printf(&text, "  %s, for '%s': %s\n", p->family, built->label, p->error.text);
    table_print(&text);
}

static clt_status measure(const bench_common *common, clt_bench_programs_options *build)
{
    clt_bench_programs_sum sum;
    CLT_SCOPED(clt_str) json = {0};
    CLT_TRY(clt_bench_programs(build, &sum, &json));
    terminal_say("%zu program%s in %.2f s (their own times add up to %.2f s, the slowest took %.2f s), %zu "
                 "refused, %zu with spills\n",
                 sum.count, CLT_PLURAL(sum.count), sum.seconds, sum.sum, sum.largest, sum.failed,
                 sum.spilled);
    CLT_TRY(bench_finish(common, &json));
    if (sum.failed > 0)
        CLT_FAIL(CLT_EBUILD, "bench build: %zu of %zu program%s do not build", sum.failed, sum.count,
                 CLT_PLURAL(sum.count));
    return CLT_OK;
}

clt_status bench_build(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    const char *extra = "", *folder = NULL;
    int64_t jobs = 0;
    CLT_SCOPED(clt_config) *config = NULL;
    args_result r;
    const args_option options[] = {
        ARGS_DEVICE(common.device),
        ARGS_CAPS(common.caps),
        ARGS_TEXT("--json", "FILE", common.json, "write the record as JSON; - for the standard output"),
        ARGS_INT("--jobs", "N", jobs, 0, 8,
                 "programs at a time (default: the same number as for a training)"),
        ARGS_TEXT("--out", "DIR", folder, "keep the log and the binary of each program there"),
        ARGS_TEXT("--options", "TEXT", extra, "further options for the device's compiler"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "bench build", "CONFIG [section.key=value ...]", 1, 1, options,
        "Builds the programs of a config from their sources, and shows the time of each and what the "
        "compiler says of its registers, spills and memory (NVIDIA's says it).");
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(bench_begin(&common));
    CLT_TRY(folder != NULL ? clt_mkdir_p(folder) : CLT_OK);
    CLT_TRY(cmd_load_config(&r, &(clt_start){.training = true}, &config));
    clt_bench_programs_options build = {.config = config,
                                        .device_spec = common.device,
                                        .caps_mask = common.caps_mask,
                                        .extra = extra,
                                        .threads = (int)jobs,
                                        .folder = folder,
                                        .begin = begin,
                                        .each = each};
    return measure(&common, &build);
}
