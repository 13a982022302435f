/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats messages, splits them into lines and hands these to the program's sink and to the run's log,
 * one at a time. Log lines leave the library only here. Knows nothing of where the lines go. */
#include "engine/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/thread.h"

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct receiver {
    clt_log_sink call;
    void *context;
    atomic_int level; /* a clt_log_level; NOBODY if `call` is NULL */
} receiver;
#define NOBODY (-1)

static receiver sink = {.level = NOBODY}, copy = {.level = NOBODY};
/* A sink that logs would deadlock on sink_lock, so lines that are logged inside a sink are dropped. */
static _Thread_local bool inside_sink;

static void set(receiver *r, clt_log_sink call, void *context, clt_log_level max_level)
{
    if (inside_sink)
        return;
    CLT_LOCKED(&sink_lock);
    r->call = call;
    r->context = context;
    atomic_store(&r->level, call ? (int)max_level : NOBODY);
}

void clt_log_set_sink(clt_log_sink call, void *context, clt_log_level max_level)
{
    set(&sink, call, context, max_level);
}

void clt_log_set_copy(clt_log_sink call, void *context, clt_log_level max_level)
{
    set(&copy, call, context, max_level);
}

void clt_log_set_level(clt_log_level max_level)
{
    if (inside_sink)
        return;
    CLT_LOCKED(&sink_lock);
    if (sink.call)
        atomic_store(&sink.level, (int)max_level);
}

static int highest(void)
{
    int a = atomic_load(&sink.level), b = atomic_load(&copy.level);
    return a > b ? a : b;
}

clt_log_level clt_log_max_level(void)
{
    int level = highest();
    return level == NOBODY ? CLT_LOG_ERROR : (clt_log_level)level;
}

bool clt_log_level_from_name(const char *name, clt_log_level *level)
{
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *level = (clt_log_level)i;
        return true;
    }
    return false;
}

/* Hands over `text` line by line; the text is cut into lines in place. */
static void deliver(clt_log_level level, char *text)
{
    CLT_LOCKED(&sink_lock);
    inside_sink = true;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    char *line = text;
    while (line) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        if (sink.call && (int)level <= atomic_load(&sink.level))
            sink.call(sink.context, level, line);
        if (copy.call && (int)level <= atomic_load(&copy.level))
            copy.call(copy.context, level, line);
        line = end;
    }
    inside_sink = false;
}

/* Formats a line; *room receives memory to be freed, or NULL. Build logs can be longer than the buffer
 * `small`. If there is no memory for a larger buffer, the line is cut. */
static char *format_line(char *small, size_t size, const char *format, va_list args, char **room)
{
    va_list again;
    *room = NULL;
    va_copy(again, args);
    int length = vsnprintf(small, size, format, args);
    if (length < 0)
        small[0] = '\0';
    if (length >= 0 && (size_t)length >= size)
        *room = malloc((size_t)length + 1);
    if (*room)
        (void)vsnprintf(*room, (size_t)length + 1, format, again);
    va_end(again);
    return *room ? *room : small;
}

void clt_log(clt_log_level level, const char *format, ...)
{
    char small[1024], *room;
    va_list args;
    if ((int)level > highest() || inside_sink)
        return;
    va_start(args, format);
    deliver(level, format_line(small, sizeof small, format, args, &room));
    va_end(args);
    free(room);
}

/* --- lines that are logged once --- */

static struct {
    pthread_mutex_t mutex;
    uint64_t *hash; /* hashes of the texts that were logged */
    size_t count, capacity;
    bool not_first; /* another process of the job logs such lines */
} once = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void clt_log_set_first(bool first)
{
    CLT_LOCKED(&once.mutex);
    once.not_first = !first;
}

void clt_log_forget(void)
{
    CLT_LOCKED(&once.mutex);
    free(once.hash);
    once.hash = NULL;
    once.count = once.capacity = 0;
}

/* True if the text is to be logged now. If memory for its hash runs out, it is logged every time. */
static bool is_new(const char *text)
{
    uint64_t hash = clt_hash64(text, strlen(text));
    CLT_LOCKED(&once.mutex);
    bool wanted = !once.not_first;
    for (size_t i = 0; i < once.count && wanted; i++)
        wanted = once.hash[i] != hash;
    if (wanted && once.count == once.capacity) {
        size_t more = once.capacity ? 2 * once.capacity : 16;
        uint64_t *larger = realloc(once.hash, more * sizeof *larger);
        once.hash = larger ? larger : once.hash;
        once.capacity = larger ? more : once.capacity;
    }
    if (wanted && once.count < once.capacity)
        once.hash[once.count++] = hash;
    return wanted;
}

void clt_log_once(clt_log_level level, const char *format, ...)
{
    char small[1024], *room, *text;
    va_list args;
    if ((int)level > highest() || inside_sink)
        return;
    va_start(args, format);
    text = format_line(small, sizeof small, format, args, &room);
    va_end(args);
    if (is_new(text))
        deliver(level, text);
    free(room);
}

bool clt_log_drops_lines(void)
{
    return inside_sink;
}

void clt_log_note(const char *line)
{
    if (inside_sink || atomic_load(&copy.level) < (int)CLT_LOG_INFO)
        return;
    CLT_LOCKED(&sink_lock);
    inside_sink = true;
    if (copy.call)
        copy.call(copy.context, CLT_LOG_INFO, line);
    inside_sink = false;
}
