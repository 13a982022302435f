/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and locks the run folder, and writes its files. A number that is not finite is written as null, and a
 * flag in the same line says so. */
#include "engine/report/write/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/report/write/board.h"
#include "engine/report/write/metric_rows.h"
#include "engine/report/write/rundir_config.h"

struct clt_rundir {
    char *path, *checkpoints, *metrics_path, *log_path, *stop_path;
    clt_lock *lock;
    int metrics, log;
    clt_str waiting;       /* lines of metrics.jsonl that have not been written yet */
    bool earlier, made;    /* the folder held an earlier run; the folder was created for this one */
    bool stuck;            /* the last attempt to write the lines failed */
    bool untold;           /* the user has not been told of the failed attempt */
    bool advised;          /* an earlier session of the run has ended with advice */
    double written;        /* time of the last attempt */
    int64_t step;          /* step of the newest line */
    pthread_mutex_t lines; /* held while a line is added to metrics.jsonl; its holder must not log */
    clt_board *board;      /* the event file for TensorBoard, or NULL; guarded by the same mutex */
    double looked;         /* when the file STOP was last looked for */
    double clock;          /* wall clock minus clt_now when the folder was opened, in seconds */
};

/* Checks the names of all files that a run writes in its folder, except the lock and the event files: a link
 * or a pipe of such a name is refused before the run begins, not when the file is needed. */
static clt_status check_names(const char *path)
{
    static const char *const names[] = {
        "config.resolved.json", "metrics.jsonl", "log.txt",   CLT_CLASSES_FILE,
        "profile.txt",          "profile.json",  "trace.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CLT_FREED char *file = NULL;
        CLT_TRY(clt_path_join(path, names[i], &file));
        CLT_TRY(clt_own_file_check(file));
    }
    return CLT_OK;
}

static clt_status refuse_earlier(const char *path)
{
    CLT_FAIL(
        CLT_EUSAGE,
        "run folder '%s' holds an earlier run (config.resolved.json); continue it with --resume auto, give "
        "another --out, or remove it",
        path);
}

clt_status clt_rundir_check_free(const char *path)
{
    CLT_FREED char *config_path = NULL, *lock_path = NULL;
    CLT_SCOPED(clt_lock) *lock = NULL;
    CLT_TRY(check_names(path));
    CLT_TRY(clt_path_join(path, "config.resolved.json", &config_path));
    if (!clt_file_exists(config_path))
        return CLT_OK;
    /* the error says which process uses the folder */
    CLT_TRY(clt_path_join(path, "lock", &lock_path));
    CLT_TRY(clt_lock_acquire(lock_path, &lock));
    return refuse_earlier(path);
}

/* An earlier run in the folder is never overwritten: it is continued, or the folder is refused. */
static clt_status check_earlier(const char *path, const char *config_path, const clt_config *config,
                                bool resume, bool *earlier)
{
    *earlier = clt_file_exists(config_path);
    if (!*earlier)
        return CLT_OK;
    if (!resume)
        return refuse_earlier(path);
    return clt_resolved_config_check(path, config);
}

static clt_status fill(clt_rundir *dir, const char *path, const clt_config *config, bool resume)
{
    CLT_FREED char *lock_path = NULL, *config_path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    dir->made = !clt_is_directory(path);
    CLT_TRY(clt_mkdir_p(path));
    CLT_TRY(check_names(path));
    CLT_TRY(clt_path_join(path, "config.resolved.json", &config_path));
    CLT_TRY(clt_path_join(path, "lock", &lock_path));
    CLT_TRY(clt_path_join(path, "checkpoints", &dir->checkpoints));
    CLT_TRY(clt_path_join(path, "metrics.jsonl", &dir->metrics_path));
    CLT_TRY(clt_path_join(path, "log.txt", &dir->log_path));
    CLT_TRY(clt_lock_acquire(lock_path, &dir->lock));
    CLT_TRY(check_earlier(path, config_path, config, resume, &dir->earlier));
    CLT_TRY(clt_config_print(config, true, &text));
    if (!dir->earlier)
        CLT_TRY(clt_own_file_write(config_path, text.text, text.length));
    CLT_TRY(clt_path_join(path, "STOP", &dir->stop_path));
    CLT_TRY(clt_own_file_append(dir->metrics_path, &dir->metrics));
    CLT_TRY(clt_own_file_append(dir->log_path, &dir->log));
    return clt_board_create(path, config, &dir->board);
}

clt_status clt_rundir_open(const char *path, const clt_config *config, bool resume, clt_rundir **out)
{
    CLT_SCOPED(clt_rundir) *dir = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&dir, 1, sizeof *dir, "run folder"));
    dir->metrics = dir->log = -1;
    dir->clock = clt_wall_time() - clt_now();
    pthread_mutex_init(&dir->lines, NULL);
    dir->path = strdup(path);
    if (!dir->path)
        return CLT_ENOMEM;
    CLT_TRY(fill(dir, path, config, resume));
    *out = CLT_TAKE(dir);
    return CLT_OK;
}

static void write_rest(clt_rundir *dir);

void clt_rundir_close(clt_rundir *dir)
{
    if (!dir)
        return;
    if (dir->metrics >= 0) {
        write_rest(dir);
        close(dir->metrics);
    }
    if (dir->log >= 0)
        close(dir->log);
    clt_board_close(dir->board);
    clt_lock_release(dir->lock);
    pthread_mutex_destroy(&dir->lines);
    clt_str_free(&dir->waiting);
    free(dir->path);
    free(dir->checkpoints);
    free(dir->metrics_path);
    free(dir->log_path);
    free(dir->stop_path);
    free(dir);
}

static void remove_in(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    if (clt_path_join(folder, name, &path) == CLT_OK)
        (void)remove(path);
}

void clt_rundir_discard(clt_rundir *dir)
{
    static const char *const mine[] = {"metrics.jsonl", "log.txt", "hooks.log",
                                       "checkpoints",   "STOP",    "config.resolved.json"};
    if (dir && !dir->earlier) {
        clt_board_discard(dir->board);
        for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++)
            remove_in(dir->path, mine[i]);
    }
    CLT_FREED char *path = dir && !dir->earlier && dir->made ? strdup(dir->path) : NULL;
    clt_rundir_close(dir); /* releases the lock, which is a file in the folder */
    if (path)
        (void)rmdir(path);
    clt_error_clear();
}

const char *clt_rundir_path(const clt_rundir *dir)
{
    return dir->path;
}

const char *clt_rundir_checkpoints(const clt_rundir *dir)
{
    return dir->checkpoints;
}

/* A problem, to be reported after the mutex is released: a warning becomes an event, which needs
 * the mutex. */
typedef struct trouble {
    char text[CLT_ERROR_TEXT_SIZE + 128];
} trouble;

/* Writes all waiting lines or none. */
static clt_status flush(clt_rundir *dir, trouble *t)
{
    struct stat before;
    bool regular = fstat(dir->metrics, &before) == 0 && S_ISREG(before.st_mode);
    clt_error error;
    dir->written = clt_now();
    if (dir->waiting.length == 0)
        return CLT_OK;
    clt_error_take(clt_fd_write(dir->metrics, dir->waiting.text, dir->waiting.length, dir->metrics_path),
                   &error);
    bool was_stuck = dir->stuck;
    dir->stuck = error.status != CLT_OK;
    dir->untold = dir->stuck && (dir->untold || !was_stuck);
    if (!dir->stuck)
        dir->waiting.length = 0;
    else if (regular && ftruncate(dir->metrics, before.st_size) != 0 && !was_stuck)
        snprintf(t->text, sizeof t->text, "'%s' may hold half a line: %s", dir->metrics_path,
                 strerror(errno));
    return clt_error_put(&error);
}

/* Reports a problem; the thread's error is kept. */
static void say_trouble(const trouble *t)
{
    CLT_KEEP_ERROR();
    if (t->text[0])
        CLT_WARN("%s", t->text);
}

/* board_lock and board_unlock enclose calls of the board; problems are reported after the unlock. */
static void board_lock(clt_rundir *dir)
{
    pthread_mutex_lock(&dir->lines);
}

static void board_unlock(clt_rundir *dir)
{
    trouble t = {""};
    if (!clt_log_drops_lines())
        (void)clt_board_trouble(dir->board, t.text, sizeof t.text);
    pthread_mutex_unlock(&dir->lines);
    say_trouble(&t);
}

clt_status clt_rundir_flush(clt_rundir *dir)
{
    trouble t = {""};
    pthread_mutex_lock(&dir->lines);
    clt_status status = flush(dir, &t);
    clt_board_flush(dir->board);
    pthread_mutex_unlock(&dir->lines);
    say_trouble(&t);
    return status;
}

/* Tries to write the waiting lines. A failure is not reported here. */
static void write_rest(clt_rundir *dir)
{
    trouble t = {""};
    CLT_KEEP_ERROR();
    (void)flush(dir, &t);
}

void clt_rundir_poll(clt_rundir *dir)
{
    if (!dir)
        return;
    pthread_mutex_lock(&dir->lines);
    if (!dir->stuck)
        write_rest(dir);
    clt_board_flush(dir->board);
    pthread_mutex_unlock(&dir->lines);
}

#define MAX_WAITING (16u << 20)
#define WRITE_SECONDS 0.2        /* lines of steps within this time are written together */
#define WRITE_BYTES (256u << 10) /* most bytes that are written together */

/* later: the line may wait to be written together with lines that follow soon. */
static clt_status append_line(clt_rundir *dir, clt_str *line, bool later, trouble *t)
{
    clt_str_append(line, "\n");
    CLT_TRY(clt_str_check(line));
    clt_str_append_n(&dir->waiting, line->text, line->length);
    CLT_TRY(clt_str_check(&dir->waiting));
    if (later && !dir->stuck && dir->waiting.length < WRITE_BYTES && clt_now() - dir->written < WRITE_SECONDS)
        return CLT_OK;
    clt_status status = flush(dir, t);
    if (status != CLT_ESTORAGE || dir->waiting.length > MAX_WAITING)
        return status;
    if (dir->untold &&
        !clt_log_drops_lines()) { /* the log would drop a warning while it handles another line */
        snprintf(t->text, sizeof t->text, "training continues and its metrics wait in memory: %s",
                 clt_error_text());
        dir->untold = false;
    }
    clt_error_clear();
    return CLT_OK;
}

/* Writes a line and frees it. step < 0: the line has the same step as the line before. later: as in
 * append_line. */
static clt_status write_line(clt_rundir *dir, int64_t step, bool later, clt_str *line)
{
    trouble t = {""};
    pthread_mutex_lock(&dir->lines);
    if (step >= 0)
        dir->step = step;
    clt_status status = append_line(dir, line, later, &t);
    pthread_mutex_unlock(&dir->lines);
    clt_str_free(line);
    say_trouble(&t);
    return status;
}

double clt_rundir_time(const clt_rundir *dir, double now)
{
    return (dir ? dir->clock : clt_wall_time() - clt_now()) + now;
}

/* In seconds, rounded to milliseconds; time 0: now. */
static void put_time(const clt_rundir *dir, clt_json_writer *w, double time)
{
    clt_jw_kdouble(w, "time", round((time > 0 ? time : clt_rundir_time(dir, clt_now())) * 1e3) / 1e3);
}

static void put_fields(clt_json_writer *w, const clt_event_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const clt_event_field *f = &fields[i];
        if (f->kind == CLT_EVENT_INT) {
            clt_jw_kint(w, f->key, f->integer);
        } else if (f->kind == CLT_EVENT_NUMBER) {
            clt_jw_kdouble(w, f->key, f->number);
        } else if (f->kind == CLT_EVENT_TEXT && f->text) {
            clt_jw_kstring(w, f->key, f->text);
        } else if (f->kind == CLT_EVENT_OBJECT && f->count > 0) {
            clt_jw_kobject(w, f->key);
            put_fields(w, f->fields, f->count);
            clt_jw_end_object(w);
        }
    }
}

static int64_t newest_step(clt_rundir *dir)
{
    pthread_mutex_lock(&dir->lines);
    int64_t step = dir->step;
    pthread_mutex_unlock(&dir->lines);
    return step;
}

/* Appends a line "key: value" for each field; keys of nested objects are joined by a point. */
static void list_fields(clt_str *out, const char *prefix, const clt_event_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const clt_event_field *f = &fields[i];
        char number[CLT_NUMBER_TEXT];
        if (f->kind == CLT_EVENT_INT)
            clt_str_printf(out, "%s%s: %lld\n", prefix, f->key, (long long)f->integer);
        else if (f->kind == CLT_EVENT_NUMBER)
            clt_str_printf(out, "%s%s: %s\n", prefix, f->key, clt_double_text(f->number, number));
        else if (f->kind == CLT_EVENT_TEXT && f->text)
            clt_str_printf(out, "%s%s: %s\n", prefix, f->key, f->text);
        else if (f->kind == CLT_EVENT_OBJECT && f->count > 0 &&
                 snprintf(number, sizeof number, "%s.", f->key) > 0)
            list_fields(out, number, f->fields, f->count);
    }
}

static void event_to_board(clt_rundir *dir, const char *event, int64_t step, const clt_event_field *fields,
                           size_t count)
{
    CLT_SCOPED(clt_str) text = {0};
    if (!dir->board)
        return;
    if (strcmp(event, "sample") == 0) /* a sample: its prompt, then the generated text */
        for (size_t i = 0; i < count; i++)
            clt_str_append(&text, fields[i].text ? fields[i].text : "");
    else
        list_fields(&text, "", fields, count);
    board_lock(dir);
    if (strcmp(event, "start") == 0)
        clt_board_start(dir->board, step);
    clt_board_event(dir->board, event, step < 0 ? dir->step : step, clt_rundir_time(dir, clt_now()),
                    text.text ? text.text : "");
    board_unlock(dir);
}

clt_status clt_rundir_event(clt_rundir *dir, const char *event, int64_t step, const clt_event_field *fields,
                            size_t count)
{
    clt_str line = {0};
    clt_json_writer w = clt_json_writer_make(&line, 0);
    if (!dir)
        return CLT_OK;
    event_to_board(dir, event, step, fields, count);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "event", event);
    clt_jw_kint(&w, "step", step < 0 ? newest_step(dir) : step);
    put_time(dir, &w, 0);
    put_fields(&w, fields, count);
    clt_jw_end_object(&w);
    return write_line(dir, step, false, &line);
}

/* The losses by their names, if there are several. */
static void put_losses(clt_json_writer *w, const char *key, int count, const char *const *name,
                       const double *value)
{
    if (count < 2)
        return;
    clt_jw_kobject(w, key);
    for (int i = 0; i < count; i++)
        clt_jw_kdouble(w, name[i], value[i]);
    clt_jw_end_object(w);
}

clt_status clt_rundir_step(clt_rundir *dir, const clt_step_metrics *m)
{
    clt_str line = {0};
    clt_json_writer w = clt_json_writer_make(&line, 0);
    clt_jw_object(&w);
    clt_metric_rows_write(clt_step_rows, m, &w);
    put_time(dir, &w, m->time);
    put_losses(&w, "losses", m->n_losses, m->loss_name, m->loss_value);
    clt_jw_end_object(&w);
    if (dir->board) {
        board_lock(dir);
        clt_board_step(dir->board, m);
        board_unlock(dir);
    }
    return write_line(dir, m->step, true, &line);
}

clt_status clt_rundir_eval(clt_rundir *dir, const clt_eval_metrics *m)
{
    const char *name[CLT_MAX_LOSSES];
    clt_str line = {0};
    clt_json_writer w = clt_json_writer_make(&line, 0);
    clt_jw_object(&w);
    clt_metric_rows_write(clt_eval_rows, m, &w);
    put_time(dir, &w, 0);
    for (int i = 0; i < m->n_losses; i++)
        name[i] = m->loss_name[i];
    put_losses(&w, "eval_losses", m->n_losses, name, m->loss_value);
    clt_jw_end_object(&w);
    if (dir->board) {
        board_lock(dir);
        clt_board_eval(dir->board, m, clt_rundir_time(dir, clt_now()));
        clt_board_flush(dir->board);
        board_unlock(dir);
    }
    return write_line(dir, m->step, false, &line);
}

void clt_rundir_histogram(clt_rundir *dir, const char *tag, int64_t step, const clt_histogram *histogram)
{
    board_lock(dir);
    clt_board_histogram(dir->board, tag, step, histogram);
    board_unlock(dir);
}

bool clt_rundir_take_stop(clt_rundir *dir)
{
    double now = clt_now();
    if (now - dir->looked < 1.0)
        return false;
    dir->looked = now;
    return unlink(dir->stop_path) == 0;
}

/* "2026-11-23T06:05:11+0100" */
static void clock_text(double time, char *text, size_t size)
{
    time_t seconds = (time_t)time;
    struct tm parts;
    text[0] = '\0';
    if (!localtime_r(&seconds, &parts) || strftime(text, size, "%Y-%m-%dT%H:%M:%S%z", &parts) == 0)
        snprintf(text, size, "%.0f", time);
}

void clt_rundir_log_at(clt_rundir *dir, double time, const char *text)
{
    CLT_SCOPED(clt_str) line = {0};
    char clock[48];
    if (!dir)
        return;
    clock_text(time, clock, sizeof clock);
    clt_str_printf(&line, "%s %s\n", clock, text);
    /* errors of the log are ignored: a full disk is reported by metrics and checkpoints, which matter more */
    if (clt_str_check(&line) == CLT_OK &&
        clt_fd_write(dir->log, line.text, line.length, dir->log_path) != CLT_OK)
        clt_error_clear();
}

void clt_rundir_log(clt_rundir *dir, const char *format, ...)
{
    char text[2048];
    va_list args;
    if (!dir)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clt_rundir_log_at(dir, clt_wall_time(), text);
}

/* Copies the lines whose "step" is at most `step`. */
static clt_status kept_lines(const char *text, size_t size, int64_t step, clt_str *out)
{
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        int64_t at;
        if (!stop) /* a line torn by a crash */
            break;
        if (clt_json_parse(line, (size_t)(stop - line), "metrics.jsonl", CLT_EDATA, &doc) == CLT_OK) {
            if (clt_json_int(clt_json_get(clt_json_root(doc), "step"), &at) && at <= step)
                clt_str_append_n(out, line, (size_t)(stop - line) + 1);
        } else {
            clt_error_clear();
        }
        line = stop + 1;
    }
    return clt_str_check(out);
}

clt_status clt_rundir_truncate(clt_rundir *dir, int64_t step)
{
    static const char advice[] = "\"event\":\"advice\"";
    CLT_SCOPED(clt_str) kept = {0};
    CLT_FREED char *text = NULL;
    size_t size;
    dir->step = step;
    CLT_TRY(clt_file_read(dir->metrics_path, false, 0, CLT_ESTORAGE, &text, &size));
    dir->advised = memmem(text, size, advice, sizeof advice - 1) != NULL;
    CLT_TRY(kept_lines(text, size, step, &kept));
    if (kept.length == size)
        return CLT_OK;
    close(dir->metrics);
    dir->metrics = -1;
    CLT_TRY(clt_own_file_write(dir->metrics_path, kept.text ? kept.text : "", kept.length));
    return clt_own_file_append(dir->metrics_path, &dir->metrics);
}

bool clt_rundir_advised(const clt_rundir *dir)
{
    return dir->advised;
}
