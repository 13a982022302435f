/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts as HTML with inline SVG. Lines are drawn in an SVG that is stretched to the width there is, while
 * labels are HTML, so that one chart reads well on a phone and on a wide screen, and needs no script.
 * Coordinates are whole numbers, told as differences: five bytes a point. */
#ifndef ENGINE_REPORT_CHART_H
#define ENGINE_REPORT_CHART_H

#include "engine/base/mem.h"
#include "engine/report/curve.h"

typedef enum clt_chart_style {
    CLT_CHART_LINE,
    CLT_CHART_FAINT, /* the raw values behind a smoothed line */
    CLT_CHART_DOTS,  /* few values: a dot each, joined */
    CLT_CHART_AREA   /* stacked above the areas before it */
} clt_chart_style;

typedef struct clt_chart_line {
    const char *name; /* any text */
    int color;        /* 0 to 7 */
    int run;          /* which run of the page it belongs to */
    clt_chart_style style;
    clt_point *points;
    size_t count;
} clt_chart_line;

typedef enum clt_chart_unit {
    CLT_UNIT_PLAIN,
    CLT_UNIT_COUNT, /* 49.7k */
    CLT_UNIT_BYTES,
    CLT_UNIT_SHARE /* 0.5 is 50 % */
} clt_chart_unit;

typedef struct clt_chart_mark {
    double step;
    const char *kind;  /* "resume", "save", "skip", "advice", "bad": its class on the page */
    const char *title; /* any text; NULL for none */
} clt_chart_mark;

#define CLT_CHART_LINES 40

typedef struct clt_chart {
    const char *title;
    clt_chart_unit unit;
    bool logarithmic;   /* as far as all values are above 0 */
    bool from_zero;     /* the axis begins at 0 (not with logarithmic) */
    bool clipped;       /* single values far above all others do not stretch the axis */
    double first, last; /* steps on the axis */
    clt_chart_line lines[CLT_CHART_LINES];
    int line_count;
    const clt_chart_mark *marks;
    size_t mark_count;
} clt_chart;

/* Adds a line and its points, which the chart owns from then on; without points nothing is added. */
void clt_chart_add(clt_chart *chart, clt_chart_line line);
void clt_chart_free(clt_chart *chart);
/* Appends the plot, its axes and marks (a <div class="plot">); nothing when there is no line. */
clt_status clt_chart_draw(const clt_chart *chart, clt_str *out);
/* Least and greatest finite value over all lines; false without any. */
bool clt_chart_range(const clt_chart *chart, double *low, double *high);

#endif
