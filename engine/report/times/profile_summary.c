/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums up a profile in three lines, for users who do not want to read tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/report/times/profile.h"

#define BUSIEST 3
#define LOW_ROOF 40.0  /* percent of the roofline: slower matrix products may gain from other tiles */
#define IDLE_SHARE 0.1 /* fraction of the step from which on idle time is mentioned */

static bool is_kernel(const clt_profile_row *row)
{
    return strcmp(row->first->phase, "transfers") != 0;
}

static void busiest(const clt_profile_row *rows, size_t n, double total, char line[CLT_SUMMARY_SIZE])
{
    char layers[128];
    int used = snprintf(line, CLT_SUMMARY_SIZE, "busiest: ");
    int shown = 0;
    for (size_t i = 0; i < n && shown < BUSIEST && used < CLT_SUMMARY_SIZE; i++) {
        if (!is_kernel(&rows[i]))
            continue;
        clt_profile_layers(&rows[i], layers, sizeof layers);
        used += snprintf(line + used, CLT_SUMMARY_SIZE - (size_t)used, "%s%s %.0f %%%s%s%s",
                         shown++ ? ", " : "", rows[i].first->kernel, total > 0 ? 100 * rows[i].ns / total : 0,
                         layers[0] ? " (" : "", layers, layers[0] ? ")" : "");
    }
    if (shown == 0)
        snprintf(line, CLT_SUMMARY_SIZE, "busiest: nothing was measured");
}

static double share(const clt_profile *p, double ns)
{
    return p->step_ns > 0 ? ns / p->step_ns : 0;
}

static void device(const clt_profile *p, char line[CLT_SUMMARY_SIZE])
{
    double steps = p->steps > 0 ? (double)p->steps : 1;
    snprintf(
        line, CLT_SUMMARY_SIZE,
        "device: busy %.0f %% of a step of %.3g ms; idle %.0f %% waiting for data, %.0f %% for other ranks, "
        "%.0f %% between commands",
        100 * share(p, p->busy_ns), p->step_ns * 1e-6 / steps, 100 * share(p, p->idle_ns[CLT_IDLE_INPUT]),
        100 * share(p, p->idle_ns[CLT_IDLE_COMM]), 100 * share(p, p->idle_ns[CLT_IDLE_HOST]));
}

static const char *idle_advice(const clt_profile *p)
{
    double input = p->idle_ns[CLT_IDLE_INPUT], comm = p->idle_ns[CLT_IDLE_COMM],
           host = p->idle_ns[CLT_IDLE_HOST];
    if (!(share(p, input + comm + host) >= IDLE_SHARE))
        return NULL;
    if (comm >= input && comm >= host)
        return "the device waits for the other ranks: more samples a step (data.global_batch), or "
               "parallel.gradients=bf16";
    return "the device waits for the host: more work a command (data.micro_batch), or more loader threads "
           "(data.workers)";
}

/* True for a matrix product that is far below the roofline. */
static bool is_slow_product(const clt_profile *p, const clt_profile_row *row)
{
    bool memory;
    double percent =
        clt_roofline_percent(p->have_limits ? &p->limits : NULL, row->flops, row->bytes, row->ns, &memory);
    return strncmp(row->first->kernel, "gemm", 4) == 0 && percent < LOW_ROOF;
}

static void change(const clt_profile *p, const clt_profile_row *row, const char *advice,
                   char line[CLT_SUMMARY_SIZE])
{
    static const char prefix[] = "advice: ";
    const char *text = idle_advice(p);
    bool f32 = !p->plan || !p->plan->store || p->plan->store->working == CLT_F32;
    if (strncmp(advice, prefix, sizeof prefix - 1) == 0)
        text = advice + sizeof prefix - 1;
    else if (!text && p->plan && f32 &&
             (ocl_has_unit(&p->plan->device, CLT_BF16) || ocl_has_unit(&p->plan->device, CLT_F16)))
        text = "the device's matrix units are idle: precision.mode=auto uses them";
    else if (!text && row && is_slow_product(p, row))
        text = "the busiest kernel is a matrix product far below what the device can do: 'cltrain tune "
               "CONFIG' looks for a faster variant";
    snprintf(line, CLT_SUMMARY_SIZE, "change: %s",
             text ? text : "nothing stands out; the device is busy, and profile.txt has the details");
}

clt_status clt_profile_summary(const clt_profile *p, const char *advice,
                               char lines[CLT_SUMMARY_LINES][CLT_SUMMARY_SIZE])
{
    CLT_FREED clt_profile_row *rows = NULL;
    size_t n;
    double total = 0;
    CLT_TRY(clt_profile_group(p, &rows, &n));
    for (size_t i = 0; i < n; i++)
        total += rows[i].ns;
    busiest(rows, n, total, lines[0]);
    device(p, lines[1]);
    change(p, n > 0 && is_kernel(&rows[0]) ? &rows[0] : NULL, advice, lines[2]);
    return CLT_OK;
}
