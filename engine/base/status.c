/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread's last error: one fixed buffer per thread, so that a failure can be reported even if memory
 * has run out. Knows no other room. */
#include "engine/base/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct thread_error {
    char text[CLT_ERROR_TEXT_SIZE];
    const char *file;
    int line;
    char origin[512];
} thread_error;

static _Thread_local thread_error last;

static bool status_is_known(clt_status status)
{
    return (int)status >= 0 && (int)status < (int)CLT_STATUS_COUNT;
}

const char *clt_status_name(clt_status status)
{
    static const char *const names[] = {
#define STATUS_NAME(name, exit_code, text) #name,
        CLT_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    };
    return status_is_known(status) ? names[status] : "CLT_UNKNOWN";
}

const char *clt_status_text(clt_status status)
{
    static const char *const texts[] = {
#define STATUS_TEXT(name, exit_code, text) text,
        CLT_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    };
    return status_is_known(status) ? texts[status] : "unknown status";
}

int clt_status_exit_code(clt_status status)
{
    static const int codes[] = {
#define STATUS_CODE(name, exit_code, text) exit_code,
        CLT_STATUS_MAP(STATUS_CODE)
#undef STATUS_CODE
    };
    return status_is_known(status) ? codes[status] : codes[CLT_EINTERNAL];
}

const char *clt_error_text(void)
{
    return last.text;
}

void clt_error_clear(void)
{
    last.text[0] = '\0';
    last.file = NULL;
    last.line = 0;
}

/* A message cut in the middle of a UTF-8 sequence would make report files invalid, so the cut moves back to
 * the start of the sequence. */
static void mark_cut(char *text)
{
    size_t end = CLT_ERROR_TEXT_SIZE - 4;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", 4);
}

static void format_text(char *text, const char *format, va_list args)
{
    int length = vsnprintf(text, CLT_ERROR_TEXT_SIZE, format, args);
    if (length < 0)
        (void)snprintf(text, CLT_ERROR_TEXT_SIZE, "(the message could not be formatted) %s", format);
    else if (length >= CLT_ERROR_TEXT_SIZE)
        mark_cut(text);
}

clt_status clt_fail(clt_status status, const char *file, int line, const char *format, ...)
{
    int saved_errno = errno;
    /* The arguments may point into the thread's own message, so it is replaced only after formatting. */
    char text[CLT_ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);
    memcpy(last.text, text, strlen(text) + 1);
    last.file = file;
    last.line = line;
    errno = saved_errno;
    /* A failure that is raised with CLT_OK would be lost on its way to the caller. */
    return status == CLT_OK ? CLT_EINTERNAL : status;
}

clt_status clt_fail_prefix(clt_status status, const char *format, ...)
{
    if (status == CLT_OK)
        return CLT_OK;
    int saved_errno = errno;
    char text[CLT_ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);

    size_t length = strlen(text);
    const char *glue = ": ";
    if (length == 0 || text[length - 1] == ' ')
        glue = "";
    else if (text[length - 1] == ':')
        glue = " ";
    const char *rest = last.text[0] ? last.text : clt_status_text(status);
    int added = snprintf(text + length, sizeof text - length, "%s%s", glue, rest);
    if (added < 0 || (size_t)added >= sizeof text - length)
        mark_cut(text);
    memcpy(last.text, text, strlen(text) + 1);
    errno = saved_errno;
    return status;
}

const char *clt_error_origin(void)
{
    if (!last.file)
        return "";
    (void)snprintf(last.origin, sizeof last.origin, "%s:%d", last.file, last.line);
    return last.origin;
}

void clt_error_take(clt_status status, clt_error *error)
{
    error->status = status;
    error->file = NULL;
    error->line = 0;
    error->text[0] = '\0';
    if (status != CLT_OK) {
        const char *text = last.text[0] ? last.text : clt_status_text(status);
        memcpy(error->text, text, strlen(text) + 1);
        error->file = last.file;
        error->line = last.line;
    }
    clt_error_clear();
}

clt_status clt_error_put(const clt_error *error)
{
    if (error->status == CLT_OK)
        return CLT_OK;
    memcpy(last.text, error->text, strlen(error->text) + 1);
    last.file = error->file;
    last.line = error->line;
    return error->status;
}

void clt_error_save(clt_error *error)
{
    error->file = last.file;
    error->line = last.line;
    memcpy(error->text, last.text, strlen(last.text) + 1);
    clt_error_clear();
}

void clt_error_restore(const clt_error *error)
{
    memcpy(last.text, error->text, strlen(error->text) + 1);
    last.file = error->file;
    last.line = error->line;
}
