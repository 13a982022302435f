/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the figures of this rank's device and host into the records of steps, the events, the file for
 * Prometheus (trainer_exporter.c), and the line at the end. Nothing here waits for a driver, except for at
 * most a quarter of a second at the end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/train/loop/trainer_loop.h"

#define SECONDS_VARIABLE "CLTRAIN_MONITOR_SECONDS"
#define DEVICE_VARIABLE "CLTRAIN_MONITOR_DEVICE"
#define FRESHEN_SECONDS 0.25 /* longest wait for a last sample when the run ends */
#define MOST_SECONDS 3600.0
#define XID_SECONDS 10.0 /* age up to which an error that the driver reported explains a lost device */
#define JOULES_PER_KWH 3.6e6

static clt_status seconds_between(const clt_config *config, double *out)
{
    const char *text = getenv(SECONDS_VARIABLE);
    char *end;
    *out = clt_config_float(config, "monitor.seconds");
    if (clt_config_is_set(config, "monitor.seconds") || !text || !*text)
        return CLT_OK;
    *out = clt_strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= MOST_SECONDS))
        CLT_FAIL(CLT_ECONFIG, SECONDS_VARIABLE " is '%.40s': it must be a number from 0 to %g", text,
                 MOST_SECONDS);
    return CLT_OK;
}

/* Sets `pci` to the address that the environment gives the device; "": none. */
static clt_status named_device(char pci[16])
{
    const char *text = getenv(DEVICE_VARIABLE);
    pci[0] = '\0';
    if (text && text[0] && !clt_monitor_address(text, pci))
        CLT_FAIL(CLT_ECONFIG,
                 DEVICE_VARIABLE " is '%.40s': it must be an address on the PCI bus such as 0000:65:00.0",
                 text);
    return CLT_OK;
}

clt_status clt_gauges_check(const clt_run_options *o)
{
    double seconds;
    char pci[16];
    CLT_TRY(seconds_between(o->config, &seconds));
    return named_device(pci);
}

clt_status clt_gauges_open(clt_loop *l)
{
    clt_gauges *g = &l->gauges;
    const ocl_device_desc *d = ocl_device_describe(l->run->device);
    CLT_TRY(named_device(g->named));
    const bool other = g->named[0] != '\0';
    CLT_TRY(seconds_between(l->options->config, &g->seconds));
    CLT_TRY(clt_exporter_open(l, &g->exporter));
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        g->value[i] = NAN;
    if (!(g->seconds > 0))
        return CLT_OK;
    const clt_monitor_options options = {
        .pci = other ? g->named : d->pci, .cpu = d->is_cpu && !other, .seconds = g->seconds, .root = ""};
    /* ranks that share a device would each count its energy */
    int sharing = d->is_cpu || other ? l->run->ranks.local_ranks : l->run->on_gpu;
    g->share = sharing > 1 ? 1.0 / sharing : 1;
    return clt_monitor_open(&options, &g->monitor);
}

void clt_gauges_close(clt_loop *l)
{
    clt_monitor_close(l->gauges.monitor);
    clt_exporter_close(CLT_TAKE(l->gauges.exporter));
}

/* --- steps --- */

double clt_gauges_energy(const clt_loop *l)
{
    return l->gauges.energy * l->gauges.share;
}

static void take_figures(clt_gauges *g, const double value[CLT_MONITOR_COUNT])
{
    memcpy(g->value, value, sizeof g->value);
    if (value[CLT_MONITOR_ENERGY] > 0)
        g->energy = value[CLT_MONITOR_ENERGY];
    clt_exporter_figures(g->exporter, value);
}

/* Energy of all ranks in all sessions, in J, when the newest step ended; 0: unknown. */
static double energy_of_run(const clt_loop *l)
{
    double now = l->run->ranks.ranks > 1 ? l->gauges.heard_energy : clt_gauges_energy(l);
    return l->gauges.energy_before + now;
}

void clt_gauges_fill(clt_loop *l, clt_step_metrics *m)
{
    clt_gauges *g = &l->gauges;
    m->sampled = clt_monitor_take(g->monitor, m->monitor);
    if (!m->sampled)
        return;
    take_figures(g, m->monitor);
    m->energy_j = energy_of_run(l);
}

static void tell_source(clt_loop *l)
{
    clt_monitor_facts facts;
    clt_gauges *g = &l->gauges;
    char text[128];
    if (g->reported || !clt_monitor_facts_of(g->monitor, &facts))
        return;
    g->reported = true;
    if (g->named[0] && !facts.source) {
        (void)snprintf(text, sizeof text,
                       DEVICE_VARIABLE " names %s, and no source of figures knows that device", g->named);
        clt_tell_warning(l, text);
    }
    if (!l->reports)
        return;
    const double size = g->value[CLT_MONITOR_MEMORY_SIZE], limit = g->value[CLT_MONITOR_POWER_LIMIT];
    clt_event_field fields[5];
    size_t n = 0;
    if (!facts.source)
        return;
    fields[n++] = (clt_event_field)CLT_FIELD_TEXT("source", facts.source);
    if (facts.name[0])
        fields[n++] = (clt_event_field)CLT_FIELD_TEXT("name", facts.name);
    if (facts.pci[0])
        fields[n++] = (clt_event_field)CLT_FIELD_TEXT("pci", facts.pci);
    if (!isnan(size))
        fields[n++] = (clt_event_field)CLT_FIELD_NUMBER("memory_size", size);
    if (!isnan(limit))
        fields[n++] = (clt_event_field)CLT_FIELD_NUMBER("power_limit_w", limit);
    if (clt_rundir_event(l->dir, "monitor", -1, fields, n) != CLT_OK)
        clt_error_clear(); /* metrics that cannot be written end the run at the next step */
}

/* Reports errors of the device that NVIDIA's driver has noted; a recent one explains a lost device. */
static void tell_xids(clt_loop *l)
{
    char text[160];
    clt_gauges *g = &l->gauges;
    for (int xid; clt_monitor_take_xid(g->monitor, &xid, &g->xid_at);) {
        g->xid = xid;
        (void)snprintf(text, sizeof text, "NVIDIA's driver reports the error Xid %d of the device of rank %d",
                       xid, l->run->ranks.rank);
        clt_tell_warning(l, text);
        const clt_event_field fields[] = {CLT_FIELD_INT("xid", xid)};
        if (clt_rundir_event(l->dir, "xid", -1, fields, 1) != CLT_OK)
            clt_error_clear();
    }
}

static void tell_trouble(clt_loop *l)
{
    char line[256], text[320];
    if (!clt_monitor_take_trouble(l->gauges.monitor, line, sizeof line))
        return;
    (void)snprintf(text, sizeof text, "the device of rank %d: %s", l->run->ranks.rank, line);
    clt_tell_warning(l, l->run->ranks.ranks > 1 ? text : line);
}

void clt_gauges_look(clt_loop *l, const clt_step_metrics *m)
{
    clt_gauges *g = &l->gauges;
    tell_trouble(l);
    if (m->sampled) {
        tell_source(l);
        tell_xids(l);
    }
    clt_exporter_step(g->exporter, m);
    clt_exporter_tell(l, g->exporter);
}

/* --- the end --- */

void clt_gauges_renew(clt_loop *l)
{
    double value[CLT_MONITOR_COUNT];
    clt_monitor_freshen(l->gauges.monitor, FRESHEN_SECONDS);
    if (clt_monitor_take(l->gauges.monitor, value)) {
        take_figures(&l->gauges, value);
        tell_xids(l);
    }
}

void clt_gauges_finish(clt_loop *l)
{
    clt_gauges_renew(l);
    clt_exporter_tell(l, l->gauges.exporter);
    clt_exporter_close(CLT_TAKE(l->gauges.exporter));
}

clt_status clt_gauges_explain(clt_loop *l, clt_status status)
{
    clt_monitor_facts facts;
    clt_error error;
    clt_error_take(status, &error);
    clt_gauges_finish(l); /* the driver reports the error a moment after the device is gone */
    (void)clt_error_put(&error);
    const bool recent = l->gauges.xid > 0 && clt_now() - l->gauges.xid_at <= XID_SECONDS;
    if (status == CLT_EDEVLOST && recent && clt_monitor_facts_of(l->gauges.monitor, &facts))
        return clt_fail_prefix(status, "NVIDIA's driver reports Xid %d of the device at %s", l->gauges.xid,
                               facts.pci);
    return status;
}

int clt_gauges_fields(const clt_loop *l, clt_event_field fields[CLT_GAUGES_FIELDS])
{
    clt_monitor_span s[CLT_MONITOR_COUNT];
    int n = 0;
    if (!clt_monitor_spans(l->gauges.monitor, s))
        return 0;
    const double energy = energy_of_run(l);
    const struct {
        const char *key;
        double value;
    } all[CLT_GAUGES_FIELDS] = {
        {"utilization", s[CLT_MONITOR_UTILIZATION].mean},
        {"utilization_least", s[CLT_MONITOR_UTILIZATION].least},
        {"utilization_most", s[CLT_MONITOR_UTILIZATION].most},
        {"power_w", s[CLT_MONITOR_POWER].mean},
        {"power_w_least", s[CLT_MONITOR_POWER].least},
        {"power_w_most", s[CLT_MONITOR_POWER].most},
        {"temperature_c_most", s[CLT_MONITOR_TEMPERATURE].most},
        {"memory_used_most", s[CLT_MONITOR_MEMORY_USED].most},
        {"throttled", s[CLT_MONITOR_THROTTLED].mean},
        {"energy_j", energy > 0 ? energy : NAN},
    };
    for (int i = 0; i < CLT_GAUGES_FIELDS; i++)
        if (!isnan(all[i].value))
            fields[n++] = (clt_event_field)CLT_FIELD_NUMBER(all[i].key, all[i].value);
    return n;
}

double clt_gauges_utilization(const clt_loop *l)
{
    clt_monitor_span s[CLT_MONITOR_COUNT];
    return clt_monitor_spans(l->gauges.monitor, s) ? s[CLT_MONITOR_UTILIZATION].mean : NAN;
}

static void add_words(clt_str *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_words(clt_str *line, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clt_str_printf(line, "%s%s", line->length ? ", " : "device: ", text);
}

/* "device: 87 % used (3 to 99), 312 W (at most 350), at most 71 C, 1.234 kWh" */
void clt_gauges_tell(const clt_loop *l)
{
    clt_monitor_span s[CLT_MONITOR_COUNT];
    CLT_SCOPED(clt_str) line = {0};
    char text[CLT_MONEY_TEXT];
    const clt_config *config = l->options->config;
    const double energy = energy_of_run(l), price = clt_config_float(config, "cost.per_kwh");
    if (!l->reports || !clt_monitor_spans(l->gauges.monitor, s))
        return;
    const clt_monitor_span *used = &s[CLT_MONITOR_UTILIZATION], *power = &s[CLT_MONITOR_POWER];
    if (used->samples)
        add_words(&line, "%.0f %% used (%.0f to %.0f)", 100 * used->mean, 100 * used->least,
                  100 * used->most);
    if (power->samples)
        add_words(&line, "%.0f W (at most %.0f)", power->mean, power->most);
    if (s[CLT_MONITOR_TEMPERATURE].samples)
        add_words(&line, "at most %.0f C", s[CLT_MONITOR_TEMPERATURE].most);
    if (s[CLT_MONITOR_THROTTLED].mean > 0)
        add_words(&line, "slowed down %.1f %% of the time", 100 * s[CLT_MONITOR_THROTTLED].mean);
    if (energy > 0)
        add_words(&line, "%.4g kWh", energy / JOULES_PER_KWH);
    if (energy > 0 && price > 0)
        clt_str_printf(&line, " for %s",
                       clt_money_text(energy / JOULES_PER_KWH * price,
                                      clt_config_string(config, "cost.currency"), text));
    if (line.length && clt_str_check(&line) == CLT_OK)
        clt_tell(l, line.text);
}
