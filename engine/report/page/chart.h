/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts as HTML with inline SVG. Lines are drawn in an SVG that is stretched to the available width, while
 * labels are HTML, so that a chart is legible without a script on a phone and on a wide screen. Coordinates
 * are whole numbers, written as differences: five bytes per point. */
#ifndef ENGINE_REPORT_PAGE_CHART_H
#define ENGINE_REPORT_PAGE_CHART_H

#include "engine/base/mem.h"
#include "engine/report/read/curve.h"

typedef enum clt_chart_style {
    CLT_CHART_LINE,
    CLT_CHART_FAINT, /* raw values, drawn under a smoothed line */
    CLT_CHART_DOTS,  /* few values: connected dots */
    CLT_CHART_AREA   /* stacked on the areas added before */
} clt_chart_style;

typedef struct clt_chart_line {
    const char *name; /* any text */
    int color;        /* 0 to 7 */
    int run;          /* index of the run that the line belongs to */
    clt_chart_style style;
    clt_point *points;
    size_t count;
} clt_chart_line;

typedef enum clt_chart_unit {
    CLT_UNIT_PLAIN,
    CLT_UNIT_COUNT, /* 49.7k */
    CLT_UNIT_BYTES,
    CLT_UNIT_SHARE /* a fraction: 0.5 is shown as 50 % */
} clt_chart_unit;

typedef struct clt_chart_mark {
    double step;
    const char *kind;  /* class of the mark on the page: "resume", "save", "skip", "advice", "bad" */
    const char *title; /* any text; NULL for none */
} clt_chart_mark;

#define CLT_CHART_LINES 40

typedef struct clt_chart {
    const char *title;
    clt_chart_unit unit;
    bool logarithmic;   /* the axis is logarithmic if all values are above 0 */
    bool from_zero;     /* the axis begins at 0 (ignored if logarithmic) */
    bool clipped;       /* a few values far above all others do not extend the axis */
    double first, last; /* first and last step on the axis */
    clt_chart_line lines[CLT_CHART_LINES];
    int line_count;
    const clt_chart_mark *marks;
    size_t mark_count;
} clt_chart;

/* Adds a line and takes ownership of its points; a line without points is not added. */
void clt_chart_add(clt_chart *chart, clt_chart_line line);
void clt_chart_free(clt_chart *chart);
/* Appends the plot with its axes and marks (a <div class="plot">); nothing when the chart has no lines. */
clt_status clt_chart_draw(const clt_chart *chart, clt_str *out);
/* The least and the greatest finite value of all lines; false if there is none. */
bool clt_chart_range(const clt_chart *chart, double *low, double *high);

#endif
