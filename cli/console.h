/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: what a run tells while it goes on. On a terminal one line at the bottom is alive: the newest
 * step, or what is under way and how long it will take. Lines above it stay. Elsewhere there are plain lines
 * without control characters, thinned out. A terminal that takes nothing holds nothing up: what it misses is
 * counted. Knows the observer's records; knows nothing of training. */
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <pthread.h>

#include "cli/cmd.h"
#include "engine/report/lines.h"
#include "engine/train/run/observer.h"

/* What is under way (clt_observer.progress). */
typedef struct console_stage {
    bool active, told; /* told: a plain line has said so */
    char what[160];
    size_t name; /* length of its name in `what` */
    int64_t done, total;
    double began, changed, due; /* due: of the next plain line */
} console_stage;

typedef struct console {
    const cmd_context *context;
    bool tty;      /* its last line can be rewritten */
    int64_t every; /* step lines that stay: one in so many */
    bool open;     /* there is a live line, and the cursor stands behind it */
    bool any_step, stopping;
    int64_t missed; /* lines that the terminal did not take */
    double drawn_at;
    console_stage stage;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct clt_thread *ticker; /* draws the stage while nobody tells anything */
    bool ending;
} console;

void console_init(console *c, const cmd_context *context, int64_t every);
/* Takes a live line back, so that whole lines can be printed. */
void console_clear(console *c);
/* The end: a live line is taken back and no thread is left. May be called again, and goes on after more. */
void console_close(console *c);
/* Before something else is printed, on stderr say: takes back the live line of whatever console has one. */
void console_make_way(void);
clt_observer console_observer(console *c);
/* Prints at once that the run was asked to stop, by signal `number`, while it made step `step`; nothing where
 * nobody reads the output. Any thread, which is not held up. */
void console_stopping(console *c, int number, int64_t step);

/* Short names of engine/report/lines.h. */
#define console_count clt_count_text
#define console_bytes clt_bytes_text
#define console_time clt_duration_text

#endif
