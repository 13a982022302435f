/* SPDX-License-Identifier: Apache-2.0
 *
 * Cleaning up by scope: a variable that owns something is destroyed when its scope ends, on every path out
 * of it, so that a function needs no label and no chain of frees.
 *
 *     clt_status summarise(const char *path, clt_summary **out)
 *     {
 *         CLT_SCOPED(clt_str) text = {0};
 *         CLT_SCOPED(clt_config) *config = NULL;
 *         CLT_FREED double *values = NULL;
 *         CLT_TRY(clt_config_load(path, &config));
 *         ...
 *         *out = CLT_TAKE(summary);
 *         return CLT_OK;
 *     }
 *
 * Such a variable is initialised where it is declared, and no goto jumps over the declaration. Variables are
 * destroyed in the reverse order of their declarations. A destroying function must not change the thread's
 * error, which is recorded by then (CLT_KEEP_ERROR, if it calls anything that may fail). */
#ifndef ENGINE_BASE_SCOPE_H
#define ENGINE_BASE_SCOPE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/status.h"

/* Declares a variable of `type` or, with a star after it, a pointer to `type`. The header of the type
 * decides which by one of the two macros below. */
#define CLT_SCOPED(type) __attribute__((cleanup(type##_end_scope))) type

/* For the header of `type`: variables are pointers, which destroy(type *) accepts, also if NULL. */
#define CLT_SCOPED_POINTER(type, destroy)                                                                    \
    static inline void type##_end_scope(type **object)                                                       \
    {                                                                                                        \
        destroy(*object);                                                                                    \
    }
/* For the header of `type`: variables are the objects themselves; destroy(type *) accepts their address, also
 * if all members are zero. */
#define CLT_SCOPED_VALUE(type, destroy)                                                                      \
    static inline void type##_end_scope(type *object)                                                        \
    {                                                                                                        \
        destroy(object);                                                                                     \
    }

static inline void clt_freed_end_scope(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}
/* Put before the type of a pointer variable: free() at the end of its scope. */
#define CLT_FREED __attribute__((cleanup(clt_freed_end_scope)))

static inline void clt_closed_end_scope(const int *fd)
{
    int kept = errno;
    if (*fd >= 0)
        (void)close(*fd);
    errno = kept;
}
/* Put before the type of a file descriptor: close() at the end of its scope, unless it is below 0. errno
 * stays. */
#define CLT_CLOSED __attribute__((cleanup(clt_closed_end_scope)))

/* Moves the value out of a pointer variable, which becomes NULL; the taker owns the value. */
#define CLT_TAKE(variable)                                                                                   \
    __extension__({                                                                                          \
        __typeof__(variable) clt_taken_ = (variable);                                                        \
        (variable) = NULL;                                                                                   \
        clt_taken_;                                                                                          \
    })

/* From this line to the end of the scope, failures do not replace the thread's message: for functions that
 * clean up or write records while the thread may be returning an error. */
#define CLT_KEEP_ERROR()                                                                                     \
    __attribute__((cleanup(clt_error_restore))) clt_error clt_kept_error_;                                   \
    clt_error_save(&clt_kept_error_)

#endif
