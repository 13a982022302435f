/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming JSON writer: the output is valid JSON in valid UTF-8 for any input text, and numbers read back
 * unchanged. Does not know where the text goes. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/json/json.h"

clt_json_writer clt_json_writer_make(clt_str *out, int indent)
{
    return (clt_json_writer){.out = out, .indent = indent};
}

static void new_line(clt_json_writer *w)
{
    if (w->indent <= 0)
        return;
    clt_str_append_n(w->out, "\n", 1);
    for (int i = 0; i < w->depth * w->indent; i++)
        clt_str_append_n(w->out, " ", 1);
}

/* Writes what comes before a value or a key: nothing right after a key, else the comma and the line
 * break. */
static void begin(clt_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->needs_comma)
        clt_str_append_n(w->out, ",", 1);
    if (w->depth > 0)
        new_line(w);
}

static void scalar(clt_json_writer *w, const char *text)
{
    begin(w);
    clt_str_append(w->out, text);
    w->needs_comma = true;
}

static void open_container(clt_json_writer *w, const char *bracket)
{
    begin(w);
    clt_str_append(w->out, bracket);
    w->depth++;
    w->needs_comma = false;
}

static void close_container(clt_json_writer *w, const char *bracket)
{
    bool had_members = w->needs_comma;
    w->depth--;
    if (had_members)
        new_line(w);
    clt_str_append(w->out, bracket);
    w->needs_comma = true;
}

void clt_jw_object(clt_json_writer *w)
{
    open_container(w, "{");
}

void clt_jw_end_object(clt_json_writer *w)
{
    close_container(w, "}");
}

void clt_jw_array(clt_json_writer *w)
{
    open_container(w, "[");
}

void clt_jw_end_array(clt_json_writer *w)
{
    close_container(w, "]");
}

static void quoted(clt_str *out, const char *text)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t left = strlen(text);
    clt_str_append_n(out, "\"", 1);
    while (left > 0) {
        const char *escape = strchr(from, *text);
        size_t size = clt_utf8_size(text, left);
        if (escape)
            clt_str_printf(out, "\\%c", to[escape - from]);
        else if ((unsigned char)*text < 0x20)
            clt_str_printf(out, "\\u%04x", (unsigned char)*text);
        else if (size == 0) /* a file name need not be UTF-8, but a JSON text must be */
            clt_str_append(out, "\xef\xbf\xbd");
        else
            clt_str_append_n(out, text, size);
        text += size ? size : 1;
        left -= size ? size : 1;
    }
    clt_str_append_n(out, "\"", 1);
}

void clt_jw_key(clt_json_writer *w, const char *key)
{
    begin(w);
    quoted(w->out, key);
    clt_str_append_n(w->out, ": ", w->indent > 0 ? 2 : 1);
    w->after_key = true;
}

void clt_jw_string(clt_json_writer *w, const char *value)
{
    if (!value) {
        clt_jw_null(w);
        return;
    }
    begin(w);
    quoted(w->out, value);
    w->needs_comma = true;
}

void clt_jw_int(clt_json_writer *w, int64_t value)
{
    begin(w);
    clt_str_printf(w->out, "%lld", (long long)value);
    w->needs_comma = true;
}

void clt_jw_double(clt_json_writer *w, double value)
{
    char text[CLT_NUMBER_TEXT];
    scalar(w, isfinite(value) ? clt_double_text(value, text) : "null");
}

void clt_jw_float(clt_json_writer *w, float value)
{
    char text[CLT_NUMBER_TEXT];
    scalar(w, isfinite(value) ? clt_float_text(value, text) : "null");
}

void clt_jw_bool(clt_json_writer *w, bool value)
{
    scalar(w, value ? "true" : "false");
}

void clt_jw_null(clt_json_writer *w)
{
    scalar(w, "null");
}

static void write_container(clt_json_writer *w, const clt_json *value)
{
    bool object = clt_json_typeof(value) == CLT_JSON_OBJECT;
    open_container(w, object ? "{" : "[");
    for (const clt_json *child = clt_json_first(value); child; child = clt_json_next(child)) {
        if (object)
            clt_jw_key(w, clt_json_key(child));
        clt_jw_value(w, child);
    }
    close_container(w, object ? "}" : "]");
}

void clt_jw_value(clt_json_writer *w, const clt_json *value)
{
    int64_t integer;
    switch (clt_json_typeof(value)) {
    case CLT_JSON_NULL:
    case CLT_JSON_MISSING:
        clt_jw_null(w);
        break;
    case CLT_JSON_BOOL:
        clt_jw_bool(w, clt_json_bool(value));
        break;
    case CLT_JSON_NUMBER:
        /* "-0" is an integer, but only a double keeps its sign. */
        if (clt_json_int(value, &integer) && !(integer == 0 && signbit(clt_json_number(value))))
            clt_jw_int(w, integer);
        else
            clt_jw_double(w, clt_json_number(value));
        break;
    case CLT_JSON_STRING:
        clt_jw_string(w, clt_json_string(value));
        break;
    case CLT_JSON_ARRAY:
    case CLT_JSON_OBJECT:
        write_container(w, value);
        break;
    }
}

void clt_jw_kstring(clt_json_writer *w, const char *key, const char *value)
{
    clt_jw_key(w, key);
    clt_jw_string(w, value);
}

void clt_jw_kint(clt_json_writer *w, const char *key, int64_t value)
{
    clt_jw_key(w, key);
    clt_jw_int(w, value);
}

void clt_jw_kdouble(clt_json_writer *w, const char *key, double value)
{
    clt_jw_key(w, key);
    clt_jw_double(w, value);
}

void clt_jw_kbool(clt_json_writer *w, const char *key, bool value)
{
    clt_jw_key(w, key);
    clt_jw_bool(w, value);
}

void clt_jw_kobject(clt_json_writer *w, const char *key)
{
    clt_jw_key(w, key);
    clt_jw_object(w);
}

void clt_jw_karray(clt_json_writer *w, const char *key)
{
    clt_jw_key(w, key);
    clt_jw_array(w);
}

void clt_jw_knull(clt_json_writer *w, const char *key)
{
    clt_jw_key(w, key);
    clt_jw_null(w);
}
