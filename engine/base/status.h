/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes, error messages and the macros that forward them. Every fallible function of the project
 * returns clt_status; the message that explains it lives in thread-local storage until it is read or
 * replaced, and can be moved across threads with a work item. This file knows nothing of OpenCL, MPI or any
 * other room. */
#ifndef ENGINE_BASE_STATUS_H
#define ENGINE_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

/* name, process exit code (docs: README "Exit codes"), short text */
#define CLT_STATUS_MAP(X)                                                                                    \
    X(CLT_OK, 0, "ok")                                                                                       \
    X(CLT_ECHECK, 1, "a check failed")                                                                       \
    X(CLT_EUSAGE, 2, "wrong usage")                                                                          \
    X(CLT_ECONFIG, 2, "configuration error")                                                                 \
    X(CLT_ESHAPE, 2, "shapes do not fit")                                                                    \
    X(CLT_ERANKS, 2, "ranks do not fit")                                                                     \
    X(CLT_EUNSUPPORTED, 2, "not supported")                                                                  \
    X(CLT_EDATA, 3, "data error")                                                                            \
    X(CLT_EDEVICE, 4, "no device or driver")                                                                 \
    X(CLT_EBUILD, 4, "kernel build failed")                                                                  \
    X(CLT_EDEVMEM, 5, "out of device memory")                                                                \
    X(CLT_ENUMERIC, 6, "numeric failure")                                                                    \
    X(CLT_ECHECKPOINT, 7, "checkpoint or weights do not fit or do not verify")                               \
    X(CLT_ESTORAGE, 8, "storage error")                                                                      \
    X(CLT_ECOMM, 9, "communication error")                                                                   \
    X(CLT_EDEVLOST, 10, "device lost")                                                                       \
    X(CLT_EINTERNAL, 70, "internal error")                                                                   \
    X(CLT_ENOMEM, 70, "out of host memory")                                                                  \
    X(CLT_EINTERRUPTED, 75, "interrupted, resumable")

typedef enum clt_status {
#define CLT_STATUS_ENUM(name, exit_code, text) name,
    CLT_STATUS_MAP(CLT_STATUS_ENUM)
#undef CLT_STATUS_ENUM
        CLT_STATUS_COUNT
} clt_status;

#define CLT_ERROR_TEXT_SIZE 4096

/* An error that travels with a work item from one thread to another. */
typedef struct clt_error {
    clt_status status;
    char text[CLT_ERROR_TEXT_SIZE];
    const char *file; /* where it was raised (a string constant), NULL if unknown */
    int line;
} clt_error;

const char *clt_status_name(clt_status status); /* "CLT_EDATA" */
const char *clt_status_text(clt_status status); /* "data error" */
int clt_status_exit_code(clt_status status);

/* clt_error_text: the message of the last failure on this thread ("" if none). Borrowed until the next
 * failure. */
const char *clt_error_text(void);
void clt_error_clear(void);
/* clt_error_take moves this thread's error into a work item (CLT_OK: "no error"); clt_error_put makes the
 * error of a work item this thread's, and returns error->status so that it can be forwarded. */
void clt_error_take(clt_status status, clt_error *error);
clt_status clt_error_put(const clt_error *error);
/* clt_error_save sets this thread's message, if there is one, aside; clt_error_restore brings it back and
 * replaces any message since. Use CLT_KEEP_ERROR of scope.h. */
void clt_error_save(clt_error *error);
void clt_error_restore(const clt_error *error);

/* clt_fail: records the message (what was being done, to which object, why, what to do next) and returns
 * status. Use CLT_FAIL. clt_fail_prefix puts context before the message already recorded: prefix "reading
 * layer 3" gives "reading layer 3: ..."; with CLT_OK it does nothing and returns CLT_OK. errno survives
 * both. */
clt_status clt_fail(clt_status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
clt_status clt_fail_prefix(clt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* file:line where the last failure on this thread was raised, for the debug log. */
const char *clt_error_origin(void);

/* clt_fail never returns CLT_OK; the compiler cannot see that and would warn that outputs are not set. */
#define CLT_FAIL(status, ...)                                                                                \
    do {                                                                                                     \
        clt_status clt_fail_status_ = clt_fail((status), __FILE__, __LINE__, __VA_ARGS__);                   \
        if (clt_fail_status_ == CLT_OK)                                                                      \
            __builtin_unreachable();                                                                         \
        return clt_fail_status_;                                                                             \
    } while (0)
#define CLT_TRY(expr)                                                                                        \
    do {                                                                                                     \
        clt_status clt_try_status_ = (expr);                                                                 \
        if (clt_try_status_ != CLT_OK)                                                                       \
            return clt_try_status_;                                                                          \
    } while (0)
/* For functions with clean-up code: assigns the local variable `status` and jumps. */
#define CLT_TRY_GOTO(expr, label)                                                                            \
    do {                                                                                                     \
        status = (expr);                                                                                     \
        if (status != CLT_OK)                                                                                \
            goto label;                                                                                      \
    } while (0)
#define CLT_FAIL_GOTO(code, label, ...)                                                                      \
    do {                                                                                                     \
        status = clt_fail((code), __FILE__, __LINE__, __VA_ARGS__);                                          \
        goto label;                                                                                          \
    } while (0)

#endif
