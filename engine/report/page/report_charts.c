/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's charts: chooses the curves, and which of them share a chart. */
#include <math.h>
#include <stdlib.h>

#include "engine/report/page/chart.h"
#include "engine/report/page/report_internal.h"

#define COLOR_TRAIN 0
#define COLOR_EVAL 1
#define MAX_MARKS 400

typedef struct figure {
    const report_page *page;
    clt_chart chart;
    clt_status status;
} figure;

static figure make_figure(const report_page *page, const char *title, clt_chart_unit unit)
{
    figure f = {.page = page, .chart = {.title = title, .unit = unit}};
    f.chart.first = INFINITY;
    f.chart.last = 0;
    for (int i = 0; i < page->count; i++) {
        const clt_history_counts *c = &page->runs[i]->counts;
        if (c->first >= 0)
            f.chart.first = fmin(f.chart.first, (double)c->first);
        f.chart.last = fmax(f.chart.last, (double)page->runs[i]->last_step);
    }
    if (f.chart.first > f.chart.last * 0.05) /* true: the file holds only the end of a run */
        f.chart.first = isfinite(f.chart.first) ? f.chart.first : 0;
    else
        f.chart.first = 0;
    return f;
}

typedef enum form { RAW, SMOOTH } form;

static const clt_curve *of(const figure *f, int run, clt_metric metric)
{
    return &f->page->runs[run]->curve[metric];
}

static void add(figure *f, int run, const char *name, const clt_curve *curve, int color,
                clt_chart_style style, form how)
{
    clt_chart_line line = {.name = name, .color = color, .run = run, .style = style};
    if (f->status != CLT_OK || curve->values + curve->bad == 0)
        return;
    f->status = clt_alloc(&line.points, f->page->points, sizeof *line.points, "the points of a curve");
    if (f->status != CLT_OK)
        return;
    line.count = how == RAW ? clt_curve_points(curve, f->page->points, line.points)
                            : clt_curve_smooth(curve, 0.012, f->page->points, line.points);
    clt_chart_add(&f->chart, line);
}

/* The label of a line: the name of the curve if the report shows one run, else the name of the run. */
static const char *label(const figure *f, int run, const char *name)
{
    return f->page->count == 1 ? name : f->page->runs[run]->name;
}

/* Adds a noisy curve as faint raw values and a smoothed line. A curve of few values is drawn as it is. */
static void add_noisy(figure *f, int run, const char *name, const clt_curve *curve, int color)
{
    bool few = curve->values < 60;
    const char *shown = label(f, run, name);
    if (few) {
        add(f, run, shown, curve, color, CLT_CHART_LINE, RAW);
        return;
    }
    if (f->page->count == 1 || (f->page->count <= 4 && curve == of(f, run, CLT_METRIC_LOSS)))
        add(f, run, shown, curve, color, CLT_CHART_FAINT, RAW);
    add(f, run, f->page->count == 1 ? "smoothed" : shown, curve, color, CLT_CHART_LINE, SMOOTH);
}

static int color_of(const figure *f, int run)
{
    return f->page->count == 1 ? COLOR_TRAIN : run;
}

/* --- the frame of a chart --- */

static void legend_item(clt_str *out, const char *kind, int color, const char *name)
{
    clt_str_printf(out, "<span class=\"key\"><i class=\"%s c%d\"></i>", kind, color);
    clt_html_text_cut(out, name, 60);
    clt_str_append(out, "</span>");
}

static void open_card(const report_page *page, const char *title, const char *note, bool wide)
{
    clt_str_printf(page->out, "<section class=\"card chart%s\"><h3>", wide ? " wide" : "");
    clt_html_text(page->out, title);
    if (note) {
        clt_str_append(page->out, " <small>");
        clt_html_text(page->out, note);
        clt_str_append(page->out, "</small>");
    }
    clt_str_append(page->out, "</h3>");
}

static void close_card(const report_page *page)
{
    clt_str_append(page->out, "</section>\n");
}

static clt_status finish(figure *f)
{
    if (f->status == CLT_OK)
        f->status = clt_chart_draw(&f->chart, f->page->out);
    clt_chart_free(&f->chart);
    return f->status;
}

static clt_status finish_card(figure *f, const char *title, const char *note)
{
    open_card(f->page, title, note, false);
    CLT_TRY(finish(f));
    close_card(f->page);
    return CLT_OK;
}

/* A chart of one metric, with a line for each run. */
typedef struct single {
    clt_metric metric;
    const char *title, *note;
    clt_chart_unit unit;
    bool noisy, from_zero, logarithmic, clipped;
} single;

static bool has_values(const report_page *page, clt_metric metric)
{
    for (int i = 0; i < page->count; i++)
        if (page->runs[i]->curve[metric].values + page->runs[i]->curve[metric].bad > 0)
            return true;
    return false;
}

static clt_status draw_single(const report_page *page, const single *s)
{
    double low, high;
    if (!has_values(page, s->metric))
        return CLT_OK;
    figure f = make_figure(page, s->title, s->unit);
    f.chart.from_zero = s->from_zero;
    f.chart.clipped = s->clipped;
    for (int i = 0; i < page->count; i++) {
        bool speed = s->metric == CLT_METRIC_TOKENS_PER_S || s->metric == CLT_METRIC_SAMPLES_PER_S;
        if (speed && clt_run_speed_metric(page->runs[i]) != s->metric)
            continue; /* this run counts its speed in the other unit */
        if (s->noisy)
            add_noisy(&f, i, s->title, of(&f, i, s->metric), color_of(&f, i));
        else
            add(&f, i, label(&f, i, s->title), of(&f, i, s->metric), color_of(&f, i), CLT_CHART_LINE, RAW);
    }
    /* values over many powers of ten can only be distinguished on a logarithmic axis */
    f.chart.logarithmic =
        s->logarithmic && clt_chart_range(&f.chart, &low, &high) && low > 0 && high > 30 * low;
    return finish_card(&f, s->title, f.chart.logarithmic ? "logarithmic" : s->note);
}

/* --- losses --- */

static void add_evaluation(figure *f, int run, const clt_curve *curve)
{
    add(f, run, label(f, run, "evaluation"), curve, f->page->count == 1 ? COLOR_EVAL : run, CLT_CHART_DOTS,
        RAW);
}

static void add_losses(figure *f)
{
    for (int i = 0; i < f->page->count; i++)
        add_noisy(f, i, "training", of(f, i, CLT_METRIC_LOSS), color_of(f, i));
    for (int i = 0; i < f->page->count; i++)
        add_evaluation(f, i, of(f, i, CLT_METRIC_EVAL_LOSS));
}

/* The chart of one loss of several, with a line for each run that has a loss of this name. */
static clt_status draw_named(const report_page *page, const char *name)
{
    bool eval = false;
    figure f = make_figure(page, name, CLT_UNIT_PLAIN);
    for (int i = 0; i < page->count; i++) {
        const clt_run_loss *loss = clt_run_loss_named(page->runs[i], name);
        if (!loss)
            continue;
        add_noisy(&f, i, "training", &loss->train, color_of(&f, i));
        add_evaluation(&f, i, &loss->eval);
        eval |= loss->eval.values > 0;
    }
    return finish_card(&f, name, eval ? "dots: evaluation" : NULL);
}

/* A chart for each of several losses. */
static clt_status each_loss(const report_page *page)
{
    for (int i = 0; i < page->count; i++)
        for (int k = 0; k < page->runs[i]->loss_count; k++) {
            const char *name = page->runs[i]->losses[k].name;
            bool drawn = false; /* an earlier run with this loss has drawn the chart */
            for (int before = 0; before < i; before++)
                drawn |= clt_run_loss_named(page->runs[before], name) != NULL;
            if (!drawn)
                CLT_TRY(draw_named(page, name));
        }
    return CLT_OK;
}

typedef struct mark_list {
    clt_chart_mark items[MAX_MARKS];
    clt_str titles[MAX_MARKS];
    size_t count;
} mark_list;

static clt_str *add_mark(mark_list *list, double step, const char *kind)
{
    if (list->count == MAX_MARKS)
        return NULL;
    list->items[list->count] = (clt_chart_mark){.step = step, .kind = kind};
    return &list->titles[list->count++];
}

static void event_mark(mark_list *list, const clt_run_event *e)
{
    static const char *const kinds[CLT_RUN_EVENT_KINDS] = {
        [CLT_RUN_EVENT_START] = "resume",  [CLT_RUN_EVENT_SAVED] = "save",  [CLT_RUN_EVENT_ADVICE] = "advice",
        [CLT_RUN_EVENT_NOTICE] = "advice", [CLT_RUN_EVENT_FAILED] = "fail", [CLT_RUN_EVENT_STOPPED] = "stop"};
    bool first_start = e->kind == CLT_RUN_EVENT_START && e->step == 0;
    clt_str *title = kinds[e->kind] && !first_start ? add_mark(list, (double)e->step, kinds[e->kind]) : NULL;
    if (!title)
        return;
    clt_str_printf(title, "step %lld: ", (long long)e->step);
    if (e->kind == CLT_RUN_EVENT_START) {
        clt_str_append(title, "resumed");
    } else if (e->kind == CLT_RUN_EVENT_SAVED) {
        clt_str_append(title, "saved ");
        clt_run_member(e->doc, "reason", title);
    } else if (e->kind == CLT_RUN_EVENT_ADVICE || e->kind == CLT_RUN_EVENT_NOTICE) {
        clt_str_append(title, e->kind == CLT_RUN_EVENT_NOTICE ? "notice: " : "");
        clt_run_member(e->doc, "text", title);
    } else {
        clt_str_append(title, e->kind == CLT_RUN_EVENT_FAILED ? "failed " : "stopped ");
        clt_run_member(e->doc, e->kind == CLT_RUN_EVENT_FAILED ? "message" : "reason", title);
    }
}

/* Finds the marks of a run's loss chart: saves, resumes, skipped updates, notices and advice. */
static void find_marks(const clt_run_record *run, mark_list *list)
{
    clt_point skips[100];
    size_t count = clt_curve_points(&run->skips, sizeof skips / sizeof skips[0], skips);
    for (size_t i = 0; i < count; i++) {
        clt_str *title = add_mark(list, skips[i].step, "skip");
        if (title)
            clt_str_printf(title, "step %.0f: update skipped, a value was not finite", skips[i].step);
    }
    for (size_t i = 0; i < run->event_count; i++)
        event_mark(list, &run->events[i]);
    for (size_t i = 0; i < list->count; i++)
        list->items[i].title = list->titles[i].text;
}

static clt_status draw_loss(const report_page *page, const mark_list *marks, bool logarithmic,
                            const char *class_name)
{
    figure f = make_figure(page, logarithmic ? "loss, logarithmic" : "loss", CLT_UNIT_PLAIN);
    add_losses(&f);
    f.chart.logarithmic = logarithmic;
    f.chart.marks = marks->items;
    f.chart.mark_count = marks->count;
    clt_str_printf(page->out, "<div class=\"%s\">", class_name);
    clt_status status = finish(&f);
    clt_str_append(page->out, "</div>");
    return status;
}

static void loss_legend(const report_page *page, const mark_list *marks)
{
    static const char *const kinds[][2] = {{"save", "saved"},          {"resume", "resumed"},
                                           {"skip", "update skipped"}, {"stop", "stopped"},
                                           {"fail", "failed"},         {"advice", "advice"}};
    bool eval = has_values(page, CLT_METRIC_EVAL_LOSS);
    clt_str_append(page->out, "<p class=\"keys\">");
    if (page->count == 1) {
        legend_item(page->out, "sw", COLOR_TRAIN, "training");
        if (eval)
            legend_item(page->out, "sw dotted", COLOR_EVAL, "evaluation");
    } else {
        for (int i = 0; i < page->count; i++)
            legend_item(page->out, "sw", i, page->runs[i]->name);
        if (eval)
            clt_str_append(page->out, "<span class=\"key\">dots: evaluation</span>");
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        bool any = false;
        for (size_t i = 0; i < marks->count; i++)
            any |= marks->items[i].kind[0] == kinds[k][0][0] && marks->items[i].kind[1] == kinds[k][0][1];
        if (any)
            clt_str_printf(page->out, "<span class=\"key\"><i class=\"mk %s\"></i>%s</span>", kinds[k][0],
                           kinds[k][1]);
    }
    for (int i = 0; i < page->count; i++)
        if (page->runs[i]->curve[CLT_METRIC_LOSS].bad > 0) {
            clt_str_append(page->out, "<span class=\"key\"><i class=\"nf\"></i>not finite</span>");
            break;
        }
    clt_str_append(page->out, "</p>");
}

static bool loss_is_positive(const report_page *page, bool *wide_range)
{
    double low = INFINITY, high = -INFINITY;
    static const clt_metric both[] = {CLT_METRIC_LOSS, CLT_METRIC_EVAL_LOSS};
    for (int i = 0; i < page->count; i++)
        for (int k = 0; k < 2; k++)
            if (page->runs[i]->curve[both[k]].values > 0) {
                low = fmin(low, page->runs[i]->curve[both[k]].low);
                high = fmax(high, page->runs[i]->curve[both[k]].high);
            }
    *wide_range = low > 0 && high > 30 * low;
    return low > 0 && low < high;
}

static clt_status loss_card(const report_page *page, const mark_list *marks)
{
    bool wide_range, positive = loss_is_positive(page, &wide_range);
    if (!has_values(page, CLT_METRIC_LOSS) && !has_values(page, CLT_METRIC_EVAL_LOSS))
        return CLT_OK;
    open_card(page, "Loss", NULL, true);
    if (positive)
        clt_str_printf(
            page->out,
            "<input type=\"radio\" name=\"scale\" id=\"lin\"%s><label for=\"lin\">linear</label>"
            "<input type=\"radio\" name=\"scale\" id=\"log\"%s><label for=\"log\">logarithmic</label>",
            wide_range ? "" : " checked", wide_range ? " checked" : "");
    loss_legend(page, marks);
    CLT_TRY(draw_loss(page, marks, false, "big lin"));
    if (positive)
        CLT_TRY(draw_loss(page, marks, true, "big log"));
    close_card(page);
    return CLT_OK;
}

static clt_status losses(const report_page *page)
{
    mark_list *marks;
    CLT_TRY(clt_alloc(&marks, 1, sizeof *marks, "the marks of a chart"));
    if (page->count == 1)
        find_marks(page->runs[0], marks);
    clt_status status = loss_card(page, marks);
    for (size_t i = 0; i < marks->count; i++)
        report_release(page->out, &marks->titles[i]);
    free(marks);
    return status;
}

/* --- accuracy, loss scale, parts of a step --- */

static clt_status accuracy(const report_page *page)
{
    if (!has_values(page, CLT_METRIC_ACCURACY) && !has_values(page, CLT_METRIC_EVAL_ACCURACY))
        return CLT_OK;
    figure f = make_figure(page, "accuracy", CLT_UNIT_SHARE);
    for (int i = 0; i < page->count; i++)
        add_noisy(&f, i, "training", of(&f, i, CLT_METRIC_ACCURACY), color_of(&f, i));
    for (int i = 0; i < page->count; i++)
        add_evaluation(&f, i, of(&f, i, CLT_METRIC_EVAL_ACCURACY));
    for (int i = 0; i < page->count && page->count == 1; i++)
        add(&f, i, "evaluation, top k", of(&f, i, CLT_METRIC_EVAL_TOP_K), 3, CLT_CHART_DOTS, RAW);
    return finish_card(&f, "Accuracy",
                       has_values(page, CLT_METRIC_EVAL_ACCURACY) ? "dots: evaluation" : NULL);
}

/* The chart of a figure of evaluations; none if no run has it. */
static clt_status evaluated(const report_page *page, clt_metric metric, const char *title, const char *note)
{
    if (!has_values(page, metric))
        return CLT_OK;
    figure f = make_figure(page, title, CLT_UNIT_PLAIN);
    for (int i = 0; i < page->count; i++)
        add_evaluation(&f, i, of(&f, i, metric));
    return finish_card(&f, title, note);
}

/* Draws the figures that evaluations count: the mean Dice of segmentations, or else the macro F1; the errors
 * of regressions. */
static clt_status evaluations(const report_page *page)
{
    if (has_values(page, CLT_METRIC_EVAL_DICE))
        CLT_TRY(evaluated(page, CLT_METRIC_EVAL_DICE, "Mean Dice", "evaluation, mean over classes"));
    else
        CLT_TRY(evaluated(page, CLT_METRIC_EVAL_F1, "Macro F1", "evaluation, mean over classes"));
    CLT_TRY(evaluated(page, CLT_METRIC_EVAL_ENTITY_F1, "F1 of entities",
                      "evaluation, entities with the right type, first and last word"));
    CLT_TRY(evaluated(page, CLT_METRIC_EVAL_R2, "R2", "evaluation, share of the variance that is explained"));
    CLT_TRY(evaluated(page, CLT_METRIC_EVAL_PEARSON, "Pearson's correlation",
                      "evaluation, of predictions and targets"));
    CLT_TRY(evaluated(page, CLT_METRIC_EVAL_SPEARMAN, "Spearman's correlation",
                      "evaluation, of the ranks of predictions and targets"));
    return evaluated(page, CLT_METRIC_EVAL_RMSE, "RMSE", "evaluation, in the unit of the targets");
}

/* The chart of the loss scale, only if loss scaling was on or updates were skipped. */
static clt_status loss_scale(const report_page *page)
{
    bool used = false;
    for (int i = 0; i < page->count; i++) {
        const clt_curve *c = &page->runs[i]->curve[CLT_METRIC_LOSS_SCALE];
        used |= c->values > 0 && (c->low != 1 || c->high != 1);
    }
    const single scaled = {
        CLT_METRIC_LOSS_SCALE, "Loss scale", NULL, CLT_UNIT_COUNT, false, false, true, false};
    return used ? draw_single(page, &scaled) : CLT_OK;
}

#define COLUMNS 240

static void split_column(const clt_run_record *run, double from, double to, double parts[4])
{
    double total = clt_curve_mean(&run->curve[CLT_METRIC_STEP_MS], from, to);
    double device = total * clt_curve_mean(&run->curve[CLT_METRIC_DEVICE_BUSY], from, to);
    double data = clt_curve_mean(&run->curve[CLT_METRIC_DATA_MS], from, to);
    double comm = clt_curve_mean(&run->curve[CLT_METRIC_COMM_EXPOSED_MS], from, to);
    parts[0] = device > 0 ? fmin(device, total) : 0;
    parts[1] = data > 0 ? fmin(data, total - parts[0]) : 0;
    parts[2] = comm > 0 ? fmin(comm, total - parts[0] - parts[1]) : 0;
    parts[3] = total - parts[0] - parts[1] - parts[2];
}

/* The chart of a step's time; the report of a single run shows its parts. */
static clt_status step_parts(const report_page *page)
{
    static const char *const names[] = {"device", "waiting for data", "communication", "other"};
    static const int colors[] = {0, 1, 3, 7};
    const clt_run_record *run = page->runs[0];
    const single times = {CLT_METRIC_STEP_MS, "Step time", "ms", CLT_UNIT_PLAIN, true, true, false, true};
    if (page->count > 1 || run->curve[CLT_METRIC_DEVICE_BUSY].values < 2 ||
        run->last_step <= run->counts.first)
        return draw_single(page, &times);
    figure f = make_figure(page, "parts of a step", CLT_UNIT_PLAIN);
    double from = (double)run->counts.first, span = (double)run->last_step + 1 - from, parts[4];
    int columns = span < COLUMNS ? (int)span : COLUMNS;
    for (int k = 0; k < 4 && f.status == CLT_OK; k++) {
        clt_chart_line line = {.name = names[k], .color = colors[k], .style = CLT_CHART_AREA};
        f.status = clt_alloc(&line.points, COLUMNS, sizeof *line.points, "the points of a curve");
        for (int i = 0; i < columns && f.status == CLT_OK; i++) {
            double a = from + span * i / columns, b = from + span * (i + 1) / columns;
            split_column(run, a, b, parts);
            if (isfinite(parts[0] + parts[3]))
                line.points[line.count++] = (clt_point){columns < COLUMNS ? a : (a + b) / 2, parts[k]};
        }
        clt_chart_add(&f.chart, line);
    }
    f.chart.from_zero = f.chart.clipped = true;
    open_card(page, "Step time", "ms", false);
    clt_status status = finish(&f);
    clt_str_append(page->out, "<p class=\"keys\">");
    for (int k = 0; k < 4; k++)
        legend_item(page->out, "sw block", colors[k], names[k]);
    clt_str_append(page->out, "</p>");
    close_card(page);
    return status;
}

/* True if a run counts its speed in the unit of the metric `speed`. */
static bool counts(const report_page *page, clt_metric speed)
{
    for (int i = 0; i < page->count; i++)
        if (clt_run_speed_metric(page->runs[i]) == speed)
            return true;
    return false;
}

#define MEASURED 6 /* index of the first chart of the driver's figures */

clt_status report_charts(const report_page *page)
{
    const single singles[] = {
        {CLT_METRIC_LR, "Learning rate", NULL, CLT_UNIT_PLAIN, false, true, false, false},
        {CLT_METRIC_TOKENS_PER_S, "Speed", "tokens/s", CLT_UNIT_COUNT, true, true, false, true},
        {CLT_METRIC_SAMPLES_PER_S, "Speed", "samples/s", CLT_UNIT_COUNT, true, true, false, true},
        {CLT_METRIC_DEVICE_BUSY, "Device busy", "share of each step", CLT_UNIT_SHARE, true, true, false,
         false},
        {CLT_METRIC_GRAD_NORM, "Gradient norm", NULL, CLT_UNIT_PLAIN, true, false, true, false},
        {CLT_METRIC_DEVICE_BYTES, "Device memory", "peak so far", CLT_UNIT_BYTES, false, true, false, false},
        /* from here on the driver's figures, for runs whose devices were monitored */
        {CLT_METRIC_DEVICE_UTILIZATION, "Device used", "share of the time", CLT_UNIT_SHARE, true, true, false,
         false},
        {CLT_METRIC_DEVICE_MEMORY_USED, "Memory in use", "of all programs", CLT_UNIT_BYTES, false, true,
         false, false},
        {CLT_METRIC_DEVICE_POWER, "Power", "W", CLT_UNIT_PLAIN, true, true, false, false},
        {CLT_METRIC_DEVICE_TEMPERATURE, "Temperature", "degrees Celsius", CLT_UNIT_PLAIN, true, false, false,
         false},
        {CLT_METRIC_DEVICE_THROTTLED, "Slowed down", "share of the time, for power, heat or a quota",
         CLT_UNIT_SHARE, true, true, false, false},
    };
    clt_str_append(page->out, "<div class=\"charts\">\n");
    CLT_TRY(losses(page));
    CLT_TRY(each_loss(page));
    CLT_TRY(accuracy(page));
    CLT_TRY(evaluations(page));
    CLT_TRY(draw_single(page, &singles[0]));
    if (counts(page, CLT_METRIC_TOKENS_PER_S))
        CLT_TRY(draw_single(page, &singles[1]));
    if (counts(page, CLT_METRIC_SAMPLES_PER_S))
        CLT_TRY(draw_single(page, &singles[2]));
    CLT_TRY(draw_single(page, &singles[3]));
    CLT_TRY(step_parts(page));
    CLT_TRY(draw_single(page, &singles[4]));
    CLT_TRY(draw_single(page, &singles[5]));
    for (size_t i = MEASURED; i < sizeof singles / sizeof *singles; i++)
        CLT_TRY(draw_single(page, &singles[i]));
    CLT_TRY(loss_scale(page));
    clt_str_append(page->out, "</div>\n");
    return CLT_OK;
}
