/* SPDX-License-Identifier: Apache-2.0
 *
 * The run folder: lock, config.resolved.json, metrics.jsonl, log.txt, checkpoints/. It is created only when
 * everything else has been checked, so a run that cannot start leaves nothing behind. */
#ifndef ENGINE_REPORT_RUNDIR_H
#define ENGINE_REPORT_RUNDIR_H

#include "engine/config/config.h"
#include "engine/report/histogram.h"
#include "engine/report/metrics.h"

typedef struct clt_rundir clt_rundir;

/* Creates or opens the folder and locks it. CLT_ESTORAGE: cannot be created or written, or another run holds
 * the lock (named). An earlier run in it: CLT_EUSAGE, or with `resume` it is continued, unless its config
 * differs in a key that changes what is computed (CLT_ECONFIG, the difference). */
clt_status clt_rundir_open(const char *path, const clt_config *config, bool resume, clt_rundir **out);
/* Is there an earlier run in the folder? CLT_EUSAGE, or CLT_ESTORAGE while a process uses it, as
 * clt_rundir_open says it without `resume`: known before anything long is begun. */
clt_status clt_rundir_check_free(const char *path);
/* Drops the lines of metrics.jsonl after `step`, and a torn last one. */
clt_status clt_rundir_truncate(clt_rundir *dir, int64_t step);
void clt_rundir_close(clt_rundir *dir);
/* The same, and takes away what was made for a run that made no step; an earlier run's folder stays. */
void clt_rundir_discard(clt_rundir *dir);
const char *clt_rundir_path(const clt_rundir *dir);
const char *clt_rundir_checkpoints(const clt_rundir *dir);
/* One value of an event, with its key. */
typedef enum clt_event_kind {
    CLT_EVENT_TEXT, /* left out when it is NULL */
    CLT_EVENT_INT,
    CLT_EVENT_NUMBER,
    CLT_EVENT_OBJECT /* `count` fields; left out when there are none */
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

/* Something that happened beside steps and evaluations, as a line of metrics.jsonl: "event", "step", "time",
 * then the fields; README.md lists the events. step: how many steps were finished; -1: as many as in the
 * newest line. Errors as for clt_rundir_step; dir NULL: does nothing. Any thread may call it. */
clt_status clt_rundir_event(clt_rundir *dir, const char *event, int64_t step, const clt_event_field *fields,
                            size_t count);
/* One line of metrics.jsonl. While the file cannot be written (a full disk), lines wait in memory, which is
 * said once; CLT_ESTORAGE when too many wait. flush: CLT_ESTORAGE when lines still wait. */
clt_status clt_rundir_step(clt_rundir *dir, const clt_step_metrics *metrics);
clt_status clt_rundir_eval(clt_rundir *dir, const clt_eval_metrics *metrics);
clt_status clt_rundir_flush(clt_rundir *dir);
/* Lines of steps are written a few times a second, all others at once. poll: writes those that wait now,
 * because nothing may come for a while; trouble shows itself at the next line. NULL is fine. */
void clt_rundir_poll(clt_rundir *dir);
/* For TensorBoard (log.tensorboard), which otherwise gets the same steps, evaluations and events. */
void clt_rundir_histogram(clt_rundir *dir, const char *tag, int64_t step, const clt_histogram *histogram);
/* Somebody put a file STOP into the folder: it is removed, and the run should end in an orderly way. Looks
 * once a second at most. */
bool clt_rundir_take_stop(clt_rundir *dir);
/* One line of log.txt, which begins with the date and the time: now, or in seconds since 1970. */
void clt_rundir_log_at(clt_rundir *dir, double time, const char *text);
void clt_rundir_log(clt_rundir *dir, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
