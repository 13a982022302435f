/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place where log lines leave the library: formats, splits into lines and hands them to the program's
 * sink, one at a time. Knows nothing of where the lines go. */
#include "engine/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static clt_log_sink sink_call;
static void *sink_context;
static atomic_int sink_level = CLT_LOG_ERROR;
static atomic_bool sink_is_set;
/* A sink that logs would wait for itself; its lines are dropped instead. */
static _Thread_local bool inside_sink;

void clt_log_set_sink(clt_log_sink sink, void *context, clt_log_level max_level)
{
    if (inside_sink)
        return;
    pthread_mutex_lock(&sink_lock);
    sink_call = sink;
    sink_context = context;
    atomic_store(&sink_level, (int)max_level);
    atomic_store(&sink_is_set, sink != NULL);
    pthread_mutex_unlock(&sink_lock);
}

clt_log_level clt_log_max_level(void)
{
    return (clt_log_level)atomic_load(&sink_level);
}

/* Hands over `text` line by line; the text is cut up in place. */
static void deliver(clt_log_level level, char *text)
{
    pthread_mutex_lock(&sink_lock);
    inside_sink = true;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    char *line = text;
    while (line && sink_call) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        sink_call(sink_context, level, line);
        line = end;
    }
    inside_sink = false;
    pthread_mutex_unlock(&sink_lock);
}

void clt_log(clt_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&sink_level) || !atomic_load(&sink_is_set) || inside_sink)
        return;
    char small[1024];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length >= 0) {
        char *text = small;
        if ((size_t)length >= sizeof small) {
            /* Build logs are long. Without memory for one, its beginning is better than nothing. */
            char *large = malloc((size_t)length + 1);
            if (large) {
                (void)vsnprintf(large, (size_t)length + 1, format, again);
                text = large;
            }
        }
        deliver(level, text);
        if (text != small)
            free(text);
    }
    va_end(again);
}
