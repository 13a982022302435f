/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends a hash of a JSON object's text as its last member, and checks such a hash. */
#include "engine/json/json_seal.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"

#define TAIL_SIZE 96

static size_t print_tail(const char *member, const char *body, size_t length, char tail[TAIL_SIZE])
{
    char hash[CLT_HASH64_TEXT];
    int n = snprintf(tail, TAIL_SIZE, ",\n  \"%s\": \"%s\"\n}\n", member,
                     clt_hash64_text(clt_hash64(body, length), hash));
    return n > 0 && n < TAIL_SIZE ? (size_t)n : 0; /* 0: the member's name is too long */
}

clt_status clt_json_seal(clt_str *out, size_t from, const char *member)
{
    char tail[TAIL_SIZE];
    CLT_TRY(clt_str_check(out));
    if (print_tail(member, out->text + from, out->length - from, tail) == 0)
        CLT_FAIL(CLT_EINTERNAL, "sealing a record: the member's name '%s' is too long", member);
    clt_str_append(out, tail);
    return clt_str_check(out);
}

bool clt_json_sealed(const char *text, size_t length, const char *member)
{
    char tail[TAIL_SIZE];
    size_t n = print_tail(member, text, 0, tail); /* every hash has the same length */
    if (n == 0 || length <= n)
        return false;
    n = print_tail(member, text, length - n, tail);
    return memcmp(text + length - n, tail, n) == 0;
}
