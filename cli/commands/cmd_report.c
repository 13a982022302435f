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
#include "engine/files/remote_files.h"
#include "engine/sweep/sweep.h"

/* Writes the page to `path`; if that is NULL, into `folder`. */
static clt_status write_page(clt_run_record *const *runs, int count, const clt_report_options *options,
                             const char *folder, const char *path)
{
    CLT_SCOPED(clt_str) page = {0};
    CLT_FREED char *usual = NULL;
    char shown[4096];
    CLT_TRY(clt_path_join(folder, "report.html", &usual));
    if (!path)
        CLT_TRY(clt_own_file_check(usual));
    path = path ? path : usual;
    CLT_TRY(clt_report_html(runs, count, options, &page));
    CLT_TRY(cmd_write_str(path, &page));
    terminal_say("report: %s (%zu KiB); open it in a browser\n",
                 strcmp(path, "-") == 0 ? "standard output" : text_clean(path, shown, sizeof shown),
                 page.length / 1024 + 1);
    return CLT_OK;
}

/* The table of a sweep, in an arena. */
typedef struct trials {
    clt_arena *arena;
    clt_report_table table;
} trials;

static void free_trials(trials *t)
{
    clt_arena_destroy(t->arena);
}
CLT_SCOPED_VALUE(trials, free_trials)

/* Copies the cells of a row into the arena, and appends `note` to the last cell if it is not empty. */
static clt_status keep_row(trials *t, const clt_sweep_cells *row, const char *note, const char **cells)
{
    bool whole = true;
    for (int c = 0; c < row->count; c++) {
        bool last = c + 1 == row->count && note[0];
        cells[c] = last ? clt_arena_printf(t->arena, "%s: %s", row->cell[c], note)
                        : clt_arena_strdup(t->arena, row->cell[c]);
        whole = whole && cells[c];
    }
    if (!whole)
        CLT_FAIL(CLT_ENOMEM, "writing a report: out of host memory");
    return CLT_OK;
}

static clt_status make_trials(const char *folder, int shown, trials *out)
{
    CLT_SCOPED(clt_sweep) *sweep = NULL;
    CLT_SCOPED(clt_sweep_table) known = {0};
    clt_sweep_cells row;
    int done = 0;
    CLT_TRY(clt_sweep_open(folder, &sweep));
    CLT_TRY(clt_sweep_table_make(sweep, &known));
    CLT_TRY(clt_sweep_table_read(&known, folder));
    CLT_TRY(clt_sweep_table_look(&known, folder));
    CLT_TRY(clt_arena_create(&out->arena));
    const char **cells =
        clt_arena_alloc(out->arena, (size_t)(sweep->trials + 1) * CLT_SWEEP_CELLS * sizeof *cells);
    if (!cells)
        CLT_FAIL(CLT_ENOMEM, "writing a report: out of host memory");
    for (int i = -1; i < sweep->trials; i++) { /* the column titles first */
        const clt_trial *trial = i < 0 ? NULL : &known.trials[known.order[i]];
        clt_sweep_row(&known, i < 0 ? -1 : known.order[i], &row);
        clt_status status = keep_row(out, &row, trial && trial->state == CLT_TRIAL_FAILED ? trial->note : "",
                                     cells + (i + 1) * row.count);
        out->table.columns = row.count;
        clt_sweep_cells_free(&row);
        CLT_TRY(status);
        done += trial && trial->state != CLT_TRIAL_WAITING && trial->state != CLT_TRIAL_RUNNING;
    }
    out->table.title = "Trials";
    out->table.note = clt_arena_printf(
        out->arena, "%d of %d have ended; the best one comes first, and the best %d are shown below", done,
        sweep->trials, shown);
    out->table.heads = cells;
    out->table.cells = cells + out->table.columns;
    out->table.rows = sweep->trials;
    if (!out->table.note)
        CLT_FAIL(CLT_ENOMEM, "writing a report: out of host memory");
    return CLT_OK;
}

/* Loads the runs to show. For a sweep these are the best trials, up to the number that fits into the
 * list. */
static clt_status load_all(const args_result *r, clt_run_record **runs, int *count)
{
    CLT_SCOPED(clt_file_list) list = {0};
    CLT_TRY(clt_fail_prefix(clt_sweep_runs(r->operands, r->n_operands, CLT_REPORT_RUNS, &list),
                            "cltrain report"));
    for (; *count < (int)list.count; (*count)++)
        CLT_TRY(clt_run_record_load(list.name[*count], &runs[*count]));
    return clt_run_names(runs, *count);
}

clt_status cmd_report(cmd_context *context, int argc, char **argv)
{
    (void)context;
    const char *out = NULL, *title = NULL;
    const args_option options[] = {ARGS_TEXT("--out", "FILE", out,
                                             "the page (report.html in the folder of the run or sweep, or "
                                             "here for several runs and for one in a bucket)"),
                                   ARGS_TEXT("--title", "TEXT", title, "the page's title (the runs' names)"),
                                   ARGS_END};
    const args_usage usage =
        ARGS_USAGE("report", "RUN ...", 1, CLT_REPORT_RUNS, options,
                   "Writes a self-contained HTML page about a run: losses, speed, device, samples, config, "
                   "events. Several runs (up to 8) share their charts. RUN is a run folder; the run may "
                   "still be training. For the folder of a sweep the page shows its best trials.");
    args_result r;
    clt_run_record *runs[CLT_REPORT_RUNS] = {NULL};
    CLT_SCOPED(trials) all = {.arena = NULL};
    int count = 0;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_can_write(out));
    clt_status status = load_all(&r, runs, &count);
    bool sweep = r.n_operands == 1 && clt_sweep_is_folder(r.operands[0]);
    const char *folder = sweep                                                               ? r.operands[0]
                         : status == CLT_OK && count == 1 && !clt_is_remote(runs[0]->folder) ? runs[0]->folder
                                                                                             : ".";
    if (status == CLT_OK && sweep)
        status = make_trials(folder, count, &all);
    const clt_report_options page = {
        .title = title, .table = sweep ? &all.table : NULL, .now = clt_wall_time()};
    if (status == CLT_OK)
        status = write_page(runs, count, &page, folder, out);
    for (int i = 0; i < CLT_REPORT_RUNS; i++)
        clt_run_record_free(runs[i]);
    return status;
}
