/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte letters in which vocabulary files are written, and the tokenizer in which every byte is its own
 * id. It knows neither merges nor files. */
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define LETTERS 324 /* all letters are below code point 256 + 68; 68 bytes are not printable */

static bool prints(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

/* GPT-2's byte letters: a printable byte is its own letter; the others get the code points from 256 on, in
 * order. */
uint32_t clt_byte_letter(uint8_t byte)
{
    uint32_t letter = 256;
    if (prints(byte))
        return byte;
    for (unsigned before = 0; before < byte; before++)
        letter += !prints(before);
    return letter;
}

uint8_t clt_byte_of_order(unsigned i)
{
    for (unsigned pass = 0, left = i; pass < 2; pass++)
        for (unsigned byte = 0; byte < 256; byte++)
            if (prints(byte) == (pass == 0) && left-- == 0)
                return (uint8_t)byte;
    return 0;
}

static uint32_t code_point(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (size == 1)
        return p[0];
    return size == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                     : LETTERS; /* longer sequences encode code points above all letters */
}

bool clt_bytes_of_letters(const char *letters, size_t size, char *dst, size_t *count)
{
    *count = 0;
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(letters + at, size - at);
        uint32_t code = step ? code_point(letters + at, step) : LETTERS;
        if (code >= LETTERS || (code < 256 && !prints(code)))
            return false;
        if (code >= 256) {
            unsigned left = code - 256, byte = 0;
            while (prints(byte) || left-- > 0)
                byte++;
            code = byte;
        }
        dst[(*count)++] = (char)code;
    }
    return true;
}

void clt_letters_of_bytes(const char *bytes, size_t size, clt_str *out)
{
    for (size_t i = 0; i < size; i++) {
        uint32_t code = clt_byte_letter((uint8_t)bytes[i]);
        char text[2] = {(char)code, 0};
        if (code >= 128) {
            text[0] = (char)(0xc0u | code >> 6);
            text[1] = (char)(0x80u | (code & 0x3fu));
        }
        clt_str_append_n(out, text, code < 128 ? 1 : 2);
    }
}

static clt_status fill(clt_tokenizer *t)
{
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        CLT_TRY(clt_tokenizer_put(t, byte, &text, 1, false));
    }
    t->bytes = true;
    t->description = "bytes";
    return clt_tokenizer_ready(t);
}

clt_status clt_tokenizer_open(const char *path, clt_tokenizer **out)
{
    CLT_SCOPED(clt_tokenizer) *t = NULL;
    *out = NULL;
    if (*path && strcmp(path, "bytes") != 0)
        return clt_tokenizer_load(path, out);
    CLT_TRY(clt_tokenizer_begin(256, 0, &t));
    CLT_TRY(fill(t));
    *out = CLT_TAKE(t);
    return CLT_OK;
}
