/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces for Perfetto (ui.perfetto.dev) and chrome://tracing: what queues and threads did during a few steps,
 * in the "trace event" JSON that both viewers read. The size is bounded. Knows spans, not devices. */
#ifndef ENGINE_REPORT_TIMES_TRACE_H
#define ENGINE_REPORT_TIMES_TRACE_H

#include "cl/command/record.h"
#include "engine/base/span.h"
#include "engine/json/json.h"

/* Tracks, from top to bottom. OUT, SUMS and IN exist with several ranks. Loader thread i is
 * CLT_TRACE_LOADER + i. */
typedef enum clt_trace_track {
    CLT_TRACE_STEPS,
    CLT_TRACE_HOST,
    CLT_TRACE_COMPUTE,
    CLT_TRACE_COPY,
    CLT_TRACE_OUT,
    CLT_TRACE_SUMS,
    CLT_TRACE_IN,
    CLT_TRACE_SAVER,
    CLT_TRACE_LOADER
} clt_trace_track;

typedef struct clt_trace clt_trace;

/* capacity: most spans of queues that are kept; their memory is allocated here. */
clt_status clt_trace_create(size_t capacity, clt_trace **out);
void clt_trace_destroy(clt_trace *trace);
CLT_SCOPED_POINTER(clt_trace, clt_trace_destroy)
/* Adds a command of a queue. name and category are borrowed. */
void clt_trace_span(clt_trace *trace, const ocl_span *span, const char *name, const char *category);
/* Adds a step, counted from 1, on the device's clock. */
void clt_trace_step(clt_trace *trace, int64_t step, uint64_t begin_ns, uint64_t end_ns);
/* Writes the trace. The times at which commands were enqueued serve to convert device times to host times.
 * loaders: number of loader threads, each of which gets a track. */
clt_status clt_trace_json(const clt_trace *trace, clt_spans *host, int loaders, const char *device,
                          clt_str *out);

#endif
