/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging through a sink that the program sets. The library never prints: without a sink, lines are dropped.
 */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include <stdbool.h>

typedef enum clt_log_level {
    CLT_LOG_ERROR,
    CLT_LOG_WARN,
    CLT_LOG_INFO,
    CLT_LOG_DEBUG,
    CLT_LOG_TRACE
} clt_log_level;

/* Called with one finished line (no newline). May be called from any thread; calls are serialised. */
typedef void (*clt_log_sink)(void *context, clt_log_level level, const char *line);

void clt_log_set_sink(clt_log_sink sink, void *context, clt_log_level max_level);
void clt_log_set_level(clt_log_level max_level); /* of the sink */
/* A second receiver with its own level: log.txt of the current run. NULL removes it. */
void clt_log_set_copy(clt_log_sink copy, void *context, clt_log_level max_level);
clt_log_level clt_log_max_level(void); /* lines above this level reach no receiver */
/* "error", "warn", "info", "debug", "trace"; false: there is no such level. */
bool clt_log_level_from_name(const char *name, clt_log_level *level);
void clt_log(clt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* clt_log_once: for lines that would repeat in every process of a job, or each time the same data is opened.
 * Only the first process logs them, and each text once. clt_log_set_first says whether this process is the
 * first one; without that call it is. clt_log_forget: another run begins, which may log the same texts
 * again. */
void clt_log_once(clt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void clt_log_set_first(bool first);
void clt_log_forget(void);

/* True while this thread hands a line to a receiver; lines that it logs meanwhile are dropped. */
bool clt_log_drops_lines(void);
/* Writes a line with level INFO to the second receiver only, for events that belong only in the run's
 * log. */
void clt_log_note(const char *line);

#define CLT_WARN(...) clt_log(CLT_LOG_WARN, __VA_ARGS__)
#define CLT_INFO(...) clt_log(CLT_LOG_INFO, __VA_ARGS__)
#define CLT_WARN_ONCE(...) clt_log_once(CLT_LOG_WARN, __VA_ARGS__)
#define CLT_INFO_ONCE(...) clt_log_once(CLT_LOG_INFO, __VA_ARGS__)
#define CLT_DEBUG(...)                                                                                       \
    do {                                                                                                     \
        if (clt_log_max_level() >= CLT_LOG_DEBUG)                                                            \
            clt_log(CLT_LOG_DEBUG, __VA_ARGS__);                                                             \
    } while (0)

#endif
