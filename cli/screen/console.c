/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: draws the live line of a terminal or prints plain lines, called by a run's observer and by a
 * thread that redraws the work in progress. */
#include "cli/screen/console.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/thread.h"

#define DRAW_SECONDS 0.1 /* shortest time between two changes of the live line */
#define TICK_SECONDS 0.25
#define STAGE_SECONDS 2.0 /* without a terminal, stages that are shorter than this get no line */

static console *in_use; /* the console that has a live line; there is at most one */
static pthread_mutex_t in_use_lock = PTHREAD_MUTEX_INITIALIZER;

static void use(console *c)
{
    pthread_mutex_lock(&in_use_lock);
    in_use = c;
    pthread_mutex_unlock(&in_use_lock);
}

static void prepare(console *c, const cmd_context *context)
{
    memset(c, 0, sizeof *c);
    c->context = context;
    /* with several ranks the launcher may give a rank a terminal but write its output to a file */
    c->tty = terminal_rewrites() && !context->comm;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->ended, &clock);
    pthread_condattr_destroy(&clock);
    use(c);
}

void console_init(console *c, const cmd_context *context)
{
    prepare(c, context);
    if (!c->tty)
        setvbuf(stdout, NULL, _IOLBF, 0); /* so that a log file gets each line immediately */
}

/* --- lines (the lock is held) --- */

static void emit(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void emit(const char *format, ...)
{
    char text[5000];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size > 0)
        terminal_write(text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* Redraws the live line. It must be narrower than the terminal, because a wrapped line cannot be erased. */
static void draw(console *c, const char *text)
{
    if (!terminal_takes())
        return;
    emit("\r%.*s\033[K", (int)text_fit(text, terminal_columns() - 1), text);
    c->open = true;
    c->drawn_at = clt_now();
}

static void clear_line(console *c)
{
    if (c->open)
        emit("\r\033[K");
    c->open = false;
}

/* Call it before each line. False: the terminal accepts no output now, so the line must be dropped. */
static bool may_print(console *c)
{
    if (c->tty && !terminal_takes()) {
        c->missed++;
        return false;
    }
    clear_line(c);
    if (c->missed > 0)
        emit("(%lld lines are missing here: the terminal did not accept them)\n", (long long)c->missed);
    c->missed = 0;
    return true;
}

static void print_line(console *c, terminal_ink ink, const char *text)
{
    char clean[4096];
    if (!may_print(c))
        return;
    emit("%s%s%s\n", terminal_begin(STDOUT_FILENO, ink), text_clean(text, clean, sizeof clean),
         terminal_end(STDOUT_FILENO, ink));
}

/* Prints text, wrapped to the terminal's width. Not for paths, which a user may want to copy. */
static void print_wrapped(console *c, terminal_ink ink, const char *text)
{
    clt_str lines = {0};
    clt_str_append(&lines, terminal_begin(STDOUT_FILENO, ink));
    text_wrap(text, 0, 2, c->tty ? terminal_columns() : 0, &lines);
    clt_str_append(&lines, terminal_end(STDOUT_FILENO, ink));
    if (may_print(c) && !lines.failed)
        terminal_write(lines.text, lines.length);
    clt_str_free(&lines);
}

/* --- work in progress --- */

static void stage_line(const console *c, int columns, char line[CLT_LINE_SIZE])
{
    const console_stage *s = &c->stage;
    double now = clt_now();
    clt_progress_line(s->what, s->done, s->total, now - s->began, now - s->changed, columns, line);
}

/* Seconds until the next plain line of a stage: the longer a stage lasts, the longer the interval. */
static double until_next(double lasted)
{
    return lasted < 30 ? 5 : lasted < 300 ? 15 : 60;
}

static void show_stage(console *c)
{
    char line[CLT_LINE_SIZE];
    console_stage *s = &c->stage;
    double now = clt_now();
    if (c->tty && now - c->drawn_at >= DRAW_SECONDS) {
        stage_line(c, terminal_columns() - 1, line);
        draw(c, line);
    } else if (!c->tty && now >= s->due) {
        stage_line(c, 0, line);
        emit("%s\n", line);
        s->told = true;
        s->due = now + until_next(now - s->began);
    }
}

static void end_stage(console *c)
{
    char time[32];
    console_stage *s = &c->stage;
    if (!s->active)
        return;
    s->active = false;
    if (c->tty)
        clear_line(c);
    else if (s->told)
        emit("%.*s: %s\n", (int)s->name, s->what, console_time(clt_now() - s->began, time, sizeof time));
}

static void *tick(void *context)
{
    console *c = context;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        struct timespec until;
        if (c->stage.active)
            show_stage(c);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(TICK_SECONDS * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&c->ended, &c->lock, &until);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void on_progress(void *context, const char *what, int64_t done, int64_t total)
{
    console *c = context;
    console_stage *s = &c->stage;
    size_t name = strcspn(what, ":");
    double now = clt_now();
    pthread_mutex_lock(&c->lock);
    if (s->active && (s->name != name || strncmp(s->what, what, name) != 0))
        end_stage(c);
    bool over = total < 0 || (total > 0 && done >= total);
    if (!s->active && !over)
        *s = (console_stage){
            .active = true, .name = name, .began = now, .changed = now, .due = now + STAGE_SECONDS};
    if (s->active && !over) {
        if (s->done != done)
            s->changed = now;
        s->done = done;
        s->total = total;
        text_clean(what, s->what, sizeof s->what);
        show_stage(c);
        if (!c->ticker && !c->ending && clt_thread_start(&c->ticker, "console", tick, c) != CLT_OK)
            clt_error_clear(); /* without a thread the line is redrawn only when there is news */
    } else {
        end_stage(c);
    }
    pthread_mutex_unlock(&c->lock);
}

/* --- closing --- */

void console_clear(console *c)
{
    pthread_mutex_lock(&c->lock);
    clear_line(c);
    pthread_mutex_unlock(&c->lock);
}

/* Locks the console for the thread that handles signals. False: another thread does not release the lock,
 * probably because it is writing to a pipe that nobody reads; then nothing can be printed. */
static bool lock_soon(console *c)
{
    for (int i = 0; i < 20; i++) {
        if (pthread_mutex_trylock(&c->lock) == 0)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

void console_make_way(void)
{
    pthread_mutex_lock(&in_use_lock);
    if (in_use && lock_soon(in_use)) {
        clear_line(in_use);
        pthread_mutex_unlock(&in_use->lock);
    }
    pthread_mutex_unlock(&in_use_lock);
}

void console_close(console *c)
{
    use(NULL);
    pthread_mutex_lock(&c->lock);
    end_stage(c);
    if (!c->tty || terminal_takes())
        clear_line(c);
    terminal_settle();
    c->ending = true;
    clt_thread *ticker = c->ticker;
    c->ticker = NULL;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
    clt_thread_join(ticker);
    pthread_mutex_lock(&c->lock);
    c->ending = false;
    pthread_mutex_unlock(&c->lock);
}

/* --- the observer's functions --- */

/* Locks the console and ends the current stage, before complete lines are printed. */
static console *begin_told(void *context)
{
    console *c = context;
    pthread_mutex_lock(&c->lock);
    end_stage(c);
    return c;
}

static void on_start(void *context, const clt_table_row *rows, int count)
{
    console *c = begin_told(context);
    CLT_SCOPED(clt_str) text = {0};
    int width = 0, screen = terminal_columns();
    for (int i = 0; i < count; i++)
        width = !rows[i].technical && (int)strlen(rows[i].label) > width ? (int)strlen(rows[i].label) : width;
    for (int i = 0; i < count; i++) {
        if (rows[i].technical)
            continue;
        clt_str_printf(&text, "%s%-*s%s  ", terminal_begin(STDOUT_FILENO, INK_STRONG), width, rows[i].label,
                       terminal_end(STDOUT_FILENO, INK_STRONG));
        text_wrap(rows[i].value, width + 2, width + 2, screen, &text);
    }
    if (may_print(c) && !text.failed)
        terminal_write(text.text, text.length);
    pthread_mutex_unlock(&c->lock);
}

static void on_step(void *context, const clt_step_metrics *m)
{
    console *c = context;
    char line[CLT_LINE_SIZE];
    pthread_mutex_lock(&c->lock);
    end_stage(c);
    int columns = c->tty ? terminal_columns() : 0;
    if (m->stays)
        print_line(c, INK_PLAIN, clt_step_line(m, columns, false, line));
    else if (c->tty && clt_now() - c->drawn_at >= DRAW_SECONDS)
        draw(c, clt_step_line(m, columns - 1, true, line));
    pthread_mutex_unlock(&c->lock);
}

static void on_eval(void *context, const clt_eval_metrics *m)
{
    console *c = begin_told(context);
    char line[CLT_LINE_SIZE];
    print_wrapped(c, INK_STRONG, clt_eval_line(m, line));
    pthread_mutex_unlock(&c->lock);
}

static void on_saved(void *context, int64_t step, const char *path, double seconds)
{
    console *c = begin_told(context);
    char line[1200];
    snprintf(line, sizeof line, "saved step %lld to %s (%.1f s)", (long long)step, path, seconds);
    print_line(c, INK_GOOD, line);
    pthread_mutex_unlock(&c->lock);
}

static void on_message(void *context, const char *text)
{
    console *c = begin_told(context);
    char line[4096], who[300] = "";
    const comm_info *ranks = c->context ? c->context->ranks : NULL;
    if (ranks && ranks->ranks > 1 && ranks->rank > 0) /* only rank 0 reports */
        snprintf(who, sizeof who, "[rank %d %s] ", ranks->rank, ranks->host);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        snprintf(line, sizeof line, "%s%.*s", who, (int)strcspn(at, "\n"), at);
        print_wrapped(c, INK_PLAIN, line);
    }
    pthread_mutex_unlock(&c->lock);
}

void console_stopping(console *c, int number, int64_t step)
{
    char line[160];
    bool key = number == SIGINT;
    if (step > 0)
        snprintf(line, sizeof line, "finishing step %lld, then saving%s", (long long)step,
                 key ? "; Ctrl-C again ends without saving" : "");
    else
        snprintf(line, sizeof line, "stopping as soon as the start is over%s",
                 key ? "; Ctrl-C again ends immediately" : "");
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (!lock_soon(c))
        return;
    c->open = c->open || c->tty; /* the terminal has echoed ^C into the line */
    if (c->tty || poll(&out, 1, 0) > 0)
        print_line(c, INK_WARNING, line);
    pthread_mutex_unlock(&c->lock);
}

clt_observer console_observer(console *c)
{
    return (clt_observer){.context = c,
                          .start = on_start,
                          .progress = on_progress,
                          .step = on_step,
                          .eval = on_eval,
                          .saved = on_saved,
                          .message = on_message};
}

clt_observer console_begin_result(console *c, const cmd_context *context)
{
    prepare(c, context);
    return c->tty ? (clt_observer){.context = c, .progress = on_progress} : (clt_observer){0};
}
