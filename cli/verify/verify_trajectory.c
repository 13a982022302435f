/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains small models in child processes and compares each step with the recorded losses and norms. */
#include "cli/verify/verify_trajectory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/cmd.h"
#include "cli/screen/shell_word.h"
#include "cli/verify/step_differences.h"
#include "cli/verify/trajectory_curves.h"
#include "cli/verify/trajectory_models.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"

#define OPEN_SECONDS 1200.0 /* seconds until the device must be open: it may have to be probed first */

typedef struct trajectories {
    const clt_verify_options *options;
    const char *caps; /* value of --caps, or NULL */
    double limit;
    verify_report *report;
    char *program;
    char *folder; /* folder of the data; NULL: there is none yet */
    bool opened;  /* options->opened has been called, or is not needed */
    int trained, failed;
} trajectories;

/* One training. */
typedef struct training {
    int number;
    char name[TRAJECTORY_NAME + 16]; /* name of the check */
    int steps;                       /* steps that were computed */
    double numbers[TRAJECTORY_STEPS][STEP_NUMBERS];
    bool opened; /* the child has opened the device */
    clt_status error;
    char reason[1024];
} training;

static void free_trajectories(trajectories *t)
{
    free(t->program);
    cmd_remove_temporary(t->folder);
}
CLT_SCOPED_VALUE(trajectories, free_trajectories)

/* --- the child --- */

static void take_step(training *one, const char *line)
{
    int64_t step = 0;
    double number[STEP_NUMBERS];
    if (sscanf(line, "%" SCNd64 " %lf %lf", &step, &number[STEP_LOSS], &number[STEP_NORM]) != 3 ||
        step != one->steps + 1 || step > TRAJECTORY_STEPS)
        return; /* a missing step is reported at the end */
    memcpy(one->numbers[one->steps++], number, sizeof number);
}

/* Handles a line of the child; true: it was the last line. */
static bool take_line(trajectories *t, training *one, const char *line)
{
    ocl_device_desc desc;
    int status = 0, at = 0;
    if (strncmp(line, "step ", 5) == 0)
        take_step(one, line + 5);
    else if (clt_verify_take_device(line, &desc)) {
        if (!t->opened && t->options->opened)
            t->options->opened(t->options->context, &desc);
        one->opened = t->opened = true;
    } else if (sscanf(line, "error %d %n", &status, &at) == 1 && status > CLT_OK &&
               status < CLT_STATUS_COUNT) {
        one->error = (clt_status)status;
        snprintf(one->reason, sizeof one->reason, "%s: %s", clt_status_text(one->error), line + at);
        return true;
    }
    return strcmp(line, "done") == 0;
}

static clt_status start(const trajectories *t, const training *one, clt_child **child)
{
    char mask[16], name[TRAJECTORY_NAME];
    const char *arguments[] = {"verify-worker", "--trajectory", name, "--folder", t->folder,
                               "--mask",        mask,           NULL, NULL,       NULL};
    trajectory_name(one->number, name);
    snprintf(mask, sizeof mask, "%08" PRIx32, t->options->caps_mask);
    if (t->options->device_spec) {
        arguments[7] = "--device";
        arguments[8] = t->options->device_spec;
    }
    return clt_child_start(t->program, arguments, CLT_CHILD_STREAMS, child);
}

/* Runs the training in a child process. Sets one->reason if the training did not succeed. */
static clt_status train(trajectories *t, training *one)
{
    clt_child *child = NULL;
    clt_child_end end;
    const char *line = "";
    double until = clt_now() + OPEN_SECONDS;
    clt_child_event event = CLT_CHILD_SILENT;
    bool done = false;
    CLT_TRY(start(t, one, &child));
    while (!done && until > clt_now() &&
           (event = clt_child_next_awake(child, until - clt_now(), &line)) == CLT_CHILD_LINE) {
        bool opened = one->opened;
        done = take_line(t, one, line);
        if (one->opened && !opened)
            until = clt_now() + t->limit;
    }
    clt_child_stop(child, &end);
    if (done || one->error != CLT_OK)
        return CLT_OK;
    if (event == CLT_CHILD_ENDED)
        snprintf(one->reason, sizeof one->reason, "the driver ended the training with %s after step %d",
                 end.text, one->steps);
    else
        snprintf(one->reason, sizeof one->reason,
                 "the training did not end in %g s; it had computed %d steps", t->limit, one->steps);
    return CLT_OK;
}

/* --- comparing --- */

static const trajectory_curve *recorded(int number)
{
    char name[TRAJECTORY_NAME];
    trajectory_name(number, name);
    for (size_t i = 0; i < sizeof trajectory_curves / sizeof trajectory_curves[0]; i++)
        if (strcmp(trajectory_curves[i].name, name) == 0)
            return &trajectory_curves[i];
    return NULL;
}

static void judge_number(training *one, const step_differences *d, int number, bool later)
{
    const step_difference *w = &d->largest[number][later];
    double limit = step_differences_limit(d, number, later);
    if (w->relative <= limit || one->reason[0])
        return;
    snprintf(one->reason, sizeof one->reason,
             "step %" PRId64
             ": the %s is %.9g, recorded %.9g; a relative difference of %.2g, and %.2g is allowed",
             w->step, number == STEP_NORM ? "gradient norm" : "loss", w->b, w->a, w->relative, limit);
}

/* Compares the steps with the recorded ones. The result's error and limit belong to the loss that comes
 * nearest to its limit. */
static void judge(training *one, clt_verify_result *result)
{
    const trajectory_curve *curve = recorded(one->number);
    step_differences d = step_differences_make(trajectory_is_wide(one->number), 0, 0);
    for (int i = 0; i < one->steps && curve; i++) {
        const double want[] = {curve->loss[i], curve->norm[i]};
        step_differences_add(&d, i + 1, want, one->numbers[i]);
    }
    for (int later = 0; later < 2; later++) {
        double error = d.largest[STEP_LOSS][later].relative,
               limit = step_differences_limit(&d, STEP_LOSS, later);
        if (later && error / limit < result->error / result->limit)
            continue;
        result->error = error;
        result->limit = limit;
    }
    if (!curve && !one->reason[0])
        snprintf(one->reason, sizeof one->reason, "this cltrain has no recorded losses of it");
    for (int later = 0; later < 2; later++)
        for (int number = 0; number < STEP_NUMBERS; number++)
            judge_number(one, &d, number, later);
    if (!one->reason[0] && one->steps < TRAJECTORY_STEPS)
        snprintf(one->reason, sizeof one->reason, "it reported %d of %d steps", one->steps, TRAJECTORY_STEPS);
}

/* --- one after the other --- */

static void repeat_command(const trajectories *t, const training *one, clt_str *out)
{
    clt_str_append(out, "cltrain verify --trajectory -t ");
    shell_append_word(out, one->name);
    if (t->options->device_spec) {
        clt_str_append(out, " --device ");
        shell_append_word(out, t->options->device_spec);
    }
    if (t->caps) {
        clt_str_append(out, " --caps ");
        shell_append_word(out, t->caps);
    }
}

static clt_status make_data(trajectories *t)
{
    if (t->folder)
        return CLT_OK;
    CLT_TRY(clt_program_find(&t->program));
    CLT_TRY(cmd_temporary_folder("trajectory", &t->folder));
    return trajectory_data(t->folder);
}

static clt_status check(trajectories *t, training *one, clt_verify_result *result)
{
    CLT_SCOPED(clt_str) repeat = {0};
    double began = clt_now();
    CLT_TRY(make_data(t));
    CLT_TRY(train(t, one));
    if (one->error != CLT_OK && !one->opened)
        CLT_FAIL(one->error, "%s", one->reason + strlen(clt_status_text(one->error)) + 2);
    judge(one, result);
    repeat_command(t, one, &repeat);
    CLT_TRY(clt_str_check(&repeat));
    t->trained++;
    result->state = !one->reason[0]             ? CLT_VERIFY_PASS
                    : one->error == CLT_EDEVMEM ? CLT_VERIFY_SKIP /* no memory: as for other checks */
                                                : CLT_VERIFY_FAIL;
    t->failed += result->state == CLT_VERIFY_FAIL;
    result->reason = one->reason;
    result->repeat = repeat.text;
    result->ms = 1000 * (clt_now() - began);
    result->bits = clt_hash64(one->numbers, sizeof one->numbers);
    t->options->result(t->options->context, result);
    return verify_report_curve(t->report, one->numbers, one->steps);
}

static bool selects(const clt_verify_options *options, int number, uint64_t *matched, char *name, size_t size)
{
    char training_name[TRAJECTORY_NAME];
    trajectory_name(number, training_name);
    snprintf(name, size, "%s/trajectory", training_name);
    if (!(options->modes & VERIFY_TRAJECTORY) || !clt_verify_match(options->pattern, name))
        return false;
    uint64_t index = (*matched)++;
    return options->shards <= 1 || index % (uint64_t)options->shards == (uint64_t)options->shard;
}

bool verify_is_training(const char *name)
{
    const char *mode = strrchr(name, '/');
    return mode && strcmp(mode, "/trajectory") == 0;
}

uint64_t verify_trajectory_count(const clt_verify_options *options)
{
    char name[TRAJECTORY_NAME + 16];
    uint64_t matched = 0, count = 0;
    for (int i = 0; i < TRAJECTORIES; i++)
        count += selects(options, i, &matched, name, sizeof name);
    return count;
}

clt_status verify_trajectory(const clt_verify_options *options, const char *caps, double limit,
                             uint64_t first, verify_report *report)
{
    CLT_SCOPED(trajectories)
    t = {.options = options, .caps = caps, .limit = limit, .report = report};
    uint64_t matched = 0;
    for (int i = 0; i < TRAJECTORIES; i++) {
        training one = {.number = i};
        if (!selects(options, i, &matched, one.name, sizeof one.name))
            continue;
        clt_verify_result result = {.index = first + matched - 1,
                                    .name = one.name,
                                    .state = CLT_VERIFY_PASS,
                                    .reason = "",
                                    .repeat = "",
                                    .round = 1,
                                    .seed = options->seed};
        if (options->modes & CLT_VERIFY_LIST)
            options->result(options->context, &result);
        else
            CLT_TRY(check(&t, &one, &result));
    }
    if (t.failed > 0)
        CLT_FAIL(CLT_ECHECK, "verify: %d of %d trainings differ from the recorded ones", t.failed, t.trained);
    return CLT_OK;
}
