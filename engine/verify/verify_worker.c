/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks in a worker process, so that a driver that crashes or hangs in one of them fails that one alone: the
 * worker names each check before it runs it, and the next worker goes on behind the one that ended it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/child.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/verify/verify_internal.h"

#define OPEN_SECONDS 1200.0 /* until the first check: a device may be asked for its capabilities first */

/* --- the worker's side --- */

/* Reasons have lines, answers are one. */
static void escape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 3 < size; text++) {
        if (*text == '\n' || *text == '\\')
            out[used++] = '\\';
        out[used++] = *text == '\n' ? 'n' : *text;
    }
    out[used] = '\0';
}

static void unescape(char *text)
{
    char *out = text;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0')
            *out++ = *++text == 'n' ? '\n' : *text;
        else
            *out++ = *text;
    }
    *out = '\0';
}

static void say_opened(void *context, const ocl_device_desc *device)
{
    clt_status *said = context;
    if (*said == CLT_OK)
        *said = clt_child_say("device %s %s", device->spec, device->name);
}

static void say_begun(void *context, uint64_t index, const char *name)
{
    clt_status *said = context;
    if (*said == CLT_OK)
        *said = clt_child_say("begin %" PRIu64 " %s", index, name);
}

static void say_result(void *context, const clt_verify_result *result)
{
    clt_status *said = context;
    char reason[4096];
    escape(result->reason ? result->reason : "", reason, sizeof reason);
    if (*said == CLT_OK)
        *said = clt_child_say("end %d %a %a %a %s", (int)result->state, result->error, result->limit,
                              result->ms, reason);
}

clt_status clt_verify_work(const clt_verify_options *options)
{
    clt_status said = CLT_OK;
    clt_verify_options own = *options;
    clt_verify_summary summary;
    char text[4096];
    CLT_TRY(clt_child_begin());
    own.opened = say_opened;
    own.begun = say_begun;
    own.result = say_result;
    own.context = &said;
    clt_status status = clt_verify_run(&own, &summary);
    CLT_TRY(said); /* nobody listens any more */
    if (status == CLT_OK || status == CLT_ECHECK || (status == CLT_EUSAGE && summary.matched == 0)) {
        clt_error_clear();
        return clt_child_say("done %" PRIu64, summary.matched);
    }
    escape(clt_error_text(), text, sizeof text);
    clt_error_clear(); /* the parent says it */
    return clt_child_say("error %d %s", (int)status, text);
}

/* --- the parent's side --- */

typedef struct supervisor {
    const clt_verify_options *options;
    clt_verify_summary *summary;
    double limit;
    char spec[16], device[OCL_NAME_SIZE];
    bool opened, running, done;
    int ended;      /* checks of this worker */
    uint64_t index; /* of the check that runs, or ran last */
    char name[256];
    clt_status error; /* what the worker ended with */
    char error_text[4096];
} supervisor;

static void deliver(supervisor *s, clt_verify_result *result)
{
    char repeat[1024];
    bool failed = result->state != CLT_VERIFY_PASS && result->state != CLT_VERIFY_SKIP;
    clt_verify_repeat(s->options, s->name, s->summary->seed, s->spec, failed && s->ended > 0, repeat,
                      sizeof repeat);
    s->ended++;
    result->name = s->name;
    result->repeat = repeat;
    s->summary->count[result->state]++;
    s->running = false;
    if (s->options->result)
        s->options->result(s->options->context, result);
}

static bool take_end(supervisor *s, const char *line)
{
    clt_verify_result result = {0};
    char reason[CLT_CHILD_LINE_SIZE];
    int state, at = 0;
    if (!s->running ||
        sscanf(line, "end %d %la %la %la%n", &state, &result.error, &result.limit, &result.ms, &at) != 4)
        return false;
    if (state < CLT_VERIFY_PASS || state > CLT_VERIFY_MISTRUST)
        return false;
    snprintf(reason, sizeof reason, "%s", line + at + (line[at] == ' '));
    unescape(reason);
    result.state = (clt_verify_state)state;
    result.reason = reason;
    deliver(s, &result);
    return true;
}

/* False: the worker has ended with an error, or writes what it cannot mean. */
static bool take_line(supervisor *s, const char *line)
{
    int at = 0, status;
    if (sscanf(line, "device %15s %n", s->spec, &at) == 1 && at > 0) {
        snprintf(s->device, sizeof s->device, "%s", line + at);
        s->opened = true;
        return true;
    }
    if (sscanf(line, "begin %" SCNu64 " %255s", &s->index, s->name) == 2) {
        s->running = true;
        return true;
    }
    if (sscanf(line, "done %" SCNu64, &s->summary->matched) == 1) {
        s->done = true;
        return true;
    }
    if (sscanf(line, "error %d %n", &status, &at) == 1 && status > CLT_OK && status < CLT_STATUS_COUNT) {
        s->error = (clt_status)status;
        snprintf(s->error_text, sizeof s->error_text, "%s", line + at);
        unescape(s->error_text);
        return false;
    }
    return take_end(s, line);
}

static clt_status start(const supervisor *s, const char *program, clt_child **child)
{
    const clt_verify_options *o = s->options;
    const char *arguments[24] = {"verify-worker"};
    char modes[16], mask[16], shard[16], shards[16], seed[24], from[24];
    int n = 1;
    snprintf(modes, sizeof modes, "%u", o->modes);
    snprintf(mask, sizeof mask, "%08" PRIx32, o->caps_mask);
    snprintf(shard, sizeof shard, "%d", o->shard);
    snprintf(shards, sizeof shards, "%d", o->shards);
    snprintf(seed, sizeof seed, "%" PRIu64, s->summary->seed);
    snprintf(from, sizeof from, "%" PRIu64, s->running ? s->index + 1 : o->from);
    const char *values[][2] = {
        {"--pattern", o->pattern}, {"--device", o->device_spec}, {"--modes", modes}, {"--mask", mask},
        {"--shard", shard},        {"--shards", shards},         {"--seed", seed},   {"--from", from}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (values[i][1] == NULL)
            continue;
        arguments[n++] = values[i][0];
        arguments[n++] = values[i][1];
    }
    if (o->quick)
        arguments[n++] = "--quick";
    arguments[n] = NULL;
    return clt_child_start(program, arguments, CLT_CHILD_STREAMS, child);
}

/* The check that the worker did not survive has failed. */
static void fail_check(supervisor *s, clt_child_event event, const clt_child_end *end)
{
    char reason[4200];
    clt_verify_result result = {.state = CLT_VERIFY_FAIL, .reason = reason};
    if (s->error != CLT_OK)
        snprintf(reason, sizeof reason, "%s: %s", clt_status_text(s->error), s->error_text);
    else if (event == CLT_CHILD_SILENT)
        snprintf(reason, sizeof reason, "the driver did not answer in %g s", s->limit);
    else if (event == CLT_CHILD_LINE)
        snprintf(reason, sizeof reason, "the worker process wrote what it cannot mean");
    else
        snprintf(reason, sizeof reason, "the driver ended the worker process with %s", end->text);
    deliver(s, &result);
}

/* One worker, from start to end. */
static clt_status run_worker(supervisor *s, const char *program)
{
    clt_child *child;
    clt_child_end end;
    const char *line = "";
    clt_child_event event;
    CLT_TRY(start(s, program, &child));
    s->opened = s->running = false;
    s->ended = 0;
    s->error = CLT_OK;
    do
        event = clt_child_next(child, s->running ? s->limit : OPEN_SECONDS, &line);
    while (event == CLT_CHILD_LINE && take_line(s, line) && !s->done);
    clt_child_stop(child, &end);
    if (s->done)
        return CLT_OK;
    if (s->running && (s->error == CLT_OK || s->error == CLT_EDEVLOST)) {
        fail_check(s, event, &end);
        s->running = true; /* the next worker begins behind it */
        return CLT_OK;
    }
    if (s->error != CLT_OK)
        CLT_FAIL(s->error, "%s", s->error_text);
    CLT_FAIL(CLT_EDEVICE, "verify: the worker process ended with %s %s; run 'cltrain doctor'", end.text,
             s->opened ? "between two checks" : "while it opened the device");
}

clt_status clt_verify_run_apart(const clt_verify_options *options, double limit, clt_verify_summary *summary)
{
    supervisor s = {.options = options, .summary = summary, .limit = limit};
    char *program;
    if (options->after) /* a failure that is looked into: in this process, where a debugger is */
        return clt_verify_run(options, summary);
    clt_status status = clt_program_find(&program);
    if (status == CLT_EUNSUPPORTED) {
        CLT_WARN("checks run in this process, which a bad driver may end: %s", clt_error_text());
        return clt_verify_run(options, summary);
    }
    CLT_TRY(status);
    *summary = (clt_verify_summary){.seconds = clt_now()};
    summary->seed = options->seed ? options->seed : clt_verify_fresh_seed();
    status = clt_verify_check_options(options);
    while (status == CLT_OK && !s.done)
        status = run_worker(&s, program);
    free(program);
    summary->seconds = clt_now() - summary->seconds;
    CLT_TRY(status);
    return clt_verify_verdict(options, summary, summary->matched, s.spec, s.device);
}
