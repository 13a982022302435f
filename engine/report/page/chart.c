/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws charts as SVG paths with scales and ticks. Knows nothing of runs. */
#include "engine/report/page/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/report/page/html.h"

#define WIDE 4000 /* width of the plot in its own units */
#define HIGH 1000 /* height */
#define MAX_TICKS 12

typedef struct scale {
    double low, high; /* ends of the axis; on a logarithmic axis their logarithms */
    bool logarithmic;
} scale;

void clt_chart_add(clt_chart *chart, clt_chart_line line)
{
    if (line.count > 0 && chart->line_count < CLT_CHART_LINES)
        chart->lines[chart->line_count++] = line;
    else
        free(line.points);
}

void clt_chart_free(clt_chart *chart)
{
    for (int i = 0; i < chart->line_count; i++)
        free(chart->lines[i].points);
    chart->line_count = 0;
}

/* The height at which a value is drawn. Areas are stacked: the height of an area includes the areas below. */
static double top_of(const clt_chart *chart, int line, size_t at)
{
    double sum = 0;
    if (chart->lines[line].style != CLT_CHART_AREA)
        return chart->lines[line].points[at].value;
    for (int i = 0; i <= line; i++)
        if (chart->lines[i].style == CLT_CHART_AREA && at < chart->lines[i].count &&
            isfinite(chart->lines[i].points[at].value))
            sum += chart->lines[i].points[at].value;
    return sum;
}

bool clt_chart_range(const clt_chart *chart, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int i = 0; i < chart->line_count; i++)
        for (size_t k = 0; k < chart->lines[i].count; k++) {
            double value = top_of(chart, i, k);
            if (!isfinite(value))
                continue;
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    return *low <= *high;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Lowers *high, the end of the axis, if the greatest 3 % of the values are far above all others. */
static clt_status clip(const clt_chart *chart, double *high)
{
    double *values;
    size_t total = 0, count = 0;
    for (int i = 0; i < chart->line_count; i++)
        total += chart->lines[i].count;
    CLT_TRY(clt_alloc(&values, total, sizeof *values, "the axis of a chart"));
    for (int i = 0; i < chart->line_count; i++)
        for (size_t k = 0; k < chart->lines[i].count; k++)
            if (isfinite(top_of(chart, i, k)))
                values[count++] = top_of(chart, i, k);
    qsort(values, count, sizeof *values, by_value);
    double most = count > 0 ? values[(count - 1) * 97 / 100] : *high;
    free(values);
    if (most > 0 && *high > 2 * most)
        *high = 1.25 * most;
    return CLT_OK;
}

/* 1, 2 or 5 times a power of ten, at least `least`. */
static double nice_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double head = least / power;
    return power * (head <= 1 ? 1 : head <= 2 ? 2 : head <= 5 ? 5 : 10);
}

static scale make_scale(const clt_chart *chart, double low, double high)
{
    scale s = {low, high, chart->logarithmic && low > 0};
    if (s.logarithmic) {
        s.low = log10(low);
        s.high = log10(high);
    } else if (chart->from_zero && low > 0) {
        s.low = 0;
    }
    double span = s.high - s.low;
    double least = fmax(fabs(s.high), fabs(s.low)) * 1e-9;
    if (!(span > least)) { /* a flat line is put in the middle */
        double around = s.logarithmic ? 0.5 : s.high != 0 ? fabs(s.high) * 0.5 : 1;
        s.low -= chart->from_zero && s.low == 0 ? 0 : around;
        s.high += around;
    } else {
        s.high += span * 0.04;
        s.low -= chart->from_zero && s.low == 0 ? 0 : span * 0.04;
    }
    if (chart->unit == CLT_UNIT_SHARE && !s.logarithmic && high <= 1 && s.high > 1)
        s.high = 1;
    return s;
}

static double share_on(const scale *s, double value)
{
    double v = s->logarithmic ? log10(value) : value;
    double share = (v - s->low) / (s->high - s->low);
    return share < 0 || isnan(share) ? 0 : share > 1 ? 1 : share;
}

static double x_share(const clt_chart *chart, double step)
{
    double span = chart->last - chart->first;
    double share = span > 0 ? (step - chart->first) / span : 0.5;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* --- ticks --- */

static int linear_ticks(double low, double high, double wanted, double *out)
{
    double step = nice_step((high - low) / wanted);
    int count = 0;
    for (double at = ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && count < MAX_TICKS; at++)
        out[count++] = at * step + 0.0; /* never -0 */
    return count;
}

static int log_ticks(const scale *s, double *out)
{
    static const double heads[] = {1, 2, 5};
    double decades = s->high - s->low;
    int count = 0;
    if (decades < 0.7)
        return linear_ticks(pow(10, s->low), pow(10, s->high), 4.6, out);
    double stride = decades > 6 ? ceil(decades / 6) : 1;
    for (double d = floor(s->low); d <= s->high; d += stride)
        for (int i = 0; i < (decades < 2.5 ? 3 : 1); i++) {
            double value = heads[i] * pow(10, d);
            if (log10(value) >= s->low && log10(value) <= s->high && count < MAX_TICKS)
                out[count++] = value;
        }
    return count;
}

/* Ticks for bytes are powers of two. */
static int byte_ticks(const scale *s, double *out)
{
    double unit = 1;
    while (unit * 1024 <= s->high && unit < 1e12)
        unit *= 1024;
    int count = linear_ticks(s->low / unit, s->high / unit, 4.6, out);
    for (int i = 0; i < count; i++)
        out[i] *= unit;
    return count;
}

static void put_value(const clt_chart *chart, double value, clt_str *out)
{
    if (chart->unit == CLT_UNIT_BYTES)
        clt_html_bytes(out, value);
    else if (chart->unit == CLT_UNIT_SHARE)
        clt_html_share(out, value);
    else if (chart->unit == CLT_UNIT_COUNT)
        clt_html_count(out, value);
    else
        clt_str_printf(out, fabs(value) < 1e-12 ? "0" : "%.6g", value);
}

static void draw_y_axis(const clt_chart *chart, const scale *s, clt_str *grid, clt_str *labels)
{
    double ticks[MAX_TICKS];
    int count = s->logarithmic                  ? log_ticks(s, ticks)
                : chart->unit == CLT_UNIT_BYTES ? byte_ticks(s, ticks)
                                                : linear_ticks(s->low, s->high, 4.6, ticks);
    for (int i = 0; i < count; i++) {
        double share = share_on(s, ticks[i]);
        clt_str_printf(grid, "M0 %dH%d", (int)lround(HIGH * (1 - share)), WIDE);
        clt_str_append(labels, "<span class=\"y\" style=\"top:");
        clt_html_percent(labels, 1 - share);
        clt_str_append(labels, "\">");
        put_value(chart, ticks[i], labels);
        clt_str_append(labels, "</span>");
    }
}

static void draw_x_axis(const clt_chart *chart, clt_str *labels)
{
    double ticks[MAX_TICKS];
    int count = chart->last > chart->first ? linear_ticks(chart->first, chart->last, 6.5, ticks) : 0;
    for (int i = 0; i < count; i++) {
        if (ticks[i] != floor(ticks[i]))
            continue;
        clt_str_append(labels, "<span class=\"x\" style=\"left:");
        clt_html_percent(labels, x_share(chart, ticks[i]));
        clt_str_append(labels, "\">");
        clt_html_count(labels, ticks[i]);
        clt_str_append(labels, "</span>");
    }
}

/* --- lines --- */

typedef struct pen {
    clt_str *out;
    int x, y;
    bool down;
    char command; /* path command of the last number; its letter is written only when it changes */
} pen;

static void number_pair(pen *p, int a, int b)
{
    clt_str_printf(p->out, b < 0 ? "%d%d" : "%d %d", a, b);
}

static void pen_to(pen *p, int x, int y)
{
    if (!p->down) {
        clt_str_append_n(p->out, "M", 1);
        number_pair(p, x, y);
    } else if (x != p->x || y != p->y) {
        if (p->command != 'l')
            clt_str_append_n(p->out, "l", 1);
        else if (x >= p->x)
            clt_str_append_n(p->out, " ", 1);
        number_pair(p, x - p->x, y - p->y);
    } else {
        return;
    }
    p->command = p->down ? 'l' : 'M';
    p->down = true;
    p->x = x;
    p->y = y;
}

static void place(const clt_chart *chart, const scale *s, double step, double value, int *x, int *y)
{
    *x = (int)lround(WIDE * x_share(chart, step));
    *y = (int)lround(HIGH * (1 - share_on(s, value)));
}

/* A single point between two gaps is drawn as a dot. */
static void end_stretch(pen *p)
{
    if (p->down && p->command == 'M')
        clt_str_append(p->out, "h0");
    p->down = false;
}

static void draw_path(const clt_chart *chart, const scale *s, const clt_chart_line *line, clt_str *out)
{
    pen p = {.out = out};
    for (size_t i = 0; i < line->count; i++) {
        int x, y;
        if (!isfinite(line->points[i].value)) {
            end_stretch(&p);
            continue;
        }
        place(chart, s, line->points[i].step, line->points[i].value, &x, &y);
        pen_to(&p, x, y);
    }
    end_stretch(&p);
}

static void draw_dots(const clt_chart *chart, const scale *s, const clt_chart_line *line, bool bad,
                      clt_str *out)
{
    int last_x = -1;
    for (size_t i = 0; i < line->count; i++) {
        bool finite = isfinite(line->points[i].value);
        int x, y;
        if (finite == bad)
            continue;
        place(chart, s, line->points[i].step, finite ? line->points[i].value : 0, &x, &y);
        if (bad && x - last_x < 6 && last_x >= 0)
            continue;
        clt_str_printf(out, "M%d %dh0", x, bad ? HIGH - 12 : y);
        last_x = x;
    }
}

/* Draws an area: the band between the top of the areas below and its own line. */
static void draw_band(const clt_chart *chart, const scale *s, int index, clt_str *out)
{
    const clt_chart_line *line = &chart->lines[index];
    pen p = {.out = out};
    int x, y;
    for (size_t i = 0; i < line->count; i++) {
        place(chart, s, line->points[i].step, top_of(chart, index, i), &x, &y);
        pen_to(&p, x, y);
    }
    for (size_t i = line->count; i-- > 0;) {
        double own = line->points[i].value;
        place(chart, s, line->points[i].step, top_of(chart, index, i) - (isfinite(own) ? own : 0), &x, &y);
        pen_to(&p, x, y);
    }
    clt_str_append_n(out, "Z", 1);
}

static void draw_line(const clt_chart *chart, const scale *s, int index, clt_str *out)
{
    static const char *const classes[] = {"ln", "ln faint", "ln thin", "area"};
    const clt_chart_line *line = &chart->lines[index];
    clt_str_printf(out, "<path class=\"%s c%d r%d\" data-n=\"", classes[line->style], line->color, line->run);
    clt_html_text_cut(out, line->name, 80);
    clt_str_append(out, "\" d=\"");
    if (line->style == CLT_CHART_AREA)
        draw_band(chart, s, index, out);
    else
        draw_path(chart, s, line, out);
    clt_str_append(out, "\"/>");
    if (line->style == CLT_CHART_DOTS) {
        clt_str_printf(out, "<path class=\"dot c%d r%d\" d=\"", line->color, line->run);
        draw_dots(chart, s, line, false, out);
        clt_str_append(out, "\"/>");
    }
    size_t before = out->length;
    clt_str_printf(out, "<path class=\"bad r%d\" d=\"", line->run);
    size_t begun = out->length;
    draw_dots(chart, s, line, true, out);
    if (out->length == begun && !out->failed) {
        out->length = before;
        out->text[before] = '\0';
    } else {
        clt_str_append(out, "\"/>");
    }
}

/* --- marks --- */

static void draw_marks(const clt_chart *chart, clt_str *out)
{
    for (size_t i = 0; i < chart->mark_count; i++) {
        const clt_chart_mark *mark = &chart->marks[i];
        clt_str_printf(out, "<i class=\"mk %s\" style=\"left:", mark->kind);
        clt_html_percent(out, x_share(chart, mark->step));
        clt_str_append(out, "\"");
        if (mark->title) {
            clt_html_in(out, " title=\"", mark->title, 300, "\"");
        }
        clt_str_append(out, "></i>");
    }
}

/* Opens the plot. Its attributes tell the script how to convert points of paths into values of the chart. */
static void open_plot(const clt_chart *chart, const scale *s, clt_str *out)
{
    static const char *const units[] = {"plain", "count", "bytes", "share"};
    clt_str_append(out, "<div class=\"plot\" role=\"img\" aria-label=\"");
    clt_html_text(out, chart->title);
    clt_str_printf(out, "\" data-x=\"%.17g %.17g\" data-y=\"%.9g %.9g\" data-u=\"%s\"%s>", chart->first,
                   chart->last, s->low, s->high, units[chart->unit], s->logarithmic ? " data-log" : "");
}

clt_status clt_chart_draw(const clt_chart *chart, clt_str *out)
{
    CLT_SCOPED(clt_str) grid = {0}, labels = {0};
    double low, high;
    if (!clt_chart_range(chart, &low, &high)) {
        /* no value is finite: the chart shows only marks at the steps of these values */
        low = 0;
        high = 1;
        if (chart->line_count == 0)
            return CLT_OK;
    }
    if (chart->clipped)
        CLT_TRY(clip(chart, &high));
    scale s = make_scale(chart, low, high);
    draw_y_axis(chart, &s, &grid, &labels);
    draw_x_axis(chart, &labels);
    open_plot(chart, &s, out);
    clt_str_printf(out, "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">", WIDE,
                   HIGH);
    clt_str_printf(out, "<path class=\"grid\" d=\"%s\"/>", grid.text ? grid.text : "");
    for (int i = 0; i < chart->line_count; i++)
        draw_line(chart, &s, i, out);
    clt_str_append(out, "</svg>");
    draw_marks(chart, out);
    clt_str_append(out, labels.text ? labels.text : "");
    clt_str_append(out, "<span class=\"xl\">step</span>");
    clt_str_append(out, "</div>");
    CLT_TRY(clt_str_check(&grid));
    CLT_TRY(clt_str_check(&labels));
    return clt_str_check(out);
}
