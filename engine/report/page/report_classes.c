/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's tables of classes from the classes.json of a run's newest evaluation: figures of each
 * class and the confusion matrix. The file may hold anything: members that this program would not write are
 * ignored. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/fileio.h"
#include "engine/report/page/report_internal.h"
#include "engine/report/write/rundir.h"

#define MOST_ROWS 1000 /* classes in the table */
#define MOST_MATRIX 50 /* classes in the matrix */
#define MOST_NAME 60   /* characters of a name */

static double number(const clt_json *object, const char *key)
{
    return clt_json_number_or(clt_json_get(object, key), NAN);
}

static void class_name(const clt_json *c, clt_str *out)
{
    const clt_json *name = clt_json_get(c, "name");
    if (clt_json_typeof(name) == CLT_JSON_STRING)
        clt_html_text_cut(out, clt_json_string(name), MOST_NAME);
    else
        clt_str_printf(out, "%.0f", number(c, "class"));
}

/* Opens a cell whose shade grows with `share`; below 0: no shade. */
static void shaded(clt_str *out, double share)
{
    clt_str_append(out, "<td class=\"n\"");
    if (share > 0) {
        clt_str_append(out, " style=\"background:color-mix(in srgb,var(--c0) ");
        clt_html_percent(out, 0.75 * fmin(share, 1));
        clt_str_append(out, ",transparent)\"");
    }
    clt_str_append(out, ">");
}

static void figures(clt_str *out, const clt_json *classes)
{
    static const char *const keys[] = {"targets", "predicted", "precision", "recall", "f1", "sample_dice"};
    const clt_json *first = clt_json_first(classes);
    bool dice = first && clt_json_get(first, "dice");
    size_t rows = 0;
    clt_str_printf(
        out,
        "<details%s><summary>Each class</summary><div class=\"scroll\"><table><thead><tr><th>class</th>"
        "<th>targets</th><th>predicted</th><th>precision</th><th>recall</th><th>%s</th>%s</tr></thead>"
        "<tbody>\n",
        clt_json_count(classes) <= 20 ? " open" : "", dice ? "Dice" : "F1",
        dice ? "<th>Dice of a sample</th>" : "");
    for (const clt_json *c = first; c && rows < MOST_ROWS; c = clt_json_next(c), rows++) {
        clt_str_append(out, "<tr><th>");
        class_name(c, out);
        clt_str_append(out, "</th>");
        for (size_t k = 0; k < (dice ? 6u : 5u); k++) {
            double value = number(c, keys[k]);
            shaded(out, k < 2 ? -1 : value);
            if (k < 2)
                clt_str_printf(out, "%.0f", value);
            else
                clt_html_number(out, value);
            clt_str_append(out, "</td>");
        }
        clt_str_append(out, "</tr>\n");
    }
    clt_str_append(out, "</tbody></table></div></details>\n");
}

static double row_sum(const clt_json *row)
{
    double sum = 0;
    for (const clt_json *v = clt_json_first(row); v; v = clt_json_next(v))
        sum += clt_json_number(v);
    return sum;
}

static void matrix(clt_str *out, const clt_json *classes, const clt_json *rows)
{
    size_t n = clt_json_count(classes);
    if (clt_json_typeof(rows) != CLT_JSON_ARRAY || clt_json_count(rows) != n || n > MOST_MATRIX)
        return;
    clt_str_printf(
        out,
        "<details%s><summary>Confusion matrix <small>a row for each target, a column for each prediction; "
        "shades are shares of a row</small></summary><div class=\"scroll\"><table><thead><tr><th></th>",
        n <= 20 ? " open" : "");
    for (const clt_json *c = clt_json_first(classes); c; c = clt_json_next(c)) {
        clt_str_append(out, "<th>");
        class_name(c, out);
        clt_str_append(out, "</th>");
    }
    clt_str_append(out, "</tr></thead><tbody>\n");
    const clt_json *c = clt_json_first(classes);
    for (const clt_json *row = clt_json_first(rows); row && c;
         row = clt_json_next(row), c = clt_json_next(c)) {
        double sum = row_sum(row);
        size_t cells = 0;
        clt_str_append(out, "<tr><th>");
        class_name(c, out);
        clt_str_append(out, "</th>");
        for (const clt_json *v = clt_json_first(row); v && cells < n; v = clt_json_next(v), cells++) {
            shaded(out, sum > 0 ? clt_json_number(v) / sum : -1);
            clt_str_printf(out, "%.0f</td>", clt_json_number(v));
        }
        clt_str_append(out, "</tr>\n");
    }
    clt_str_append(out, "</tbody></table></div></details>\n");
}

/* Reads classes.json. *doc stays NULL if the run has no such file, or it cannot be read. */
static clt_status read_classes(const clt_run_record *run, clt_json_doc **doc)
{
    CLT_FREED char *path = NULL;
    *doc = NULL;
    CLT_TRY(clt_path_join(run->folder, CLT_CLASSES_FILE, &path));
    clt_status status = clt_file_exists(path) ? clt_json_parse_file(path, CLT_EDATA, doc) : CLT_OK;
    if (status != CLT_EDATA)
        return status;
    clt_error_clear();
    return CLT_OK;
}

static void head(clt_str *out, const clt_json *root)
{
    static const struct {
        const char *key, *text;
    } means[] = {{"mean_dice", "mean Dice"},
                 {"mean_sample_dice", "mean Dice of a sample"},
                 {"macro_f1", "macro F1"},
                 {"entity_f1", "F1 of entities"}};
    clt_str_printf(out, "<section class=\"card\"><h3>Classes <small>evaluation after step %.0f",
                   number(root, "step"));
    double top = number(root, "top_k_accuracy");
    if (isfinite(top)) {
        clt_str_printf(out, ", top-%.0f accuracy ", number(root, "top_k"));
        clt_html_share(out, top);
    }
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++)
        if (isfinite(number(root, means[i].key))) {
            clt_str_printf(out, ", %s ", means[i].text);
            clt_html_number(out, number(root, means[i].key));
        }
    clt_str_append(out, "</small></h3>\n");
}

clt_status report_classes(const report_page *page, const clt_run_record *run)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(read_classes(run, &doc));
    const clt_json *root = clt_json_root(doc);
    const clt_json *classes = clt_json_get(root, "classes");
    if (clt_json_typeof(classes) == CLT_JSON_ARRAY && clt_json_count(classes) > 0) {
        head(page->out, root);
        figures(page->out, classes);
        matrix(page->out, classes, clt_json_get(root, "confusion"));
        clt_str_append(page->out, "</section>\n");
    }
    return CLT_OK;
}
