/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: shows the progress of a run. On a terminal the last line is live: it shows the newest step,
 * or the work in progress and how long it will take. Lines above it stay. Otherwise plain lines without
 * control characters are printed, less often. A terminal that accepts no output does not block the run; the
 * lines that it misses are counted. */
#ifndef CLI_SCREEN_CONSOLE_H
#define CLI_SCREEN_CONSOLE_H

#include <pthread.h>

#include "cli/screen/cmd.h"
#include "engine/report/write/lines.h"
#include "engine/train/job/observer.h"

/* Work in progress (clt_observer.progress). */
typedef struct console_stage {
    bool active, told; /* told: a plain line has reported this work */
    char what[160];
    size_t name; /* length of the name at the beginning of `what` */
    int64_t done, total;
    double began, changed, due; /* due: time of the next plain line */
} console_stage;

typedef struct console {
    const cmd_context *context;
    bool tty;       /* the output is a terminal whose last line can be rewritten */
    bool open;      /* there is a live line, with the cursor at its end */
    int64_t missed; /* number of lines that the terminal did not accept */
    double drawn_at;
    console_stage stage;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct clt_thread *ticker; /* redraws the live line while the run reports nothing */
    bool ending;
} console;

void console_init(console *c, const cmd_context *context);
/* Erases the live line, so that complete lines can be printed. */
void console_clear(console *c);
/* Erases the live line and ends the thread. May be called several times; the console can be used again
 * afterwards. */
void console_close(console *c);
/* Erases the live line of any console. Call it before printing anything else, for instance to stderr. */
void console_make_way(void);
clt_observer console_observer(console *c);
/* Initialises the console of a command whose standard output is its result, such as a text or a table. The
 * returned observer shows work in progress in the live line of a terminal, and nothing elsewhere. Close the
 * console before the result is printed. */
clt_observer console_begin_result(console *c, const cmd_context *context);
/* Prints immediately that signal `number` asked the run to stop during step `step` (0: the run is still
 * starting); prints nothing if nobody reads the output. Any thread may call it; it waits at most 0.2 s for
 * the lock. */
void console_stopping(console *c, int number, int64_t step);

/* Short names for functions of engine/report/write/lines.h. */
#define console_count clt_count_text
#define console_bytes clt_bytes_text
#define console_time clt_duration_text

#endif
