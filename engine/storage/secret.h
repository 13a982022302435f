/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that hold a key, a token or what could be used like one: their memory is overwritten before it is
 * freed. */
#ifndef ENGINE_STORAGE_SECRET_H
#define ENGINE_STORAGE_SECRET_H

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

/* To be built by the functions of clt_str. */
typedef clt_str clt_secret;

/* Makes room for `size` bytes and the NUL in an empty text, so that it does not move while it is built: what
 * it leaves would not be overwritten. A failure is found by clt_str_check. */
static inline void clt_secret_room(clt_secret *secret, size_t size)
{
    size_t capacity = size + 128; /* clt_str_printf wants 64 bytes beside its text */
    *secret = (clt_secret){.text = calloc(1, capacity)};
    secret->capacity = secret->text ? capacity : 0;
    secret->failed = !secret->text;
}

static inline void clt_secret_free(clt_secret *secret)
{
    if (secret->text)
        explicit_bzero(secret->text, secret->capacity);
    clt_str_free(secret);
}
CLT_SCOPED_VALUE(clt_secret, clt_secret_free)

static inline void clt_wiped_end_scope(char *const *text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
}
/* Before `char *`: the text is overwritten and freed at the end of its scope. */
#define CLT_WIPED __attribute__((cleanup(clt_wiped_end_scope)))

#endif
