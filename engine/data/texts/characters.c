/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up classes of characters by binary search in generated tables, and decodes and validates UTF-8. */
#include "engine/data/texts/characters.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/unicode_classes.h"

const char *clt_unicode_version(void)
{
    return CLT_UNICODE_VERSION;
}

unsigned clt_char_classes(clt_char_memo *memo, uint32_t code)
{
    const size_t count = sizeof class_runs / sizeof class_runs[0];
    if (code < 128)
        return ascii_classes[code];
    if (code >= memo->first && code < memo->end)
        return memo->classes;
    size_t low = CLT_LAST_AT_MOST(count, class_runs[i] >> 4, code);
    *memo = (clt_char_memo){class_runs[low] >> 4, low + 1 == count ? 0x110000 : class_runs[low + 1] >> 4,
                            class_runs[low] & 15u};
    return memo->classes;
}

uint32_t clt_utf8_code(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint32_t code = size == 1 ? p[0] : p[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return code;
}

size_t clt_utf8_valid(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        if (size - at >= 8) {
            memcpy(&eight, text + at, 8);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += 8;
                continue;
            }
        }
        size_t step = clt_utf8_size(text + at, size - at);
        if (step == 0)
            break;
        at += step;
    }
    return at;
}

size_t clt_utf8_invalid(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && clt_utf8_size(text + at, size - at) == 0)
        at++;
    return at;
}
