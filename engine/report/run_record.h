/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run folder tells about a run, for reports, comparisons and whoever watches: its curves, its events,
 * its sessions (each start or resume), its config, and how it ended. Read only; a folder of an older program,
 * without events or times, is read as far as it goes. */
#ifndef ENGINE_REPORT_RUN_RECORD_H
#define ENGINE_REPORT_RUN_RECORD_H

#include "engine/base/json.h"
#include "engine/report/curve.h"
#include "engine/report/history.h"

typedef enum clt_run_event_kind {
    CLT_RUN_EVENT_START,
    CLT_RUN_EVENT_SAVED,
    CLT_RUN_EVENT_SAMPLE,
    CLT_RUN_EVENT_ADVICE,
    CLT_RUN_EVENT_WARNING,
    CLT_RUN_EVENT_STOPPED,
    CLT_RUN_EVENT_FAILED,
    CLT_RUN_EVENT_END,
    CLT_RUN_EVENT_OTHER,
    CLT_RUN_EVENT_KINDS
} clt_run_event_kind;

typedef struct clt_run_event {
    clt_run_event_kind kind;
    int64_t step;
    double time;       /* seconds since 1970, NAN when unknown */
    clt_json_doc *doc; /* the line's object */
} clt_run_event;

#define CLT_RUN_EVENTS                                                                                       \
    512 /* kept at most: of the most frequent kind every second one goes, never first or last */
#define CLT_RUN_SESSIONS 128

/* From a start or resume to the next one. A run without `start` events has one. */
typedef struct clt_run_session {
    clt_json_doc *start;           /* the event's object; NULL when there was none */
    int64_t first_step, last_step; /* training lines; -1: none */
    double first_time, last_time;  /* seconds since 1970, NAN when unknown */
    double step_seconds;           /* sum of the steps' own times */
    clt_run_event_kind ended;      /* STOPPED, FAILED or END; OTHER: nothing is known */
} clt_run_session;

typedef enum clt_run_verdict {
    CLT_RUN_FINISHED,
    CLT_RUN_INTERRUPTED, /* stopped in an orderly way: it can be resumed */
    CLT_RUN_FAILED,
    CLT_RUN_RUNNING,
    CLT_RUN_ABANDONED /* it does not run and never said that it ended */
} clt_run_verdict;
const char *clt_run_verdict_text(clt_run_verdict verdict); /* "finished", ... */

typedef struct clt_run_record {
    char *folder, *metrics_path;
    char *name; /* last part of the folder's path; set apart by clt_run_names where several are alike */
    clt_curve curve[CLT_METRIC_COUNT];
    clt_curve skips; /* updates skipped at a step, where there were any */
    int64_t skipped;
    clt_history_counts counts;
    clt_run_event events[CLT_RUN_EVENTS];
    size_t event_count;
    int64_t event_total[CLT_RUN_EVENT_KINDS];
    clt_run_session sessions[CLT_RUN_SESSIONS];
    size_t session_count;
    int64_t session_total;
    clt_json_doc *config; /* config.resolved.json; NULL: missing or unreadable, config_problem says why */
    char *config_problem;
    int64_t last_step;   /* of a training line, -1 without */
    int64_t steps_total; /* as planned; 0 when unknown */
    double last_time;    /* of any line, NAN when unknown */
    double modified;     /* the file's last change, seconds since 1970 */
    clt_run_verdict verdict;
    char *cause; /* one sentence on the verdict, "" when there is nothing to add */
} clt_run_record;

/* `operand` as clt_history_find takes it. CLT_EUSAGE, CLT_EDATA. */
clt_status clt_run_record_load(const char *operand, clt_run_record **out);
void clt_run_record_free(clt_run_record *record);

/* In parts, for who follows a run: open reads the folder and the config, add takes the lines, settle finds
 * the verdict from all that is there. */
clt_status clt_run_record_open(const char *operand, clt_run_record **out);
clt_status clt_run_record_add(clt_run_record *record, const clt_metrics_line *line, const char *text,
                              size_t length);
clt_status clt_run_record_settle(clt_run_record *record, const clt_history_counts *counts);

/* Gives runs of the same name the least of their paths that tells them apart. */
clt_status clt_run_names(clt_run_record *const *records, int count);

/* A member of an event or start as text: strings as they are, anything else as JSON; "" when it is absent.
 * The result is appended. */
void clt_run_member(const clt_json_doc *doc, const char *key, clt_str *out);
/* A number member, or NAN. */
double clt_run_number(const clt_json_doc *doc, const char *key);
/* The newest session's start event, or NULL. */
const clt_json_doc *clt_run_start(const clt_run_record *record);
/* "tokens_per_s" where the run counts tokens, else "samples_per_s". */
clt_metric clt_run_speed_metric(const clt_run_record *record);
/* Is exp(loss) a perplexity? */
bool clt_run_is_language(const clt_run_record *record);
/* Seconds of training over all sessions, NAN when unknown. */
double clt_run_seconds(const clt_run_record *record);

/* --- config --- */

typedef struct clt_config_entry {
    char *key;          /* "optimizer.beta2" */
    char *value;        /* JSON text */
    const char *preset; /* the schema's default as JSON text, or NULL */
    bool changed;       /* the value is another one than the default */
} clt_config_entry;

typedef struct clt_config_entries {
    clt_config_entry *items;
    size_t count, capacity;
} clt_config_entries;

/* All keys of the run's config in its order; none when it is unknown. */
clt_status clt_run_config_entries(const clt_run_record *record, clt_config_entries *out);
void clt_run_config_entries_free(clt_config_entries *entries);
const char *clt_run_config_value(const clt_config_entries *entries, const char *key); /* NULL: absent */

#endif
