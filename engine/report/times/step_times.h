/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of one step on the device, from the recorded spans: how long the compute queue was busy, where it
 * was idle, how fast transfers ran. Pure arithmetic on spans in the order in which they were enqueued; knows
 * neither devices nor files. */
#ifndef ENGINE_REPORT_TIMES_STEP_TIMES_H
#define ENGINE_REPORT_TIMES_STEP_TIMES_H

#include "cl/command/record.h"
#include "engine/plan/plan.h"

/* The cause for which the compute queue was idle. */
typedef enum clt_idle_kind {
    CLT_IDLE_INPUT, /* idle before the copy of a micro-batch: no data, or the host was late */
    CLT_IDLE_COMM,  /* idle before commands that wait for sums over the ranks */
    CLT_IDLE_HOST,  /* idle between other commands */
    CLT_IDLE_COUNT
} clt_idle_kind;

typedef struct clt_step_times {
    double busy_ns, idle_ns[CLT_IDLE_COUNT];
    double h2d_ns, h2d_bytes, d2h_ns, d2h_bytes; /* transfers of both queues */
    /* begin and end of the step on the compute queue; 0: none yet */
    uint64_t begin_ns, end_ns;
    bool unknown; /* the times of a command are missing */
    /* The open stretch: successive commands of a phase; perhaps only its first and its last are measured. */
    bool in_stretch;
    uint64_t stretch_from;
    double stretch_busy;
} clt_step_times;

/* For each phase, the busy fraction of its stretches in the newest step in which every command was measured;
 * 1 before there is such a step. */
typedef struct clt_phase_fill {
    double share[CLT_PHASE_COUNT];
} clt_phase_fill;
void clt_phase_fill_init(clt_phase_fill *fill);

/* begin_ns: end of the previous step on the device's clock; 0: the step begins with its first command. */
void clt_step_times_begin(clt_step_times *times, uint64_t begin_ns);
/* phase: the phase of a COMMAND span; ignored for others. Returns the idle time right before this command; 0
 * where it is not known, inside a stretch for which only the ends were measured. */
double clt_step_times_add(clt_step_times *times, clt_phase_fill *fill, const ocl_span *span, clt_phase phase);

double clt_step_times_ns(const clt_step_times *times); /* duration of the step */
/* busy: fraction of the step. h2d, d2h: GB/s while transfers ran, not averaged over the step. NAN
 * if unknown. */
double clt_step_times_busy(const clt_step_times *times);
double clt_step_times_h2d(const clt_step_times *times);
double clt_step_times_d2h(const clt_step_times *times);

#endif
