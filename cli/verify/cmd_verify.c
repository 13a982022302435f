/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify: checks the kernels of a device in child processes; prints failures and a summary, and with
 * -v every check. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/verify/verify_baseline.h"
#include "cli/verify/verify_reduce.h"
#include "cli/verify/verify_replay.h"
#include "cli/verify/verify_rounds.h"
#include "cli/verify/verify_trajectory.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/verify/verify.h"

typedef struct verify_args {
    verify_selection select;
    const char *device, *after, *json, *junit, *baseline, *run, *reduce;
    bool verbose, trajectory;
    bool modes_of_baseline; /* the command line names no modes, so the baseline's are used */
    char modes[64];         /* names of the modes, for the report's selection */
    int64_t seed, limit, jobs, steps;
    double tolerance, seconds;
} verify_args;

typedef struct verify_run {
    const verify_args *args;
    const verify_baseline *baseline; /* NULL: none */
    verify_report *report;
    char device[16]; /* SPEC of the device being checked */
    uint64_t seed, done, total;
    bool list, trains; /* trains: results of trainings; these are few, so each is printed */
    console *console;
} verify_run;

static clt_status parse_modes(const char *text, unsigned *modes)
{
    static const char *const names[] = {"correct", "grad", "bitwise", "perf", "list", "trajectory"};
    static const unsigned bits[] = {CLT_VERIFY_CORRECT, CLT_VERIFY_GRAD, CLT_VERIFY_BITWISE,
                                    CLT_VERIFY_PERF,    CLT_VERIFY_LIST, VERIFY_TRAJECTORY};
    enum { MODES = sizeof bits / sizeof bits[0] };
    *modes = 0;
    while (text && *text) {
        char word[64];
        size_t n = strcspn(text, ",|");
        unsigned bit = 0;
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        for (int i = 0; i < MODES; i++)
            if (strcmp(names[i], word) == 0)
                bit = bits[i];
        if (!bit) {
            const char *near = clt_nearest_name(word, names, MODES);
            CLT_FAIL(CLT_EUSAGE,
                     "cltrain verify: unknown mode '%s'%s%s%s; valid: correct, grad, bitwise, perf, list, "
                     "trajectory (several with commas)",
                     word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        *modes |= bit;
        text += n + (text[n] != '\0');
    }
    return CLT_OK;
}

static clt_status parse_shard(const char *text, int *shard, int *shards)
{
    char rest;
    *shard = *shards = 0;
    if (!text)
        return CLT_OK;
    if (sscanf(text, "%d/%d%c", shard, shards, &rest) == 2 && *shards >= 1 && *shard >= 0 && *shard < *shards)
        return CLT_OK;
    CLT_FAIL(CLT_EUSAGE, "cltrain verify: --shard %s: expected I/N with 0 <= I < N, such as 0/4", text);
}

/* Shows on the console which op is being checked. name: the check that has ended; NULL: all have ended. */
static void tell_progress(verify_run *run, const char *name)
{
    char what[64];
    const char *dot = name ? strchr(name, '.') : NULL;
    snprintf(what, sizeof what, "checking: %.*s", dot ? (int)(dot - name) : 0, dot ? name : "");
    run->done += name != NULL;
    if (run->done > run->total) /* the next round */
        run->done = 1;
    console_observer(run->console)
        .progress(run->console, what, name ? (int64_t)run->done : 0, name ? (int64_t)run->total : -1);
}

/* Prints a line such as "FAIL     gemm.f32  error 0.1, limit 0.01  0.5 ms". */
static void say_result(const clt_verify_result *result, bool failed)
{
    CLT_SCOPED(clt_str) line = {0}, out = {0};
    clt_str_append(&line, result->name);
    if (result->limit > 0)
        clt_str_printf(&line, "  error %.3g, limit %.3g", result->error, result->limit);
    if (result->ms > 0)
        clt_str_printf(&line, "  %.3f ms", result->ms);
    printf("%s%-8s%s ", failed ? terminal_begin(STDOUT_FILENO, INK_BAD) : "",
           clt_verify_state_name(result->state), failed ? terminal_end(STDOUT_FILENO, INK_BAD) : "");
    text_wrap(line.failed ? result->name : line.text, 9, 2, terminal_columns(), &out);
    fputs(out.failed ? "\n" : out.text, stdout);
}

static void on_result(void *context, const clt_verify_result *result)
{
    verify_run *run = context;
    bool failed = verify_is_failure(result->state);
    bool told = !verify_report_add(run->report, run->device, result);
    if (run->list) {
        terminal_say("%s\n", result->name);
        return;
    }
    tell_progress(run, result->name);
    if ((!failed || told) && !run->args->verbose && !run->trains)
        return;
    console_clear(run->console);
    say_result(result, failed);
    if (failed && result->round > 1)
        terminal_say("         in round %llu, with seed %llu\n", (unsigned long long)result->round,
                     (unsigned long long)result->seed);
    if (result->reason && *result->reason)
        terminal_say("         %s\n", result->reason);
    if (failed && result->repeat && *result->repeat)
        terminal_say_whole("         repeat: %s\n", result->repeat);
    fflush(stdout);
}

static void on_opened(void *context, const ocl_device_desc *device)
{
    verify_run *run = context;
    snprintf(run->device, sizeof run->device, "%s", device->spec);
    verify_report_opened(run->report, device);
    console_clear(run->console);
    terminal_say("device %s: %s | %llu check%s, seed %llu\n", device->spec, device->name,
                 (unsigned long long)run->total, CLT_PLURAL(run->total), (unsigned long long)run->seed);
    fflush(stdout);
}

/* --- mode perf: several processes measure, one after the other --- */

static void on_repeat(void *context, const clt_verify_result *result)
{
    verify_run *run = context;
    verify_report_repeat(run->report, result);
    tell_progress(run, result->name);
}

/* Measures the checks of mode perf that match the pattern again, in `processes` processes. */
static clt_status measure_again(const verify_args *a, const clt_verify_options *options, verify_run *run,
                                const char *pattern, int processes)
{
    clt_verify_options again = *options;
    clt_verify_summary summary;
    again.pattern = pattern;
    again.modes = CLT_VERIFY_PERF;
    again.opened = NULL;
    again.result = on_repeat;
    CLT_TRY(clt_verify_count(&again, &run->total));
    for (int i = 0; i < processes && run->total > 0; i++) {
        run->done = 0;
        CLT_TRY(clt_verify_run_workers(&again, (double)a->limit, 1, &summary));
    }
    return CLT_OK;
}

/* Measures speed in further processes, and again in more of them for checks that seem to be slower than in
 * the baseline. */
static clt_status measure_device(const verify_args *a, const clt_verify_options *options, verify_run *run)
{
    if (!(options->modes & CLT_VERIFY_PERF))
        return CLT_OK;
    int first = run->baseline ? VERIFY_PROCESSES : VERIFY_RECORDED;
    CLT_TRY(measure_again(a, options, run, options->pattern, first - 1));
    for (int n = first; n < VERIFY_MOST_PROCESSES && run->baseline; n += VERIFY_PROCESSES) {
        CLT_SCOPED(clt_str) names = {0};
        CLT_TRY(verify_baseline_suspects(run->baseline, run->report, &names));
        if (!names.text)
            break;
        CLT_TRY(measure_again(a, options, run, names.text, VERIFY_PROCESSES));
    }
    return CLT_OK;
}

/* Combines the status of a run's first part, `first`, with that of its next part, `status`. The next part
 * runs even if a check of the first one failed, so the more serious status counts. */
static clt_status worse_of(const clt_error *first, clt_status status)
{
    bool other = status != CLT_OK && (status != CLT_ECHECK || first->status == CLT_OK);
    return other ? status : clt_error_put(first);
}

static clt_status run_checks(const verify_args *a, clt_verify_options *options, verify_run *run)
{
    clt_verify_summary summary = {0};
    clt_error first;
    if (run->list)
        return clt_verify_run(options, &summary);
    console_observer(run->console).progress(run->console, "opening the device", 0, 0);
    clt_status status =
        a->seconds > 0
            ? verify_rounds(a->seconds, (double)a->limit, (int)a->jobs, options, run->report, &summary)
            : clt_verify_run_workers(options, (double)a->limit, (int)a->jobs, &summary);
    if (status != CLT_OK && status != CLT_ECHECK)
        return status;
    clt_error_take(status, &first);
    return worse_of(&first, measure_device(a, options, run));
}

/* Runs the trainings, after n_checks checks of this device. */
static clt_status run_trainings(const verify_args *a, const clt_verify_options *options, verify_run *run,
                                uint64_t n_checks)
{
    clt_verify_options trainings = *options, all = *options;
    uint64_t first = 0; /* number of checks in all shards, since indices count all of them */
    all.shards = 0;
    all.modes &= ~(unsigned)VERIFY_TRAJECTORY;
    if (n_checks > 0) {
        CLT_TRY(clt_verify_count(&all, &first));
        trainings.opened = NULL; /* the checks have reported the device */
    }
    run->done = n_checks;
    run->total = n_checks + verify_trajectory_count(options);
    run->trains = true;
    console_observer(run->console).progress(run->console, "training", 0, 0);
    clt_status status = verify_trajectory(&trainings, a->select.caps, (double)a->limit, first, run->report);
    run->trains = false;
    return status;
}

static clt_status run_device(const verify_args *a, clt_verify_options *options, verify_run *run,
                             const ocl_device_desc *desc, int count[5])
{
    clt_error first;
    uint64_t n_checks = 0, trainings = verify_trajectory_count(options);
    clt_status status = CLT_OK;
    snprintf(run->device, sizeof run->device, "%s", desc ? desc->spec : "default");
    verify_report_device(run->report, run->device);
    run->seed = options->seed;
    options->device_spec = desc ? desc->spec : a->device;
    options->opened = run->list ? NULL : on_opened;
    clt_verify_options checks = *options;
    checks.modes &= ~(unsigned)VERIFY_TRAJECTORY;
    bool has_checks =
        !(options->modes & VERIFY_TRAJECTORY) || (checks.modes & ~(unsigned)CLT_VERIFY_LIST) != 0;
    if (has_checks)
        CLT_TRY(clt_verify_count(&checks, &n_checks));
    if (!has_checks && trainings == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: no training matches '%s'; --trajectory --mode list names them",
                 options->pattern ? options->pattern : "*");
    run->total = n_checks + trainings;
    run->done = 0;
    if (n_checks > 0 || trainings == 0)
        status = run_checks(a, &checks, run);
    if (trainings > 0 && (status == CLT_OK || status == CLT_ECHECK)) {
        clt_error_take(status, &first);
        status = worse_of(&first, run_trainings(a, options, run, n_checks));
    }
    verify_report_count(run->report, count);
    console_close(run->console);
    return status;
}

/* Checks every device, even after a failure on another one. */
static clt_status run_all(const verify_args *a, clt_verify_options *options, verify_run *run, int count[5])
{
    CLT_FREED ocl_device_desc *list = NULL;
    int n = 0;
    clt_status worst = CLT_OK;
    clt_error error;
    CLT_TRY(ocl_list_devices(&list, &n));
    clt_error_take(CLT_OK, &error);
    for (int i = 0; i < n; i++) {
        clt_status status = run_device(a, options, run, &list[i], count);
        if (status != CLT_OK && (worst == CLT_OK || worst == CLT_ECHECK)) {
            worst = status;
            clt_error_take(status, &error);
        }
    }
    return worst == CLT_OK ? CLT_OK : clt_error_put(&error);
}

/* Uses the baseline's seed, and its selection unless the command line gives one. *whole: the command line
 * selects nothing, so every check of the baseline is run. */
static clt_status select_as(const verify_baseline *baseline, verify_args *a, bool *whole)
{
    const verify_selection *b = verify_baseline_selection(baseline);
    verify_selection *s = &a->select;
    if (a->seed != 0 || a->after)
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --baseline runs the checks with the baseline's seed and in its "
                             "order; remove --seed and --after");
    *whole = !s->pattern && !s->mode && !s->caps && !s->shard && !s->quick && !s->small;
    s->pattern = s->pattern ? s->pattern : b->pattern;
    a->modes_of_baseline = !s->mode;
    s->mode = s->mode ? s->mode : b->mode;
    s->caps = s->caps ? s->caps : b->caps;
    s->shard = s->shard ? s->shard : b->shard;
    s->quick = s->quick || b->quick;
    s->small = s->small || b->small;
    a->seed = (int64_t)b->seed;
    return CLT_OK;
}

static void say_counts(const verify_report *report, const verify_args *a, const int count[5])
{
    int failed = count[CLT_VERIFY_FAIL] + count[CLT_VERIFY_UNIMPL] + count[CLT_VERIFY_MISTRUST];
    verify_report_skips(report, a->select.quick);
    terminal_say("%d passed, %d failed, %d skipped\n", count[CLT_VERIFY_PASS], failed,
                 count[CLT_VERIFY_SKIP]);
}

/* Writes and compares the results of a run that ended with the status `end`; returns `end` or a more serious
 * status. With a baseline, only results that are worse than the baseline's count as failures. */
static clt_status report_run(verify_report *report, const verify_args *a, const verify_baseline *baseline,
                             bool whole, const clt_error *end)
{
    clt_error worse;
    clt_status status = verify_report_sort(report);
    if (status == CLT_OK)
        status = verify_report_json(report, &a->select, a->json);
    bool judged = baseline && (end->status == CLT_OK || end->status == CLT_ECHECK);
    if (status == CLT_OK && judged)
        status = verify_baseline_compare(baseline, report, whole);
    clt_error_take(status, &worse);
    clt_status listed = verify_report_junit(report, &a->select, a->junit);
    if (end->status != CLT_OK && !judged)
        return clt_error_put(end);
    return worse.status != CLT_OK ? clt_error_put(&worse) : listed;
}

static clt_status set_options(const verify_args *a, clt_verify_options *options)
{
    const verify_selection *s = &a->select;
    options->pattern = s->pattern;
    options->after = a->after;
    options->small = s->quick || s->small;
    options->own_forms = s->quick;
    options->seed = s->seed;
    CLT_TRY(parse_modes(s->mode, &options->modes));
    CLT_TRY(parse_shard(s->shard, &options->shard, &options->shards));
    CLT_TRY(cmd_caps(s->caps, &options->caps_mask));
    unsigned rounds = options->modes & ~(unsigned)VERIFY_TRAJECTORY;
    if (a->seconds > 0 && a->modes_of_baseline && rounds != 0) /* rounds repeat only checks, not trainings */
        options->modes = rounds;
    if ((options->modes & VERIFY_TRAJECTORY) && (a->after || a->seconds > 0))
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --trajectory trains models; --after and --seconds are for "
                             "checks of kernels");
    if (a->reduce)
        CLT_TRY(verify_reduce_possible(a->reduce));
    CLT_TRY(cmd_can_write(a->json));
    return cmd_can_write(a->junit);
}

/* Reduces the failing checks of a run that ended with `status`; returns `status`, or the error if this
 * fails. */
static clt_status reduce(const verify_report *report, const verify_args *a, const clt_verify_options *options,
                         clt_status status)
{
    clt_error end;
    clt_error_take(status, &end);
    CLT_TRY(verify_reduce(report, options, (double)a->limit, a->reduce));
    return clt_error_put(&end);
}

static clt_status verify(const cmd_context *context, verify_args *a)
{
    console c;
    int count[5] = {0};
    bool whole = false;
    verify_selection *s = &a->select;
    if (a->trajectory) {
        snprintf(a->modes, sizeof a->modes, "%s%strajectory", s->mode ? s->mode : "", s->mode ? "," : "");
        s->mode = a->modes;
    }
    CLT_SCOPED(verify_baseline) *baseline = NULL;
    verify_report report = {0};
    verify_run run = {.args = a, .report = &report, .console = &c};
    clt_verify_options options = {.result = on_result, .context = &run};
    if (a->baseline) {
        CLT_TRY(verify_baseline_open(a->baseline, &baseline));
        CLT_TRY(select_as(baseline, a, &whole));
        run.baseline = baseline;
    }
    if (a->seconds > 0 && !a->baseline && !a->select.pattern && !a->select.small && !a->select.shard)
        a->select.quick = true; /* the cheapest checks that see every kernel in use */
    /* chosen here, so that it is printed before anything can go wrong */
    a->select.seed = a->seed ? (uint64_t)a->seed : (uint64_t)time(NULL) * 1000003u % 1000000000u + 1;
    CLT_TRY(set_options(a, &options));
    run.list = (options.modes & CLT_VERIFY_LIST) != 0;
    if (run.list && (baseline || a->seconds > 0))
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --mode list runs no checks; remove --baseline and --seconds");
    if (a->seconds > 0 && (a->after || (options.modes & CLT_VERIFY_PERF)))
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --seconds repeats checks of results; leave --after and --mode "
                             "perf out");
    console_init(&c, context);
    bool all = a->device && strcmp(a->device, "all") == 0;
    clt_status status = all ? run_all(a, &options, &run, count) : run_device(a, &options, &run, NULL, count);
    clt_error end;
    clt_error_take(status, &end);
    if (!run.list)
        say_counts(&report, a, count);
    unsigned asked = 0;
    CLT_TRY(parse_modes(s->mode, &asked));
    if (asked != options.modes || (a->seconds > 0 && report.count < run.total * report.n_devices))
        /* if no trainings were made, or time ran out, checks that were not run do not count as missing */
        whole = false;
    status = report_run(&report, a, baseline, whole, &end);
    if (a->reduce && !run.list && (end.status == CLT_OK || end.status == CLT_ECHECK))
        status = reduce(&report, a, &options, status);
    fflush(stdout);
    verify_report_free(&report);
    return status;
}

/* Handles --run; options for checks make no sense with it. */
static clt_status replay(const cmd_context *context, const verify_args *a)
{
    const verify_selection *s = &a->select;
    const verify_replay_args args = {.run = a->run,
                                     .device = a->device,
                                     .caps = s->caps,
                                     .json = a->json,
                                     .steps = a->steps,
                                     .tolerance = a->tolerance};
    if (!a->run)
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --steps and --tolerance are for --run RUN");
    if (s->pattern || s->mode || s->shard || s->quick || s->small || a->after || a->baseline || a->junit ||
        a->jobs || a->seed || a->verbose || a->seconds > 0 || a->reduce || a->trajectory)
        CLT_FAIL(CLT_EUSAGE, "cltrain verify: --run replays a training and makes no checks; it goes together "
                             "with --device, --caps, --steps, --tolerance and --json");
    return verify_replay(context, &args);
}

clt_status cmd_verify(cmd_context *context, int argc, char **argv)
{
    verify_args a = {.limit = 600};
    args_result r;
    const args_option options[] = {
        ARGS_TEXT("-t", "PATTERN", a.select.pattern,
                  "only cases whose name matches, such as 'softmax*'; several with commas"),
        ARGS_TEXT("--mode", "MODES", a.select.mode,
                  "correct, grad, bitwise, perf (times at the sizes of real work), trajectory, list; "
                  "several with commas"),
        ARGS_TEXT("--device", "SPEC|all", a.device, "which device, or every one"),
        ARGS_TEXT("--caps", "MASK", a.select.caps,
                  "act as a weaker device: all, none, a,b or -a,-b, limits as local=16K"),
        ARGS_FLAG(
            "--quick", a.select.quick,
            "small cases of the kernels that trainings on this device use: a minute or two the first time"),
        ARGS_FLAG("--small", a.select.small, "small cases of all kernels"),
        ARGS_INT("--jobs", "N", a.jobs, 1, 16,
                 "processes that share the checks (the number of cores, at most 16 and on GPUs 4, or 8 on a "
                 "GPU of 32 GiB in a host of 8 cores; one with --mode perf)"),
        ARGS_TEXT("--shard", "I/N", a.select.shard, "the I-th of N parts, from 0"),
        ARGS_TEXT(
            "--after", "PATTERN", a.after,
            "if the checks of -t pass by themselves, run them again after the checks that PATTERN names"),
        ARGS_FLOAT("--seconds", "S", a.seconds, 1, 1e7,
                   "make the checks again with fresh data until S seconds have passed (for each device); "
                   "without a selection the checks of --quick"),
        ARGS_INT("--seed", "N", a.seed, 1, 9e18, "seed of the data (default: from the clock, printed)"),
        ARGS_TEXT("--json", "FILE", a.json, "write all results as JSON; - for the standard output"),
        ARGS_TEXT("--junit", "FILE", a.junit, "write all results as JUnit XML"),
        ARGS_TEXT(
            "--baseline", "FILE", a.baseline,
            "compare with the --json FILE of an earlier run, on this device or another: the same checks with "
            "the same seed; fails if a check became worse or slower, and lists results whose bits differ"),
        ARGS_TEXT("--reduce", "DIR", a.reduce,
                  "make the first failing check of each op smaller while it fails, and write a folder with a "
                  "stand-alone C program that shows the wrong number, for the driver's vendor"),
        ARGS_FLAG("--trajectory", a.trajectory,
                  "train five small models for 50 steps, each in f32, f16 and bf16, and compare losses and "
                  "norms of "
                  "gradients with recorded ones (the same as --mode trajectory)"),
        ARGS_TEXT("--run", "RUN", a.run,
                  "train the first steps of a recorded run again, or the steps after one of its checkpoints "
                  "step_N, and compare losses, norms of gradients and weights"),
        ARGS_INT("--steps", "K", a.steps, 1, 1e9,
                 "with --run: how many steps (up to the next checkpoint if it is near, else 20)"),
        ARGS_FLOAT(
            "--tolerance", "X", a.tolerance, 1e-12, 1,
            "with --run: allowed relative difference of losses (f32: 1e-5 in the first ten steps, then "
            "1e-4; 16 bits: 5e-2); ten times as much for norms"),
        ARGS_INT("--limit", "SECONDS", a.limit, 1, 1e6, "a check that takes longer has failed (600)"),
        ARGS_FLAG("-v", a.verbose, "print every case, not only failures"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("verify", "", 0, 0, options,
                   "Checks every op and kernel variant on a device against double-precision references; with "
                   "--run, whether it trains as a recorded run was trained.");
    ARGS_PARSE(&usage, argc, argv, &r);
    return a.run || a.steps || a.tolerance > 0 ? replay(context, &a) : verify(context, &a);
}
