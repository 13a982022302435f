/* SPDX-License-Identifier: Apache-2.0
 *
 * Escapes text for HTML, and writes numbers in readable form. Knows nothing of runs. */
#include "engine/report/page/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/text.h"

static uint32_t code_of(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (size == 1)
        return p[0];
    uint32_t code = p[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return code;
}

/* True for code points that are kept off the page: controls, direction marks, noncharacters. */
static bool forbidden(uint32_t code)
{
    bool control = (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7f && code < 0xa0);
    bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool nothing = (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
    return control || direction || nothing;
}

static void put_character(clt_str *out, const char *at, size_t size)
{
    uint32_t code = size ? code_of(at, size) : 0;
    if (size == 0 || forbidden(code))
        clt_str_append(out, "\xef\xbf\xbd");
    else if (code == '&')
        clt_str_append(out, "&amp;");
    else if (code == '<')
        clt_str_append(out, "&lt;");
    else if (code == '>')
        clt_str_append(out, "&gt;");
    else if (code == '"')
        clt_str_append(out, "&quot;");
    else if (code == '\'')
        clt_str_append(out, "&#39;");
    else
        clt_str_append_n(out, at, size);
}

void clt_html_text_cut(clt_str *out, const char *text, size_t most)
{
    size_t left = text ? strlen(text) : 0;
    for (size_t count = 0; left > 0; count++) {
        if (count == most) {
            clt_str_append(out, "\xe2\x80\xa6");
            return;
        }
        size_t size = clt_utf8_size(text, left);
        bool line_end = *text == '\r'; /* '\r' is a newline, alone or before '\n' */
        if (!line_end)
            put_character(out, text, size);
        else if (left == 1 || text[1] != '\n')
            clt_str_append_n(out, "\n", 1);
        text += size ? size : 1;
        left -= size ? size : 1;
    }
}

void clt_html_text(clt_str *out, const char *text)
{
    clt_html_text_cut(out, text, SIZE_MAX);
}

void clt_html_in(clt_str *out, const char *before, const char *text, size_t most, const char *after)
{
    clt_str_append(out, before);
    clt_html_text_cut(out, text, most);
    clt_str_append(out, after);
}

void clt_html_number(clt_str *out, double value)
{
    if (!isfinite(value))
        clt_str_append(out, isnan(value) ? "\xe2\x80\x93" : value > 0 ? "inf" : "-inf");
    else if (fabs(value) >= 1e5 || (value != 0 && fabs(value) < 1e-4))
        clt_str_printf(out, "%.3g", value);
    else
        clt_str_printf(out, fabs(value) >= 1000 ? "%.0f" : "%.4g", value);
}

void clt_html_count(clt_str *out, double value)
{
    static const char units[] = " kMGTPE";
    int unit = 0;
    if (!isfinite(value)) {
        clt_html_number(out, value);
        return;
    }
    while (fabs(value) >= 999.5 && unit < 6) {
        value /= 1000;
        unit++;
    }
    bool whole = value == floor(value) || fabs(value) >= 99.95;
    clt_str_printf(out, whole ? "%.0f" : fabs(value) >= 9.995 ? "%.1f" : "%.3g", value);
    if (unit)
        clt_str_append_n(out, units + unit, 1);
}

void clt_html_bytes(clt_str *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    if (!isfinite(bytes)) {
        clt_html_number(out, bytes);
        return;
    }
    while (fabs(bytes) >= 1023.5 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    clt_str_printf(out, bytes == floor(bytes) || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

void clt_html_share(clt_str *out, double share)
{
    if (!isfinite(share))
        clt_html_number(out, share);
    else
        clt_str_printf(out, "%.4g %%", round(share * 10000) / 100);
}

void clt_html_duration(clt_str *out, double seconds)
{
    if (!(seconds >= 0) || seconds > 1e11) {
        clt_html_number(out, NAN);
    } else if (seconds < 59.95) {
        clt_str_printf(out, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
    } else {
        long long s = (long long)(seconds + 0.5);
        if (s < 3600)
            clt_str_printf(out, "%lld min %02lld s", s / 60, s % 60);
        else if (s < 86400)
            clt_str_printf(out, "%lld h %02lld min", s / 3600, s / 60 % 60);
        else
            clt_str_printf(out, "%lld d %02lld h", s / 86400, s / 3600 % 24);
    }
}

void clt_html_time(clt_str *out, double seconds)
{
    struct tm parts;
    time_t whole;
    if (!(seconds >= 0) || seconds > 2.5e11) {
        clt_html_number(out, NAN);
        return;
    }
    whole = (time_t)seconds;
    if (gmtime_r(&whole, &parts))
        clt_str_printf(out, "%04d-%02d-%02d %02d:%02d:%02d UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void clt_html_percent(clt_str *out, double share)
{
    double bounded = share > 2 ? 2 : share > -1 ? share : -1;
    long hundredths = lround(bounded * 10000);
    clt_str_printf(out, "%s%ld.%02ld%%", hundredths < 0 ? "-" : "", labs(hundredths) / 100,
                   labs(hundredths) % 100);
}
