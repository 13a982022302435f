/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that hold a key, a token or another secret: their memory is overwritten before it is freed. */
#ifndef ENGINE_STORAGE_SECRET_H
#define ENGINE_STORAGE_SECRET_H

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

/* Call clt_secret_room first; then append with the functions of clt_str. */
typedef clt_str clt_secret;

/* Makes room for `size` bytes and the NUL in an empty text, so that its memory does not move while text is
 * appended: the old memory would not be overwritten. clt_str_check reports a failure. */
static inline void clt_secret_room(clt_secret *secret, size_t size)
{
    size_t capacity = size + 128; /* clt_str_printf needs 64 bytes more than its text */
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
/* Write it before `char *`: the text is overwritten and freed at the end of its scope. */
#define CLT_WIPED __attribute__((cleanup(clt_wiped_end_scope)))

#endif
