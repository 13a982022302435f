/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's side of one step, from what the recorder saw: how long the compute queue was busy, where it
 * idled, how fast transfers ran. Pure arithmetic on spans in the order in which they were enqueued; knows
 * neither devices nor files. */
#ifndef ENGINE_REPORT_STEP_TIMES_H
#define ENGINE_REPORT_STEP_TIMES_H

#include "cl/command/record.h"
#include "engine/plan/plan.h"

/* Why the compute queue had nothing to do. */
typedef enum clt_idle_kind {
    CLT_IDLE_INPUT, /* before a micro-batch's copy: no data, or the host had not come so far */
    CLT_IDLE_COMM,  /* before summed gradients come back */
    CLT_IDLE_HOST,  /* between other commands */
    CLT_IDLE_COUNT
} clt_idle_kind;

typedef struct clt_step_times {
    double busy_ns, idle_ns[CLT_IDLE_COUNT];
    double h2d_ns, h2d_bytes, d2h_ns, d2h_bytes; /* either queue */
    uint64_t begin_ns, end_ns;                   /* the step's window on the compute queue; 0: none yet */
    bool unknown;                                /* some command had no times */
    /* the stretch that is open */
    bool in_stretch;
    uint64_t stretch_from;
    double stretch_busy;
} clt_step_times;

/* What part of a phase's stretches kernels fill, from the newest step in which every command was measured;
 * 1 before there is one. */
typedef struct clt_phase_fill {
    double share[CLT_PHASE_COUNT];
} clt_phase_fill;
void clt_phase_fill_init(clt_phase_fill *fill);

/* begin_ns: end of the step before on the device's clock; 0: the window begins with the first command. */
void clt_step_times_begin(clt_step_times *times, uint64_t begin_ns);
/* phase: of a COMMAND span, else ignored. Returns the idle time right before this command, 0 for those whose
 * gap is not known (inside a stretch of which only the ends were measured). */
double clt_step_times_add(clt_step_times *times, clt_phase_fill *fill, const ocl_span *span, clt_phase phase);

double clt_step_times_ns(const clt_step_times *times); /* length of the window */
double clt_step_times_idle(const clt_step_times *times);
/* Each NAN when it is not known. GB/s while transfers ran, not per step. */
double clt_step_times_busy(const clt_step_times *times);
double clt_step_times_h2d(const clt_step_times *times);
double clt_step_times_d2h(const clt_step_times *times);

#endif
