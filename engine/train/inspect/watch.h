/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: measures a run's steps on the device without waiting for them. It fills in the times of each
 * step's metrics, collects the profile and the trace, and gives advice at the end. Transfers and the ends of
 * phases are recorded in every step; all commands are recorded in a few steps, or in every step when
 * profiling. If the driver gives no time stamps, all figures are NAN. */
#ifndef ENGINE_TRAIN_INSPECT_WATCH_H
#define ENGINE_TRAIN_INSPECT_WATCH_H

#include "engine/report/times/profile.h"
#include "engine/train/run/run.h"

#define CLT_WATCH_EVERY 50 /* when not profiling, one step in 50 has all its commands recorded */
#define CLT_WATCH_METER_EVERY                                                                                \
    8 /* when profiling, the OpenCL calls of one step in 8 are timed (the step is metered) */
#define CLT_WATCH_TRACE_STEPS 8 /* most steps of a trace; fewer when a step has many commands */
#define CLT_WATCH_TRACE_SLICES 60000

typedef struct clt_watch_options {
    bool profile;       /* CLT_EUNSUPPORTED if the device gives no time stamps */
    bool trace;         /* only with profile */
    int64_t trace_from; /* first step of the trace, from 0; < 0: the run's fourth */
    int64_t first_step, last_step;
    int depth;   /* steps in flight */
    int workers; /* threads of the feed, for the spans of a trace */
} clt_watch_options;

typedef struct clt_watch clt_watch;
/* To be created before the feed and the saver, which write into run->train->spans. */
clt_status clt_watch_create(clt_run *run, const clt_watch_options *options, clt_watch **out);
/* Also destroys the run's feed, whose threads write into the spans. Call it before destroying the run, after
 * the saver. */
void clt_watch_destroy(clt_watch *watch);
CLT_SCOPED_POINTER(clt_watch, clt_watch_destroy)
/* Changes the mode while no step is in flight. every_command: record all commands of every step, or only of
 * some. meter_every: time the OpenCL calls of one step in `meter_every` (at least 2, since plain steps are
 * needed for comparison); 0: of no step. */
void clt_watch_mode(clt_watch *watch, bool every_command, int meter_every);
/* To be called before and after clt_step. */
void clt_watch_begin(clt_watch *watch, int64_t step);
void clt_watch_end(clt_watch *watch, int64_t step);
/* To be called when other work, such as an evaluation, came between two steps, and all steps have been
 * digested: the time of the next step begins with its own first command. pause: commands from now until the
 * next step belong to no step. */
void clt_watch_break(clt_watch *watch, bool pause);
/* To be called when step `step` has ended: fills in device_busy, h2d_gbs, d2h_gbs and, with several ranks,
 * comm_exposed_ms; reads data_ms. */
void clt_watch_digest(clt_watch *watch, int64_t step, clt_step_metrics *metrics);

/* --- at the end --- */
/* Measures the device's limits for the profile, in about a second. If that fails, the profile lacks them. */
void clt_watch_measure_limits(clt_watch *watch);
const clt_profile *clt_watch_profile(clt_watch *watch); /* NULL: not profiling */
/* Mean over the steps whose busy fraction is known; NAN: there are none. */
double clt_watch_busy(const clt_watch *watch);
/* Per step: the main thread's CPU time in ms within and outside of OpenCL calls, and the number of calls;
 * false: no step was metered. */
bool clt_watch_host(const clt_watch *watch, double *inside_ms, double *outside_ms, double *calls);
/* First and last step of the trace, counted from 0; false: there is no trace. */
bool clt_watch_trace_window(const clt_watch *watch, int64_t *first, int64_t *last);
clt_status clt_watch_trace(clt_watch *watch, clt_str *out);
/* Writes the advice; "" if there is none. utilization: share of the time in which the device was used, as
 * its driver counts, for devices without time stamps; NAN: unknown. */
void clt_watch_advice(clt_watch *watch, double utilization, char *text, size_t size);

#endif
