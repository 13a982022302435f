/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run is asked for beside its config, by the command line, the public API or a test, and what comes of
 * it. */
#ifndef ENGINE_TRAIN_RUN_OPTIONS_H
#define ENGINE_TRAIN_RUN_OPTIONS_H

#include <stdatomic.h>

#include "engine/config/config.h"
#include "engine/train/run/observer.h"

struct comm;
struct clt_source;
struct clt_saved_run;

typedef struct clt_run_options {
    const clt_config *config;
    const char *out_dir; /* run folder; NULL: nothing is written */
    const char *resume;  /* train: NULL or "none"; "auto": the newest checkpoint of out_dir if there is one; a
                            folder */
    const char *init;    /* safetensors file with initial parameters, or NULL */
    const struct clt_saved_run *saved; /* eval: an open saved run with its tensors, or NULL */
    bool on_train; /* eval: of the training data; else of the evaluation data, which must be there */
    const char *device_spec; /* NULL: device.spec of the config, else the default device */
    uint32_t caps_mask;      /* OCL_CAPS_ALL */
    const char
        *tuning_from; /* run or checkpoint folder whose tuning choices are kept; NULL: the one resumed from */
    int64_t max_steps; /* 0: no limit; ends the run early, never moves the schedule */
    bool dry_run;      /* plan, estimate and check the data, allocate nothing */
    bool predicts;     /* the evaluation plan's prediction is read after its runs */
    bool profile;
    int64_t trace_from;     /* profile: first step of the trace, from 1; 0: the fourth of the run */
    struct comm *comm;      /* NULL: one rank */
    const atomic_int *stop; /* set by a signal handler, to its number: finish the step, save,
                               CLT_EINTERRUPTED; before the first step: leave no new run folder behind */
    atomic_llong *at_step;  /* receives the number of the step that is being made, from 1; may be NULL */
    struct clt_source
        *source; /* data for training and evaluation instead of the config's, borrowed; NULL: the config's */
    clt_observer observer;
} clt_run_options;

typedef struct clt_run_result {
    int64_t steps, updates, skipped;
    double last_loss, best_eval_loss;
    clt_eval_metrics final_eval; /* samples == 0: there was none */
    double seconds, build_seconds;
    uint64_t device_bytes, parameters;
    char checkpoint[1024]; /* last saved folder, "" if none */
} clt_run_result;

#endif
