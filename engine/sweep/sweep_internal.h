/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this room; no other room includes it. */
#ifndef ENGINE_SWEEP_SWEEP_INTERNAL_H
#define ENGINE_SWEEP_SWEEP_INTERNAL_H

#include "engine/sweep/sweep.h"

/* sweep_points.c: the values of a range written as from, to and step or count, as JSON texts in `values`.
 * CLT_ECONFIG: there are too many; the caller says where. */
typedef struct clt_sweep_range {
    double from, to;
    double step;   /* 0: not given */
    int64_t count; /* 0: not given */
    bool log, whole;
} clt_sweep_range;
clt_status clt_sweep_points(clt_arena *arena, const clt_sweep_range *range, const char ***values, int *count);
/* The number of a range for 0 <= share < 1, as JSON text. */
char *clt_sweep_point(clt_arena *arena, const clt_sweep_key *key, double share);

/* sweep_trials.c: fills in trials, values and rungs. `trials`: their number in sweep.json. total: steps of
 * the whole training. */
clt_status clt_sweep_make_trials(clt_sweep *sweep, int64_t trials, int64_t total);
/* Writes the member "keys": an object with the trial's values. */
clt_status clt_sweep_write_keys(const clt_sweep *sweep, int trial, clt_json_writer *w);
/* Sorts `count` numbers of trials by their results, the best one first: by the rung, then by the metric.
 * Trials that have failed are the last, whatever they had reached. */
void clt_sweep_rank(const clt_sweep *sweep, const clt_trial *trials, int *order, int count);
/* Reduces `members` to the trials of `rung`, in the order of their numbers; returns how many there are.
 * `members` has `count` numbers of trials, which have all been trained in the rung before or have failed. */
int clt_sweep_survivors(const clt_sweep *sweep, int rung, const clt_trial *trials, int *members, int count);

/* sweep_folder.c: paths and records. */
/* "FOLDER/done/trial-03-0.json" for kind "done", trial 2, rung 0 and end ".json". */
clt_status clt_sweep_record_path(const clt_sweep *sweep, const char *folder, const char *kind, int trial,
                                 int rung, const char *end, char **out);
/* Makes the folder, or checks that it holds this sweep. CLT_ECONFIG: it holds another one. */
clt_status clt_sweep_prepare(const clt_sweep *sweep, const char *folder);
/* The weights that the trials of the sweep in a folder start from, in the arena; NULL: there are none. */
clt_status clt_sweep_init_of(const char *folder, clt_arena *arena, const char **out);
clt_status clt_sweep_read_result(const clt_sweep *sweep, const char *folder, int trial, int rung,
                                 clt_trial_result *out);
/* Writes the result, unless there is one. */
clt_status clt_sweep_write_result(const clt_sweep *sweep, const char *folder, int trial, int rung,
                                  const clt_trial_result *result, bool *created);

/* With --again: forgets that trials have failed for good. In halving only for the newest rung that any trial
 * has reached, because the earlier rungs have decided already which trials continue. CLT_EUSAGE: a worker
 * trains a trial of that rung. */
clt_status clt_sweep_forget_failures(const clt_sweep *sweep, const char *folder);

/* sweep_start.c: the command line of a training, as words that end with NULL. The arena holds the texts made
 * for them. */
typedef struct clt_sweep_command {
    clt_arena *arena;
    const char *program;
    const char *words[CLT_SWEEP_KEYS + 16];
    int count;
    bool failed; /* there was no memory for a word */
} clt_sweep_command;
/* Fills in the words; arena and program are set. device NULL: the config's. */
clt_status clt_sweep_make_command(const clt_sweep *sweep, int trial, int rung, const char *config,
                                  const char *run, const char *device, clt_sweep_command *out);
/* The address below which the trial's checkpoints are uploaded, under the trial's name; "": none. */
const char *clt_sweep_upload(const clt_sweep *sweep, int trial, clt_str *shown);
/* The seconds that the end of the trial's training may take for its uploads (checkpoint.upload_seconds) and
 * its hooks (hooks.seconds); INFINITY: as long as its uploads take. */
double clt_sweep_end_seconds(const clt_sweep *sweep, int trial);
/* Makes the checks of this machine that do not depend on a trial: CLT_ECONFIG for variables of the
 * environment, CLT_EDATA for data that is not here. *unchecked: why the data was not checked; NULL: it
 * was. */
clt_status clt_sweep_check_machine(const clt_sweep *sweep, const char **unchecked);

/* sweep_budget.c: what the trials have cost so far, by their run folders. All zeros: nothing is known. */
typedef struct clt_sweep_spending {
    struct clt_trial_spending *trials; /* spending by number of the trial */
    double cost, hours;
    double startup_s, startup_cost; /* of the shortest and of the cheapest start-up of a trial; 0: unknown */
} clt_sweep_spending;
clt_status clt_sweep_spending_make(const clt_sweep *sweep, clt_sweep_spending *out);
void clt_sweep_spending_free(clt_sweep_spending *spending);
CLT_SCOPED_VALUE(clt_sweep_spending, clt_sweep_spending_free)
/* Reads what has changed since the last call. A run that cannot be read has cost nothing. */
clt_status clt_sweep_spending_read(const clt_sweep *sweep, const char *folder, clt_sweep_spending *spending);
/* Fails with `code`, and a text that says so, if the budget or the hours of the options are spent. */
clt_status clt_sweep_check_budget(const clt_sweep_options *options, const clt_sweep_spending *spending,
                                  clt_status code);
/* Fails with `code`, and a text that says so, if the start-up of a trial would use up the rest of the budget
 * or of the hours. */
clt_status clt_sweep_check_start_affordable(const clt_sweep_options *options,
                                            const clt_sweep_spending *spending, clt_status code);

/* Trainings of a trial in a rung that failed. */
typedef struct clt_trial_failures {
    int failed, killed; /* by themselves; by SIGKILL, which says nothing about the trial */
    bool given_up;
    char reason[512]; /* reason of the newest failure */
} clt_trial_failures;
clt_status clt_sweep_read_failures(const clt_sweep *sweep, const char *folder, int trial, int rung,
                                   clt_trial_failures *out);
clt_status clt_sweep_write_failures(const clt_sweep *sweep, const char *folder, int trial, int rung,
                                    const clt_trial_failures *failures);

#endif
