/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: see console.h. */
#include "cli/console.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/thread.h"

#define DRAW_SECONDS 0.1  /* a terminal's line changes at most so often */
#define BUILD_SECONDS 5.0 /* elsewhere a line about building at most so often */

const char *console_count(double value, char *buffer, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    while (value >= 9999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, size, value >= 100 || (unit == 0 && value == floor(value)) ? "%.0f%s" : "%.1f%s", value,
             units[unit]);
    return buffer;
}

const char *console_bytes(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1023.95 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}

const char *console_time(double seconds, char *buffer, size_t size)
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(buffer, size, "?");
    else if (seconds < 59.5)
        snprintf(buffer, size, "%.0fs", seconds);
    else if (seconds < 3599.5)
        snprintf(buffer, size, "%dm%02ds", (int)(seconds + 0.5) / 60, (int)(seconds + 0.5) % 60);
    else
        snprintf(buffer, size, "%dh%02dm", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    return buffer;
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col;
    return 80;
}

void console_init(console *c, const cmd_context *context, int64_t every)
{
    memset(c, 0, sizeof *c);
    const char *term = getenv("TERM");
    c->context = context;
    /* A launcher may give a rank a terminal of its own while the lines end up in a file. */
    c->tty = isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0) && !context->comm;
    c->columns = c->tty ? terminal_columns() : 0;
    c->every = every > 0 ? every : 1;
    pthread_mutex_init(&c->lock, NULL);
    if (!c->tty)
        setvbuf(stdout, NULL, _IOLBF, 0); /* a log file should show lines when they happen */
}

/* Rewrites the current line on a terminal. Cut to the width: a line that wraps cannot be taken back. */
static void draw(console *c, const char *text)
{
    printf("\r%.*s\033[K", c->columns - 1, text);
    fflush(stdout);
    c->open = true;
    c->drawn_at = clt_now();
}

/* Makes room for a whole line: what stands on the terminal's current line goes away. */
static void clear_line(console *c)
{
    if (c->open)
        printf("\r\033[K");
    c->open = false;
}

void console_clear(console *c)
{
    pthread_mutex_lock(&c->lock);
    clear_line(c);
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

void console_close(console *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->open)
        printf("\n");
    c->open = false;
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

static void on_start(void *context, const clt_table_row *rows, int count)
{
    console *c = context;
    int width = 0;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < count; i++)
        width = (int)strlen(rows[i].label) > width ? (int)strlen(rows[i].label) : width;
    clear_line(c);
    for (int i = 0; i < count; i++)
        printf("%-*s  %s\n", width, rows[i].label, rows[i].value);
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

static void on_build(void *context, int done, int total, const char *what)
{
    console *c = context;
    char line[256];
    double now = clt_now();
    pthread_mutex_lock(&c->lock);
    bool last = done >= total;
    bool due = c->build_total != total || now - c->built_at >= BUILD_SECONDS;
    if (c->tty) {
        snprintf(line, sizeof line, "building kernels %d/%d  %s", done, total, what ? what : "");
        draw(c, line);
        if (last)
            clear_line(c);
    } else if (due && total > 0) {
        printf("building kernels %d/%d\n", done, total);
        c->built_at = now;
    }
    c->build_total = total;
    pthread_mutex_unlock(&c->lock);
}

static void on_tune(void *context, int done, int total, const char *what)
{
    console *c = context;
    char line[256];
    pthread_mutex_lock(&c->lock);
    snprintf(line, sizeof line, "tuning %d/%d  %s", done < total ? done + 1 : total, total, what);
    if (c->tty)
        draw(c, line);
    else
        printf("%s\n", line);
    pthread_mutex_unlock(&c->lock);
}

/* The parts of a step line that have a value. */
static void step_values(const clt_step_metrics *m, char *line, size_t size)
{
    char rate[32];
    int n = snprintf(line, size, " | loss %.4f", m->loss);
    if (isfinite(m->accuracy))
        n += snprintf(line + n, size - (size_t)n, " | acc %.1f%%", 100 * m->accuracy);
    if (isfinite(m->grad_norm))
        n += snprintf(line + n, size - (size_t)n, " | gnorm %.3g", m->grad_norm);
    if (isfinite(m->lr))
        n += snprintf(line + n, size - (size_t)n, " | lr %.2e", m->lr);
    if (isfinite(m->step_ms))
        n += snprintf(line + n, size - (size_t)n, " | %.1f ms", m->step_ms);
    if (isfinite(m->tokens_per_s) && m->tokens_per_s > 1.5 * m->samples_per_s)
        n += snprintf(line + n, size - (size_t)n, " | %s tok/s",
                      console_count(m->tokens_per_s, rate, sizeof rate));
    else if (isfinite(m->samples_per_s) && m->samples_per_s > 0)
        n += snprintf(line + n, size - (size_t)n, " | %s samples/s",
                      console_count(m->samples_per_s, rate, sizeof rate));
    if (isfinite(m->comm_ms) && m->comm_ms > 0)
        n += snprintf(line + n, size - (size_t)n, " | comm %.1f ms", m->comm_ms);
    if (isfinite(m->loss_scale) && m->loss_scale != 1) /* 1 is what it is without loss scaling */
        n += snprintf(line + n, size - (size_t)n, " | scale %g", m->loss_scale);
    if (m->skipped > 0)
        snprintf(line + n, size - (size_t)n, " | skipped %lld", (long long)m->skipped);
}

static void progress_bar(int64_t step, int64_t total, char *bar, int width)
{
    int filled = total > 0 ? (int)((double)width * (double)step / (double)total) : 0;
    for (int i = 0; i < width; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[width] = '\0';
}

/* What matters most stands first: a narrow terminal cuts the rest. */
static void step_line(const console *c, const clt_step_metrics *m, char *line, size_t size)
{
    char bar[32], eta[32];
    int n = snprintf(line, size, "step %lld/%lld", (long long)m->step, (long long)m->steps_total);
    if (c->tty) {
        progress_bar(m->step, m->steps_total, bar, 20);
        n += snprintf(line + n, size - (size_t)n, " [%s]", bar);
    }
    if (isfinite(m->eta_s))
        n += snprintf(line + n, size - (size_t)n, " eta %s", console_time(m->eta_s, eta, sizeof eta));
    step_values(m, line + n, size - (size_t)n);
}

static void on_step(void *context, const clt_step_metrics *m)
{
    console *c = context;
    char line[512];
    bool last = m->step >= m->steps_total;
    pthread_mutex_lock(&c->lock);
    step_line(c, m, line, sizeof line);
    if (c->tty && (last || clt_now() - c->drawn_at >= DRAW_SECONDS))
        draw(c, line);
    else if (!c->tty && (!c->any_step || last || m->step % c->every == 0))
        printf("%s\n", line);
    c->any_step = true;
    pthread_mutex_unlock(&c->lock);
}

static void on_eval(void *context, const clt_eval_metrics *m)
{
    console *c = context;
    pthread_mutex_lock(&c->lock);
    if (c->open) /* the step it belongs to stays on the screen */
        printf("\n");
    c->open = false;
    printf("eval");
    if (m->step >= 0)
        printf(" at step %lld", (long long)m->step);
    printf(" | loss %.4f", m->loss);
    if (isfinite(m->accuracy))
        printf(" | accuracy %.2f%%", 100 * m->accuracy);
    for (int i = 0; m->n_losses > 1 && i < m->n_losses; i++)
        printf(" | %s %.4f", m->loss_name[i], m->loss_value[i]);
    printf(" | %lld samples | %.1f s\n", (long long)m->samples, m->seconds);
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

static void on_saved(void *context, int64_t step, const char *path, double seconds)
{
    console *c = context;
    pthread_mutex_lock(&c->lock);
    if (c->open)
        printf("\n");
    c->open = false;
    printf("saved step %lld to %s (%.1f s)\n", (long long)step, path, seconds);
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

static void on_message(void *context, const char *line)
{
    console *c = context;
    const comm_info *ranks = c->context ? c->context->ranks : NULL;
    pthread_mutex_lock(&c->lock);
    clear_line(c);
    if (ranks && ranks->ranks > 1)
        printf("[rank %d %s] ", ranks->rank, ranks->host);
    printf("%s\n", line);
    fflush(stdout);
    pthread_mutex_unlock(&c->lock);
}

clt_observer console_observer(console *c)
{
    return (clt_observer){.context = c,
                          .start = on_start,
                          .build = on_build,
                          .tune = on_tune,
                          .step = on_step,
                          .eval = on_eval,
                          .saved = on_saved,
                          .message = on_message};
}
