/* SPDX-License-Identifier: Apache-2.0
 *
 * Begins and ends the records and tables of a benchmark, and compares a record with an earlier one: the time
 * of a step, "step_ms", and for each row the time "ms" or the rate "value". The members of a row that are
 * not measurements identify the row. */
#include <stdio.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/screen/terminal.h"
#include "engine/json/json.h"

#define SLOWER 1.10 /* a larger ratio of times makes the comparison fail */

typedef struct comparison {
    int compared, slower, missing;
} comparison;

static bool is_measurement(const char *key)
{
    static const char *const keys[] = {"ms",      "best_ms",     "gflops",    "choice",
                                       "gbs",     "value",       "error",     "stream_share",
                                       "streams", "nontemporal", "cores_busy"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Appends the text that identifies a row, such as "m 256 n 256 k 256 ta false ...". */
static void identity(const clt_json *row, clt_str *out)
{
    for (const clt_json *v = clt_json_first(row); v; v = clt_json_next(v)) {
        if (is_measurement(clt_json_key(v)))
            continue;
        clt_json_writer w = clt_json_writer_make(out, 0);
        clt_str_printf(out, "%s%s ", out->length ? " " : "", clt_json_key(v));
        clt_jw_value(&w, v);
    }
}

static double number(const clt_json *object, const char *key)
{
    return clt_json_number(clt_json_get(object, key));
}

static void tell(comparison *c, const char *what, double ratio)
{
    bool slower = ratio > SLOWER;
    terminal_say("%6.2fx time  %s%s\n", ratio, what, slower ? "  SLOWER" : "");
    c->compared++;
    c->slower += slower;
}

static void compare_row(comparison *c, const clt_json *row, const clt_json *old_rows)
{
    CLT_SCOPED(clt_str) name = {0};
    const clt_json *match = NULL;
    identity(row, &name);
    for (const clt_json *old = clt_json_first(old_rows); old && !match && !name.failed;
         old = clt_json_next(old)) {
        CLT_SCOPED(clt_str) other = {0};
        if (clt_json_typeof(old) != CLT_JSON_OBJECT) /* not a row of a benchmark */
            continue;
        identity(old, &other);
        if (!other.failed && other.text && name.text && strcmp(other.text, name.text) == 0)
            match = old;
    }
    double now_ms = number(row, "ms"), old_ms = number(match, "ms");
    double now_rate = number(row, "value"), old_rate = number(match, "value");
    if (now_ms > 0 && old_ms > 0)
        tell(c, name.text, now_ms / old_ms);
    else if (now_rate > 0 && old_rate > 0)
        tell(c, name.text, old_rate / now_rate);
    else
        c->missing++;
}

static clt_status compare(const char *path, const clt_json *now, const clt_json *old)
{
    comparison c = {0};
    const clt_json *rows = clt_json_get(now, "rows"), *old_rows = clt_json_get(old, "rows");
    const clt_json *kind = clt_json_get(now, "bench"), *old_kind = clt_json_get(old, "bench");
    if (kind && !clt_json_is(old_kind, clt_json_string(kind)))
        CLT_FAIL(CLT_EUSAGE,
                 "comparing with '%s': name a file that 'cltrain bench %s --json FILE' has written", path,
                 clt_json_string(kind));
    const clt_json *device = clt_json_get(now, "device"), *old_device = clt_json_get(old, "device");
    if (clt_json_typeof(device) == CLT_JSON_STRING && clt_json_typeof(old_device) == CLT_JSON_STRING &&
        !clt_json_is(old_device, clt_json_string(device)))
        terminal_say("note: another device: '%s' now, '%s' in %s\n", clt_json_string(device),
                     clt_json_string(old_device), path);
    for (const clt_json *row = clt_json_first(rows); row; row = clt_json_next(row))
        compare_row(&c, row, old_rows);
    if (number(now, "step_ms") > 0 && number(old, "step_ms") > 0)
        tell(&c, "step_ms", number(now, "step_ms") / number(old, "step_ms"));
    if (c.compared == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "comparing with %s: none of its measurements was made in this run; it is a record of "
                 "another benchmark or of other sizes",
                 path);
    terminal_say("%d compared with %s, %d slower by more than 10 %%, %d not in that record\n", c.compared,
                 path, c.slower, c.missing);
    if (c.slower > 0)
        CLT_FAIL(CLT_ECHECK, "%d of %d measurements are more than 10 %% slower than in %s", c.slower,
                 c.compared, path);
    return CLT_OK;
}

/* --- for the parts --- */

clt_json_writer bench_record(clt_str *json, const char *name)
{
    clt_json_writer w = clt_json_writer_make(json, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "bench", name);
    return w;
}

void bench_record_end(clt_json_writer *w, clt_str *json)
{
    clt_jw_end_object(w);
    clt_str_append(json, "\n");
}

void bench_titles(const table_column *columns, int count)
{
    clt_str text = {0};
    table t;
    table_make(&t, columns, count, terminal_columns());
    table_head(&t, &text);
    table_print(&text);
}

void bench_line(const table_column *columns, int count, const char *const *cells)
{
    clt_str text = {0};
    table t;
    table_make(&t, columns, count, terminal_columns());
    table_row(&t, cells, &text);
    table_print(&text);
}

clt_status bench_begin(bench_common *common)
{
    CLT_SCOPED(clt_json_doc) *old = NULL;
    CLT_TRY(cmd_caps(common->caps, &common->caps_mask));
    if (common->compare)
        CLT_TRY(clt_json_parse_file(common->compare, CLT_EUSAGE, &old));
    return cmd_can_write(common->json);
}

clt_status bench_finish(const bench_common *common, const clt_str *json)
{
    CLT_SCOPED(clt_json_doc) *now = NULL, *old = NULL;
    CLT_TRY(clt_str_check(json));
    if (common->compare) { /* read first, because the new record may overwrite it */
        CLT_TRY(clt_json_parse_file(common->compare, CLT_EUSAGE, &old));
        CLT_TRY(clt_json_parse(json->text, json->length, "this record", CLT_EINTERNAL, &now));
    }
    if (common->json)
        CLT_TRY(cmd_write_text(common->json, json->text));
    return common->compare ? compare(common->compare, clt_json_root(now), clt_json_root(old)) : CLT_OK;
}
