/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile tables: see profile.h. */
#include "engine/report/profile.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct row {
    const ocl_command_time *time;
    clt_phase phase;
} row;

static int longest_first(const void *a, const void *b)
{
    const ocl_command_time *x = ((const row *)a)->time, *y = ((const row *)b)->time;
    if (x->total_ns != y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    return x > y ? 1 : -1; /* in the order of the plan */
}

/* Commands that ran; the caller frees. */
static clt_status collect(const clt_realized *realized, row **out, size_t *count, double *total_ns)
{
    size_t n;
    const ocl_command_time *times = ocl_exec_times(realized->exec, &n);
    *count = 0;
    *total_ns = 0;
    CLT_TRY(clt_alloc(out, n + 1, sizeof **out, "profile"));
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t i = realized->first[p]; i < realized->last[p]; i++) {
            if (times[i].calls == 0)
                continue;
            (*out)[(*count)++] = (row){&times[i], (clt_phase)p};
            *total_ns += (double)times[i].total_ns;
        }
    qsort(*out, *count, sizeof **out, longest_first);
    return CLT_OK;
}

static const char *what(const ocl_command *c)
{
    static const char *const kinds[] = {"", "library", "copy", "fill", "host", "marker"};
    return c->kernel && *c->kernel ? c->kernel : kinds[c->kind];
}

/* Amount per ns is 1e9 per second. */
static double rate(const ocl_command_time *t, double amount)
{
    return t->total_ns ? amount * (double)t->calls / (double)t->total_ns : 0;
}

clt_status clt_profile_text(const clt_realized *realized, int64_t steps, clt_str *out)
{
    row *rows;
    size_t count;
    double total;
    CLT_TRY(collect(realized, &rows, &count, &total));
    clt_str_printf(out, "%" PRId64 " steps on %s, %.3f ms on the device per step\n", steps,
                   realized->plan->device.name, total * 1e-6 / (double)steps);
    clt_str_printf(out, "%6s %10s %6s %8s %9s  %-13s %-28s %-10s %s\n", "share", "ms/step", "calls", "GB/s",
                   "GFLOP/s", "phase", "command", "variant", "kernel");
    for (size_t i = 0; i < count; i++) {
        const ocl_command_time *t = rows[i].time;
        const ocl_command *c = t->command;
        clt_str_printf(out, "%5.1f%% %10.4f %6.1f %8.2f %9.2f  %-13s %-28s %-10s %s\n",
                       total > 0 ? 100 * (double)t->total_ns / total : 0,
                       (double)t->total_ns * 1e-6 / (double)steps, (double)t->calls / (double)steps,
                       rate(t, (double)ocl_command_bytes(c)), rate(t, c->flops),
                       clt_phase_name(rows[i].phase), c->label, c->variant, what(c));
    }
    free(rows);
    return clt_str_check(out);
}

clt_status clt_profile_json(const clt_realized *realized, int64_t steps, clt_json_writer *w)
{
    row *rows;
    size_t count;
    double total;
    CLT_TRY(collect(realized, &rows, &count, &total));
    clt_jw_array(w);
    for (size_t i = 0; i < count; i++) {
        const ocl_command_time *t = rows[i].time;
        clt_jw_object(w);
        clt_jw_kstring(w, "phase", clt_phase_name(rows[i].phase));
        clt_jw_kstring(w, "command", t->command->label);
        clt_jw_kstring(w, "variant", t->command->variant);
        clt_jw_kstring(w, "kernel", what(t->command));
        clt_jw_kdouble(w, "ms", (double)t->total_ns * 1e-6 / (double)steps);
        clt_jw_kdouble(w, "calls", (double)t->calls / (double)steps);
        clt_jw_kdouble(w, "gb_per_s", rate(t, (double)ocl_command_bytes(t->command)));
        clt_jw_kdouble(w, "gflops", rate(t, t->command->flops));
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    free(rows);
    return CLT_OK;
}
