/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain report RUN...: writes an HTML page about one or several runs. */
#include "engine/report/page/report.h"

#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/terminal.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"

/* Writes the page: by default into the run's folder, or for several runs into the current one. */
static clt_status write_page(clt_run_record *const *runs, int count, const char *title, const char *path)
{
    CLT_SCOPED(clt_str) page = {0};
    CLT_FREED char *usual = NULL;
    char shown[4096];
    const clt_report_options options = {.title = title, .now = clt_wall_time()};
    CLT_TRY(clt_path_join(count == 1 ? runs[0]->folder : ".", "report.html", &usual));
    path = path ? path : usual;
    CLT_TRY(clt_report_html(runs, count, &options, &page));
    CLT_TRY(cmd_write_str(path, &page));
    terminal_say("report: %s (%zu KiB); open it in a browser\n",
                 strcmp(path, "-") == 0 ? "standard output" : text_clean(path, shown, sizeof shown),
                 page.length / 1024 + 1);
    return CLT_OK;
}

static clt_status load_all(const args_result *r, clt_run_record **runs)
{
    for (int i = 0; i < r->n_operands; i++)
        CLT_TRY(clt_run_record_load(r->operands[i], &runs[i]));
    return clt_run_names(runs, r->n_operands);
}

clt_status cmd_report(cmd_context *context, int argc, char **argv)
{
    (void)context;
    const char *out = NULL, *title = NULL;
    const args_option options[] = {
        ARGS_TEXT("--out", "FILE", out, "the page (RUN/report.html, or report.html for several runs)"),
        ARGS_TEXT("--title", "TEXT", title, "the page's title (the runs' names)"), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "report", "RUN ...", 1, CLT_REPORT_RUNS, options,
        "Writes a self-contained HTML page about a run: losses, speed, device, samples, config, events. "
        "Several runs (up to 8) share their charts. RUN is a run folder; the run may still be going on.");
    args_result r;
    clt_run_record *runs[CLT_REPORT_RUNS] = {NULL};
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_can_write(out));
    clt_status status = load_all(&r, runs);
    if (status == CLT_OK)
        status = write_page(runs, r.n_operands, title, out);
    for (int i = 0; i < CLT_REPORT_RUNS; i++)
        clt_run_record_free(runs[i]);
    return status;
}
