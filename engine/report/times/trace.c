/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes traces: complete events ("X") on named tracks of one process, with times in microseconds since the
 * first event. */
#include "engine/report/times/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct slice {
    int track;
    const char *name, *category; /* name NULL: "step N" */
    int64_t id;
    uint64_t begin_ns, end_ns; /* times on the device's clock */
    uint64_t bytes;
    double flops;
    const char *kernel, *variant, *layer;
} slice;

struct clt_trace {
    slice *slices;
    size_t capacity, count;
    uint64_t lost;
    double offset; /* host time, in seconds, at which the device's clock was 0: the least of all estimates */
    bool have_offset;
};

clt_status clt_trace_create(size_t capacity, clt_trace **out)
{
    CLT_SCOPED(clt_trace) *t = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "trace"));
    CLT_TRY(clt_alloc(&t->slices, capacity, sizeof *t->slices, "trace"));
    t->capacity = capacity;
    *out = CLT_TAKE(t);
    return CLT_OK;
}

void clt_trace_destroy(clt_trace *t)
{
    if (!t)
        return;
    free(t->slices);
    free(t);
}

static void add(clt_trace *t, const slice *s)
{
    if (t->count < t->capacity)
        t->slices[t->count++] = *s;
    else
        t->lost++;
}

void clt_trace_span(clt_trace *t, const ocl_span *span, const char *name, const char *category)
{
    if (!t || span->end_ns == 0)
        return;
    /* The device stamps a command "queued" before the enqueueing call returns. Each estimate is too late by
     * this delay, so the least estimate is the best. */
    double offset = span->host_at - (double)span->queued_ns * 1e-9;
    if (span->queued_ns && (!t->have_offset || offset < t->offset)) {
        t->offset = offset;
        t->have_offset = true;
    }
    static const int tracks[OCL_QUEUE_COUNT] = {CLT_TRACE_COMPUTE, CLT_TRACE_COPY, CLT_TRACE_OUT,
                                                CLT_TRACE_IN};
    slice s = {.track = tracks[span->queue],
               .name = name,
               .category = category,
               .id = span->tag + 1,
               .begin_ns = span->start_ns,
               .end_ns = span->end_ns,
               .bytes = span->bytes};
    if (span->command) {
        s.bytes = ocl_command_bytes(span->command);
        s.flops = span->command->flops;
        s.kernel = span->command->kernel;
        s.variant = span->command->variant;
        s.layer = span->command->layer;
    }
    add(t, &s);
}

void clt_trace_step(clt_trace *t, int64_t step, uint64_t begin_ns, uint64_t end_ns)
{
    slice s = {
        .track = CLT_TRACE_STEPS, .category = "step", .id = step, .begin_ns = begin_ns, .end_ns = end_ns};
    if (t && end_ns > begin_ns)
        add(t, &s);
}

/* --- the file --- */

static int track_of_host(int track)
{
    return track == CLT_TRACK_HOST    ? CLT_TRACE_HOST
           : track == CLT_TRACK_SAVER ? CLT_TRACE_SAVER
           : track == CLT_TRACK_SUMS  ? CLT_TRACE_SUMS
                                      : CLT_TRACE_LOADER + (track - CLT_TRACK_LOADER);
}

static void name_track(clt_json_writer *w, int track)
{
    static const char *const names[] = {"steps",         "host (enqueue)", "compute queue", "copy queue",
                                        "gradients out", "sums",           "gradients in",  "saver"};
    char loader[32];
    snprintf(loader, sizeof loader, "loader %d", track - CLT_TRACE_LOADER);
    for (int i = 0; i < 2; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "ph", "M");
        clt_jw_kstring(w, "name", i ? "thread_sort_index" : "thread_name");
        clt_jw_kint(w, "pid", 1);
        clt_jw_kint(w, "tid", track + 1);
        clt_jw_kobject(w, "args");
        if (i)
            clt_jw_kint(w, "sort_index", track);
        else
            clt_jw_kstring(w, "name", track < CLT_TRACE_LOADER ? names[track] : loader);
        clt_jw_end_object(w);
        clt_jw_end_object(w);
    }
}

static void name_process(clt_json_writer *w, const char *device)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "ph", "M");
    clt_jw_kstring(w, "name", "process_name");
    clt_jw_kint(w, "pid", 1);
    clt_jw_kobject(w, "args");
    clt_jw_kstring(w, "name", device);
    clt_jw_end_object(w);
    clt_jw_end_object(w);
}

/* Opens an event; the caller adds "args" and closes it. Times are rounded to nanoseconds. */
static void begin_event(clt_json_writer *w, const char *name, const char *category, int track, double ts,
                        double duration)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "ph", "X");
    clt_jw_kstring(w, "name", name);
    clt_jw_kstring(w, "cat", category);
    clt_jw_kint(w, "pid", 1);
    clt_jw_kint(w, "tid", track + 1);
    clt_jw_kdouble(w, "ts", round(ts * 1e3) / 1e3);
    clt_jw_kdouble(w, "dur", round(fmax(duration, 0) * 1e3) / 1e3);
    clt_jw_kobject(w, "args");
}

static void end_event(clt_json_writer *w)
{
    clt_jw_end_object(w);
    clt_jw_end_object(w);
}

static void device_event(const clt_trace *t, const slice *s, double zero, clt_json_writer *w)
{
    char step[32];
    double begin = (t->offset - zero) * 1e6 + (double)s->begin_ns * 1e-3;
    snprintf(step, sizeof step, "step %" PRId64, s->id);
    begin_event(w, s->name ? s->name : step, s->category, s->track, begin,
                (double)(s->end_ns - s->begin_ns) * 1e-3);
    clt_jw_kint(w, "step", s->id);
    if (s->kernel && *s->kernel)
        clt_jw_kstring(w, "kernel", s->kernel);
    if (s->layer && *s->layer)
        clt_jw_kstring(w, "layer", s->layer);
    if (s->variant && *s->variant)
        clt_jw_kstring(w, "variant", s->variant);
    if (s->bytes)
        clt_jw_kint(w, "bytes", (int64_t)s->bytes);
    if (s->flops > 0)
        clt_jw_kdouble(w, "flops", s->flops);
    end_event(w);
}

static void host_event(const clt_span *s, double zero, clt_json_writer *w)
{
    begin_event(w, s->name, "host", track_of_host(s->track), (s->begin - zero) * 1e6,
                (s->end - s->begin) * 1e6);
    clt_jw_kint(w, "id", s->id);
    end_event(w);
}

/* Host time of the earliest event, in seconds. */
static double earliest(const clt_trace *t, const clt_span *host, size_t n_host)
{
    double zero = INFINITY;
    for (size_t i = 0; i < t->count; i++)
        zero = fmin(zero, t->offset + (double)t->slices[i].begin_ns * 1e-9);
    for (size_t i = 0; i < n_host; i++)
        zero = fmin(zero, host[i].begin);
    return isfinite(zero) ? zero : 0;
}

clt_status clt_trace_json(const clt_trace *t, clt_spans *spans, int loaders, const char *device, clt_str *out)
{
    size_t n_host;
    uint64_t lost;
    const clt_span *host = clt_spans_list(spans, &n_host, &lost);
    double zero = earliest(t, host, n_host);
    for (size_t i = 0; i < n_host; i++)
        if (host[i].track >= CLT_TRACK_LOADER && host[i].track - CLT_TRACK_LOADER >= loaders)
            loaders = host[i].track - CLT_TRACK_LOADER + 1;
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "displayTimeUnit", "ms");
    clt_jw_kobject(&w, "otherData");
    clt_jw_kint(&w, "slices_left_out", (int64_t)(t->lost + lost));
    clt_jw_end_object(&w);
    clt_jw_karray(&w, "traceEvents");
    name_process(&w, device);
    bool sums = false;
    for (size_t i = 0; i < t->count; i++)
        sums = sums || t->slices[i].track == CLT_TRACE_OUT;
    for (int track = 0; track < CLT_TRACE_LOADER + loaders; track++)
        if (sums || track < CLT_TRACE_OUT || track > CLT_TRACE_IN)
            name_track(&w, track);
    for (size_t i = 0; i < t->count; i++)
        device_event(t, &t->slices[i], zero, &w);
    for (size_t i = 0; i < n_host; i++)
        host_event(&host[i], zero, &w);
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}
