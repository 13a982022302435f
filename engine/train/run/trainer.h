/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer as the command line sees it: run, evaluate, plan, estimate, bench. Everything it has to say
 * goes through the observer; it never prints. */
#ifndef ENGINE_TRAIN_TRAINER_H
#define ENGINE_TRAIN_TRAINER_H

#include <stdatomic.h>

#include "cl/command/exec.h"
#include "engine/config/config.h"
#include "engine/graph/graph.h"

/* One line of metrics.jsonl. Times in ms; NAN where a value is unknown. */
typedef struct clt_step_metrics {
    int64_t step, update, skipped; /* skipped: total so far */
    double loss, grad_norm, lr, loss_scale;
    double accuracy; /* share of hits in this step's targets, NAN if meaningless */
    double step_ms, samples_per_s, tokens_per_s, data_ms, comm_ms, comm_exposed_ms;
    double device_busy;      /* share of the step in which the compute queue ran a command */
    double h2d_gbs, d2h_gbs; /* while a transfer ran, GB/s */
    uint64_t device_bytes;
    uint64_t comm_bytes; /* of gradients and losses that this rank gave to the sums over ranks */
    bool nonfinite;      /* loss or gradients were not finite: the update was skipped */
    double eta_s;
    int64_t steps_total;
    double time; /* when the step was done, in seconds since 1970; 0: now */
} clt_step_metrics;

typedef struct clt_eval_metrics {
    int64_t step;    /* training step it belongs to, -1 for `eval` */
    double loss;     /* mean over counted targets of all losses, weighted */
    double accuracy; /* NAN if meaningless */
    /* Of a language model, NAN otherwise: exp of the mean loss of a token, and the loss of the whole text in
     * bits over its bytes, which compares models of different vocabularies. */
    double perplexity, bits_per_byte;
    bool on_train; /* of the training data */
    int64_t samples, targets;
    int64_t
        available; /* samples that the data has; more than `samples` when train.eval_batches left some out */
    double seconds;
    int n_losses;
    char loss_name[CLT_MAX_LOSSES][64];
    double loss_value[CLT_MAX_LOSSES];
} clt_eval_metrics;

/* The start-up table: label and value per row, in order. */
typedef struct clt_table_row {
    char label[32];
    char value[400];
    bool technical; /* for the log; of no use to most people on a screen */
} clt_table_row;

/* Any member may be NULL. Called on rank 0 only (message: on every rank). */
typedef struct clt_observer {
    void *context;
    /* The start is over but for what takes no time, and the run folder is about to be made: from here on a
     * stop is the trainer's to answer. On every rank. */
    void (*ready)(void *context);
    void (*start)(void *context, const clt_table_row *rows, int count);
    /* Something that may last is under way: `done` of `total` (0: nobody knows) of what `what` names, such as
     * "building kernels" or "building kernels: gemm", whose part after ": " is the piece that comes next. It
     * ends with done == total, with total < 0, or when something else is told. */
    void (*progress)(void *context, const char *what, int64_t done, int64_t total);
    void (*step)(void *context, const clt_step_metrics *metrics);
    void (*eval)(void *context, const clt_eval_metrics *metrics);
    void (*saved)(void *context, int64_t step, const char *path, double seconds);
    void (*message)(void *context, const char *line);
} clt_observer;
/* Tells `progress`, if there is one. */
void clt_progress(const clt_observer *observer, const char *what, int64_t done, int64_t total);

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

/* Perplexity and bits per byte of `nats` summed over `targets` tokens that stand for `bytes` bytes of text
 * (0: unknown); NAN where there is none. */
void clt_eval_language(double nats, double targets, double bytes, clt_eval_metrics *metrics);
clt_status clt_train(const clt_run_options *options, clt_run_result *result);
clt_status clt_evaluate(const clt_run_options *options, clt_eval_metrics *result);

/* bench step: synthetic input of the config's shapes; `json` receives the record DESIGN.md and the README
 * document. */
typedef struct clt_bench_options {
    const clt_config *config;
    const char *device_spec;
    uint32_t caps_mask;
    int warmup, steps;
    bool profile;
    clt_observer observer;
} clt_bench_options;
/* trace (may be NULL, else with profile): receives a trace of the profiled steps. */
clt_status clt_bench_step(const clt_bench_options *options, clt_str *text, clt_str *json, clt_str *trace);

#endif
