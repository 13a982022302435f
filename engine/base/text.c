/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, UTF-8 checks, texts of errno, all independent of the locale. Needed because printf and
 * strtod follow the host program's locale. Knows nothing of JSON or files. */
#include "engine/base/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void c_locale_init(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double clt_strtod(const char *text, char **end)
{
    pthread_once(&c_locale_once, c_locale_init);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

static bool reads_back(const char *text, double value, bool narrow)
{
    double back = clt_strtod(text, NULL);
    return narrow ? (float)back == (float)value : back == value;
}

/* Increments the last digit of the mantissa in a text made by %e, with carry; false if all digits are 9. */
static bool last_digit_up(char *text)
{
    char *p = strchr(text, 'e');
    while (p && p > text) {
        p--;
        if (*p >= '0' && *p < '9') {
            ++*p;
            return true;
        }
        if (*p == '9')
            *p = '0';
        else if (*p == '-')
            break;
    }
    return false;
}

/* Finds the smallest number of digits, from `from` to `to`, at which the decimal text nearest to the value
 * reads back as the value. At a power of two the gap to the next number below is half the gap above, so a
 * shorter text may read back although it is not the nearest one: the next one away from zero is tried
 * too. */
static void shortest(double value, bool narrow, int from, int to, char *buffer)
{
    int exponent;
    bool power = fabs(frexp(value, &exponent)) == 0.5;
    for (int digits = from; digits <= to; digits++) {
        if (!power) { /* no text but the nearest can read back */
            (void)snprintf(buffer, CLT_NUMBER_TEXT, "%.*g", digits, value);
            if (digits == to || reads_back(buffer, value, narrow))
                return;
            continue;
        }
        char trial[CLT_NUMBER_TEXT];
        (void)snprintf(trial, sizeof trial, "%.*e", digits - 1, value);
        bool good = reads_back(trial, value, narrow);
        if (!good && last_digit_up(trial))
            good = reads_back(trial, value, narrow);
        if (good || digits == to) {
            /* The same decimal number by %g, which omits an exponent that is not needed. */
            double same = clt_strtod(trial, NULL);
            (void)snprintf(buffer, CLT_NUMBER_TEXT, "%.*g", digits, same);
            if (!reads_back(buffer, value, narrow))
                memcpy(buffer, trial, sizeof trial);
            return;
        }
    }
}

/* The fast path for most numbers: up to six decimals and a magnitude that is written without an exponent;
 * uses only integers. The text has at most 15 digits, so no other text of that length reads back as the same
 * number. */
static bool few_decimals(double value, char *buffer)
{
    double size = fabs(value), scaled = round(size * 1e6);
    if (!(size < 1e9) || (size > 0 && size < 1e-4) || scaled / 1e6 != size)
        return false;
    uint64_t whole = (uint64_t)scaled / 1000000, rest = (uint64_t)scaled % 1000000;
    char digits[24];
    int n = 0, at = 0;
    if (signbit(value))
        buffer[at++] = '-';
    do
        digits[n++] = (char)('0' + whole % 10);
    while ((whole /= 10) > 0);
    while (n > 0)
        buffer[at++] = digits[--n];
    for (uint64_t unit = 100000; rest > 0; unit /= 10) {
        if (unit == 100000)
            buffer[at++] = '.';
        buffer[at++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    buffer[at] = '\0';
    return true;
}

static const char *number_text(double value, bool narrow, int sure, int to, char *buffer)
{
    if (isnan(value))
        return strcpy(buffer, "nan");
    if (isinf(value))
        return strcpy(buffer, value < 0 ? "-inf" : "inf");
    if (!narrow && few_decimals(value, buffer))
        return buffer;
    pthread_once(&c_locale_once, c_locale_init);
    locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;
    /* If a shorter text reads back, %g with `sure` digits gives it too, since %g drops trailing zeros.
     * Subnormals have fewer significant digits and are searched from one digit on. */
    bool subnormal = fabs(value) < (narrow ? 0x1p-126 : 0x1p-1022);
    (void)snprintf(buffer, CLT_NUMBER_TEXT, "%.*g", sure, value);
    if (subnormal || !reads_back(buffer, value, narrow))
        shortest(value, narrow, subnormal ? 1 : sure + 1, to, buffer);
    if (before)
        uselocale(before);
    return buffer;
}

const char *clt_double_text(double value, char buffer[CLT_NUMBER_TEXT])
{
    return number_text(value, false, 15, 17, buffer);
}

const char *clt_float_text(float value, char buffer[CLT_NUMBER_TEXT])
{
    return number_text((double)value, true, 6, 9, buffer);
}

size_t clt_utf8_size(const char *bytes, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)bytes;
    if (left == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t size = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || size > left)
        return 0;
    uint32_t code = p[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[size] || code > 0x10ffff || surrogate ? 0 : size;
}

const char *clt_errno_text(int code, char buffer[CLT_ERRNO_TEXT])
{
    return strerror_r(code, buffer, CLT_ERRNO_TEXT);
}

size_t clt_text_plain(const char *text)
{
    size_t at = 0, length = strlen(text);
    while (at < length) {
        size_t step = clt_utf8_size(text + at, length - at);
        if (step == 0 || (unsigned char)text[at] < 0x20 || text[at] == 0x7f)
            return at;
        at += step;
    }
    return at;
}

void clt_text_sanitise(char *text)
{
    size_t step;
    for (size_t at = 0, left = strlen(text); left > 0; at += step, left -= step) {
        const unsigned char *c = (const unsigned char *)text + at;
        size_t valid = clt_utf8_size(text + at, left);
        step = valid ? valid : 1;
        bool control = (*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f;
        /* an 8-bit terminal takes such a byte as a control character */
        bool lone = !valid && *c >= 0x80 && *c < 0xa0;
        bool high = valid == 2 && *c == 0xc2 && c[1] < 0xa0; /* U+0080 to U+009F in UTF-8 */
        if (control || lone || high)
            memset(text + at, '?', step);
    }
}

bool clt_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

size_t clt_stem(const char *text, const char *end)
{
    return clt_ends_with(text, end) ? strlen(text) - strlen(end) : 0;
}
