/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain sweep SWEEP.json: trains the trials of a sweep, alone or beside other workers, and prints the table
 * of results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/screen/train_args.h"
#include "engine/sweep/sweep.h"

#define MAX_DEVICES 64
#define LEASE_SECONDS 60.0
#define GRACE_SECONDS 900.0

typedef struct sweep_args {
    const char *out, *device, *init;
    int64_t workers;
    double lease, grace, budget, hours;
    bool dry_run, table, again, json;
} sweep_args;

/* --- the table --- */

/* The width of a column of keys. */
static int key_width(const clt_sweep *s, int key)
{
    CLT_SCOPED(clt_str) text = {0};
    int width = text_columns(s->keys[key].path);
    for (int t = 0; t < s->trials; t++) {
        int columns = text_columns(clt_sweep_shown(s, t, key, &text));
        width = columns > width ? columns : width;
    }
    return width;
}

static void put_table(const clt_sweep_table *t, int screen, clt_str *out)
{
    const clt_sweep *s = t->sweep;
    table_column columns[TABLE_COLUMNS] = {{"trial", 8, 0, 0, false}};
    const char *metric = clt_fact_columns[s->metric].key;
    int n = 1;
    table view;
    for (int k = 0; k < s->key_count; k++)
        columns[n++] = (table_column){s->keys[k].path, key_width(s, k), 6, 0, true};
    columns[n++] = (table_column){"steps", 6, 0, 2, true};
    columns[n++] = (table_column){metric, text_columns(metric), 0, 0, true};
    columns[n++] = (table_column){"time", 6, 0, 3, true};
    if (clt_sweep_has_cost(t))
        columns[n++] = (table_column){"cost", 6, 0, 4, true};
    columns[n++] = (table_column){"state", 7, 0, 1, false};
    table_make(&view, columns, n, screen);
    table_head(&view, out);
    for (int i = 0; i < s->trials; i++) {
        CLT_SCOPED(clt_sweep_cells) row = {.count = 0};
        clt_sweep_row(t, t->order[i], &row);
        table_row(&view, row.cell, out);
    }
}

static void put_command(const cmd_context *context, const char *what, const char *command, const char *folder,
                        const char *name, const char *rest, clt_str *out)
{
    CLT_SCOPED(clt_str) path = {0};
    clt_str_printf(out, "  %-10s ", what);
    cmd_append_command(out, context);
    clt_str_printf(out, " %s ", command);
    clt_str_printf(&path, "%s/%s", folder, name);
    shell_append_word(out, path.failed ? "" : path.text);
    clt_str_printf(out, "%s\n", rest);
}

/* Appends the reasons why trials failed, and the name of the best trial. */
static void put_end(const cmd_context *context, const clt_sweep_table *t, const char *folder, clt_str *out)
{
    const clt_sweep *s = t->sweep;
    char name[CLT_SWEEP_NAME], note[600], number[CLT_CELL_TEXT];
    CLT_SCOPED(clt_str) shown = {0};
    for (int i = 0; i < s->trials; i++)
        if (t->trials[i].state == CLT_TRIAL_FAILED || t->trials[i].state == CLT_TRIAL_RUNNING)
            clt_str_printf(out, "%s %s: %s\n", clt_sweep_trial_name(s, i, name),
                           t->trials[i].state == CLT_TRIAL_FAILED ? "failed" : "is trained by",
                           text_clean(t->trials[i].note, note, sizeof note));
    if (t->best < 0)
        return;
    bool complete = t->unsettled == 0 && t->rung == s->rungs - 1;
    clt_str_printf(out, "%s: %s, %s %s", complete ? "best" : "best so far",
                   clt_sweep_trial_name(s, t->best, name), clt_fact_columns[s->metric].key,
                   clt_sweep_metric_text(s, t->trials[t->best].result.value, number));
    for (int k = 0; k < s->key_count; k++)
        clt_str_printf(out, "%s %s=%s", k ? "," : ":", s->keys[k].path,
                       clt_sweep_shown(s, t->best, k, &shown));
    clt_str_printf(out, "\nits config: %s/%s/config.resolved.json\nnext:\n", folder, name);
    put_command(context, "evaluate", "eval", folder, name, "", out);
    put_command(context, "look", "report", folder, name, "", out);
    if (clt_config_int(s->config, "train.steps") > 0)
        put_command(context, "longer", "train --resume", folder, name, " train.steps=MORE", out);
}

static clt_status show(const cmd_context *context, const clt_sweep_table *t, const char *folder,
                       const sweep_args *a)
{
    CLT_SCOPED(clt_str) text = {0};
    if (a->json) {
        clt_json_writer w = clt_json_writer_make(&text, 1);
        CLT_TRY(clt_sweep_table_write(t, folder, &w));
        return cmd_write_line("-", &text);
    }
    put_table(t, terminal_columns(), &text);
    if (!a->dry_run)
        put_end(context, t, folder, &text);
    CLT_TRY(clt_str_check(&text));
    table_print(&text);
    return CLT_OK;
}

/* --- the command --- */

/* Prints how far successive halving has come; nothing without halving. */
static void tell_rungs(const clt_sweep *s)
{
    for (int i = 0; i < s->rungs && s->rungs > 1; i++) {
        const char *trials = s->rung_trials[i] == 1 ? "trial" : "trials";
        if (s->rung_steps[i] > 0)
            terminal_say("rung %d: %d %s to step %lld\n", i + 1, s->rung_trials[i], trials,
                         (long long)s->rung_steps[i]);
        else
            terminal_say("rung %d: %d %s to the end\n", i + 1, s->rung_trials[i], trials);
    }
}

static void on_line(void *context, const char *line)
{
    (void)context;
    terminal_say("%s\n", line);
    fflush(stdout);
}

/* Splits "0:0,0:1" in place. NULL: no devices are named. */
static clt_status split_devices(char *text, const char **devices, int *count)
{
    for (char *at = text; at;) {
        char *end = strchr(at, ',');
        if (*count == MAX_DEVICES || end == at || !*at)
            CLT_FAIL(CLT_EUSAGE,
                     "cltrain sweep: option --device: 1 to %d devices are expected, divided by "
                     "commas",
                     MAX_DEVICES);
        devices[(*count)++] = at;
        if (end)
            *end++ = '\0';
        at = end;
    }
    return CLT_OK;
}

static clt_status train_trials(cmd_context *context, const clt_sweep *s, const char *folder,
                               const sweep_args *a)
{
    const char *devices[MAX_DEVICES];
    CLT_FREED char *text = a->device ? strdup(a->device) : NULL;
    int count = 0;
    CLT_TRY(split_devices(text, devices, &count));
    if (setenv(CMD_CALLED, context->program, 1) != 0)
        CLT_FAIL(CLT_ENOMEM, "cltrain sweep: no memory for the environment");
    const clt_sweep_options options = {.folder = folder,
                                       .workers = (int)a->workers,
                                       .devices = devices,
                                       .device_count = count,
                                       .lease_seconds = a->lease,
                                       .grace_seconds = a->grace,
                                       .again = a->again,
                                       .budget = a->budget,
                                       .hours = a->hours,
                                       .stop = context->stop,
                                       .tell = on_line};
    tell_rungs(s);
    return clt_sweep_work(s, &options);
}

/* Chooses the folder: the operand if it is a folder, else --out, else runs/ with the file's name. */
static clt_status choose_folder(const char *operand, const sweep_args *a, char *folder, size_t size)
{
    bool is_folder = clt_sweep_is_folder(operand);
    if (is_folder && a->out)
        CLT_FAIL(CLT_EUSAGE, "cltrain sweep: '%s' is the sweep's folder already; leave out --out", operand);
    if (!is_folder && !a->out)
        return train_default_folder(operand, folder, size);
    snprintf(folder, size, "%s", is_folder ? operand : a->out);
    return CLT_OK;
}

static clt_status run(cmd_context *context, const char *operand, const sweep_args *a)
{
    CLT_SCOPED(clt_sweep) *sweep = NULL;
    CLT_SCOPED(clt_sweep_table) known = {0};
    char folder[1024];
    CLT_TRY(choose_folder(operand, a, folder, sizeof folder));
    /* the table is made from the copy in the folder, because the file may have changed since */
    CLT_TRY(a->table && clt_sweep_is_folder(folder) ? clt_sweep_open(folder, &sweep)
                                                    : clt_sweep_load(operand, a->init, &sweep));
    CLT_TRY(clt_sweep_table_make(sweep, &known));
    if (a->dry_run) {
        CLT_TRY(clt_sweep_check_price(sweep, &(clt_sweep_options){.budget = a->budget}));
        if (!a->json)
            tell_rungs(sweep);
        return show(context, &known, folder, a);
    }
    if (!a->table)
        CLT_TRY(train_trials(context, sweep, folder, a));
    CLT_TRY(clt_sweep_table_read(&known, folder));
    CLT_TRY(clt_sweep_table_look(&known, folder));
    CLT_TRY(show(context, &known, folder, a));
    if (!a->table && known.best < 0)
        CLT_FAIL(CLT_ECHECK, "no trial of the sweep has a result; %s/output has what the trainings printed",
                 folder);
    return CLT_OK;
}

clt_status cmd_sweep(cmd_context *context, int argc, char **argv)
{
    sweep_args a = {.workers = 1, .lease = LEASE_SECONDS, .grace = GRACE_SECONDS};
    const args_option options[] = {
        ARGS_TEXT("--out", "FOLDER", a.out, "the sweep's folder (runs/ and the name of SWEEP)"),
        ARGS_INT("--workers", "N", a.workers, 1, 64, "trainings at a time on this machine (1)"),
        ARGS_TEXT("--device", "SPEC", a.device,
                  "device of the trainings; several, divided by commas, are taken in turn"),
        ARGS_TEXT(
            "--init", "PATH", a.init,
            "weights that every trial starts from: of a run, a safetensors file, one of torch.save, or a "
            "folder that save_pretrained wrote"),
        ARGS_FLOAT("--budget", "MONEY", a.budget, 0, 1e12,
                   "limit of the cost of all trials together (cost.per_hour); when it is reached, trainings "
                   "save and the sweep exits with 75; 0: no limit (0)"),
        ARGS_FLOAT("--hours", "HOURS", a.hours, 0, 1e9,
                   "the same limit in hours of training of all trials; 0: no limit (0)"),
        ARGS_FLOAT("--lease", "SECONDS", a.lease, 5, 86400,
                   "a worker of another machine counts as dead when it was silent for this time (60)"),
        ARGS_FLOAT("--grace", "SECONDS", a.grace, 1, 1e9,
                   "a training that was asked to save and end is killed after this time (900)"),
        ARGS_FLAG("--again", a.again, "try trials that have failed again"),
        ARGS_FLAG("--dry-run", a.dry_run, "check the sweep and show its trials; train nothing"),
        ARGS_FLAG("--table", a.table, "show the results so far; train nothing"),
        ARGS_JSON(a.json),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "sweep", "SWEEP|FOLDER", 1, 1, options,
        "Trains a model with several values of keys, each combination in a separate run, and names the best "
        "run. SWEEP: a file sweep.json; FOLDER: the folder of a sweep that was begun. The same command on "
        "other machines that share the folder takes a part of the work. After a signal the trainings save "
        "and it exits with 75; the same command resumes it.");
    args_result r;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (a.dry_run && a.table)
        CLT_FAIL(CLT_EUSAGE, "cltrain sweep: give --dry-run or --table, not both");
    if (a.table && (a.budget > 0 || a.hours > 0 || a.again))
        CLT_FAIL(CLT_EUSAGE, "cltrain sweep: --table trains nothing; remove %s",
                 a.budget > 0  ? "--budget"
                 : a.hours > 0 ? "--hours"
                               : "--again");
    if (a.json)
        CLT_TRY(cmd_can_write("-"));
    context->keeps_work = !a.dry_run && !a.table;
    return run(context, r.operands[0], &a);
}
