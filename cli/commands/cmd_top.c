/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain top: a live table of this host's devices, with the figures of their drivers, and of the runs that
 * train on them. Needs no OpenCL and does not slow runs down. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/follow.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/thread.h"
#include "engine/json/json.h"
#include "engine/monitor/monitor.h"
#include "engine/report/read/live_runs.h"
#include "engine/report/write/lines.h"

#define MOST_DEVICES 64
#define LOOK_SECONDS 1.0
#define FIRST_SECONDS 0.5  /* between the two samples of --once: most figures are differences */
#define ANSWER_SECONDS 5.0 /* how long --once waits for a driver */
#define FRESH_SECONDS 3.0  /* how long figures of a device stay in the table */

typedef struct top {
    clt_monitor_device list[MOST_DEVICES];
    clt_monitor *monitor[MOST_DEVICES];
    double value[MOST_DEVICES][CLT_MONITOR_COUNT]; /* figures of the samples since the previous picture */
    double taken[MOST_DEVICES];                    /* when these samples were taken; 0: there are none yet */
    clt_monitor_facts facts[MOST_DEVICES];
    char trouble[MOST_DEVICES][256]; /* trouble that the device's source reports; "": none */
    bool known[MOST_DEVICES];        /* it answers */
    int devices;
    clt_live_run runs[CLT_LIVE_RUNS];
    int n_runs;
} top;

static void close_top(top *t)
{
    for (int i = 0; i < t->devices; i++)
        clt_monitor_close(t->monitor[i]);
}
CLT_SCOPED_VALUE(top, close_top)

static clt_status open_top(top *t)
{
    int count = clt_monitor_list(t->list, MOST_DEVICES);
    for (int i = 0; i < count; i++) {
        const clt_monitor_options options = {
            .pci = t->list[i].pci, .cpu = !t->list[i].pci[0], .seconds = LOOK_SECONDS, .root = ""};
        CLT_TRY(clt_monitor_open(&options, &t->monitor[i]));
        t->devices++;
    }
    return CLT_OK;
}

static bool has_figures(const double value[CLT_MONITOR_COUNT])
{
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        if (!isnan(value[i]) && i != CLT_MONITOR_HOST_CPU && i != CLT_MONITOR_HOST_MEMORY &&
            i != CLT_MONITOR_HOST_THROTTLED)
            return true;
    return false;
}

/* Fetches a device's new figures. The device counts as answering if its source exists, has given figures
 * within FRESH_SECONDS, and reports no trouble. */
static void look_at(top *t, int i)
{
    const double now = clt_now();
    if (clt_monitor_take(t->monitor[i], t->value[i])) {
        t->taken[i] = now;
        if (has_figures(t->value[i]))
            t->trouble[i][0] = '\0';
    }
    (void)clt_monitor_take_trouble(t->monitor[i], t->trouble[i], sizeof t->trouble[i]);
    const bool fresh = t->taken[i] > 0 && now - t->taken[i] <= FRESH_SECONDS;
    t->known[i] = clt_monitor_facts_of(t->monitor[i], &t->facts[i]) && t->facts[i].source && fresh &&
                  (has_figures(t->value[i]) || !t->trouble[i][0]);
}

static void look(top *t)
{
    for (int i = 0; i < t->devices; i++)
        look_at(t, i);
    t->n_runs = clt_live_runs(t->runs);
}

/* --- tables --- */

#define CELL 64

static const char *device_name(const top *t, int i, char text[CELL + 64])
{
    const clt_monitor_facts *f = &t->facts[i];
    char name[CELL];
    text_clean(f->name[0] ? f->name : f->source ? f->source : "", name, sizeof name);
    const char *pci = t->list[i].pci;
    (void)snprintf(text, CELL + 64, "%s%s%s", pci[0] ? pci : "processor", pci[0] ? " " : "",
                   pci[0] ? name : "");
    return text;
}

static const char *cell(double value, double factor, const char *format, char text[CELL])
{
    text[0] = '\0';
    if (!isnan(value))
        (void)snprintf(text, CELL, format, value * factor);
    return text;
}

/* How many of `count` rows fit into a table of `room` lines; if some do not fit, the last line is needed to
 * say how many. */
static int shown_of(int count, int room)
{
    return count <= room ? count : room - 1;
}

static void put_more(int more, clt_str *out)
{
    if (more > 0)
        clt_str_printf(out, "%d more\n", more);
}

static void put_devices(const top *t, int columns, int room, clt_str *out)
{
    static const table_column heads[] = {{"device", 20, 14, 0, false}, {"used", 6, 0, 0, true},
                                         {"memory", 10, 0, 1, true},   {"of", 10, 0, 4, true},
                                         {"power", 7, 0, 2, true},     {"limit", 7, 0, 5, true},
                                         {"temp", 5, 0, 3, true},      {"slowed", 7, 0, 6, true}};
    table shape;
    table_make(&shape, heads, 8, columns);
    const int shown = shown_of(t->devices, room);
    table_head(&shape, out);
    for (int i = 0; i < shown; i++) {
        char name[CELL + 64], text[7][CELL];
        const double *v = t->value[i], used = v[CLT_MONITOR_MEMORY_USED], size = v[CLT_MONITOR_MEMORY_SIZE];
        if (!t->known[i]) {
            clt_str_printf(out, "the driver of %s has not answered\n",
                           t->list[i].pci[0] ? t->list[i].pci : "the processor");
            continue;
        }
        const char *const cells[8] = {device_name(t, i, name),
                                      cell(v[CLT_MONITOR_UTILIZATION], 100, "%.0f %%", text[0]),
                                      isnan(used) ? "" : console_bytes((uint64_t)used, text[1], CELL),
                                      isnan(size) ? "" : console_bytes((uint64_t)size, text[2], CELL),
                                      cell(v[CLT_MONITOR_POWER], 1, "%.0f W", text[3]),
                                      cell(v[CLT_MONITOR_POWER_LIMIT], 1, "%.0f W", text[4]),
                                      cell(v[CLT_MONITOR_TEMPERATURE], 1, "%.0f C", text[5]),
                                      cell(v[CLT_MONITOR_THROTTLED], 100, "%.0f %%", text[6])};
        table_row(&shape, cells, out);
    }
    put_more(t->devices - shown, out);
}

/* Appends the trouble of devices that do not answer, a line for each. */
static void put_troubles(const top *t, int columns, clt_str *out)
{
    for (int i = 0; i < t->devices; i++) {
        char clean[256], line[320];
        if (!t->trouble[i][0])
            continue;
        (void)snprintf(line, sizeof line, "%s: %s", t->list[i].pci[0] ? t->list[i].pci : "processor",
                       text_clean(t->trouble[i], clean, sizeof clean));
        clt_str_printf(out, "%.*s\n", (int)text_fit(line, columns), line);
    }
}

static void put_runs(const top *t, int columns, int room, clt_str *out)
{
    static const table_column heads[] = {{"process", 8, 0, 2, true}, {"step", 9, 0, 0, true},
                                         {"loss", 9, 0, 1, true},    {"speed", 16, 0, 3, true},
                                         {"newest", 10, 0, 4, true}, {"run", 60, 16, 0, false}};
    table shape;
    clt_str_append(out, "\n");
    if (t->n_runs == 0) {
        clt_str_append(out, "no run that you may see trains on this host\n");
        return;
    }
    const int shown = shown_of(t->n_runs, room);
    table_make(&shape, heads, 6, columns);
    table_head(&shape, out);
    for (int i = 0; i < shown; i++) {
        const clt_live_run *r = &t->runs[i];
        const double *v = r->newest.value;
        const bool any = r->newest.step >= 0;
        const bool tokens = any && v[CLT_METRIC_TOKENS_PER_S] > 1.5 * v[CLT_METRIC_SAMPLES_PER_S];
        const double speed = !any ? NAN : v[tokens ? CLT_METRIC_TOKENS_PER_S : CLT_METRIC_SAMPLES_PER_S];
        char folder[CELL * 2], process[CELL], step[CELL] = "", loss[CELL] = "", rate[CELL],
                                              speed_text[CELL + 16] = "", quiet[CELL], ago[CELL + 8];
        (void)snprintf(process, sizeof process, "%lld", (long long)r->process);
        if (any) {
            (void)snprintf(step, sizeof step, "%lld", (long long)r->newest.step);
            clt_value_text(v[CLT_METRIC_LOSS], 4, loss, sizeof loss);
        }
        if (speed > 0)
            (void)snprintf(speed_text, sizeof speed_text, "%s %s", console_count(speed, rate, sizeof rate),
                           tokens ? "tok/s" : "samples/s");
        (void)snprintf(ago, sizeof ago, "%s ago", console_time(fmax(r->quiet_s, 0), quiet, sizeof quiet));
        const char *const cells[6] = {process,    step, loss,
                                      speed_text, ago,  text_clean(r->folder, folder, sizeof folder)};
        table_row(&shape, cells, out);
    }
}

/* Draws the tables in at most `rows` lines; 0: no limit. If there is not enough room for both tables, the
 * devices get at least half of it. */
static clt_status draw(const top *t, int columns, int rows, clt_str *out)
{
    int room = rows - 3, troubles = 0; /* minus the titles of both tables and the line between them */
    for (int i = 0; i < t->devices; i++)
        troubles += t->trouble[i][0] != '\0';
    const int runs = t->n_runs > 0 ? t->n_runs : 1;
    room = rows == 0 ? INT_MAX / 2 : room - troubles > 2 ? room - troubles : 2;
    int devices = t->devices + runs <= room ? t->devices : room - runs > room / 2 ? room - runs : room / 2;
    devices = devices < t->devices ? devices : t->devices;
    put_devices(t, columns, devices, out);
    put_troubles(t, columns, out);
    put_runs(t, columns, room - devices, out);
    return clt_str_check(out);
}

/* --- JSON --- */

static void write_device(const top *t, int i, clt_json_writer *w)
{
    static const char *const names[CLT_MONITOR_COUNT] = {
#define NAME(name, key, tag, exported, fold, parts, help) exported,
        CLT_MONITOR_MAP(NAME)
#undef NAME
    };
    const clt_monitor_facts *f = &t->facts[i];
    clt_jw_object(w);
    clt_jw_kstring(w, "source", f->source ? f->source : t->list[i].source);
    if (f->name[0])
        clt_jw_kstring(w, "name", f->name);
    if (t->list[i].pci[0])
        clt_jw_kstring(w, "pci", t->list[i].pci);
    clt_jw_kbool(w, "answers", t->known[i]);
    if (t->trouble[i][0])
        clt_jw_kstring(w, "trouble", t->trouble[i]);
    for (int k = 0; k < CLT_MONITOR_COUNT; k++)
        if (t->known[i] && !isnan(t->value[i][k]))
            clt_jw_kdouble(w, names[k], t->value[i][k]);
    clt_jw_end_object(w);
}

static void write_run(const clt_live_run *r, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "folder", r->folder);
    clt_jw_kint(w, "process", r->process);
    clt_jw_kdouble(w, "quiet_seconds", r->quiet_s);
    if (r->newest.step >= 0) {
        clt_jw_kint(w, "step", r->newest.step);
        clt_jw_kdouble(w, "loss", r->newest.value[CLT_METRIC_LOSS]);
        clt_jw_kdouble(w, "samples_per_s", r->newest.value[CLT_METRIC_SAMPLES_PER_S]);
        if (!isnan(r->newest.value[CLT_METRIC_TOKENS_PER_S]))
            clt_jw_kdouble(w, "tokens_per_s", r->newest.value[CLT_METRIC_TOKENS_PER_S]);
    }
    clt_jw_end_object(w);
}

static clt_status write_json(const top *t)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_karray(&w, "devices");
    for (int i = 0; i < t->devices; i++)
        write_device(t, i, &w);
    clt_jw_end_array(&w);
    clt_jw_karray(&w, "runs");
    for (int i = 0; i < t->n_runs; i++)
        write_run(&t->runs[i], &w);
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    return cmd_write_line("-", &text);
}

/* --- the command --- */

static clt_status show(top *t, clt_str *picture)
{
    int columns, rows;
    follow_size(&columns, &rows);
    look(t);
    picture->length = 0;
    CLT_TRY(draw(t, columns - 1, rows - 1, picture));
    return follow_show(picture);
}

/* Takes two samples of each device, and prints the figures that follow from them. */
static clt_status show_once(top *t, const cmd_context *context, bool json)
{
    CLT_SCOPED(clt_str) picture = {0};
    int columns, rows;
    for (int i = 0; i < t->devices; i++)
        clt_monitor_freshen(t->monitor[i], ANSWER_SECONDS);
    (void)follow_wait(context, FIRST_SECONDS);
    look(t);
    for (int i = 0; i < t->devices; i++)
        if (t->known[i])
            clt_monitor_freshen(t->monitor[i], ANSWER_SECONDS);
    look(t);
    if (json)
        return write_json(t);
    follow_size(&columns, &rows);
    CLT_TRY(draw(t, columns, 0, &picture));
    table_print(&picture);
    return CLT_OK;
}

clt_status cmd_top(cmd_context *context, int argc, char **argv)
{
    bool once = false, json = false;
    const args_option options[] = {
        ARGS_FLAG("--once", once, "print one picture of the devices and runs as they are now, and end"),
        ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "top", "", 0, 0, options,
        "Shows what this host's devices do, with their drivers' figures, and the runs that train on it, "
        "again each second; q or Ctrl-C ends it. Without a terminal and with --json it prints once.");
    args_result r;
    CLT_SCOPED(top) t = {0};
    CLT_SCOPED(clt_str) picture = {0};
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(open_top(&t));
    context->keeps_work = false;
    if (once || json || !isatty(STDOUT_FILENO))
        return show_once(&t, context, json);
    for (int i = 0; i < t.devices; i++)
        clt_monitor_freshen(t.monitor[i], FIRST_SECONDS); /* waits for the first samples */
    follow_begin();
    clt_status status;
    do {
        status = show(&t, &picture);
    } while (status == CLT_OK && !follow_wait(context, LOOK_SECONDS));
    follow_end();
    return status;
}
