/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: reads the recorder (cl/command/record.h), which has the times of commands, and passes them to
 * engine/report, which computes the figures. */
#include "engine/train/inspect/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/report/times/advice.h"
#include "engine/report/times/trace.h"
#include "engine/train/ranks/sync.h"

#define LIMITS_SECONDS 1.0
#define WARM_UP 2 /* first steps, which sums and advice ignore */

/* Sums over the steps after warm-up. */
typedef struct step_sums {
    int64_t steps;
    double step_ns, busy_ns, idle_ns[CLT_IDLE_COUNT], data_ms, comm_ms;
} step_sums;

/* CPU time of the main thread in metered steps (whose OpenCL calls are timed), and in plain steps between
 * them. */
typedef struct host_sums {
    bool running; /* the current step is counted */
    bool on;      /* the current step is metered */
    double cpu;   /* CPU time of the thread when the step began */
    ocl_meter_reading reading;
    int64_t steps, plain_steps;
    double total, inside, plain_total;
    uint64_t calls;
} host_sums;

struct clt_watch {
    clt_run *run;
    clt_watch_options options;
    bool recording, every_command;
    int meter_every;
    /* end of the previous step on the device's clock; 0: the step begins with its first command */
    uint64_t last_end;
    clt_step_times times;
    clt_phase_fill fill;
    step_sums sums;
    host_sums host;
    clt_profile *profile;
    clt_trace *trace;
    clt_spans *spans;
    int64_t trace_first, trace_end, digesting;
};

/* --- creating and ending --- */

static bool in_window(const clt_watch *w, int64_t step)
{
    return w->trace && step >= w->trace_first && step < w->trace_end;
}

/* Chooses the steps of the trace; a short run is traced to its end. */
static void place_window(clt_watch *w, size_t commands)
{
    const clt_watch_options *o = &w->options;
    int64_t most = CLT_WATCH_TRACE_SLICES / (int64_t)(commands + 1);
    int64_t steps = most < 1 ? 1 : most < CLT_WATCH_TRACE_STEPS ? most : CLT_WATCH_TRACE_STEPS;
    int64_t first = o->trace_from >= 0 ? o->trace_from : o->first_step + 3;
    if (first > o->last_step - steps && o->trace_from < 0)
        first = o->last_step - steps;
    w->trace_first = first < o->first_step ? o->first_step : first;
    w->trace_end = w->trace_first + steps < o->last_step ? w->trace_first + steps : o->last_step;
}

static clt_status make_trace(clt_watch *w, size_t commands)
{
    size_t micro = (size_t)w->run->job->accumulation, steps = CLT_WATCH_TRACE_STEPS;
    place_window(w, commands);
    CLT_TRY(clt_trace_create(CLT_WATCH_TRACE_SLICES + 2 * steps, &w->trace));
    /* room for a span of each loader thread for every micro-batch, and for spans of the host */
    size_t workers = (size_t)w->options.workers;
    size_t spans = 1024 + steps * (16 + micro * (8 + workers));
    CLT_TRY(clt_spans_create(spans < CLT_WATCH_TRACE_SLICES ? spans : CLT_WATCH_TRACE_SLICES, &w->spans));
    w->run->train->spans = w->spans;
    return CLT_OK;
}

static clt_status start(clt_watch *w)
{
    const clt_plan *plan = w->run->job->train;
    /* room for commands, two transfers per micro-batch and per sum, the reporter's reads, and a snapshot of
     * all tensors */
    size_t commands = clt_plan_commands(plan) + 2 * (size_t)w->run->job->accumulation + 2 * plan->n_sums + 4;
    size_t capacity = commands * (size_t)(w->options.depth + 2) + 3 * plan->graph->n_params + 8;
    clt_status status = ocl_record_start(w->run->device, capacity);
    if (status == CLT_EUNSUPPORTED && !w->options.profile) {
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    w->recording = true;
    if (w->options.profile)
        CLT_TRY(clt_profile_create(plan, &w->profile));
    return w->options.profile && w->options.trace ? make_trace(w, commands) : CLT_OK;
}

clt_status clt_watch_create(clt_run *run, const clt_watch_options *options, clt_watch **out)
{
    CLT_SCOPED(clt_watch) *w = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&w, 1, sizeof *w, "watch"));
    w->run = run;
    w->options = *options;
    clt_phase_fill_init(&w->fill);
    clt_watch_mode(w, options->profile, options->profile ? CLT_WATCH_METER_EVERY : 0);
    CLT_TRY(start(w));
    *out = CLT_TAKE(w);
    return CLT_OK;
}

void clt_watch_destroy(clt_watch *w)
{
    if (!w)
        return;
    clt_feed_destroy(w->run->feed); /* threads of the feed and of communication write into the spans */
    clt_sync_drain(w->run->sync);
    w->run->feed = NULL;
    if (w->recording)
        ocl_record_stop(w->run->device);
    ocl_meter(w->run->device, false);
    w->run->train->spans = NULL;
    clt_profile_destroy(w->profile);
    clt_trace_destroy(w->trace);
    clt_spans_destroy(w->spans);
    free(w);
}

void clt_watch_mode(clt_watch *w, bool every_command, int meter_every)
{
    w->every_command = every_command;
    w->meter_every = meter_every;
    w->last_end = 0;
}

/* --- around a step --- */

static bool sampled(const clt_watch *w, int64_t step)
{
    int64_t n = step - w->options.first_step;
    return w->every_command || n == 0 || n == WARM_UP || n % CLT_WATCH_EVERY == 0;
}

/* Ends the step that began last and adds it to the sums. Called when the next step begins. */
static void end_host(clt_watch *w)
{
    host_sums *h = &w->host;
    double cpu = clt_thread_cpu() - h->cpu;
    if (h->running && h->on) {
        ocl_meter_reading now = ocl_meter_read(w->run->device);
        h->inside += now.inside - h->reading.inside;
        h->calls += now.calls - h->reading.calls;
        h->total += cpu;
        h->steps++;
    } else if (h->running) {
        h->plain_total += cpu;
        h->plain_steps++;
    }
}

static void begin_host(clt_watch *w, int64_t step)
{
    host_sums *h = &w->host;
    end_host(w);
    h->running = w->meter_every > 0;
    h->on = h->running && (step - w->options.first_step) % w->meter_every == 0;
    ocl_meter(w->run->device, h->on);
    h->reading = ocl_meter_read(w->run->device);
    h->cpu = clt_thread_cpu();
}

void clt_watch_begin(clt_watch *w, int64_t step)
{
    if (w->meter_every > 0 || w->host.running)
        begin_host(w, step);
    if (!w->recording)
        return;
    ocl_record_set(w->run->device, sampled(w, step) ? OCL_RECORD_ALL : OCL_RECORD_EDGES, step);
    if (w->trace && step == w->trace_first)
        clt_spans_open(w->spans, true);
    if (w->trace && step == w->trace_end)
        clt_spans_open(w->spans, false);
}

void clt_watch_end(clt_watch *w, int64_t step)
{
    if (w->recording) /* reads of a snapshot that follow belong to the next step */
        ocl_record_set(w->run->device, OCL_RECORD_EDGES, step + 1);
}

void clt_watch_break(clt_watch *w, bool pause)
{
    w->last_end = 0;
    w->host.running = false;
    if (w->recording && pause)
        ocl_record_set(w->run->device, OCL_RECORD_OFF, w->digesting + 1);
}

/* --- when a step has ended --- */

/* The phase and index of a command of the training plan; false: the command belongs to another plan. */
static bool find_phase(const clt_realized *r, const ocl_command *c, size_t *index, clt_phase *phase)
{
    if (c < r->all.commands || c >= r->all.commands + r->all.count)
        return false;
    *index = (size_t)(c - r->all.commands);
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        if (*index >= r->first[p] && *index < r->last[p])
            *phase = (clt_phase)p;
    return true;
}

static const char *transfer_name(const ocl_span *s)
{
    return s->kind == OCL_SPAN_COPY     ? "input copy"
           : s->kind == OCL_SPAN_D2H    ? "read"
           : s->queue == OCL_QUEUE_COPY ? "upload"
                                        : "write";
}

static void on_span(void *context, const ocl_span *s)
{
    clt_watch *w = context;
    clt_phase phase = CLT_PHASE_FORWARD;
    size_t index = 0;
    if (s->tag != w->digesting) /* a record left over from a step that was not digested */
        return;
    if (s->kind == OCL_SPAN_COMMAND && !find_phase(w->run->train, s->command, &index, &phase))
        return;
    double idle = clt_step_times_add(&w->times, &w->fill, s, phase);
    bool first = w->digesting == w->options.first_step && w->options.last_step - w->digesting > 1;
    if (w->profile && w->every_command && !first && s->queue == OCL_QUEUE_COMPUTE && s->end_ns)
        clt_profile_add_span(s->kind == OCL_SPAN_COMMAND ? clt_profile_command(w->profile, index)
                                                         : clt_profile_transfer(w->profile, s->kind),
                             s, idle);
    if (in_window(w, s->tag))
        clt_trace_span(w->trace, s, s->command ? s->command->label : transfer_name(s),
                       s->command ? clt_phase_name(phase) : "transfer");
}

static void add_sums(step_sums *sums, const clt_step_times *t, double data_ms)
{
    sums->steps++;
    sums->step_ns += clt_step_times_ns(t);
    sums->busy_ns += t->busy_ns;
    for (int k = 0; k < CLT_IDLE_COUNT; k++)
        sums->idle_ns[k] += t->idle_ns[k];
    sums->data_ms += data_ms;
}

/* Adds the figures that the host knows of a step, for a device that gives no times. */
static void add_plain(step_sums *sums, const clt_step_metrics *m)
{
    sums->steps++;
    sums->step_ns += m->step_ms * 1e6;
    sums->data_ms += m->data_ms;
    sums->comm_ms += m->comm_exposed_ms;
}

void clt_watch_digest(clt_watch *w, int64_t step, clt_step_metrics *m)
{
    m->device_busy = m->h2d_gbs = m->d2h_gbs = NAN;
    if (!w->recording) {
        if (step - w->options.first_step >= WARM_UP)
            add_plain(&w->sums, m);
        return;
    }
    w->digesting = step;
    clt_step_times_begin(&w->times, w->last_end);
    uint64_t lost = ocl_record_take(w->run->device, step, on_span, w);
    w->times.unknown |= lost > 0;
    w->last_end = w->times.unknown ? 0 : w->times.end_ns;
    m->device_busy = clt_step_times_busy(&w->times);
    m->h2d_gbs = clt_step_times_h2d(&w->times);
    m->d2h_gbs = clt_step_times_d2h(&w->times);
    if (w->run->ranks.ranks > 1 && !w->times.unknown)
        m->comm_exposed_ms = w->times.idle_ns[CLT_IDLE_COMM] * 1e-6;
    if (in_window(w, step))
        clt_trace_step(w->trace, step + 1, w->times.begin_ns, w->times.end_ns);
    bool first = step == w->options.first_step && w->options.last_step - step > 1;
    if (w->profile)
        w->profile->lost += lost;
    if (w->times.unknown)
        return;
    if (w->profile && w->every_command && !first)
        clt_profile_add_step(w->profile, &w->times);
    if (step - w->options.first_step >= WARM_UP)
        add_sums(&w->sums, &w->times, m->data_ms);
}

/* --- at the end --- */

void clt_watch_measure_limits(clt_watch *w)
{
    if (!w->profile)
        return;
    ocl_record_set(w->run->device, OCL_RECORD_OFF, INT64_MAX);
    w->profile->have_limits =
        ocl_measure_limits(w->run->device, LIMITS_SECONDS, &w->profile->limits) == CLT_OK;
    if (!w->profile->have_limits) /* for instance no memory for test arrays: then no percentages */
        clt_error_clear();
}

const clt_profile *clt_watch_profile(clt_watch *w)
{
    if (!w->profile)
        return NULL;
    clt_profile *p = w->profile;
    p->host_known = clt_watch_host(w, &p->host_inside_ms, &p->host_outside_ms, &p->host_calls);
    return p;
}

double clt_watch_busy(const clt_watch *w)
{
    return w->recording && w->sums.step_ns > 0 ? fmin(1.0, w->sums.busy_ns / w->sums.step_ns) : NAN;
}

/* Returns the time that reading the thread's clock takes. */
static double clock_cost(void)
{
    enum { READINGS = 256 };
    double start = clt_thread_cpu(), last = start;
    for (int i = 0; i < READINGS; i++)
        last = clt_thread_cpu();
    return (last - start) / READINGS;
}

/* Metering reads the clock twice per call, and one reading falls outside of the measured interval. Its cost
 * is the difference between metered and plain steps, but at most the time that reading the clock takes: a
 * larger difference means that the calls themselves took longer, because a slower host finds the driver's
 * thread asleep more often. */
bool clt_watch_host(const clt_watch *w, double *inside_ms, double *outside_ms, double *calls)
{
    const host_sums *h = &w->host;
    double n = h->steps > 0 ? (double)h->steps : 1, total = h->total / n;
    double plain = h->plain_steps > 0 ? h->plain_total / (double)h->plain_steps : total;
    *calls = (double)h->calls / n;
    double cost = fmin(fmax(0, total - plain), 2 * *calls * clock_cost());
    double outside = fmin(plain, fmax(0, total - h->inside / n - 0.5 * cost));
    *outside_ms = outside * 1e3;
    *inside_ms = (plain - outside) * 1e3;
    return h->steps > 0;
}

bool clt_watch_trace_window(const clt_watch *w, int64_t *first, int64_t *last)
{
    *first = w->trace_first;
    *last = w->trace_end - 1;
    return w->trace && w->trace_first < w->trace_end;
}

clt_status clt_watch_trace(clt_watch *w, clt_str *out)
{
    clt_spans_open(w->spans, false);
    return clt_trace_json(w->trace, w->spans, clt_feed_workers(w->run->feed), w->run->job->desc.name, out);
}

static void collect_facts(const clt_watch *w, clt_advice_facts *f)
{
    const clt_run *run = w->run;
    const step_sums *s = &w->sums;
    double n = s->steps > 0 ? (double)s->steps : 1;
    int share = run->ranks.core_ranks > 1 ? run->ranks.core_ranks : 1;
    *f = (clt_advice_facts){.steps = s->steps,
                            .step_ms = s->step_ns * 1e-6 / n,
                            .idle_input_ms = s->idle_ns[CLT_IDLE_INPUT] * 1e-6 / n,
                            .idle_comm_ms = s->idle_ns[CLT_IDLE_COMM] * 1e-6 / n,
                            .idle_host_ms = s->idle_ns[CLT_IDLE_HOST] * 1e-6 / n,
                            .data_ms = s->data_ms / n,
                            .load_ms = clt_feed_load_seconds(run->feed) * 1e3,
                            .workers = clt_feed_workers(run->feed),
                            .prefetch = clt_feed_slots(run->feed),
                            .cpus = clt_cpu_count() / share,
                            .micro_batch = run->job->micro_batch,
                            .global_batch = run->job->global_batch,
                            .accumulation = run->job->accumulation,
                            .ranks = run->job->ranks,
                            .commands = clt_plan_commands(run->job->train)};
}

void clt_watch_advice(clt_watch *w, double utilization, char *text, size_t size)
{
    clt_advice_facts f;
    text[0] = '\0';
    if (!w->recording && isnan(utilization))
        return;
    collect_facts(w, &f);
    if (!w->recording)
        clt_advice_count(&f, utilization, w->sums.steps > 0 ? w->sums.comm_ms / (double)w->sums.steps : 0);
    if (clt_advice(&f, text, size) != CLT_ADVICE_MICRO_BATCH)
        return;
    /* finding out whether a larger batch fits needs planning, so it is only done where the advice depends on
     * it */
    int64_t micro = 2 * f.micro_batch, global = clt_advice_halves(&f) ? f.global_batch : 2 * f.global_batch;
    bool fits = false;
    if (clt_job_fits(w->run->job, micro, global, &fits) != CLT_OK) { /* no reason to end the run */
        clt_error_clear();
        text[0] = '\0';
        return;
    }
    f.double_misfits = !fits;
    clt_advice(&f, text, size);
}
