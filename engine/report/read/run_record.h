/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of a run for reports, comparisons and `watch`, read from its folder: curves, events, sessions
 * (each start or resume begins one), config, and how the run ended. It only reads; in the folders of older
 * programs events or times may be missing. */
#ifndef ENGINE_REPORT_READ_RUN_RECORD_H
#define ENGINE_REPORT_READ_RUN_RECORD_H

#include "engine/base/scope.h"
#include "engine/json/json.h"
#include "engine/report/read/curve.h"
#include "engine/report/read/history.h"
#include "engine/report/read/run_cost.h"

typedef enum clt_run_event_kind {
    CLT_RUN_EVENT_START,
    CLT_RUN_EVENT_SAVED,
    CLT_RUN_EVENT_SAMPLE,
    CLT_RUN_EVENT_ADVICE,
    CLT_RUN_EVENT_WARNING,
    CLT_RUN_EVENT_NOTICE,
    CLT_RUN_EVENT_STOPPED,
    CLT_RUN_EVENT_FAILED,
    CLT_RUN_EVENT_END,
    CLT_RUN_EVENT_OTHER,
    CLT_RUN_EVENT_KINDS
} clt_run_event_kind;

typedef struct clt_run_event {
    clt_run_event_kind kind;
    int64_t step;
    double time;       /* seconds since 1970, NAN if unknown */
    clt_json_doc *doc; /* the line's object */
} clt_run_event;

/* Most events that are kept. When there are more, every second event of the most frequent kind is removed,
 * but never its first or its last. */
#define CLT_RUN_EVENTS 512
#define CLT_RUN_SESSIONS 128

/* The time from a start or resume to the next. A run without `start` events has one session. */
typedef struct clt_run_session {
    clt_json_doc *start;           /* the start event; NULL if there was none */
    int64_t first_step, last_step; /* first and last step of its training lines; -1: no line */
    double first_time, last_time;  /* seconds since 1970, NAN if unknown */
    double step_seconds;           /* sum of the durations of its steps */
    clt_run_event_kind ended;      /* how it ended: STOPPED, FAILED or END; OTHER: unknown */
    bool ended_as_wanted;          /* as its user wanted: complete, stopped by hand, at the budget */
} clt_run_session;

typedef enum clt_run_verdict {
    CLT_RUN_FINISHED,
    CLT_RUN_INTERRUPTED, /* stopped on request: it can be resumed */
    CLT_RUN_FAILED,
    CLT_RUN_RUNNING,
    CLT_RUN_ABANDONED /* not running, and no event says that it ended */
} clt_run_verdict;
const char *clt_run_verdict_text(clt_run_verdict verdict); /* "finished", ... */

/* One of several losses, over the steps. */
typedef struct clt_run_loss {
    char name[CLT_LINE_LOSS_NAME];
    clt_curve train, eval;
} clt_run_loss;

typedef struct clt_run_record {
    char *folder, *metrics_path;
    char *name; /* last component of the folder's path; clt_run_names makes names unique */
    clt_curve curve[CLT_METRIC_COUNT];
    clt_run_loss losses[CLT_LINE_LOSSES]; /* several losses of a model; `curve` has their weighted sum */
    int loss_count;
    clt_curve skips; /* number of updates skipped, for steps with any */
    int64_t skipped;
    clt_cost cost; /* terms.per_hour 0: the run has no price */
    clt_history_counts counts;
    clt_run_event events[CLT_RUN_EVENTS];
    size_t event_count;
    int64_t event_total[CLT_RUN_EVENT_KINDS];
    clt_run_session sessions[CLT_RUN_SESSIONS];
    size_t session_count;
    int64_t session_total;
    double unlisted_seconds; /* time of the sessions that session_total counts but the list lacks */
    int64_t unwanted_ends;   /* sessions before the newest that did not end as wanted */
    clt_json_doc *config;    /* config.resolved.json; NULL: missing or unreadable, config_problem says why */
    char *config_problem;
    int64_t last_step;   /* last step of the training lines; -1: no line */
    int64_t steps_total; /* planned number of steps; 0 if unknown */
    double last_time;    /* time of the last line of any kind; NAN if unknown */
    double modified;     /* last modification of the file, seconds since 1970 */
    clt_run_verdict verdict;
    char *cause; /* a sentence that explains the verdict, or "" */
} clt_run_record;

/* `operand`: a path as for clt_history_find. CLT_EUSAGE, CLT_EDATA. */
clt_status clt_run_record_load(const char *operand, clt_run_record **out);
void clt_run_record_free(clt_run_record *record);
CLT_SCOPED_POINTER(clt_run_record, clt_run_record_free)

/* Loads a record in parts, for following a run: `open` reads folder and config, `add` takes lines, `settle`
 * determines the verdict from all that has been read. */
clt_status clt_run_record_open(const char *operand, clt_run_record **out);
clt_status clt_run_record_add(clt_run_record *record, const clt_metrics_line *line, const char *text,
                              size_t length);
clt_status clt_run_record_settle(clt_run_record *record, const clt_history_counts *counts);

/* Gives runs with equal names the shortest ends of their paths that differ. */
clt_status clt_run_names(clt_run_record *const *records, int count);

/* Appends a member of an event as text: strings without quotes, anything else as JSON, nothing if it is
 * absent. */
void clt_run_member(const clt_json_doc *doc, const char *key, clt_str *out);
/* A number member, or NAN. */
double clt_run_number(const clt_json_doc *doc, const char *key);
/* The start event of the newest session, or NULL. */
const clt_json_doc *clt_run_start(const clt_run_record *record);
/* The run's loss of that name, or NULL. */
clt_run_loss *clt_run_loss_named(clt_run_record *record, const char *name);
/* "tokens_per_s" if the run counts tokens, else "samples_per_s". */
clt_metric clt_run_speed_metric(const clt_run_record *record);
/* A text that says what the loss of a run measures, judged by its config: runs with the same text can be
 * compared by loss, accuracy and speed. Returns buffer; "" without a config. */
const char *clt_run_loss_kind(const clt_run_record *record, char *buffer, size_t size);
/* True if the run trains a language model. */
bool clt_run_is_language(const clt_run_record *record);
/* The perplexity of a language model at a loss; NAN of another model, and where the loss is a sum of
 * several. */
double clt_run_perplexity(const clt_run_record *record, double loss);
/* Seconds spent on training in all sessions, NAN if unknown. */
double clt_run_seconds(const clt_run_record *record);

/* --- config --- */

typedef struct clt_config_entry {
    char *key;          /* "optimizer.beta2" */
    char *value;        /* JSON text */
    const char *preset; /* the schema's default as JSON text, or NULL */
    bool changed;       /* the value differs from the default */
} clt_config_entry;

typedef struct clt_config_entries {
    clt_config_entry *items;
    size_t count, capacity;
} clt_config_entries;

/* All keys of the run's config in its order; none if the config is unknown. */
clt_status clt_run_config_entries(const clt_run_record *record, clt_config_entries *out);
void clt_run_config_entries_free(clt_config_entries *entries);
CLT_SCOPED_VALUE(clt_config_entries, clt_run_config_entries_free)
const char *clt_run_config_value(const clt_config_entries *entries, const char *key); /* NULL: absent */

#endif
