/* SPDX-License-Identifier: Apache-2.0
 *
 * The console: what a run tells while it goes on. On a terminal the step line is rewritten in place;
 * elsewhere there are plain lines without control characters, thinned out. Knows the observer's records;
 * knows nothing of training. */
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <pthread.h>

#include "cli/cmd.h"
#include "engine/train/trainer.h"

typedef struct console {
    const cmd_context *context;
    bool tty;
    int columns;
    int64_t every; /* plain step lines: one in so many */
    bool open;     /* the cursor stands behind an unfinished line */
    bool any_step;
    double drawn_at, built_at;
    int build_total;
    pthread_mutex_t lock;
} console;

void console_init(console *c, const cmd_context *context, int64_t every);
/* Takes an unfinished line back, so that whole lines can be printed. */
void console_clear(console *c);
/* Ends an unfinished line. */
void console_close(console *c);
clt_observer console_observer(console *c);

/* "49.7k", "1.2 GiB", "3m21s" */
const char *console_count(double value, char *buffer, size_t size);
const char *console_bytes(uint64_t bytes, char *buffer, size_t size);
const char *console_time(double seconds, char *buffer, size_t size);

#endif
