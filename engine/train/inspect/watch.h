/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch: follows a run's steps on the device without waiting for them. It fills the times of each step's
 * metrics, adds up the profile, keeps the trace's window, and gives advice at the end. Transfers and the ends
 * of phases are recorded in every step, every command in a few of them, or in all when profiling. Without
 * time stamps it knows nothing, and what it would tell is NAN. */
#ifndef ENGINE_TRAIN_WATCH_H
#define ENGINE_TRAIN_WATCH_H

#include "engine/report/profile.h"
#include "engine/train/run/run.h"

#define CLT_WATCH_EVERY 50      /* steps between two whose every command is measured, when not profiling */
#define CLT_WATCH_METER_EVERY 8 /* steps between two whose OpenCL calls are metered, when profiling */
#define CLT_WATCH_TRACE_STEPS 8 /* at most, and fewer when a step has many commands */
#define CLT_WATCH_TRACE_SLICES 60000

typedef struct clt_watch_options {
    bool profile;       /* CLT_EUNSUPPORTED without time stamps */
    bool trace;         /* with profile */
    int64_t trace_from; /* first step of the window, from 0; < 0: the fourth of the run */
    int64_t first_step, last_step;
    int depth; /* steps in flight */
} clt_watch_options;

typedef struct clt_watch clt_watch;
/* Before the feed and the saver are made: they report to run->train->spans. */
clt_status clt_watch_create(clt_run *run, const clt_watch_options *options, clt_watch **out);
/* Destroys the run's feed, whose threads report here; before the run, after the saver. */
void clt_watch_destroy(clt_watch *watch);
/* With no step in flight: measure every command from now on, or a few; meter the OpenCL calls of one step in
 * so many (2 or more: those between are needed for comparison), 0: of none. */
void clt_watch_mode(clt_watch *watch, bool every_command, int meter_every);
/* Around clt_step. */
void clt_watch_begin(clt_watch *watch, int64_t step);
void clt_watch_end(clt_watch *watch, int64_t step);
/* Something else came between two steps, all steps being digested: the next one's window begins with its own
 * first command. pause: what runs until then belongs to no step. */
void clt_watch_break(clt_watch *watch, bool pause);
/* Step `step` has ended: fills device_busy, h2d_gbs, d2h_gbs and, with several ranks, comm_exposed_ms;
 * reads data_ms. */
void clt_watch_digest(clt_watch *watch, int64_t step, clt_step_metrics *metrics);

/* --- at the end --- */
/* Measures the device's limits for the profile, in about a second; that they are missing is no failure. */
void clt_watch_measure_limits(clt_watch *watch);
const clt_profile *clt_watch_profile(clt_watch *watch); /* NULL: not profiling */
/* Means over the steps whose busy share is known; NAN: none. */
double clt_watch_busy(const clt_watch *watch);
/* ms of CPU time of the main thread per step, in and outside of OpenCL calls, and their number; false: no
 * step was metered. */
bool clt_watch_host(const clt_watch *watch, double *inside_ms, double *outside_ms, double *calls);
/* The steps of the trace, from 0; false: there is none. */
bool clt_watch_trace_window(const clt_watch *watch, int64_t *first, int64_t *last);
clt_status clt_watch_trace(clt_watch *watch, clt_str *out);
/* "" when there is nothing to say. */
void clt_watch_advice(clt_watch *watch, char *text, size_t size);

#endif
