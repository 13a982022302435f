/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a run that are not in its config, set by the command line, the public API or a test; and the
 * result of a run. */
#ifndef ENGINE_TRAIN_JOB_RUN_OPTIONS_H
#define ENGINE_TRAIN_JOB_RUN_OPTIONS_H

#include <stdatomic.h>

#include "engine/config/config.h"
#include "engine/train/job/observer.h"

struct comm;
struct clt_source;
struct clt_saved_run;

typedef struct clt_run_options {
    const clt_config *config;
    bool config_is_saved; /* a saved config may be a stranger's, so its hooks are not started */
    const char *out_dir;  /* run folder; NULL: nothing is written */
    /* train: NULL or "none"; "auto": the newest checkpoint of out_dir if there is one; or a folder */
    const char *resume;
    const char
        *init; /* initial parameters: a path for clt_weights_open, or NULL; not read by a resumed run */
    /* Patterns of names, separated by commas: parameters that `init` does not set, and tensors of it that
     * are not used. "": none; NULL: none, and messages do not suggest any. */
    const char *init_skip;
    const char *adapter;               /* folder of PEFT with adapters for the weights of `init`, or NULL */
    const struct clt_saved_run *saved; /* eval: an open saved run with its tensors, or NULL */
    bool on_train; /* eval: evaluate the training data; else the evaluation data, which must exist */
    const char *device_spec; /* NULL: device.spec of the config, else the default device */
    uint32_t caps_mask;      /* OCL_CAPS_ALL */
    int64_t max_steps;       /* 0: no limit; ends the run early without changing the schedule */
    bool dry_run;            /* plan, estimate and check the data; allocate nothing */
    bool predicts;           /* the prediction of the evaluation plan is read after its runs */
    /* eval: receives counts by class, which the caller frees (NULL: no classes are predicted); NULL: do not
     * count */
    struct clt_class_counts **classes;
    bool profile;
    int64_t trace_from; /* profile: first step of the trace, from 1; 0: the run's fourth */
    struct comm *comm;  /* NULL: one rank */
    /* A signal handler stores its signal's number here: the run then finishes its step, saves and returns
     * CLT_EINTERRUPTED. Before the first step it only removes a new run folder. */
    const atomic_int *stop;
    atomic_llong *at_step; /* receives the number of the step in progress, from 1; may be NULL */
    /* data for training and evaluation instead of the config's, borrowed; NULL: the config's */
    struct clt_source *source;
    clt_observer observer;
} clt_run_options;

typedef struct clt_run_result {
    int64_t steps, updates, skipped;
    double last_loss, best_eval_loss;
    clt_eval_metrics final_eval; /* samples == 0: there was no evaluation */
    bool early;                  /* train.early_stop_evals ended the run before its last step */
    double seconds, build_seconds;
    uint64_t device_bytes, parameters;
    char checkpoint[1024]; /* last saved folder, "" if none */
} clt_run_result;

#endif
