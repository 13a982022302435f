/* SPDX-License-Identifier: Apache-2.0
 *
 * Host spans: what each thread did, with begin and end, in memory allocated beforehand. The list is closed
 * until a trace is wanted; adding a span to a closed list costs almost nothing. Spans exist for traces and
 * know nothing of their format. */
#ifndef ENGINE_BASE_SPAN_H
#define ENGINE_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Tracks: one for each thread. SUMS is the communication thread. Loader thread i is CLT_TRACK_LOADER + i. */
enum { CLT_TRACK_HOST, CLT_TRACK_SAVER, CLT_TRACK_SUMS, CLT_TRACK_LOADER };

typedef struct clt_span {
    const char *name; /* must live as long as the spans */
    int64_t id;       /* step or batch */
    int track;
    double begin, end; /* clt_now() */
} clt_span;

typedef struct clt_spans clt_spans;
clt_status clt_spans_create(size_t capacity, clt_spans **out);
void clt_spans_destroy(clt_spans *spans);
void clt_spans_open(clt_spans *spans, bool open);
/* Adds a span; may be called from any thread. The span is dropped if `spans` is NULL, closed or full; spans
 * dropped from a full list are counted. */
void clt_spans_add(clt_spans *spans, int track, const char *name, int64_t id, double begin, double end);
/* The spans of a closed list; *lost: number of spans that were dropped because it was full. */
const clt_span *clt_spans_list(clt_spans *spans, size_t *count, uint64_t *lost);

#endif
