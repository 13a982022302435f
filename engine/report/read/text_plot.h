/* SPDX-License-Identifier: Apache-2.0
 *
 * A plot made of characters, for terminals: braille patterns, eight dots per character, if the terminal can
 * show them, else ASCII. */
#ifndef ENGINE_REPORT_READ_TEXT_PLOT_H
#define ENGINE_REPORT_READ_TEXT_PLOT_H

#include "engine/base/mem.h"
#include "engine/report/read/curve.h"

typedef struct clt_text_plot {
    int columns, rows; /* size in characters, with axes and labels; at least 30 and 5 */
    bool unicode;
    bool logarithmic;              /* the axis is logarithmic if all values are above 0 */
    double first, last;            /* steps on the axis */
    const clt_point *line, *marks; /* a line, and single values drawn as o; either may be absent */
    size_t line_count, mark_count;
} clt_text_plot;

/* Appends `rows` lines of at most `columns` columns: the plot, an axis, and the steps at its ends. Appends
 * nothing if no value is finite. */
clt_status clt_text_plot_draw(const clt_text_plot *plot, clt_str *out);

#endif
