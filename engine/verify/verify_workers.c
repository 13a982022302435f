/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks in worker processes: a driver that crashes or hangs makes only one check fail. A worker names each
 * check before it runs it; if it dies, a new worker continues after that check. There are several workers,
 * each watched by a thread, because compiling kernels takes most of the time, and a driver whose compiler
 * holds a lock (PoCL) uses one core per process. A case is given to the first worker that asks for it. In
 * its first pass over the list a worker gets subjects that no other worker has begun, because cases of one
 * op often share kernels; in its second pass it gets any cases that are left. If the run has an end in time,
 * it then repeats its own cases, whose programs it has built, each time with fresh data. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/verify/verify_internal.h"

#define OPEN_SECONDS 1200.0 /* seconds until the first check, since the device may have to be probed first */
#define SEND_SECONDS 60.0   /* seconds in which a worker must read one line */
#define MAX_WORKERS 16
#define GPU_WORKERS 4 /* each worker has its own context in the device's memory */
/* the limit instead, for a device with this much memory in a host with this many cores */
#define LARGE_GPU_WORKERS 8
#define LARGE_GPU_BYTES (UINT64_C(32) << 30)
#define LARGE_GPU_CORES 8
#define LEAST_CHECKS 24 /* least number of checks per worker, because starting one takes time */

/* A case that a worker has claimed; or a subject, whose cases all go to its first worker in pass 0. */
typedef struct share {
    char *name;
    int worker;           /* number of the worker */
    bool resumes;         /* the worker died in this case: its successor continues with check `from` */
    uint64_t from, round; /* round: how many times workers were given it */
    bool tells;           /* at least one of its checks is not skipped */
} share;

typedef struct shares {
    share *items;
    size_t count, capacity;
} shares;

typedef struct supervisor {
    const clt_verify_options *options;
    clt_verify_summary *summary;
    const char *program;
    double limit;
    uint64_t total;
    pthread_mutex_t lock; /* guards the members below; held while results are delivered */
    pthread_cond_t changed;
    shares subjects, cases;
    ocl_device_desc device;
    bool opened; /* a worker has opened the device */
    bool failed; /* a thread has ended with an error */
    uint64_t matched;
} supervisor;

/* One worker process and the thread that watches it. */
typedef struct watcher {
    supervisor *s;
    int number;
    clt_thread *thread;
    clt_child *child;
    bool running, done, opened;
    int ended;      /* number of checks that this process has finished */
    bool helped;    /* one of its processes has opened the device */
    bool left;      /* the thread has given up: other workers do the rest */
    uint64_t index; /* of the current or last check */
    uint64_t round; /* of the current case */
    char name[256], op_case[256];
    clt_verify_speed speeds[CLT_VERIFY_SPEEDS]; /* n_speeds: what the running check has timed */
    int n_speeds;
    clt_status error; /* error that the process reported when it ended */
    char error_text[4096];
    clt_error end; /* error of the thread */
} watcher;

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

/* --- who runs what --- */

static share *find(const shares *list, const char *name)
{
    for (size_t i = list->count; i-- > 0;) /* newest first, since most queries are about new ones */
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static clt_status add(shares *list, const char *name, int worker)
{
    CLT_TRY(clt_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items,
                     "checks given to workers"));
    share *item = &list->items[list->count];
    *item = (share){.name = strdup(name), .worker = worker, .round = 1};
    if (!item->name)
        CLT_FAIL(CLT_ENOMEM, "giving checks to workers: out of host memory");
    list->count++;
    return CLT_OK;
}

static void drop(shares *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
}

/* True if the worker gets a case again: to continue after the check in which its process died, or in a later
 * pass for another round. */
static bool again(const watcher *w, share *have, int pass)
{
    bool round = pass > 1 && have->worker == w->number && have->tells;
    if (have->resumes) {
        have->resumes = false;
        return true;
    }
    have->from = 0;
    have->round += round;
    return round;
}

/* Decides whether this worker may run the case; *from: index of the first check that it may run. */
static clt_status decide(watcher *w, int pass, const char *subject, const char *op_case, bool *take,
                         uint64_t *from)
{
    supervisor *s = w->s;
    share *have = find(&s->cases, op_case);
    bool late = s->options->until > 0 && clt_now() >= s->options->until &&
                s->cases.count > 0; /* one case is always checked */
    *take = false;
    *from = 0;
    if (have) {
        *take = (have->resumes || !late) && again(w, have, pass);
        *from = have->from;
        have->worker = *take ? w->number : have->worker;
        w->round = have->round;
        return CLT_OK;
    }
    share *owner = find(&s->subjects, subject);
    if (late || (pass == 0 && owner && owner->worker != w->number))
        return CLT_OK;
    if (!owner)
        CLT_TRY(add(&s->subjects, subject, w->number));
    CLT_TRY(add(&s->cases, op_case, w->number));
    w->round = 1;
    *take = true;
    return CLT_OK;
}

static clt_status answer(watcher *w, const char *line)
{
    char subject[128], name[128], text[64];
    uint64_t index, from;
    int pass;
    bool take;
    if (sscanf(line, "claim %d %" SCNu64 " %127s %127s", &pass, &index, subject, name) != 4)
        CLT_FAIL(CLT_EDEVICE, "verify: a worker process wrote an invalid line");
    snprintf(w->op_case, sizeof w->op_case, "%s.%s", subject, name);
    pthread_mutex_lock(&w->s->lock);
    clt_status status = decide(w, pass, subject, w->op_case, &take, &from);
    pthread_mutex_unlock(&w->s->lock);
    CLT_TRY(status);
    int n = take ? snprintf(text, sizeof text, "take %" PRIu64 " %" PRIu64 "\n", from, w->round)
                 : snprintf(text, sizeof text, "leave\n");
    if (clt_child_send(w->child, text, (size_t)n, SEND_SECONDS) != CLT_OK)
        clt_error_clear(); /* the process has died, which reading the next line reports */
    return CLT_OK;
}

/* --- lines of a worker --- */

static void deliver(watcher *w, clt_verify_result *result)
{
    supervisor *s = w->s;
    char repeat[1024];
    bool failed = result->state != CLT_VERIFY_PASS && result->state != CLT_VERIFY_SKIP;
    pthread_mutex_lock(&s->lock);
    result->round = w->round;
    result->seed = s->summary->seed + w->round - 1;
    share *given = find(&s->cases, w->op_case);
    if (given)
        given->tells = given->tells || result->state != CLT_VERIFY_SKIP;
    clt_verify_repeat(s->options, w->name, result->seed, s->device.spec, failed && w->ended > 0, repeat,
                      sizeof repeat);
    w->ended++;
    result->index = w->index;
    result->name = w->name;
    result->repeat = repeat;
    s->summary->count[result->state]++;
    w->running = false;
    if (s->options->result)
        s->options->result(s->options->context, result);
    pthread_mutex_unlock(&s->lock);
}

static bool take_end(watcher *w, const char *line)
{
    clt_verify_result result = {0};
    char reason[CLT_CHILD_LINE_SIZE];
    int state, at = 0;
    if (!w->running || sscanf(line, "end %d %la %la %la %" SCNx64 "%n", &state, &result.error, &result.limit,
                              &result.ms, &result.bits, &at) != 5)
        return false;
    if (state < CLT_VERIFY_PASS || state > CLT_VERIFY_MISTRUST)
        return false;
    snprintf(reason, sizeof reason, "%s", line + at + (line[at] == ' '));
    unescape(reason);
    result.state = (clt_verify_state)state;
    result.reason = reason;
    result.speeds = w->speeds;
    result.n_speeds = w->n_speeds;
    deliver(w, &result);
    return true;
}

static bool take_speed(watcher *w, const char *line)
{
    clt_verify_speed s;
    if (!w->running || w->n_speeds == CLT_VERIFY_SPEEDS ||
        sscanf(line, "speed %79s %la %la %la", s.what, &s.ns, &s.bytes, &s.flops) != 4)
        return false;
    w->speeds[w->n_speeds++] = s;
    return true;
}

static bool take_device(watcher *w, const char *line)
{
    supervisor *s = w->s;
    ocl_device_desc desc;
    if (!clt_verify_take_device(line, &desc))
        return false;
    pthread_mutex_lock(&s->lock);
    w->opened = w->helped = true;
    if (!s->opened) {
        s->device = desc;
        s->opened = true;
        if (s->options->opened)
            s->options->opened(s->options->context, &desc);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* Handles a line of the worker. False: the worker has reported an error, or the line is not valid. */
static bool take_line(watcher *w, const char *line)
{
    int at = 0, status;
    uint64_t matched;
    if (sscanf(line, "begin %" SCNu64 " %255s", &w->index, w->name) == 2) {
        w->running = true;
        w->n_speeds = 0;
        return true;
    }
    if (sscanf(line, "done %" SCNu64, &matched) == 1) {
        pthread_mutex_lock(&w->s->lock);
        w->s->matched = matched;
        pthread_mutex_unlock(&w->s->lock);
        w->done = true;
        return true;
    }
    if (sscanf(line, "error %d %n", &status, &at) == 1 && status > CLT_OK && status < CLT_STATUS_COUNT) {
        w->error = (clt_status)status;
        snprintf(w->error_text, sizeof w->error_text, "%s", line + at);
        unescape(w->error_text);
        return false;
    }
    return take_device(w, line) || take_speed(w, line) || take_end(w, line);
}

/* --- one worker process after the other --- */

clt_status clt_verify_worker_start(const char *program, const clt_verify_options *o, const char *flag,
                                   clt_child **out)
{
    const char *arguments[24] = {"verify-worker"};
    char modes[16], mask[16], shard[16], shards[16], seed[24];
    int n = 1;
    snprintf(modes, sizeof modes, "%u", o->modes);
    snprintf(mask, sizeof mask, "%08" PRIx32, o->caps_mask);
    snprintf(shard, sizeof shard, "%d", o->shard);
    snprintf(shards, sizeof shards, "%d", o->shards);
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    const char *values[][2] = {{"--pattern", o->pattern}, {"--device", o->device_spec}, {"--modes", modes},
                               {"--mask", mask},          {"--shard", shard},           {"--shards", shards},
                               {"--seed", seed}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (values[i][1] == NULL)
            continue;
        arguments[n++] = values[i][0];
        arguments[n++] = values[i][1];
    }
    if (o->small)
        arguments[n++] = "--small";
    if (o->own_forms)
        arguments[n++] = "--own-forms";
    arguments[n] = flag;
    return clt_child_start(program, arguments, CLT_CHILD_STREAMS | CLT_CHILD_INPUT, out);
}

static clt_status start(watcher *w)
{
    clt_verify_options own = *w->s->options;
    own.seed = w->s->summary->seed;
    w->opened = w->running = false;
    w->ended = 0;
    w->error = CLT_OK;
    w->op_case[0] = '\0';
    return clt_verify_worker_start(w->s->program, &own, own.until > 0 ? "--rounds" : NULL, &w->child);
}

/* Reports the check during which the worker died as failed; another worker continues after it. */
static void fail_check(watcher *w, const clt_child_end *end)
{
    char reason[4200];
    clt_verify_result result = {.state = CLT_VERIFY_FAIL, .reason = reason};
    if (w->error != CLT_OK)
        snprintf(reason, sizeof reason, "%s: %s", clt_status_text(w->error), w->error_text);
    else
        clt_child_loss(end, "the driver ended the worker process with", "the driver did not answer in",
                       "the worker process wrote an invalid answer", reason, sizeof reason);
    deliver(w, &result);
    pthread_mutex_lock(&w->s->lock);
    share *lost = find(&w->s->cases, w->op_case);
    if (lost) {
        lost->resumes = true;
        lost->from = w->index + 1;
    }
    pthread_mutex_unlock(&w->s->lock);
}

static clt_status run_worker(watcher *w)
{
    clt_child_end end;
    const char *line;
    clt_status status = start(w);
    CLT_TRY(status);
    for (bool good = true; good && !w->done && status == CLT_OK;) {
        good = clt_child_next(w->child, w->running ? w->s->limit : OPEN_SECONDS, &line) == CLT_CHILD_LINE;
        if (good && strncmp(line, "claim ", 6) == 0)
            status = answer(w, line);
        else if (good)
            good = take_line(w, line);
    }
    clt_child_stop(w->child, &end);
    CLT_TRY(status);
    if (w->done)
        return CLT_OK;
    if (w->running && (w->error == CLT_OK || w->error == CLT_EDEVLOST)) {
        fail_check(w, &end);
        return CLT_OK;
    }
    if (w->error != CLT_OK)
        CLT_FAIL(w->error, "%s", w->error_text);
    CLT_FAIL(CLT_EDEVICE, "verify: the worker process ended with %s %s; run 'cltrain doctor'", end.text,
             w->opened ? "between two checks" : "while it opened the device");
}

static void *watch(void *context)
{
    watcher *w = context;
    clt_status status = CLT_OK;
    bool stop = false;
    while (status == CLT_OK && !w->done && !stop) {
        status = run_worker(w);
        pthread_mutex_lock(&w->s->lock);
        w->left = status != CLT_OK && w->number > 0 && !w->helped;
        w->s->failed = w->s->failed || (status != CLT_OK && !w->left);
        stop = w->s->failed || w->left;
        pthread_cond_broadcast(&w->s->changed);
        pthread_mutex_unlock(&w->s->lock);
    }
    clt_error_take(status, &w->end);
    return NULL;
}

/* --- all of them --- */

/* Number of useful workers; call it when the first worker has opened the device. */
static int wanted(const supervisor *s, int jobs)
{
    int cores = clt_cpu_count(), n = jobs > 0 ? jobs : cores;
    int on_gpu = s->device.global_bytes >= LARGE_GPU_BYTES && cores >= LARGE_GPU_CORES ? LARGE_GPU_WORKERS
                                                                                       : GPU_WORKERS;
    uint64_t busy = (s->total + LEAST_CHECKS - 1) / LEAST_CHECKS;
    if (jobs == 0 && (s->options->modes & CLT_VERIFY_PERF))
        n = 1;
    if (jobs == 0 && !s->device.is_cpu && n > on_gpu)
        n = on_gpu;
    if (jobs == 0 && (uint64_t)n > busy)
        n = (int)busy;
    return n < 1 ? 1 : n > MAX_WORKERS ? MAX_WORKERS : n;
}

/* Starts workers. The first one opens the device alone, so that drivers are listed and probed only once, and
 * the kind of the device is known. */
static clt_status run_workers(supervisor *s, int jobs)
{
    CLT_FREED watcher *watchers = NULL;
    clt_status status;
    CLT_TRY(clt_alloc(&watchers, MAX_WORKERS, sizeof *watchers, "workers of the checker"));
    int n = 0, count = 1;
    for (status = CLT_OK; n < count && status == CLT_OK; n++) {
        watchers[n] = (watcher){.s = s, .number = n};
        status = clt_thread_start(&watchers[n].thread, "checks", watch, &watchers[n]);
        if (status != CLT_OK)
            break;
        pthread_mutex_lock(&s->lock);
        while (n == 0 && !s->opened && !s->failed && !watchers[0].done)
            clt_cond_wait_turn(&s->changed, &s->lock);
        if (n == 0)
            count = s->opened && !s->failed ? wanted(s, jobs) : 1;
        pthread_mutex_unlock(&s->lock);
    }
    if (status != CLT_OK && n > 0) { /* continue with fewer workers */
        clt_error_clear();
        status = CLT_OK;
    }
    clt_error error;
    clt_error_take(status, &error);
    for (int i = 0; i < n; i++) {
        clt_thread_join(watchers[i].thread);
        if (watchers[i].left)
            CLT_WARN("a worker of the checker could not be used: %s", watchers[i].end.text);
        else if (watchers[i].end.status != CLT_OK && error.status == CLT_OK)
            error = watchers[i].end;
    }
    return clt_error_put(&error);
}

clt_status clt_verify_run_workers(const clt_verify_options *options, double limit, int jobs,
                                  clt_verify_summary *summary)
{
    supervisor s = {.options = options, .summary = summary, .limit = limit};
    CLT_FREED char *program = NULL;
    /* a failure is being investigated: stay in this process, to which a debugger may be attached */
    if (options->after)
        return clt_verify_run(options, summary);
    clt_status status = clt_program_find(&program);
    if (status == CLT_EUNSUPPORTED) {
        CLT_WARN("checks run in this process and not in child processes, so a faulty driver may end it: %s",
                 clt_error_text());
        return clt_verify_run(options, summary);
    }
    CLT_TRY(status);
    s.program = program;
    *summary = (clt_verify_summary){.seconds = clt_now()};
    summary->seed = options->seed ? options->seed : clt_verify_fresh_seed();
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    status = clt_verify_check_options(options);
    if (status == CLT_OK)
        status = clt_verify_count(options, &s.total);
    if (jobs != 1 && s.total > LEAST_CHECKS) /* there are several workers, which keep all cores busy */
        clt_child_tell("CLTRAIN_BUILDERS=1");
    if (status == CLT_OK)
        status = run_workers(&s, jobs);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    drop(&s.subjects);
    drop(&s.cases);
    summary->matched = s.matched;
    summary->seconds = clt_now() - summary->seconds;
    CLT_TRY(status);
    return clt_verify_verdict(options, summary, summary->matched, s.device.spec, s.device.name);
}
