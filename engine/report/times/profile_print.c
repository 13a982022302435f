/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes profiles as text and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/times/memory_peak.h"
#include "engine/report/times/profile.h"

#define GAPS 5     /* how many of the longest idle times are listed */
#define COLUMNS 80 /* width of the table of kernels */
#define INDENT 7   /* indent of the names of layers, below the numbers of their kernel */

static const char *const idle_names[CLT_IDLE_COUNT] = {"input", "communication", "host"};

static double per_step(const clt_profile *p, double ns)
{
    return p->steps > 0 ? ns * 1e-6 / (double)p->steps : 0;
}

static double rate(double amount, double ns)
{
    return ns > 0 ? amount / ns : 0; /* amounts per ns are units of 1e9 per second */
}

static const ocl_limits *limits_of(const clt_profile *p, const clt_profile_entry *e)
{
    return p->have_limits && e->on_device ? &p->limits : NULL;
}

/* --- sums over entries --- */

typedef struct phase_sum {
    const char *name;
    size_t commands;
    double ns, flops, bytes, idle_ns;
} phase_sum;

#define MAX_SUMS (CLT_PHASE_COUNT + 1)

static int sum_phases(const clt_profile *p, phase_sum sums[MAX_SUMS])
{
    int n = 0;
    for (size_t i = 0; i < p->n_entries; i++) {
        const clt_profile_entry *e = &p->entries[i];
        if (e->calls == 0)
            continue;
        if (n == 0 || strcmp(sums[n - 1].name, e->phase) != 0)
            sums[n++] = (phase_sum){.name = e->phase};
        phase_sum *s = &sums[n - 1];
        s->commands++;
        s->ns += e->ns;
        s->flops += e->flops;
        s->bytes += e->bytes;
        s->idle_ns += e->idle_ns;
    }
    return n;
}

static double total_ns(const clt_profile *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_entries; i++)
        sum += p->entries[i].ns;
    return sum;
}

/* The entries with the longest idle times before them. */
static int longest_gaps(const clt_profile *p, const clt_profile_entry *gaps[GAPS])
{
    int n = 0;
    for (size_t i = 0; i < p->n_entries; i++) {
        const clt_profile_entry *e = &p->entries[i];
        int at = n;
        if (!(e->idle_ns > 0))
            continue;
        while (at > 0 && gaps[at - 1]->idle_ns < e->idle_ns)
            at--;
        if (at == GAPS)
            continue;
        int moved = n < GAPS ? n++ : GAPS - 1;
        for (; moved > at; moved--)
            gaps[moved] = gaps[moved - 1];
        gaps[at] = e;
    }
    return n;
}

/* --- text --- */

static void text_head(const clt_profile *p, clt_str *out)
{
    const ocl_device_desc *d = &p->plan->device;
    double idle = 0;
    for (int k = 0; k < CLT_IDLE_COUNT; k++)
        idle += p->idle_ns[k];
    clt_str_printf(out, "profile of %" PRId64 " step%s on %s, driver %s\n", p->steps, CLT_PLURAL(p->steps),
                   d->name, d->driver);
    clt_str_printf(out,
                   "step %.3f ms, compute queue busy %.1f %%, idle %.3f ms (before input %.3f, "
                   "communication %.3f, between commands %.3f)\n",
                   per_step(p, p->step_ns), p->step_ns > 0 ? 100 * p->busy_ns / p->step_ns : 0,
                   per_step(p, idle), per_step(p, p->idle_ns[CLT_IDLE_INPUT]),
                   per_step(p, p->idle_ns[CLT_IDLE_COMM]), per_step(p, p->idle_ns[CLT_IDLE_HOST]));
    clt_str_printf(out, "uploads %.3f MB per step at %.2f GB/s, reads %.3f MB at %.2f GB/s\n",
                   p->steps ? p->h2d_bytes * 1e-6 / (double)p->steps : 0, rate(p->h2d_bytes, p->h2d_ns),
                   p->steps ? p->d2h_bytes * 1e-6 / (double)p->steps : 0, rate(p->d2h_bytes, p->d2h_ns));
    if (p->host_known)
        clt_str_printf(
            out, "main thread per step: %.3f ms of CPU outside OpenCL calls, %.3f ms inside %.0f of them\n",
            p->host_outside_ms, p->host_inside_ms, p->host_calls);
    if (p->have_limits)
        clt_str_printf(out,
                       "limits measured now: %.1f GFLOP/s, %.1f GB/s; %%roof: the speed as a percentage of "
                       "the speed that these allow, above 100 when a cache holds the data\n",
                       p->limits.fma_peak_gflops, p->limits.stream_gbs);
    if (p->lost > 0)
        clt_str_printf(out, "%" PRIu64 " commands were not recorded\n", p->lost);
}

static void text_phases(const clt_profile *p, double total, clt_str *out)
{
    phase_sum sums[MAX_SUMS];
    int n = sum_phases(p, sums);
    clt_str_printf(out, "\n%6s %10s %10s %9s %8s %9s  %s\n", "share", "ms/step", "idle ms", "GFLOP/s", "GB/s",
                   "commands", "phase");
    for (int i = 0; i < n; i++)
        clt_str_printf(out, "%5.1f%% %10.4f %10.4f %9.2f %8.2f %9zu  %s\n",
                       total > 0 ? 100 * sums[i].ns / total : 0, per_step(p, sums[i].ns),
                       per_step(p, sums[i].idle_ns), rate(sums[i].flops, sums[i].ns),
                       rate(sums[i].bytes, sums[i].ns), sums[i].commands, sums[i].name);
}

/* The second line of a kernel; a third one if layers and shape do not fit into COLUMNS. */
static void text_names(const char *variant, const char *layers, const char *shape, clt_str *out)
{
    size_t begin = out->length;
    if (!*variant && !*layers && !*shape)
        return;
    clt_str_printf(out, "%*s%-9s %s", INDENT, "", variant, layers);
    bool fits = out->length - begin + 2 + strlen(shape) <= COLUMNS;
    if (*shape && fits)
        clt_str_printf(out, "%s%s", *layers ? "  " : "", shape);
    else if (*shape)
        clt_str_printf(out, "\n%*s%s", INDENT + 10, "", shape);
    clt_str_append(out, "\n");
}

static void text_row(const clt_profile *p, const clt_profile_row *r, double total, clt_str *out)
{
    bool memory;
    char roof[32] = "-", layers[128];
    double percent = clt_roofline_percent(limits_of(p, r->first), r->flops, r->bytes, r->ns, &memory);
    if (!isnan(percent))
        snprintf(roof, sizeof roof, "%.1f%%%c", percent, memory ? 'm' : 'a');
    clt_str_printf(out, "%5.1f%% %9.4f %6.1f %8.2f %7.2f %8s  %s\n", total > 0 ? 100 * r->ns / total : 0,
                   per_step(p, r->ns), p->steps ? (double)r->calls / (double)p->steps : 0,
                   rate(r->flops, r->ns), rate(r->bytes, r->ns), roof, r->first->kernel);
    text_names(r->first->variant, clt_profile_layers(r, layers, sizeof layers), r->first->shape, out);
}

static clt_status text_kernels(const clt_profile *p, double total, clt_str *out)
{
    CLT_FREED clt_profile_row *rows = NULL;
    size_t n;
    CLT_TRY(clt_profile_group(p, &rows, &n));
    clt_str_printf(out, "\n%6s %9s %6s %8s %7s %8s  %s\n", "share", "ms/step", "calls", "GFLOP/s", "GB/s",
                   "%roof", "kernel");
    text_names("variant", "layer", "shape: written<read", out);
    for (size_t i = 0; i < n; i++)
        text_row(p, &rows[i], total, out);
    clt_str_append(out, "(%roof: m limited by memory, a by arithmetic)\n");
    return CLT_OK;
}

static void text_gaps(const clt_profile *p, clt_str *out)
{
    const clt_profile_entry *gaps[GAPS];
    int n = longest_gaps(p, gaps);
    if (n > 0)
        clt_str_printf(out, "\n%10s  %s\n", "idle ms", "longest idle times per step, before which command");
    for (int i = 0; i < n; i++)
        clt_str_printf(out, "%10.4f  %s: %s (%s)\n", per_step(p, gaps[i]->idle_ns), gaps[i]->phase,
                       gaps[i]->label, gaps[i]->kernel);
}

clt_status clt_profile_text(const clt_profile *p, clt_str *out)
{
    clt_memory_peak peak;
    double total = total_ns(p);
    text_head(p, out);
    text_phases(p, total, out);
    CLT_TRY(text_kernels(p, total, out));
    text_gaps(p, out);
    clt_str_append(out, "\n");
    CLT_TRY(clt_memory_peak_find(p->plan, &peak));
    return clt_memory_peak_text(p->plan, &peak, out);
}

/* --- JSON --- */

static void json_work(const clt_profile *p, const clt_profile_entry *e, const clt_profile_row *r,
                      clt_json_writer *w)
{
    bool memory;
    double percent = clt_roofline_percent(limits_of(p, e), r->flops, r->bytes, r->ns, &memory);
    clt_jw_kstring(w, "kernel", e->kernel);
    clt_jw_kstring(w, "variant", e->variant);
    clt_jw_kstring(w, "shape", e->shape);
    clt_jw_kdouble(w, "ms", per_step(p, r->ns));
    clt_jw_kdouble(w, "calls", p->steps ? (double)r->calls / (double)p->steps : 0);
    clt_jw_kdouble(w, "idle_ms", per_step(p, r->idle_ns));
    clt_jw_kdouble(w, "gb_per_s", rate(r->bytes, r->ns));
    clt_jw_kdouble(w, "gflops", rate(r->flops, r->ns));
    clt_jw_kdouble(w, "roofline_percent", percent); /* NAN is written as null */
    if (!isnan(percent))
        clt_jw_kstring(w, "limited_by", memory ? "memory" : "arithmetic");
}

static clt_status json_kernels(const clt_profile *p, double total, clt_json_writer *w)
{
    CLT_FREED clt_profile_row *rows = NULL;
    size_t n;
    CLT_TRY(clt_profile_group(p, &rows, &n));
    clt_jw_array(w);
    for (size_t i = 0; i < n; i++) {
        clt_jw_object(w);
        json_work(p, rows[i].first, &rows[i], w);
        clt_jw_kdouble(w, "share", total > 0 ? rows[i].ns / total : 0);
        clt_jw_kint(w, "commands", (int64_t)rows[i].commands);
        if (rows[i].first->layer && *rows[i].first->layer) {
            clt_jw_kstring(w, "layer", rows[i].first->layer);
            clt_jw_kint(w, "layers", (int64_t)rows[i].layers);
        }
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    return CLT_OK;
}

static void json_commands(const clt_profile *p, clt_json_writer *w)
{
    clt_jw_array(w);
    for (size_t i = 0; i < p->n_entries; i++) {
        const clt_profile_entry *e = &p->entries[i];
        clt_profile_row one = {.first = e,
                               .calls = e->calls,
                               .ns = e->ns,
                               .flops = e->flops,
                               .bytes = e->bytes,
                               .idle_ns = e->idle_ns};
        if (e->calls == 0)
            continue;
        clt_jw_object(w);
        clt_jw_kstring(w, "phase", e->phase);
        clt_jw_kstring(w, "command", e->label);
        if (e->layer && *e->layer)
            clt_jw_kstring(w, "layer", e->layer);
        json_work(p, e, &one, w);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

static void json_phases(const clt_profile *p, double total, clt_json_writer *w)
{
    phase_sum sums[MAX_SUMS];
    int n = sum_phases(p, sums);
    clt_jw_object(w);
    for (int i = 0; i < n; i++) {
        clt_jw_kobject(w, sums[i].name);
        clt_jw_kdouble(w, "ms", per_step(p, sums[i].ns));
        clt_jw_kdouble(w, "share", total > 0 ? sums[i].ns / total : 0);
        clt_jw_kdouble(w, "idle_ms", per_step(p, sums[i].idle_ns));
        clt_jw_kdouble(w, "gflops", rate(sums[i].flops, sums[i].ns));
        clt_jw_kdouble(w, "gb_per_s", rate(sums[i].bytes, sums[i].ns));
        clt_jw_end_object(w);
    }
    clt_jw_end_object(w);
}

static void json_limits(const clt_profile *p, clt_json_writer *w)
{
    clt_jw_key(w, "limits");
    if (!p->have_limits) {
        clt_jw_null(w);
        return;
    }
    clt_jw_object(w);
    clt_jw_kdouble(w, "fma_peak_gflops", p->limits.fma_peak_gflops);
    clt_jw_kdouble(w, "stream_gbs", p->limits.stream_gbs);
    clt_jw_kdouble(w, "launch_us", p->limits.launch_us);
    clt_jw_end_object(w);
}

static void json_host(const clt_profile *p, clt_json_writer *w)
{
    clt_jw_key(w, "host");
    if (!p->host_known) {
        clt_jw_null(w);
        return;
    }
    clt_jw_object(w);
    clt_jw_kdouble(w, "outside_opencl_ms", p->host_outside_ms);
    clt_jw_kdouble(w, "inside_opencl_ms", p->host_inside_ms);
    clt_jw_kdouble(w, "opencl_calls", p->host_calls);
    clt_jw_end_object(w);
}

static void json_head(const clt_profile *p, clt_json_writer *w)
{
    clt_jw_kstring(w, "device", p->plan->device.name);
    clt_jw_kstring(w, "driver", p->plan->device.driver);
    clt_jw_kint(w, "steps", p->steps);
    clt_jw_kdouble(w, "step_ms", per_step(p, p->step_ns));
    clt_jw_kdouble(w, "device_busy", p->step_ns > 0 ? p->busy_ns / p->step_ns : NAN);
    clt_jw_kdouble(w, "h2d_gbs", p->h2d_ns > 0 ? rate(p->h2d_bytes, p->h2d_ns) : NAN);
    clt_jw_kdouble(w, "d2h_gbs", p->d2h_ns > 0 ? rate(p->d2h_bytes, p->d2h_ns) : NAN);
    clt_jw_kint(w, "not_recorded", (int64_t)p->lost);
    clt_jw_kobject(w, "idle_ms");
    for (int k = 0; k < CLT_IDLE_COUNT; k++)
        clt_jw_kdouble(w, idle_names[k], per_step(p, p->idle_ns[k]));
    clt_jw_end_object(w);
    json_host(p, w);
    json_limits(p, w);
}

clt_status clt_profile_json(const clt_profile *p, clt_json_writer *w)
{
    clt_memory_peak peak;
    double total = total_ns(p);
    CLT_TRY(clt_memory_peak_find(p->plan, &peak));
    clt_jw_object(w);
    json_head(p, w);
    clt_jw_key(w, "phases");
    json_phases(p, total, w);
    clt_jw_key(w, "kernels");
    CLT_TRY(json_kernels(p, total, w));
    clt_jw_key(w, "commands");
    json_commands(p, w);
    clt_jw_key(w, "memory");
    clt_memory_peak_json(p->plan, &peak, w);
    clt_jw_end_object(w);
    return clt_str_check(w->out);
}
