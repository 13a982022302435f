/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes cells of sheets. */
#include "engine/report/read/sheet.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/text.h"
#include "engine/report/write/lines.h"

const char *clt_cell_text(const clt_column *column, double value, char text[CLT_CELL_TEXT])
{
    if (isnan(value))
        return "-";
    switch (column->form) {
    case CLT_FORM_NUMBER:
        return clt_value_text(value, column->decimals, text, CLT_CELL_TEXT);
    case CLT_FORM_COUNT:
        return clt_count_text(value, text, CLT_CELL_TEXT);
    case CLT_FORM_BYTES:
        return clt_bytes_text((uint64_t)value, text, CLT_CELL_TEXT);
    case CLT_FORM_SECONDS:
        return clt_duration_text(value, text, CLT_CELL_TEXT);
    case CLT_FORM_SHARE:
        (void)snprintf(text, CLT_CELL_TEXT, "%.*f%%", column->decimals, 100 * value);
        return text;
    case CLT_FORM_STEP:
        break;
    }
    (void)snprintf(text, CLT_CELL_TEXT, "%.0f", value);
    return text;
}

void clt_cell_json(const clt_column *column, double value, clt_json_writer *w)
{
    if (column->form == CLT_FORM_STEP && !isnan(value))
        clt_jw_kint(w, column->key, (int64_t)value);
    else
        clt_jw_kdouble(w, column->key, value);
}

static void comma(clt_str *out)
{
    if (out->length > 0 && out->text[out->length - 1] != '\n')
        clt_str_append(out, ",");
}

void clt_csv_number(clt_str *out, double value)
{
    char text[CLT_NUMBER_TEXT];
    comma(out);
    clt_str_append(out, isfinite(value) ? clt_double_text(value, text) : "");
}

void clt_csv_text(clt_str *out, const char *text)
{
    comma(out);
    clt_csv_quoted(out, text ? text : "");
}

bool clt_cell_is_best(const clt_column *column, const double *values, const int *group, int n, int i)
{
    double best = NAN;
    int equal = 0, known = 0;
    for (int k = 0; k < n; k++)
        if (group[k] == group[i] &&
            (isnan(best) || (column->better == CLT_BETTER_LESS ? values[k] < best : values[k] > best)))
            best = values[k];
    for (int k = 0; k < n; k++) {
        known += group[k] == group[i] && !isnan(values[k]);
        equal += group[k] == group[i] && values[k] == best;
    }
    return column->better != CLT_BETTER_NEITHER && values[i] == best && equal < known;
}
