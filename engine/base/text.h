/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that must not depend on the locale of the host program: numbers to text and back, UTF-8 checks,
 * errno's text. A host program may have set a decimal comma; files and configs must not notice. */
#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define CLT_NUMBER_TEXT 32

/* strtod with a decimal point, whatever the locale. */
double clt_strtod(const char *text, char **end);

/* Writes the fewest significant digits that clt_strtod reads back as the same double; clt_float_text: as a
 * double that is the same float when narrowed. Non-finite values give "nan", "inf", "-inf". Both return
 * `buffer`. */
const char *clt_double_text(double value, char buffer[CLT_NUMBER_TEXT]);
const char *clt_float_text(float value, char buffer[CLT_NUMBER_TEXT]);

/* Length (1..4) of the valid UTF-8 sequence at `bytes`, of which `left` bytes exist; 0 if it is not valid
 * (overlong, surrogate, above U+10FFFF, truncated). */
size_t clt_utf8_size(const char *bytes, size_t left);

/* The number of bytes at the start of a text that are valid UTF-8 without control characters. If this is the
 * text's length, JSON can keep the text and give it back unchanged. */
size_t clt_text_plain(const char *text);

/* Puts '?', in place, for everything that could steer a terminal: control characters other than line break
 * and tab, U+0080 to U+009F, and bytes 0x80 to 0x9f that are not part of UTF-8. For messages that hold names
 * from files. */
void clt_text_sanitise(char *text);

/* The ending of a noun after a number: "%zu file%s", count, CLT_PLURAL(count). */
#define CLT_PLURAL(count) ((count) == 1 ? "" : "s")
#define CLT_PLURAL_ES(count) ((count) == 1 ? "" : "es")

bool clt_ends_with(const char *text, const char *end);
/* The number of bytes before the ending `end`; 0: the text does not end with it, or is only the ending. */
size_t clt_stem(const char *text, const char *end);

/* Text of an errno value, safe with threads. Returns the text, which may or may not be in buffer. */
#define CLT_ERRNO_TEXT 128
const char *clt_errno_text(int code, char buffer[CLT_ERRNO_TEXT]);

#endif
