/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the times of a step in one pass over its spans. The compute queue runs commands in order, so the
 * time between the end of a command and the start of the next one is idle time. */
#include "engine/report/times/step_times.h"

#include <math.h>
#include <string.h>

void clt_phase_fill_init(clt_phase_fill *fill)
{
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        fill->share[p] = 1.0;
}

void clt_step_times_begin(clt_step_times *t, uint64_t begin_ns)
{
    memset(t, 0, sizeof *t);
    t->begin_ns = t->end_ns = begin_ns;
}

static void add_transfer(clt_step_times *t, const ocl_span *s)
{
    double ns = (double)(s->end_ns - s->start_ns);
    if (s->kind == OCL_SPAN_H2D) {
        t->h2d_ns += ns;
        t->h2d_bytes += (double)s->bytes;
    } else if (s->kind == OCL_SPAN_D2H) {
        t->d2h_ns += ns;
        t->d2h_bytes += (double)s->bytes;
    }
}

/* Writes on the compute queue carry sums from other ranks, because another queue uploads batches. */
static clt_idle_kind idle_before(const ocl_span *s, clt_phase phase)
{
    bool meets = s->kind == OCL_SPAN_H2D;
    meets |= s->kind == OCL_SPAN_COMMAND && (phase == CLT_PHASE_TAKE || (s->flags & OCL_SPAN_AFTER_WAIT));
    return s->kind == OCL_SPAN_COPY ? CLT_IDLE_INPUT : meets ? CLT_IDLE_COMM : CLT_IDLE_HOST;
}

/* Ends a stretch with this command. If every command of the stretch was measured, its busy fraction is kept,
 * to estimate stretches whose ends alone are measured. */
static void close_stretch(clt_step_times *t, clt_phase_fill *fill, const ocl_span *s, clt_phase phase)
{
    double length = (double)(t->end_ns - t->stretch_from);
    t->in_stretch = false;
    if (s->all && length > 0)
        fill->share[phase] = t->stretch_busy / length;
}

double clt_step_times_add(clt_step_times *t, clt_phase_fill *fill, const ocl_span *s, clt_phase phase)
{
    if (s->end_ns == 0) {
        t->unknown = true;
        return 0;
    }
    add_transfer(t, s);
    if (s->queue != OCL_QUEUE_COMPUTE)
        return 0;
    uint64_t start = s->start_ns > t->end_ns ? s->start_ns : t->end_ns;
    uint64_t end = s->end_ns > start ? s->end_ns : start;
    double gap = t->end_ns ? (double)(start - t->end_ns) : 0, ran = (double)(end - start);
    bool inside = t->in_stretch; /* the command belongs to the stretch that is open */
    if (t->begin_ns == 0)
        t->begin_ns = start;
    t->end_ns = end;
    t->busy_ns += ran;
    if (s->kind == OCL_SPAN_COMMAND && (s->flags & OCL_SPAN_OPENS)) {
        t->in_stretch = true;
        inside = false;
        t->stretch_from = start;
        t->stretch_busy = 0;
    }
    t->stretch_busy += ran;
    if (inside && !s->all) { /* only the ends of the stretch were measured: other commands ran in the gap */
        double filled = gap * fill->share[phase];
        t->busy_ns += filled;
        t->idle_ns[CLT_IDLE_HOST] += gap - filled;
    } else {
        t->idle_ns[idle_before(s, phase)] += gap;
    }
    if (s->kind == OCL_SPAN_COMMAND && (s->flags & OCL_SPAN_CLOSES))
        close_stretch(t, fill, s, phase);
    return inside && !s->all ? 0 : gap;
}

double clt_step_times_ns(const clt_step_times *t)
{
    return (double)(t->end_ns - t->begin_ns);
}

double clt_step_times_busy(const clt_step_times *t)
{
    double length = clt_step_times_ns(t);
    if (t->unknown || !(length > 0))
        return NAN;
    return fmin(1.0, t->busy_ns / length);
}

static double rate(const clt_step_times *t, double bytes, double ns)
{
    return !t->unknown && bytes > 0 && ns > 0 ? bytes / ns : NAN; /* bytes per ns equal GB/s */
}

double clt_step_times_h2d(const clt_step_times *t)
{
    return rate(t, t->h2d_bytes, t->h2d_ns);
}

double clt_step_times_d2h(const clt_step_times *t)
{
    return rate(t, t->d2h_bytes, t->d2h_ns);
}
