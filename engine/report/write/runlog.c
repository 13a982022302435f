/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the log's lines into the run folder. Any thread may log a line; lines arrive one at a time. */
#include "engine/report/write/runlog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"

#define MAX_WAITING (256u << 10) /* most bytes that wait; further lines appear on stderr only */

struct clt_runlog {
    pthread_mutex_t lock; /* lines and attaching may happen at the same time */
    clt_rundir *dir;
    clt_str waiting; /* complete lines, each preceded by its time */
};

static void write_line(clt_rundir *dir, double time, const char *line)
{
    static const char warning[] = "warning: ";
    CLT_KEEP_ERROR(); /* the thread may be handling an error while it logs */
    clt_rundir_log_at(dir, time, line);
    if (strncmp(line, warning, sizeof warning - 1) == 0) {
        const clt_event_field text = CLT_FIELD_TEXT("text", line + sizeof warning - 1);
        (void)clt_rundir_event(dir, "warning", -1, &text, 1);
    }
}

static void on_line(void *context, clt_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    clt_runlog *log = context;
    char text[2048];
    double now = clt_wall_time();
    if (level == CLT_LOG_INFO)
        snprintf(text, sizeof text, "%s", line);
    else
        snprintf(text, sizeof text, "%s: %s", names[level], line);
    pthread_mutex_lock(&log->lock);
    if (log->dir)
        write_line(log->dir, now, text);
    else if (log->waiting.length < MAX_WAITING)
        clt_str_printf(&log->waiting, "%.3f %s\n", now, text);
    pthread_mutex_unlock(&log->lock);
}

clt_status clt_runlog_begin(const clt_config *config, clt_runlog **out)
{
    clt_runlog *log;
    clt_log_level level = CLT_LOG_INFO;
    *out = NULL;
    CLT_TRY(clt_alloc(&log, 1, sizeof *log, "log"));
    pthread_mutex_init(&log->lock, NULL);
    (void)clt_log_level_from_name(clt_config_string(config, "log.level"), &level);
    clt_log_set_copy(on_line, log, level);
    *out = log;
    return CLT_OK;
}

static void write_lines(clt_rundir *dir, clt_str *lines)
{
    char *line = lines->failed ? NULL : lines->text;
    while (line && *line) {
        size_t length = strcspn(line, "\n");
        bool last = line[length] == '\0';
        line[length] = '\0';
        char *text;
        double time = clt_strtod(line, &text);
        write_line(dir, time, text + (*text == ' '));
        if (last)
            break;
        line += length + 1;
    }
    clt_str_free(lines);
}

/* Moves the waiting lines to `lines`. If there are none, further lines go straight to `dir`, and the result
 * is false. */
static bool take_waiting(clt_runlog *log, clt_rundir *dir, clt_str *lines)
{
    pthread_mutex_lock(&log->lock);
    bool some = dir && log->waiting.length > 0;
    if (some) {
        *lines = log->waiting;
        log->waiting = (clt_str){0};
    } else {
        log->dir = dir;
    }
    pthread_mutex_unlock(&log->lock);
    return some;
}

void clt_runlog_attach(clt_runlog *log, clt_rundir *dir)
{
    clt_str lines;
    if (!log)
        return;
    /* The lock is not held here, because a failed write is logged, too. */
    while (take_waiting(log, dir, &lines))
        write_lines(dir, &lines);
}

void clt_runlog_end(clt_runlog *log)
{
    if (!log)
        return;
    clt_log_set_copy(NULL, NULL, CLT_LOG_ERROR);
    clt_str_free(&log->waiting);
    pthread_mutex_destroy(&log->lock);
    free(log);
}
