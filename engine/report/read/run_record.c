/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a run folder into a record. Knows nothing of presentation. */
#include "engine/report/read/run_record.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/config/part.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"
#include "engine/files/process.h"
#include "engine/report/write/rundir.h"

#define MAX_EVENT_BYTES 65536 /* longer events are ignored */
#define MAX_CONFIG_BYTES (8u << 20)
#define FRESH_SECONDS                                                                                        \
    90.0 /* seconds; a run of another host is assumed to be running if its file changed within this time */

static const char *const event_names[CLT_RUN_EVENT_KINDS] = {
    [CLT_RUN_EVENT_START] = "start",     [CLT_RUN_EVENT_SAVED] = "saved",
    [CLT_RUN_EVENT_SAMPLE] = "sample",   [CLT_RUN_EVENT_ADVICE] = "advice",
    [CLT_RUN_EVENT_WARNING] = "warning", [CLT_RUN_EVENT_NOTICE] = "notice",
    [CLT_RUN_EVENT_STOPPED] = "stopped", [CLT_RUN_EVENT_FAILED] = "failed",
    [CLT_RUN_EVENT_END] = "end",         [CLT_RUN_EVENT_OTHER] = "",
};

const char *clt_run_verdict_text(clt_run_verdict verdict)
{
    static const char *const texts[] = {"finished", "interrupted", "failed", "running", "not finished"};
    return texts[verdict];
}

/* --- members of a JSON object --- */

void clt_run_member(const clt_json_doc *doc, const char *key, clt_str *out)
{
    const clt_json *value = clt_json_given(clt_json_root(doc), key);
    if (!value)
        return;
    if (clt_json_typeof(value) == CLT_JSON_STRING) {
        clt_str_append(out, clt_json_string(value));
    } else {
        clt_json_writer w = clt_json_writer_make(out, 0);
        clt_jw_value(&w, value);
    }
}

double clt_run_number(const clt_json_doc *doc, const char *key)
{
    return clt_json_number_or(clt_json_get(clt_json_root(doc), key), NAN);
}

const clt_json_doc *clt_run_start(const clt_run_record *r)
{
    return r->session_count > 0 ? r->sessions[r->session_count - 1].start : NULL;
}

/* --- sessions and events --- */

static double seconds_of(const clt_run_session *s)
{
    const double clock = s->last_time - s->first_time;
    return clock > 0 && clock >= s->step_seconds * 0.5 ? clock : s->step_seconds;
}

static void open_session(clt_run_record *r, clt_json_doc *start, double time)
{
    r->session_total++;
    if (r->session_count > 0 && !r->sessions[r->session_count - 1].ended_as_wanted)
        r->unwanted_ends++;
    if (r->session_count == CLT_RUN_SESSIONS) { /* the list is full: replace its last entry */
        r->unlisted_seconds += seconds_of(&r->sessions[--r->session_count]);
        clt_json_destroy(r->sessions[r->session_count].start);
    }
    r->sessions[r->session_count++] = (clt_run_session){.start = start,
                                                        .first_step = -1,
                                                        .last_step = -1,
                                                        .first_time = time,
                                                        .last_time = time,
                                                        .ended = CLT_RUN_EVENT_OTHER};
}

static clt_run_session *session_of(clt_run_record *r)
{
    if (r->session_count == 0)
        open_session(r, NULL, NAN);
    return &r->sessions[r->session_count - 1];
}

static void note_time(clt_run_record *r, double time)
{
    clt_run_session *s = session_of(r);
    if (!isfinite(time))
        return;
    if (!isfinite(s->first_time))
        s->first_time = time;
    s->last_time = r->last_time = time;
}

static clt_run_event_kind most_frequent(const clt_run_record *r)
{
    int count[CLT_RUN_EVENT_KINDS] = {0}, most = 0;
    for (size_t i = 0; i < r->event_count; i++)
        count[r->events[i].kind]++;
    for (int k = 1; k < CLT_RUN_EVENT_KINDS; k++)
        most = count[k] > count[most] ? k : most;
    return (clt_run_event_kind)most;
}

/* Too many events: removes every second one of the most frequent kind. */
static void thin_events(clt_run_record *r)
{
    clt_run_event_kind kind = most_frequent(r);
    size_t kept = 0;
    int seen = 0;
    for (size_t i = 0; i < r->event_count; i++) {
        bool drop = r->events[i].kind == kind && seen++ % 2 == 1;
        if (drop)
            clt_json_destroy(r->events[i].doc);
        else
            r->events[kept++] = r->events[i];
    }
    r->event_count = kept;
}

static clt_run_event_kind kind_of(const clt_json_doc *doc)
{
    const clt_json *name = clt_json_get(clt_json_root(doc), "event");
    for (int k = 0; k < CLT_RUN_EVENT_OTHER; k++)
        if (clt_json_is(name, event_names[k]))
            return (clt_run_event_kind)k;
    return CLT_RUN_EVENT_OTHER;
}

/* True if the event tells that a session ended as its user wanted. */
static bool ended_as_wanted(const clt_run_event *event)
{
    static const char *const reasons[] = {"SIGINT", CLT_REASON_STOP_FILE, CLT_REASON_BUDGET,
                                          CLT_REASON_PROGRAM};
    const clt_json *told = clt_json_get(clt_json_root(event->doc), "reason");
    bool is = event->kind == CLT_RUN_EVENT_END;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons && event->kind == CLT_RUN_EVENT_STOPPED; i++)
        is = is || clt_json_is(told, reasons[i]);
    return is;
}

static clt_status add_event(clt_run_record *r, const clt_metrics_line *line, const char *text, size_t length)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    if (length > MAX_EVENT_BYTES) {
        r->counts.garbage++;
        return CLT_OK;
    }
    CLT_TRY(clt_json_parse(text, length, "metrics.jsonl", CLT_EDATA, &doc));
    clt_run_event event = {kind_of(doc), line->step, line->value[CLT_METRIC_TIME], doc};
    if (event.kind == CLT_RUN_EVENT_START) {
        clt_json_doc *start;
        CLT_TRY(clt_json_parse(text, length, "metrics.jsonl", CLT_EDATA, &start));
        open_session(r, start, event.time);
    }
    if (event.kind == CLT_RUN_EVENT_STOPPED || event.kind == CLT_RUN_EVENT_FAILED ||
        event.kind == CLT_RUN_EVENT_END) {
        session_of(r)->ended = event.kind;
        session_of(r)->ended_as_wanted = ended_as_wanted(&event);
    }
    clt_cost_take_event(&r->cost, doc);
    note_time(r, event.time);
    if (r->event_count == CLT_RUN_EVENTS)
        thin_events(r);
    r->events[r->event_count++] = event;
    r->event_total[event.kind]++;
    doc = NULL; /* the event owns it */
    return CLT_OK;
}

/* --- lines --- */

/* True if the line has a value to draw for the metric. A null is drawn as a gap where it stands for a number
 * that was not finite; elsewhere it means that the number was unknown. */
static bool to_draw(const clt_metrics_line *line, int metric)
{
    if (!clt_line_has(line, (clt_metric)metric) || metric == CLT_METRIC_TIME || metric == CLT_METRIC_SKIPPED)
        return false;
    if (isfinite(line->value[metric]) || metric == CLT_METRIC_LOSS || metric == CLT_METRIC_EVAL_LOSS)
        return true;
    return metric == CLT_METRIC_GRAD_NORM && line->nonfinite;
}

clt_run_loss *clt_run_loss_named(clt_run_record *r, const char *name)
{
    for (int i = 0; i < r->loss_count; i++)
        if (strcmp(r->losses[i].name, name) == 0)
            return &r->losses[i];
    return NULL;
}

/* Adds each of several losses. A null stands for a number that was not finite, or was unknown. */
static clt_status add_losses(clt_run_record *r, const clt_metrics_line *line)
{
    for (int i = 0; i < line->n_losses; i++) {
        const clt_line_loss *told = &line->losses[i];
        clt_run_loss *loss = clt_run_loss_named(r, told->name);
        if (!loss && r->loss_count < CLT_LINE_LOSSES) {
            loss = &r->losses[r->loss_count++];
            memcpy(loss->name, told->name, sizeof loss->name);
        }
        if (loss && (isfinite(told->value) || line->nonfinite))
            CLT_TRY(clt_curve_add(line->kind == CLT_LINE_EVAL ? &loss->eval : &loss->train, line->step,
                                  told->value));
    }
    return CLT_OK;
}

static clt_status add_values(clt_run_record *r, const clt_metrics_line *line)
{
    CLT_TRY(add_losses(r, line));
    for (int m = 0; m < CLT_METRIC_COUNT; m++)
        if (to_draw(line, m))
            CLT_TRY(clt_curve_add(&r->curve[m], line->step, line->value[m]));
    return CLT_OK;
}

static clt_status add_step(clt_run_record *r, const clt_metrics_line *line)
{
    clt_run_session *s = session_of(r);
    double skipped = line->value[CLT_METRIC_SKIPPED];
    if (s->first_step < 0)
        s->first_step = line->step;
    s->last_step = r->last_step = line->step;
    if (line->value[CLT_METRIC_STEP_MS] > 0)
        s->step_seconds += line->value[CLT_METRIC_STEP_MS] / 1000;
    clt_cost_take_step(&r->cost, line->step, line->value[CLT_METRIC_COST]);
    clt_cost_take_energy(&r->cost, line->value[CLT_METRIC_ENERGY]);
    if (skipped >= 0 && skipped < 9e15 && (int64_t)skipped != r->skipped) {
        /* the total may start again at 0 in a resumed run */
        if ((int64_t)skipped > r->skipped)
            CLT_TRY(clt_curve_add(&r->skips, line->step, skipped - (double)r->skipped));
        r->skipped = (int64_t)skipped;
    }
    return add_values(r, line);
}

clt_status clt_run_record_add(clt_run_record *r, const clt_metrics_line *line, const char *text,
                              size_t length)
{
    if (line->kind == CLT_LINE_EVENT)
        return add_event(r, line, text, length);
    note_time(r, line->value[CLT_METRIC_TIME]);
    if (line->kind == CLT_LINE_STEP)
        return add_step(r, line);
    return line->kind == CLT_LINE_EVAL ? add_values(r, line) : CLT_OK;
}

/* --- how it ended --- */

/* The time at which a process of this host started, in seconds since 1970; NAN if the system does not say. */
static double process_began(long process)
{
    char text[64];
    int64_t ticks = clt_process_start(process);
    clt_file_beginning("/proc/uptime", text, sizeof text);
    double up = strtod(text, NULL);
    return ticks >= 0 && up > 0 ? (double)time(NULL) - up + (double)ticks / (double)sysconf(_SC_CLK_TCK)
                                : NAN;
}

/* True if the process that wrote the lock file is alive; false if its id belongs to a newer process. */
static bool process_lives(long process, double locked)
{
    if (kill((pid_t)process, 0) != 0 && errno != EPERM)
        return false;
    double began = process_began(process);
    return isnan(began) || began < locked + 5;
}

/* The state of the process that holds the folder's lock: 1 it is alive, 0 there is no such process, -1 it is
 * on another host. This does not try to take the lock, because a run that starts at that moment would be
 * refused. */
static int holder_lives(const clt_run_record *r)
{
    char path[4096], host[256] = {0}, holder[321], there[256];
    long process = 0;
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/lock", r->folder);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return 0;
    clt_file_beginning(path, holder, sizeof holder);
    if (sscanf(holder, "process %ld on host %255s", &process, there) != 2 || process <= 0 ||
        process > INT32_MAX)
        return 0;
    bool here = gethostname(host, sizeof host - 1) == 0 && strcmp(host, there) == 0;
    return here ? process_lives(process, (double)info.st_mtime) : -1;
}

/* The text of the last event of a kind: its message, reason or code. */
static void last_event_text(const clt_run_record *r, clt_run_event_kind kind, const char *key, clt_str *out)
{
    for (size_t i = r->event_count; i-- > 0;)
        if (r->events[i].kind == kind) {
            clt_run_member(r->events[i].doc, key, out);
            return;
        }
}

static void find_verdict(clt_run_record *r, clt_str *cause)
{
    clt_run_event_kind ended =
        r->session_count > 0 ? r->sessions[r->session_count - 1].ended : CLT_RUN_EVENT_OTHER;
    int holder = holder_lives(r);
    bool fresh = (double)time(NULL) - r->modified < FRESH_SECONDS;
    if (holder == 1 || (holder == -1 && fresh && ended == CLT_RUN_EVENT_OTHER)) {
        r->verdict = CLT_RUN_RUNNING; /* this includes a run that is just being resumed */
    } else if (ended == CLT_RUN_EVENT_END) {
        r->verdict = CLT_RUN_FINISHED;
    } else if (ended == CLT_RUN_EVENT_STOPPED) {
        r->verdict = CLT_RUN_INTERRUPTED;
        last_event_text(r, ended, "reason", cause);
    } else if (ended == CLT_RUN_EVENT_FAILED) {
        r->verdict = CLT_RUN_FAILED;
        last_event_text(r, ended, "message", cause);
    } else if (r->steps_total > 0 && r->last_step >= r->steps_total) {
        r->verdict = CLT_RUN_FINISHED;
    } else {
        r->verdict = CLT_RUN_ABANDONED;
        clt_str_append(cause,
                       clt_is_remote(r->folder) ? "the bucket does not show whether it still runs"
                       : r->event_count > 0
                           ? "its process ended without a message: it was killed, or the machine failed"
                           : "the run folder does not show how it ended");
    }
}

static void find_total(clt_run_record *r)
{
    const clt_json *train = clt_json_get(clt_json_root(r->config), "train");
    double told = clt_run_number(clt_run_start(r), "steps_total");
    if (told >= 1 && told < 9e15)
        r->steps_total = (int64_t)told;
    else if (!clt_json_int(clt_json_get(train, "steps"), &r->steps_total))
        r->steps_total = 0;
}

clt_status clt_run_record_settle(clt_run_record *r, const clt_history_counts *counts)
{
    struct stat info;
    CLT_SCOPED(clt_str) cause = {0};
    int64_t garbage = r->counts.garbage;
    r->counts = *counts;
    r->counts.garbage += garbage;
    r->modified = stat(r->metrics_path, &info) == 0 ? (double)info.st_mtime : 0;
    find_total(r);
    clt_str_append(&cause, "");
    find_verdict(r, &cause);
    CLT_TRY(clt_str_check(&cause));
    free(r->cause);
    r->cause = CLT_TAKE(cause.text);
    return CLT_OK;
}

/* --- opening --- */

static clt_status open_config(clt_run_record *r)
{
    CLT_FREED char *path = NULL, *text = NULL;
    size_t size;
    CLT_TRY(clt_path_join(r->folder, "config.resolved.json", &path));
    clt_status status = clt_file_read(path, false, MAX_CONFIG_BYTES, CLT_EDATA, &text, &size);
    if (status == CLT_OK)
        status = clt_json_parse(text, size, "config.resolved.json", CLT_EDATA, &r->config);
    if (status != CLT_EDATA)
        return status;
    r->config_problem = strdup(clt_error_text()); /* a report without a config is still useful */
    clt_error_clear();
    if (!r->config_problem)
        CLT_FAIL(CLT_ENOMEM, "reading a run's config: out of host memory");
    return CLT_OK;
}

/* Sets the name: the last component of the folder's path; for "." and ".." of its real path. */
static clt_status take_name(clt_run_record *r)
{
    size_t length = strlen(r->folder);
    while (length > 1 && r->folder[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && r->folder[begin - 1] != '/')
        begin--;
    bool dots = strspn(r->folder + begin, ".") >= length - begin;
    CLT_FREED char *real = dots ? clt_path_real(r->folder) : NULL;
    if (dots && !real)
        return clt_fail_errno(errno == ENOMEM ? CLT_ENOMEM : CLT_EDATA, errno, "opening '%s'", r->folder);
    const char *slash = real ? strrchr(real, '/') : NULL;
    r->name =
        real ? strdup(slash && slash[1] ? slash + 1 : real) : strndup(r->folder + begin, length - begin);
    if (!r->name)
        CLT_FAIL(CLT_ENOMEM, "opening '%s': out of host memory", r->folder);
    return CLT_OK;
}

clt_status clt_run_record_open(const char *operand, clt_run_record **out)
{
    CLT_SCOPED(clt_run_record) *r = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "the record of a run"));
    r->last_step = -1;
    r->last_time = NAN;
    CLT_TRY(clt_history_find(operand, &r->metrics_path, &r->folder));
    CLT_TRY(take_name(r));
    CLT_TRY(open_config(r));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

clt_status clt_run_record_load(const char *operand, clt_run_record **out)
{
    CLT_SCOPED(clt_run_record) *r = NULL;
    CLT_SCOPED(clt_history) *history = NULL;
    clt_metrics_line line;
    const char *text;
    size_t length;
    bool more = true;
    *out = NULL;
    CLT_TRY(clt_run_record_open(operand, &r));
    CLT_TRY(clt_history_open(r->metrics_path, &history));
    while (more) {
        CLT_TRY(clt_history_next(history, &line, &text, &length, &more));
        if (more)
            CLT_TRY(clt_run_record_add(r, &line, text, length));
    }
    CLT_TRY(clt_run_record_settle(r, clt_history_counted(history)));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

void clt_run_record_free(clt_run_record *r)
{
    if (!r)
        return;
    for (int m = 0; m < CLT_METRIC_COUNT; m++)
        clt_curve_free(&r->curve[m]);
    for (int i = 0; i < r->loss_count; i++) {
        clt_curve_free(&r->losses[i].train);
        clt_curve_free(&r->losses[i].eval);
    }
    clt_curve_free(&r->skips);
    for (size_t i = 0; i < r->event_count; i++)
        clt_json_destroy(r->events[i].doc);
    for (size_t i = 0; i < r->session_count; i++)
        clt_json_destroy(r->sessions[i].start);
    clt_json_destroy(r->config);
    free(r->config_problem);
    free(r->cause);
    free(r->folder);
    free(r->metrics_path);
    free(r->name);
    free(r);
}

/* --- facts --- */

clt_metric clt_run_speed_metric(const clt_run_record *r)
{
    double tokens = clt_curve_median(&r->curve[CLT_METRIC_TOKENS_PER_S]);
    double samples = clt_curve_median(&r->curve[CLT_METRIC_SAMPLES_PER_S]);
    return tokens > 1.5 * samples || (isfinite(tokens) && !isfinite(samples)) ? CLT_METRIC_TOKENS_PER_S
                                                                              : CLT_METRIC_SAMPLES_PER_S;
}

static const char *config_word(const clt_run_record *r, const char *section, const char *key)
{
    const clt_json *from = clt_json_get(clt_json_root(r->config), section);
    return clt_json_string(clt_json_get(from, key));
}

bool clt_run_is_language(const clt_run_record *r)
{
    const clt_config_part *family = clt_config_part_find("model.type", config_word(r, "model", "type"));
    const clt_config_part *format = clt_config_part_find("data.type", config_word(r, "data", "type"));
    return r->curve[CLT_METRIC_EVAL_PERPLEXITY].values > 0 || (family && family->language) ||
           (format && format->language);
}

double clt_run_perplexity(const clt_run_record *r, double loss)
{
    return clt_run_is_language(r) && r->loss_count == 0 ? exp(loss) : NAN;
}

const char *clt_run_loss_kind(const clt_run_record *r, char *buffer, size_t size)
{
    const char *type = config_word(r, "model", "type"), *loss = config_word(r, "model", "loss");
    if (clt_run_is_language(r))
        (void)snprintf(buffer, size, "tokens of %s, %s", config_word(r, "data", "type"),
                       config_word(r, "data", "tokenizer"));
    else if (*loss)
        (void)snprintf(buffer, size, "%s", loss);
    else if (strcmp(type, "resnet") == 0 || strcmp(type, "cnn3d") == 0)
        (void)snprintf(buffer, size, "cross_entropy");
    else
        (void)snprintf(buffer, size, "%s", type);
    return buffer;
}

double clt_run_seconds(const clt_run_record *r)
{
    double sum = r->unlisted_seconds;
    for (size_t i = 0; i < r->session_count; i++)
        sum += seconds_of(&r->sessions[i]);
    return sum > 0 ? sum : NAN;
}
