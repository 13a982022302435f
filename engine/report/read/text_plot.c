/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws dots on a grid of characters. Knows nothing of runs or terminals. */
#include "engine/report/read/text_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL 9 /* columns before the axis */

typedef struct grid {
    int columns, rows;   /* characters */
    int across, down;    /* dots per character, horizontally and vertically */
    unsigned char *dots; /* a bit mask for each character */
    char *marks;         /* a character that replaces the dots, or 0 */
    double low, high;
    bool logarithmic;
} grid;

static double height(const grid *g, double value)
{
    return g->logarithmic ? log10(value) : value;
}

static bool find_range(const clt_text_plot *p, grid *g)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < p->line_count + p->mark_count; i++) {
        double value = i < p->line_count ? p->line[i].value : p->marks[i - p->line_count].value;
        if (!isfinite(value))
            continue;
        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (!(low <= high))
        return false;
    g->logarithmic = p->logarithmic && low > 0;
    g->low = height(g, low);
    g->high = height(g, high);
    if (!(g->high - g->low >
          1e-9 * fmax(fabs(g->low), fabs(g->high)))) { /* a flat line is put in the middle */
        double around = g->logarithmic ? 0.5 : g->low != 0 ? fabs(g->low) * 0.5 : 1;
        g->low -= around;
        g->high += around;
    }
    return true;
}

/* The position of a point in dots; y counts from the top. */
static void dot_of(const clt_text_plot *p, const grid *g, const clt_point *at, int *x, int *y)
{
    double span = p->last - p->first;
    double h = span > 0 ? (at->step - p->first) / span : 0.5;
    /* divided by 2 because the range itself may overflow */
    double v = (height(g, at->value) / 2 - g->low / 2) / (g->high / 2 - g->low / 2);
    int wide = g->columns * g->across - 1, tall = g->rows * g->down - 1;
    *x = (int)lround((h < 0 ? 0 : h > 1 ? 1 : h) * wide);
    *y = (int)lround((1 - (v > 0 ? v < 1 ? v : 1 : 0)) * tall);
}

static void set_dot(grid *g, int x, int y)
{
    static const unsigned char braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    unsigned char bit = g->down == 4 ? braille[y % 4][x % 2] : 1;
    g->dots[(y / g->down) * g->columns + x / g->across] |= bit;
}

static void draw_stroke(grid *g, int x0, int y0, int x1, int y1)
{
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= steps; i++) {
        double share = steps ? (double)i / steps : 0;
        set_dot(g, x0 + (int)lround(share * (x1 - x0)), y0 + (int)lround(share * (y1 - y0)));
    }
}

static void fill(const clt_text_plot *p, grid *g)
{
    bool down = false;
    int before_x = 0, before_y = 0;
    for (size_t i = 0; i < p->line_count; i++) {
        int x, y;
        if (!isfinite(p->line[i].value)) {
            down = false;
            continue;
        }
        dot_of(p, g, &p->line[i], &x, &y);
        draw_stroke(g, down ? before_x : x, down ? before_y : y, x, y);
        before_x = x;
        before_y = y;
        down = true;
    }
    for (size_t i = 0; i < p->mark_count; i++) {
        int x, y;
        if (!isfinite(p->marks[i].value))
            continue;
        dot_of(p, g, &p->marks[i], &x, &y);
        g->marks[(y / g->down) * g->columns + x / g->across] = 'o';
    }
}

/* Writes as many digits as fit. A number is never cut off, because it would then be another number. */
static void label_text(double value, char *text, size_t size)
{
    int length = LABEL;
    for (int digits = 4; digits > 0 && length >= LABEL; digits--)
        length = snprintf(text, size, "%.*g", digits, value);
}

static void put_label(const grid *g, int row, clt_str *out)
{
    char text[32] = "";
    int every = g->rows > 12 ? 4 : 3;
    double share = g->rows > 1 ? (double)row / (g->rows - 1) : 0;
    double value = (1 - share) * g->high + share * g->low;
    if (row % every == 0 || row == g->rows - 1)
        label_text(g->logarithmic ? pow(10, value) : value, text, sizeof text);
    if (row + 2 >= g->rows && row != g->rows - 1)
        text[0] = '\0'; /* leaves room for the last label */
    clt_str_printf(out, "%*.*s ", LABEL - 1, LABEL - 1, text);
}

static void put_row(const clt_text_plot *p, const grid *g, int row, clt_str *out)
{
    int last = g->columns;
    const unsigned char *dots = g->dots + (size_t)row * (size_t)g->columns;
    const char *marks = g->marks + (size_t)row * (size_t)g->columns;
    while (last > 0 && !dots[last - 1] && !marks[last - 1])
        last--;
    put_label(g, row, out);
    clt_str_append(out, p->unicode ? "\xe2\x94\x82" : "|");
    for (int i = 0; i < last; i++) {
        unsigned char cell[3] = {0xe2, (unsigned char)(0xa0 + (dots[i] >> 6)),
                                 (unsigned char)(0x80 + (dots[i] & 0x3f))};
        if (marks[i])
            clt_str_append_n(out, &marks[i], 1);
        else if (!dots[i])
            clt_str_append_n(out, " ", 1);
        else if (p->unicode)
            clt_str_append_n(out, (const char *)cell, 3);
        else
            clt_str_append_n(out, "*", 1);
    }
    clt_str_append(out, "\n");
}

static void put_axis(const clt_text_plot *p, const grid *g, clt_str *out)
{
    char first[32], last[32];
    clt_str_printf(out, "%*s%s", LABEL, "", p->unicode ? "\xe2\x94\x94" : "+");
    for (int i = 0; i < g->columns; i++)
        clt_str_append(out, p->unicode ? "\xe2\x94\x80" : "-");
    snprintf(first, sizeof first, "%.0f", p->first);
    snprintf(last, sizeof last, "step %.0f", p->last);
    int between = g->columns - (int)strlen(first) - (int)strlen(last);
    clt_str_printf(out, "\n%*s%s%*s%s\n", LABEL + 1, "", first, between > 1 ? between : 1, "", last);
}

clt_status clt_text_plot_draw(const clt_text_plot *p, clt_str *out)
{
    grid g = {.columns = (p->columns < 30 ? 30 : p->columns) - LABEL - 1,
              .rows = (p->rows < 5 ? 5 : p->rows) - 2,
              .across = p->unicode ? 2 : 1,
              .down = p->unicode ? 4 : 1};
    if (!find_range(p, &g))
        return CLT_OK;
    size_t cells = (size_t)g.columns * (size_t)g.rows;
    CLT_FREED unsigned char *dots = NULL;
    CLT_FREED char *marks = NULL;
    CLT_TRY(clt_alloc(&dots, cells, 1, "a plot"));
    CLT_TRY(clt_alloc(&marks, cells, 1, "a plot"));
    g.dots = dots;
    g.marks = marks;
    fill(p, &g);
    for (int row = 0; row < g.rows; row++)
        put_row(p, &g, row, out);
    put_axis(p, &g, out);
    return clt_str_check(out);
}
