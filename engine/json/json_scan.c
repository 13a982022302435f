/* SPDX-License-Identifier: Apache-2.0
 *
 * A strict JSON scanner: makes one pass and no tree, and gives an exact reason and place for every
 * refusal. It exists because cJSON accepts control characters, malformed numbers and bare words and gives
 * no positions. It knows neither cJSON nor the tree. */
#include "engine/json/json_scan.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"

void clt_json_line_column(const uint32_t *lines, size_t line_count, size_t offset, int *line, int *column)
{
    size_t low = 0, high = line_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    *line = (int)low + 1;
    *column = (int)(offset - (line_count ? lines[low] : 0)) + 1;
}

clt_status clt_json_scan_fail(const clt_json_scan *scan, size_t offset, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int line, column;
    clt_json_line_column(scan->lines, scan->line_count, offset, &line, &column);
    CLT_FAIL(scan->code, "%s:%d:%d: %s", scan->source, line, column, text);
}

static bool at_end(const clt_json_scan *scan)
{
    return scan->at >= scan->length;
}

static unsigned char peek(const clt_json_scan *scan)
{
    return at_end(scan) ? 0 : (unsigned char)scan->text[scan->at];
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Names what is at the current position, for messages. */
static const char *found(const clt_json_scan *scan, char buffer[32])
{
    unsigned char c = peek(scan);
    if (at_end(scan))
        return "the end of the text";
    if (c == 0)
        return "a NUL byte";
    if (c < 0x20 || c >= 0x7f)
        (void)snprintf(buffer, 32, "the byte 0x%02x", c);
    else
        (void)snprintf(buffer, 32, "'%c'", c);
    return buffer;
}

static clt_status unexpected(const clt_json_scan *scan, const char *expected)
{
    char buffer[32];
    unsigned char c = peek(scan);
    if (c == '/' || c == '#')
        return clt_json_scan_fail(scan, scan->at, "comments are not allowed in JSON; remove it");
    if (scan->at == 0 && scan->length >= 3 && memcmp(scan->text, "\xef\xbb\xbf", 3) == 0)
        return clt_json_scan_fail(scan, 0, "the text begins with a byte order mark; save it as plain UTF-8");
    return clt_json_scan_fail(scan, scan->at, "expected %s, found %s", expected, found(scan, buffer));
}

static clt_status add_line(clt_json_scan *scan, size_t offset)
{
    CLT_TRY(clt_grow(&scan->lines, &scan->line_capacity, scan->line_count + 1, sizeof *scan->lines,
                     "line positions of a JSON text"));
    scan->lines[scan->line_count++] = (uint32_t)offset;
    return CLT_OK;
}

static clt_status skip_space(clt_json_scan *scan)
{
    for (; !at_end(scan); scan->at++) {
        char c = scan->text[scan->at];
        if (c == '\n')
            CLT_TRY(add_line(scan, scan->at + 1));
        else if (c != ' ' && c != '\t' && c != '\r')
            break;
    }
    return CLT_OK;
}

static clt_status scan_hex4(clt_json_scan *scan, size_t escape, unsigned *out)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = peek(scan);
        unsigned digit;
        if (is_digit(c))
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10u;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10u;
        else
            return clt_json_scan_fail(scan, escape, "\\u must be followed by four hexadecimal digits");
        value = value << 4 | digit;
        scan->at++;
    }
    *out = value;
    return CLT_OK;
}

/* Reads the rest of an escape sequence whose backslash is at `escape`. */
static clt_status scan_escape(clt_json_scan *scan, size_t escape)
{
    unsigned char c = peek(scan);
    if (at_end(scan) || c == 0 || !strchr("\"\\/bfnrtu", c))
        return clt_json_scan_fail(scan, escape,
                                  "unknown escape in a string; write \\\\ for a backslash itself");
    scan->at++;
    if (c != 'u')
        return CLT_OK;
    unsigned high = 0, low = 0;
    CLT_TRY(scan_hex4(scan, escape, &high));
    if (high == 0)
        return clt_json_scan_fail(scan, escape, "a string must not contain NUL (\\u0000)");
    if (high >= 0xdc00 && high <= 0xdfff)
        return clt_json_scan_fail(scan, escape, "\\u%04x is the second half of a surrogate pair", high);
    if (high < 0xd800 || high > 0xdbff)
        return CLT_OK;
    if (scan->length - scan->at >= 2 && scan->text[scan->at] == '\\' && scan->text[scan->at + 1] == 'u') {
        scan->at += 2;
        CLT_TRY(scan_hex4(scan, scan->at - 2, &low));
    }
    if (low < 0xdc00 || low > 0xdfff)
        return clt_json_scan_fail(scan, escape, "\\u%04x needs the second half of its surrogate pair", high);
    return CLT_OK;
}

static clt_status scan_string(clt_json_scan *scan)
{
    size_t start = scan->at++;
    while (!at_end(scan)) {
        unsigned char c = peek(scan);
        if (c == '"') {
            scan->at++;
            return CLT_OK;
        }
        if (c == 0)
            return clt_json_scan_fail(scan, scan->at, "a string must not contain a NUL byte");
        if (c == '\n' || c == '\r')
            return clt_json_scan_fail(scan, start, "the string does not end on its line; is a '\"' missing?");
        if (c < 0x20)
            return clt_json_scan_fail(scan, scan->at, "control byte 0x%02x in a string; write \\u%04x", c, c);
        if (c == '\\') {
            size_t escape = scan->at++;
            CLT_TRY(scan_escape(scan, escape));
            continue;
        }
        size_t size = clt_utf8_size(scan->text + scan->at, scan->length - scan->at);
        if (size == 0)
            return clt_json_scan_fail(scan, scan->at,
                                      "byte 0x%02x is not valid UTF-8; save the text as UTF-8", c);
        scan->at += size;
    }
    return clt_json_scan_fail(scan, start, "the string does not end; is a '\"' missing?");
}

static clt_status skip_digits(clt_json_scan *scan, const char *where)
{
    char buffer[32];
    if (!is_digit(peek(scan)))
        return clt_json_scan_fail(scan, scan->at, "expected a digit %s, found %s", where,
                                  found(scan, buffer));
    while (is_digit(peek(scan)))
        scan->at++;
    return CLT_OK;
}

static clt_status scan_number(clt_json_scan *scan, uint32_t *length)
{
    size_t start = scan->at;
    if (peek(scan) == '-')
        scan->at++;
    if (peek(scan) == '0') {
        scan->at++;
        if (is_digit(peek(scan)))
            return clt_json_scan_fail(scan, start, "a number must not begin with extra zeros");
    } else {
        CLT_TRY(skip_digits(scan, "after '-'"));
    }
    if (peek(scan) == '.') {
        scan->at++;
        CLT_TRY(skip_digits(scan, "after the decimal point"));
    }
    if (peek(scan) == 'e' || peek(scan) == 'E') {
        scan->at++;
        if (peek(scan) == '+' || peek(scan) == '-')
            scan->at++;
        CLT_TRY(skip_digits(scan, "in the exponent"));
    }
    if (is_word(peek(scan)) || peek(scan) == '.' || peek(scan) == '+' || peek(scan) == '-')
        return clt_json_scan_fail(scan, start, "not a number as JSON writes it; found '%c' within it",
                                  peek(scan));
    *length = (uint32_t)(scan->at - start);
    return CLT_OK;
}

static clt_status scan_word(clt_json_scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t start = scan->at;
    while (is_word(peek(scan)) || is_digit(peek(scan)))
        scan->at++;
    size_t length = scan->at - start;
    for (size_t i = 0; i < 3; i++)
        if (length == strlen(words[i]) && memcmp(scan->text + start, words[i], length) == 0)
            return CLT_OK;
    int shown = length > 40 ? 40 : (int)length;
    return clt_json_scan_fail(scan, start,
                              "unknown word '%.*s'; JSON knows true, false and null, all else needs quotes",
                              shown, scan->text + start);
}

static clt_status scan_value(clt_json_scan *scan, uint32_t key_offset);

static clt_status scan_member(clt_json_scan *scan)
{
    if (peek(scan) == '\'' || is_word(peek(scan)))
        return clt_json_scan_fail(scan, scan->at, "a key must be in double quotes");
    if (peek(scan) != '"')
        return unexpected(scan, "a key in double quotes");
    uint32_t key_offset = (uint32_t)scan->at;
    CLT_TRY(scan_string(scan));
    CLT_TRY(skip_space(scan));
    if (peek(scan) != ':')
        return unexpected(scan, "':' after the key");
    scan->at++;
    CLT_TRY(skip_space(scan));
    return scan_value(scan, key_offset);
}

/* Reads an array or an object: `close` is its closing bracket. */
static clt_status scan_container(clt_json_scan *scan, unsigned char close)
{
    const char *what = close == '}' ? "object" : "array";
    size_t start = scan->at;
    if (scan->depth == CLT_JSON_MAX_DEPTH)
        return clt_json_scan_fail(scan, start, "nested deeper than %d levels", CLT_JSON_MAX_DEPTH);
    scan->depth++;
    scan->at++;
    CLT_TRY(skip_space(scan));
    while (peek(scan) != close || at_end(scan)) {
        CLT_TRY(close == '}' ? scan_member(scan) : scan_value(scan, CLT_JSON_NO_KEY));
        CLT_TRY(skip_space(scan));
        if (peek(scan) == close)
            break;
        if (at_end(scan)) {
            int line, column;
            clt_json_line_column(scan->lines, scan->line_count, start, &line, &column);
            return clt_json_scan_fail(scan, scan->at, "the text ends inside the %s that begins at %d:%d",
                                      what, line, column);
        }
        if (peek(scan) != ',')
            return unexpected(scan,
                              close == '}' ? "',' or '}' after a member" : "',' or ']' after an element");
        size_t comma = scan->at++;
        CLT_TRY(skip_space(scan));
        if (peek(scan) == close)
            return clt_json_scan_fail(scan, comma, "a ',' must not stand before '%c'; remove it", close);
    }
    scan->at++;
    scan->depth--;
    return CLT_OK;
}

static clt_status scan_value(clt_json_scan *scan, uint32_t key_offset)
{
    if (scan->mark_count == CLT_JSON_MAX_VALUES)
        return clt_json_scan_fail(scan, scan->at, "more than %u values in one text", CLT_JSON_MAX_VALUES);
    CLT_TRY(clt_grow(&scan->marks, &scan->mark_capacity, scan->mark_count + 1, sizeof *scan->marks,
                     "value positions of a JSON text"));
    size_t index = scan->mark_count++;
    scan->marks[index] = (clt_json_mark){(uint32_t)scan->at, key_offset, 0};
    unsigned char c = peek(scan);
    if (c == '{')
        return scan_container(scan, '}');
    if (c == '[')
        return scan_container(scan, ']');
    if (c == '"')
        return scan_string(scan);
    if (c == '-' || is_digit(c)) {
        uint32_t length = 0;
        CLT_TRY(scan_number(scan, &length));
        scan->marks[index].length = length;
        return CLT_OK;
    }
    if (is_word(c))
        return scan_word(scan);
    if (c == '\'')
        return clt_json_scan_fail(scan, scan->at, "a string must be in double quotes");
    if (c == '+' || c == '.')
        return clt_json_scan_fail(scan, scan->at, "a number must begin with a digit or '-'");
    return unexpected(scan, "a value");
}

clt_status clt_json_scan_run(clt_json_scan *scan)
{
    CLT_TRY(add_line(scan, 0));
    if (scan->length > CLT_JSON_MAX_BYTES)
        return clt_json_scan_fail(scan, 0, "%zu bytes are more than the %u that a JSON text may have",
                                  scan->length, CLT_JSON_MAX_BYTES);
    CLT_TRY(skip_space(scan));
    if (at_end(scan))
        return clt_json_scan_fail(scan, scan->at, "the text is empty; expected a JSON value");
    CLT_TRY(scan_value(scan, CLT_JSON_NO_KEY));
    CLT_TRY(skip_space(scan));
    if (!at_end(scan))
        return unexpected(scan, "the end of the text after the value");
    return CLT_OK;
}
