/* SPDX-License-Identifier: Apache-2.0
 *
 * The run folder: lock, config.resolved.json, metrics.jsonl, log.txt, checkpoints/. It is created when
 * everything else has been checked, so that a run that cannot start leaves nothing behind. */
#ifndef ENGINE_REPORT_WRITE_RUNDIR_H
#define ENGINE_REPORT_WRITE_RUNDIR_H

#include "engine/config/config.h"
#include "engine/report/write/histogram.h"
#include "engine/report/write/metrics.h"

typedef struct clt_rundir clt_rundir;

/* Creates or opens the folder and locks it. CLT_ESTORAGE: it cannot be created or written, or another run,
 * which is named, holds the lock. If it contains an earlier run: CLT_EUSAGE; with `resume` the run is
 * continued, or CLT_ECONFIG if its config differs in a key that changes what is computed. */
clt_status clt_rundir_open(const char *path, const clt_config *config, bool resume, clt_rundir **out);
/* An error if the folder contains an earlier run (CLT_EUSAGE) or is in use (CLT_ESTORAGE), with the messages
 * of clt_rundir_open without `resume`; to be called before anything that takes long. */
clt_status clt_rundir_check_free(const char *path);
/* Removes the lines of metrics.jsonl after `step`, and an incomplete last line. */
clt_status clt_rundir_truncate(clt_rundir *dir, int64_t step);
/* After that: whether metrics.jsonl holds, or held behind that step, an event "advice". */
bool clt_rundir_advised(const clt_rundir *dir);
void clt_rundir_close(clt_rundir *dir);
/* Closes the folder and removes what was created for a run that made no step; the folder of an earlier run
 * stays. */
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

/* Writes an event, something other than a step or an evaluation, as a line of metrics.jsonl: "event", "step",
 * "time", then the fields; README.md lists the events. step: number of finished steps; -1: the same as in the
 * newest line. Errors as for clt_rundir_step; dir NULL: does nothing. May be called by any thread. */
clt_status clt_rundir_event(clt_rundir *dir, const char *event, int64_t step, const clt_event_field *fields,
                            size_t count);
/* Writes a line of metrics.jsonl. While the file cannot be written (a full disk), lines wait in memory and a
 * warning is logged once; CLT_ESTORAGE when too many wait. flush: CLT_ESTORAGE if lines still wait
 * afterwards. */
clt_status clt_rundir_step(clt_rundir *dir, const clt_step_metrics *metrics);
/* Dice by class of an evaluation of volumes, as a list (null: no volume has the class). */
void clt_volume_dice_write(const clt_eval_metrics *metrics, clt_json_writer *w, const char *key);
clt_status clt_rundir_eval(clt_rundir *dir, const clt_eval_metrics *metrics);
clt_status clt_rundir_flush(clt_rundir *dir);
/* Lines of steps are written a few times a second, all others at once. poll: writes waiting lines now,
 * because no line may follow for a while; an error is reported with the next line. NULL is allowed. */
void clt_rundir_poll(clt_rundir *dir);
/* Adds a histogram for TensorBoard (log.tensorboard). Steps, evaluations and events are added by the
 * functions above. */
void clt_rundir_histogram(clt_rundir *dir, const char *tag, int64_t step, const clt_histogram *histogram);
/* The reason in the event "stopped" of a run that this file has ended. */
#define CLT_REASON_STOP_FILE "a file STOP in the run folder"
/* In the folder: what the newest evaluation counted by class (class_counts.h), with its step. */
#define CLT_CLASSES_FILE "classes.json"
/* True if a user has created the file STOP in the folder: it is removed, and the run should end as if
 * interrupted. Looks at most once a second. */
bool clt_rundir_take_stop(clt_rundir *dir);
/* Writes a line of log.txt. It begins with date and time: the current ones, or those given in seconds since
 * 1970. */
void clt_rundir_log_at(clt_rundir *dir, double time, const char *text);
void clt_rundir_log(clt_rundir *dir, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
