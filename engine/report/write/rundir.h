/* SPDX-License-Identifier: Apache-2.0
 *
 * The run folder: lock, config.resolved.json, metrics.jsonl, log.txt, checkpoints/. It is created after
 * everything else has been checked, so that a run that cannot start leaves no folder. */
#ifndef ENGINE_REPORT_WRITE_RUNDIR_H
#define ENGINE_REPORT_WRITE_RUNDIR_H

#include "engine/config/config.h"
#include "engine/report/write/histogram.h"
#include "engine/report/write/metrics.h"

typedef struct clt_rundir clt_rundir;

/* Creates or opens the folder and locks it. CLT_ESTORAGE: it cannot be created or written, or another run,
 * which the message names, holds the lock. If the folder contains an earlier run, the result is CLT_EUSAGE;
 * with `resume` that run is continued, or CLT_ECONFIG if its config differs in a key that changes what is
 * computed. */
clt_status clt_rundir_open(const char *path, const clt_config *config, bool resume, clt_rundir **out);
/* Checks that the folder contains no earlier run (CLT_EUSAGE) and is not in use (CLT_ESTORAGE), with the
 * messages of clt_rundir_open without `resume`. Call it before anything that takes long. */
clt_status clt_rundir_check_free(const char *path);
/* Removes the lines of metrics.jsonl after `step`, and an incomplete last line. */
clt_status clt_rundir_truncate(clt_rundir *dir, int64_t step);
/* Call it after clt_rundir_truncate: true if metrics.jsonl contains, or contained after `step`, an event
 * "advice". */
bool clt_rundir_advised(const clt_rundir *dir);
void clt_rundir_close(clt_rundir *dir);
CLT_SCOPED_POINTER(clt_rundir, clt_rundir_close)
/* Closes the folder. If the run made no step, the files and the folder that it created are removed; the
 * folder of an earlier run stays. */
void clt_rundir_discard(clt_rundir *dir);
const char *clt_rundir_path(const clt_rundir *dir);
const char *clt_rundir_checkpoints(const clt_rundir *dir);
/* A field of an event: a value with its key. */
typedef enum clt_event_kind {
    CLT_EVENT_TEXT, /* omitted if NULL */
    CLT_EVENT_INT,
    CLT_EVENT_NUMBER,
    CLT_EVENT_OBJECT /* `count` fields; omitted if there are none */
} clt_event_kind;
typedef struct clt_event_field {
    const char *key;
    clt_event_kind kind;
    const char *text;
    int64_t integer;
    double number;
    const struct clt_event_field *fields;
    size_t count;
} clt_event_field;
#define CLT_FIELD_TEXT(name, value)                                                                          \
    {                                                                                                        \
        .key = (name), .kind = CLT_EVENT_TEXT, .text = (value)                                               \
    }
#define CLT_FIELD_INT(name, value)                                                                           \
    {                                                                                                        \
        .key = (name), .kind = CLT_EVENT_INT, .integer = (int64_t)(value)                                    \
    }
#define CLT_FIELD_NUMBER(name, value)                                                                        \
    {                                                                                                        \
        .key = (name), .kind = CLT_EVENT_NUMBER, .number = (double)(value)                                   \
    }
#define CLT_FIELD_OBJECT(name, list, n)                                                                      \
    {                                                                                                        \
        .key = (name), .kind = CLT_EVENT_OBJECT, .fields = (list), .count = (n)                              \
    }

/* The time that lines give to the moment `now` of clt_now, in seconds since 1970: by the wall clock as it
 * was when the folder was opened. So time differences within a session stay right even if the clock is set.
 * dir NULL: by the wall clock. */
double clt_rundir_time(const clt_rundir *dir, double now);
/* Writes an event as a line of metrics.jsonl: "event", "step", "time", then the fields. Steps and evaluations
 * are no events; docs/runs.md lists the events. step: number of finished steps; -1: the step of the newest
 * line. Errors as for clt_rundir_step; dir NULL: does nothing. Any thread may call it. */
clt_status clt_rundir_event(clt_rundir *dir, const char *event, int64_t step, const clt_event_field *fields,
                            size_t count);
/* step, eval: write a line of metrics.jsonl. While the file cannot be written (a full disk), lines wait in
 * memory and a warning is logged once; CLT_ESTORAGE when too many lines wait. flush writes the waiting lines:
 * CLT_ESTORAGE if lines still wait afterwards. */
clt_status clt_rundir_step(clt_rundir *dir, const clt_step_metrics *metrics);
clt_status clt_rundir_eval(clt_rundir *dir, const clt_eval_metrics *metrics);
clt_status clt_rundir_flush(clt_rundir *dir);
/* Writes waiting lines now. Lines of steps wait up to a fifth of a second to be written together, so call it
 * when no line may follow for a while. An error is reported with the next line. NULL is allowed. */
void clt_rundir_poll(clt_rundir *dir);
/* Adds a histogram to TensorBoard's file (log.tensorboard). The functions above add steps, evaluations and
 * events to it. */
void clt_rundir_histogram(clt_rundir *dir, const char *tag, int64_t step, const clt_histogram *histogram);
/* The reason in the event "stopped" of a run that was ended by a file STOP. */
#define CLT_REASON_STOP_FILE "a file STOP in the run folder"
/* The reason in the event "stopped" of a run that has reached cost.budget. */
#define CLT_REASON_BUDGET "cost.budget is reached"
/* The reason in the event "stopped" of a run that a notice of the cloud has ended. */
#define CLT_REASON_NOTICE "a notice that a machine will be taken away"
/* The reason in the event "stopped" of a run that was ended by the program that uses the library. */
#define CLT_REASON_PROGRAM "the program asked for it"
/* The file in the run folder with the counts of each class (class_counts.h) and the step of the newest
 * evaluation. */
#define CLT_CLASSES_FILE "classes.json"
/* True if a user has created the file STOP in the folder: it is removed, and the run should end as if
 * interrupted. Looks at most once a second. */
bool clt_rundir_take_stop(clt_rundir *dir);
/* Write a line of log.txt, which begins with a date and time: now, or `time` in seconds since 1970. */
void clt_rundir_log_at(clt_rundir *dir, double time, const char *text);
void clt_rundir_log(clt_rundir *dir, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
