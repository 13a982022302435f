/* SPDX-License-Identifier: Apache-2.0
 *
 * A search for good values of config keys: a file, sweep.json, says which keys take which values. Each
 * combination is a trial, which is trained in its own run folder. The list of trials is a pure function of
 * sweep.json and its config, so every worker computes the same one. */
#ifndef ENGINE_SWEEP_SWEEP_H
#define ENGINE_SWEEP_SWEEP_H

#include <stdatomic.h>

#include "engine/base/mem.h"
#include "engine/config/config.h"
#include "engine/files/fileio.h"
#include "engine/report/read/run_facts.h"

#define CLT_SWEEP_TRIALS 1000 /* most trials */
#define CLT_SWEEP_KEYS 12     /* most keys that vary */
#define CLT_SWEEP_RUNGS 32    /* most rungs of successive halving */

typedef enum clt_sweep_method {
    CLT_SWEEP_GRID,   /* every combination of the keys' values */
    CLT_SWEEP_RANDOM, /* combinations drawn at random */
    CLT_SWEEP_HALVING /* drawn at random and trained a little; the best of them are trained further */
} clt_sweep_method;

/* A key that varies. It has either a list of values, or a range from which each trial draws a number. */
typedef struct clt_sweep_key {
    const char *path;    /* "optimizer.learning_rate" */
    const char **values; /* JSON texts; NULL: a range */
    int count;
    double from, to; /* the range, both ends included */
    bool log;        /* the logarithm of the number is drawn uniformly */
    bool whole;      /* the number is an integer */
} clt_sweep_key;

typedef struct clt_sweep {
    clt_arena *arena; /* holds everything below except `config` */
    clt_config *config;
    const char *text;   /* sweep.json as it was read */
    const char *source; /* path of sweep.json, for messages */
    const char *config_path;
    const char *init; /* absolute path of the weights that every trial starts from (train --init), or NULL */
    clt_sweep_method method;
    clt_fact metric; /* the figure that is compared: a column of clt_fact_columns */
    bool more;       /* a greater number of `metric` is better */
    uint64_t seed;
    clt_sweep_key keys[CLT_SWEEP_KEYS];
    int key_count;
    const char **fixed; /* "key=value" of the member "set" */
    int fixed_count;
    int trials;
    const char **values; /* JSON texts; the value of key k of trial t is at [t * key_count + k] */
    int keep;            /* halving: one of `keep` trials is trained further */
    int64_t first_steps; /* halving: steps of the first rung */
    /* A rung trains trials up to a number of steps. Without halving there is one rung, which has no
     * limit. */
    int rungs;
    int rung_trials[CLT_SWEEP_RUNGS];    /* number of trials of each rung */
    int64_t rung_steps[CLT_SWEEP_RUNGS]; /* last step of each rung; 0: the end of the training */
} clt_sweep;

/* Reads a sweep: `path` is a sweep.json or the folder of a sweep. init: the weights that every trial starts
 * from, as for train --init, or NULL; a folder knows its own. The config of every trial is checked.
 * CLT_ECONFIG names the file, the place and what is wrong there, also if a file cannot be read; CLT_EUSAGE:
 * the folder is not a sweep's. */
clt_status clt_sweep_load(const char *path, const char *init, clt_sweep **out);
/* Reads the sweep of a folder for showing it: the weights are not opened, and the trials' configs are not
 * checked. */
clt_status clt_sweep_open(const char *folder, clt_sweep **out);
void clt_sweep_free(clt_sweep *sweep);
CLT_SCOPED_POINTER(clt_sweep, clt_sweep_free)

/* Name of a trial and of its run folder: "trial-03" for trial 2. */
#define CLT_SWEEP_NAME 32
const char *clt_sweep_trial_name(const clt_sweep *sweep, int trial, char name[CLT_SWEEP_NAME]);
/* The value of key `key` of a trial as people write it: a string without its quotes. */
const char *clt_sweep_shown(const clt_sweep *sweep, int trial, int key, clt_str *out);

/* A number of the sweep's metric for people, such as "0.01234"; "-": unknown. Returns text. */
const char *clt_sweep_metric_text(const clt_sweep *sweep, double value, char text[CLT_CELL_TEXT]);

/* --- the folder --- */

/* The state of a trial, as far as known. */
typedef enum clt_trial_state {
    CLT_TRIAL_WAITING, /* it waits for a worker: it was not trained yet, or was interrupted */
    CLT_TRIAL_RUNNING, /* a worker has taken it */
    CLT_TRIAL_DONE,
    CLT_TRIAL_FAILED, /* it has failed and is not retried */
    CLT_TRIAL_LEFT    /* halving: it was worse than others after a rung, and is not trained further */
} clt_trial_state;
const char *clt_trial_state_text(clt_trial_state state);

/* The result of a trial in a rung. */
typedef struct clt_trial_result {
    bool done;
    int rung;
    double value;         /* the metric; NAN: unknown */
    int64_t steps;        /* steps made so far */
    double seconds, cost; /* NAN: unknown */
} clt_trial_result;

typedef struct clt_trial {
    clt_trial_state state;
    clt_trial_result result; /* its result in the newest rung in which it has one */
    char note[512];          /* why it failed, or who trains it; "": nothing */
} clt_trial;

/* The states and results of all trials, as far as known. */
typedef struct clt_sweep_table {
    const clt_sweep *sweep;
    clt_trial *trials; /* trials by number */
    int *order;   /* numbers of trials, the best one first; then those without a result, and failed ones */
    int best;     /* number of the best trial; -1: no trial has a result */
    int rung;     /* the rung that is trained now, or the last one */
    int *members; /* numbers of the trials in this rung */
    int member_count;
    int unsettled; /* how many of these are neither done nor failed */
} clt_sweep_table;
clt_status clt_sweep_table_make(const clt_sweep *sweep, clt_sweep_table *out);
/* Reads the records that are new since the last call. CLT_EDATA: a record in the folder is damaged. */
clt_status clt_sweep_table_read(clt_sweep_table *table, const char *folder);
/* Finds out which trials are being trained now. */
clt_status clt_sweep_table_look(clt_sweep_table *table, const char *folder);
void clt_sweep_table_free(clt_sweep_table *table);
CLT_SCOPED_VALUE(clt_sweep_table, clt_sweep_table_free)
/* True if the cost of any trial is known. */
bool clt_sweep_has_cost(const clt_sweep_table *table);
/* A row for people: trial, the values of the keys, steps, metric, time, cost if any trial has one, state. */
#define CLT_SWEEP_CELLS (CLT_SWEEP_KEYS + 6)
typedef struct clt_sweep_cells {
    const char *cell[CLT_SWEEP_CELLS];
    int count;
    char name[CLT_SWEEP_NAME], figures[4][CLT_CELL_TEXT];
    clt_str keys[CLT_SWEEP_KEYS];
} clt_sweep_cells;
/* trial -1: the heads of the columns. The cells point into *out and into the table. */
void clt_sweep_row(const clt_sweep_table *table, int trial, clt_sweep_cells *out);
void clt_sweep_cells_free(clt_sweep_cells *cells);
CLT_SCOPED_VALUE(clt_sweep_cells, clt_sweep_cells_free)
/* The table as a JSON object. */
clt_status clt_sweep_table_write(const clt_sweep_table *table, const char *folder, clt_json_writer *w);

/* True if the path is the folder of a sweep. */
bool clt_sweep_is_folder(const char *path);
/* Appends the run folders that paths name, at most `most` of them: a folder of a sweep stands for its trials
 * that have a result, the best one first. If `most` is too small for all trials, the sweeps share equally
 * what the other paths leave. CLT_EUSAGE: there are more than `most`, or a sweep has no result yet. */
clt_status clt_sweep_runs(const char *const *paths, int count, int most, clt_file_list *out);

/* --- a worker --- */

typedef struct clt_sweep_options {
    const char *folder;
    int workers;                /* number of trainings at a time */
    const char *const *devices; /* given to the trainings in turn; NULL: the config's */
    int device_count;
    double lease_seconds; /* a worker of another machine that was silent for this time loses its trials */
    double grace_seconds; /* a training that was told to end is killed after this time plus the time that it
                           * may wait for its uploads and hooks (checkpoint.upload_seconds, hooks.seconds) */
    bool again;           /* retry trials that have failed */
    double budget, hours; /* limits on the cost and on the hours of all trials together; 0: none */
    const atomic_int *stop;
    void (*tell)(void *context, const char *line); /* reports progress, one line at a time */
    void *context;
} clt_sweep_options;

/* CLT_ECONFIG: a budget cannot be kept, or the metric is a cost, and the trials have no price. */
clt_status clt_sweep_check_price(const clt_sweep *sweep, const clt_sweep_options *options);
/* Makes the folder, or checks that it holds this very sweep, and trains trials until all are done, alone or
 * beside other workers. CLT_EINTERRUPTED: *stop was set, or a training was interrupted, as by a notice of
 * the cloud, or the budget or the hours are spent; it can be called again. CLT_ECONFIG: the folder holds
 * another sweep, the budget or the hours were spent before a training could begin, the environment is wrong,
 * or a complete trial has no metric. CLT_EDATA, CLT_EDEVICE, CLT_EDEVLOST, CLT_ESTORAGE: this machine cannot
 * train. */
clt_status clt_sweep_work(const clt_sweep *sweep, const clt_sweep_options *options);

#endif
