/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: everything that is decided before a device allocates anything. It is made from a config, a device
 * description and the number of ranks, and holds data sources, batch sizes, schedule and plans. Apart from
 * opening data files, making a job is a pure function. */
#ifndef ENGINE_TRAIN_JOB_JOB_H
#define ENGINE_TRAIN_JOB_JOB_H

#include "engine/base/scope.h"
#include "engine/config/config.h"
#include "engine/data/facts/data_facts.h"
#include "engine/plan/plan.h"
#include "engine/train/job/schedule.h"

typedef enum clt_job_kind {
    CLT_JOB_TRAIN,
    CLT_JOB_EVAL,   /* evaluation only: the store has only the arenas for that */
    CLT_JOB_DECODE, /* generation: one token per run, no data */
    /* like TRAIN, but never run: text that cannot be read is replaced as in SYNTHETIC */
    CLT_JOB_DESCRIBE,
    /* like TRAIN, but the data is replaced by random bytes of the same shapes (bench step) */
    CLT_JOB_SYNTHETIC
} clt_job_kind;

typedef struct clt_job {
    const clt_config *config; /* borrowed */
    clt_job_kind kind;
    clt_graph *model;     /* the graph before planning: names and shapes of the parameters */
    ocl_device_desc desc; /* set by clt_job_plan */
    clt_source *train_source, *eval_source; /* eval_source NULL: no evaluation data */
    bool borrowed;                          /* the sources belong to the caller */
    /* EVAL: facts about the training data, used instead of it; or NULL */
    const clt_data_facts *facts;
    const clt_data_facts *known; /* see clt_job_data; used until clt_job_open returns */
    bool begins;
    bool on_train;          /* EVAL: evaluate the training data */
    char data_missing[512]; /* DESCRIBE: why the data was replaced, or "" */
    int64_t micro_batch, global_batch, steps;
    int64_t given_global;    /* the global batch that must be kept; 0: it is micro_batch times ranks */
    bool auto_micro;         /* data.micro_batch auto: micro_batch is found when the device is known */
    int64_t recorded_micro;  /* micro_batch of the run that is resumed; 0: unknown */
    int64_t recorded_global; /* global_batch of the run that is resumed; 0: unknown */
    bool told_tf32;          /* it was reported that the device has no tf32 */
    int32_t ranks, rank;     /* number of ranks; rank of this process, to be set before clt_job_plan */
    int32_t accumulation;    /* most micro-batches that a rank computes in a step (clt_job_share) */
    uint64_t seed;
    clt_schedule schedule;
    clt_update_spec update;
    clt_update_order order; /* order of the sums in updates, the same on all ranks */
    clt_recompute recompute;
    bool transient;         /* plans keep no derived tensors, to save memory */
    clt_dtype storage;      /* type of activations: f32, f16 or bf16 */
    float loss_scale;       /* initial value, if update.scaling is on */
    clt_plan *train, *eval; /* eval exists if there is evaluation data, or if only evaluation is wanted */
    int64_t context;        /* DECODE: longest sequence */
    int32_t prediction;     /* tensor of the eval plan's graph: input 0 of the first loss */
    bool predicts;          /* the prediction stays readable after a run */
} clt_job;

/* Data of a job that the config does not describe. Everything is borrowed. */
typedef struct clt_job_data {
    clt_source *source;          /* source for training and evaluation; NULL: the config's */
    const clt_data_facts *facts; /* EVAL: facts about the training data, used instead of it; or NULL */
    /* Facts about the table of the run that is resumed or whose weights are loaded; NULL: `facts`, or they
     * are learned from the data. begins: only weights are loaded, so `known` is used only if the config
     * takes the same columns and target. */
    const clt_data_facts *known;
    bool begins;
    /* EVAL: evaluate the training data; else the evaluation data, which the config must name */
    bool on_train;
    /* The prediction of the evaluation plan can be read after a run. Without this a large prediction is
     * never in memory as a whole. */
    bool predicts;
    /* with data.micro_batch auto: the micro-batch of the run that is resumed, kept if it fits; 0: none */
    int64_t micro_batch;
    int64_t global_batch; /* global batch of the resumed run, kept if the config gives none; 0: unknown */
} clt_job_data;
/* clt_job_open does everything that needs no device: data, batch sizes, schedule, model. Mistakes in them
 * are found here, before a device is opened or a kernel built. */
clt_status clt_job_open(const clt_config *config, const clt_job_data *data, int ranks, clt_job_kind kind,
                        clt_job **out);
/* For data.micro_batch auto, after clt_job_open and before clt_job_plan. find: the recorded micro-batch if
 * this device has memory for it, else the largest that fits, else the smallest that is allowed; without
 * auto, the config's. set: takes the micro-batch found, or a smaller one that ranks have agreed on, and
 * decides steps and schedule again. choose: find and set for one rank; does nothing without auto. */
clt_status clt_job_find_micro_batch(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order,
                                    int64_t *out);
clt_status clt_job_set_micro_batch(clt_job *job, int64_t micro_batch);
clt_status clt_job_choose_micro_batch(clt_job *job, const ocl_device_desc *desc,
                                      const clt_update_order *order);
/* The largest micro-batch below `below` that may be tried; 0: none. */
int64_t clt_job_next_micro_batch(const clt_job *job, int64_t below);
/* To be called once after clt_job_open: makes the plans for a device. order: the order of the update that
 * ranks have agreed on. After a failure the job can only be passed to clt_job_destroy. */
clt_status clt_job_plan(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order);
/* clt_job_open and clt_job_plan in one call, for the data of the config and without an agreement of
 * ranks. */
clt_status clt_job_create(const clt_config *config, const ocl_device_desc *desc, int ranks, clt_job_kind kind,
                          clt_job **out);
void clt_job_destroy(clt_job *job);
CLT_SCOPED_POINTER(clt_job, clt_job_destroy)
/* Limits a device description to what plans and tuning may know. With parallel.rank_invariant all CPUs get
 * the same number of compute units: it decides how sums are cut into pieces, and ranks divide the cores of a
 * CPU. */
void clt_job_view(const clt_config *config, ocl_device_desc *desc);
/* Plans the same job with the same sources again, for a device description with other tuning records or with
 * fewer capabilities and variants. */
clt_status clt_job_replan(clt_job *job, const ocl_device_desc *desc);
/* CLT_EDEVMEM, before anything is allocated, if the plans need more memory than the device can give; the
 * message names the largest part and the largest data.micro_batch that fits. */
clt_status clt_job_check_memory(const clt_job *job);
/* Checks whether the same job with these batch sizes fits into desc.usable_bytes; accumulation follows from
 * them. */
clt_status clt_job_fits(const clt_job *job, int64_t micro_batch, int64_t global_batch, bool *fits);
/* Bytes of activations of the training and evaluation plans with another value of train.recompute. */
clt_status clt_job_activations(const clt_job *job, clt_recompute tier, uint64_t *bytes);
/* The largest micro-batch whose plan fits into desc.usable_bytes. It divides global_batch and leaves every
 * rank a micro-batch; 0: none. */
clt_status clt_job_largest_micro_batch(const clt_job *job, int64_t *out);

/* Number of micro-batches of a step that a rank computes; they are consecutive, from number *first of the
 * step. If they cannot be divided equally, the first ranks compute one more. */
int32_t clt_job_share(const clt_job *job, int rank, int64_t *first);
/* The part of all micro-batches of a step that the job's own rank computes, 0 to 1. */
float clt_job_part(const clt_job *job);
/* job_batch.c, for job.c: sets micro_batch, global_batch and accumulation from the config. CLT_ECONFIG,
 * CLT_ERANKS: the sizes do not divide each other, or do not suit the number of ranks. */
clt_status clt_job_read_batch(clt_job *job);
/* The second half of clt_job_read_batch, for a micro_batch that has changed. */
clt_status clt_job_check_batch(clt_job *job);
/* Number of micro-batches that the rank with the most of them computes in a step. */
int32_t clt_job_max_micro_batches(const clt_job *job);
/* job_targets.c. is_regression: true if there are losses on y, and all of them are regression losses.
 * check_targets: CLT_EDATA if the targets of a source (NULL: none) do not suit the losses. */
bool clt_job_is_regression(const clt_graph *graph);
/* CLT_EDATA if a field of the source holds an index that the graph does not accept; reads the whole field. */
clt_status clt_job_check_indices(const clt_graph *graph, const clt_source *source);
clt_status clt_job_check_targets(const clt_graph *graph, const clt_source *source);
/* Number of ranks that have clt_job_max_micro_batches micro-batches in a step; the others have one fewer. */
int32_t clt_job_ranks_with_max(const clt_job *job);
/* True if a micro-batch of this size divides the given global batch so that every rank has one. */
bool clt_job_allows_micro_batch(const clt_job *job, int64_t micro_batch);
/* The largest micro-batch that is tried if no global batch is given. */
int64_t clt_job_micro_batch_limit(const clt_job *job);
/* job.c, for job_fits.c: sets the job's device and the order of its updates. */
void clt_job_see(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order);
/* job.c, for job_fits.c: make the plan of training, and of evaluation. */
clt_status clt_job_plan_train(clt_job *job);
clt_status clt_job_plan_eval(clt_job *job);
/* job_fits.c, for job.c: makes the plan of training, of evaluation, or both. The plans keep derived tensors
 * (engine/plan/derived.c) if these fit into desc.usable_bytes. */
clt_status clt_job_plan_both(clt_job *job, bool train, bool eval);
/* Adds a micro-batch that would fit to the text of this thread's error, which must be a lack of memory. */
clt_status clt_job_name_what_fits(const clt_job *job);
/* The amount of data that a training reads in all its steps. */
typedef struct clt_job_amount {
    int64_t step_tokens; /* target tokens of a step; 0: the data is not text */
    double tokens,
        passes; /* target tokens of all steps; passes over the training data, 0: that data was not read */
} clt_job_amount;
clt_job_amount clt_job_reads(const clt_job *job);
/* steps: number of steps of a training on `samples` samples. rate_factor: global_batch /
 * optimizer.base_batch, 1 without that key. schedule: its learning rates are multiplied by that factor. */
clt_status clt_job_steps(const clt_config *config, int64_t samples, int64_t global_batch, int64_t *steps);
double clt_job_rate_factor(const clt_config *config, int64_t global_batch);
/* Warns if warm-up or final decay had to be shortened, or if a batch is larger than the data. */
void clt_job_warn_of_length(const clt_job *job);
clt_schedule clt_job_schedule(const clt_config *config, int64_t steps, int64_t global_batch);
/* Trained parameters (neither frozen nor buffers) that decay, and all of them. Needs the training plan. */
typedef struct clt_decay_counts {
    int64_t elements, all_elements;
    int tensors, all_tensors;
} clt_decay_counts;
clt_decay_counts clt_job_decay(const clt_job *job);
/* The config key that makes evaluations during training count by class (eval_metrics.h), for which the
 * evaluation plan keeps the prediction; NULL: they do not count. */
const char *clt_job_class_key(const clt_config *config);
/* The table that the device reads: 4 floats for each of job->steps updates: the learning rate, two
 * corrections of the optimizer, 0. */
void clt_job_table(const clt_job *job, float *table);

/* Builds the graph of the config's model for the fields of a source. */
clt_status clt_job_graph(const clt_config *config, const clt_source *source, int64_t micro_batch,
                         clt_graph **graph, int32_t *prediction);

/* Fails with CLT_ECONFIG: one of two types of inputs is bytes, which data.scale 0 multiplies by `scale`, and
 * the other one is not. what: a word for the message, "evaluating". */
clt_status clt_refuse_scale(const char *what, clt_dtype now, clt_dtype then, double scale);

#endif
