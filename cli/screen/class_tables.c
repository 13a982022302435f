/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables about classes: counts, precision, recall and F1 or Dice of each class, and the confusion matrix. */
#include "cli/screen/class_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/table.h"

#define SHOWN 20

static const char *number(double value, char cell[24])
{
    if (isnan(value))
        return "-";
    snprintf(cell, 24, "%.4f", value);
    return cell;
}

static void class_row(const table *t, const clt_class_counts *c, int64_t k, clt_str *out)
{
    char name[24], cell[6][24];
    snprintf(cell[0], sizeof cell[0], "%lld", (long long)c->support[k]);
    snprintf(cell[1], sizeof cell[1], "%lld", (long long)c->predicted[k]);
    const char *const cells[] = {clt_class_name(c, k, name),
                                 cell[0],
                                 cell[1],
                                 number(clt_class_precision(c, k), cell[2]),
                                 number(clt_class_recall(c, k), cell[3]),
                                 number(clt_class_f1(c, k), cell[4]),
                                 c->spatial ? number(clt_class_sample_dice(c, k), cell[5]) : ""};
    table_row(t, cells, out);
}

/* The unmarked class with the lowest F1; -1: no unmarked class has an F1. */
static int64_t lowest(const clt_class_counts *c, const bool *marked)
{
    int64_t found = -1;
    for (int64_t k = 0; k < c->classes; k++) {
        double f1 = clt_class_f1(c, k);
        if (!marked[k] && !isnan(f1) && (found < 0 || f1 < clt_class_f1(c, found)))
            found = k;
    }
    return found;
}

static void some_rows(const table *t, const clt_class_counts *c, clt_str *out)
{
    CLT_FREED bool *marked = calloc((size_t)c->classes, sizeof *marked);
    int n = 0;
    out->failed = out->failed || !marked;
    for (; marked && n < SHOWN; n++) {
        int64_t k = lowest(c, marked);
        if (k < 0) /* the others have neither targets nor predictions */
            break;
        marked[k] = true;
        class_row(t, c, k, out);
    }
    clt_str_printf(out, "(the %d of %lld classes with the lowest F1; --json has all)\n", n,
                   (long long)c->classes);
}

static int width_of(const char *text, int width)
{
    int n = (int)strlen(text);
    return n > width ? n : width;
}

/* Appends the confusion matrix: a line for each target class, a column for each predicted class. */
static void confusion(const clt_class_counts *c, int columns, clt_str *out)
{
    char text[24];
    int first = width_of("target", 0), width[SHOWN], all;
    if (c->classes > SHOWN || !c->confusion) {
        clt_str_printf(out, "(the confusion matrix of %lld classes: --confusion FILE.csv)\n",
                       (long long)c->classes);
        return;
    }
    for (int64_t t = 0; t < c->classes; t++)
        first = width_of(clt_class_name(c, t, text), first);
    all = first;
    for (int64_t p = 0; p < c->classes; p++) {
        width[p] = width_of(clt_class_name(c, p, text), 0);
        for (int64_t t = 0; t < c->classes; t++) {
            snprintf(text, sizeof text, "%lld", (long long)c->confusion[t * c->classes + p]);
            width[p] = width_of(text, width[p]);
        }
        all += 2 + width[p];
    }
    if (columns > 0 && all > columns) {
        clt_str_printf(out, "(the confusion matrix needs %d columns: --confusion FILE.csv)\n", all);
        return;
    }
    clt_str_printf(out, "\nconfusion matrix: a line for each target, a column for each prediction\n%-*s",
                   first, "target");
    for (int64_t p = 0; p < c->classes; p++)
        clt_str_printf(out, "  %*s", width[p], clt_class_name(c, p, text));
    clt_str_append(out, "\n");
    for (int64_t t = 0; t < c->classes; t++) {
        clt_str_printf(out, "%-*s", first, clt_class_name(c, t, text));
        for (int64_t p = 0; p < c->classes; p++)
            clt_str_printf(out, "  %*lld", width[p], (long long)c->confusion[t * c->classes + p]);
        clt_str_append(out, "\n");
    }
}

static void entity_table(const clt_entities *e, int columns, clt_str *out)
{
    const table_column heads[] = {{"entities", 16, 8, 0, false}, {"in data", 9, 0, 3, true},
                                  {"predicted", 9, 0, 4, true},  {"precision", 9, 0, 1, true},
                                  {"recall", 8, 0, 1, true},     {"F1", 8, 0, 0, true}};
    table t;
    table_make(&t, heads, 6, columns);
    clt_str_append(out, "\n");
    table_head(&t, out);
    for (int64_t k = 0; k <= e->n_types; k++) { /* the last line gives the figures over all classes */
        clt_entity_figures f = clt_entities_figures(e, k < e->n_types ? k : -1);
        char cell[5][24];
        snprintf(cell[0], sizeof cell[0], "%lld", (long long)f.there);
        snprintf(cell[1], sizeof cell[1], "%lld", (long long)f.predicted);
        const char *const cells[] = {k < e->n_types ? e->type[k] : "all",
                                     cell[0],
                                     cell[1],
                                     number(f.precision, cell[2]),
                                     number(f.recall, cell[3]),
                                     number(f.f1, cell[4])};
        table_row(&t, cells, out);
    }
}

void class_tables(const clt_class_counts *c, int columns, clt_str *out)
{
    const table_column heads[] = {{"class", 16, 8, 0, false},     {"targets", 9, 0, 3, true},
                                  {"predicted", 9, 0, 4, true},   {"precision", 9, 0, 1, true},
                                  {"recall", 8, 0, 1, true},      {c->spatial ? "Dice" : "F1", 8, 0, 0, true},
                                  {"Dice/sample", 11, 0, 2, true}};
    table t;
    char cell[24];
    table_make(&t, heads, c->spatial ? 7 : 6, columns);
    clt_str_append(out, "\n");
    table_head(&t, out);
    if (c->classes > SHOWN)
        some_rows(&t, c, out);
    for (int64_t k = 0; k < c->classes && c->classes <= SHOWN; k++)
        class_row(&t, c, k, out);
    clt_str_printf(out, "macro F1 %s", number(clt_class_macro_f1(c), cell));
    if (c->spatial) {
        clt_str_printf(out, ", mean Dice %s", number(clt_class_mean_dice(c), cell));
        clt_str_printf(out, ", mean Dice of a sample %s%s", number(clt_class_mean_sample_dice(c), cell),
                       c->background || c->classes == 1 ? "" : " (both without class 0)");
    }
    clt_str_append(out, "\n");
    if (c->entities)
        entity_table(c->entities, columns, out);
    confusion(c, columns, out);
}
