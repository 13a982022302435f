/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of characters (letters, numbers, white space, word characters) of Unicode 16.0, and normal form
 * C of Unicode 9.0, the same versions as in the tokenizers library. The tables are part of the program,
 * so that ids do not depend on a library of the host. They are written by scripts/make_unicode_tables.py. */
#ifndef ENGINE_DATA_TEXTS_CHARACTERS_H
#define ENGINE_DATA_TEXTS_CHARACTERS_H

#include <stdbool.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

#define CLT_CHAR_LETTER 1u /* \p{L} */
#define CLT_CHAR_NUMBER 2u /* \p{N} */
#define CLT_CHAR_SPACE 4u  /* \s */
#define CLT_CHAR_WORD 8u   /* \w: letters, marks, digits, connectors */

/* The last index `i` of a sorted table of `count` entries whose key_at_i is at most `wanted`; else 0. */
#define CLT_LAST_AT_MOST(count, key_at_i, wanted)                                                            \
    __extension__({                                                                                          \
        size_t low_ = 0;                                                                                     \
        for (size_t high_ = (count), i; high_ - low_ > 1;) {                                                 \
            i = (low_ + high_) / 2;                                                                          \
            if ((key_at_i) <= (wanted))                                                                      \
                low_ = i;                                                                                    \
            else                                                                                             \
                high_ = i;                                                                                   \
        }                                                                                                    \
        low_;                                                                                                \
    })

/* Caches the latest run of code points with equal classes, since most characters of a text are in the same
 * run. Zero-initialise it. */
typedef struct clt_char_memo {
    uint32_t first, end;
    unsigned classes;
} clt_char_memo;
/* The classes of a code point below 0x110000. */
unsigned clt_char_classes(clt_char_memo *memo, uint32_t code);
/* The code point of a valid sequence of `size` bytes (clt_utf8_size). */
uint32_t clt_utf8_code(const char *bytes, size_t size);
/* clt_utf8_valid: number of bytes at the beginning of the text that are valid UTF-8. clt_utf8_invalid:
 * number of bytes there that belong to no valid character. */
size_t clt_utf8_valid(const char *text, size_t size);
size_t clt_utf8_invalid(const char *text, size_t size);

/* True if the bytes are certainly in normal form C, because it changes none of their characters and joins
 * none to an earlier one. */
bool clt_nfc_is_plain(const char *text, size_t size);
/* Appends the text in normal form C; bytes that are not UTF-8 stay unchanged. */
clt_status clt_nfc(const char *text, size_t size, clt_str *out);
/* The same in normal form D, in which characters are decomposed. */
clt_status clt_nfd(const char *text, size_t size, clt_str *out);
/* Appends a code point as UTF-8. */
void clt_append_code(uint32_t code, clt_str *out);
const char *clt_unicode_version(void); /* Unicode version of the classes */

#endif
