/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: everything that is decided before a device allocates anything. Config + device description + rank
 * count -> data sources, batch identity, schedule, plans. Pure but for opening data files. */
#ifndef ENGINE_TRAIN_JOB_H
#define ENGINE_TRAIN_JOB_H

#include "engine/config/config.h"
#include "engine/data/data_facts.h"
#include "engine/plan/plan.h"
#include "engine/train/run/schedule.h"

typedef enum clt_job_kind {
    CLT_JOB_TRAIN,
    CLT_JOB_EVAL,     /* evaluation only: parameters are in an evaluation-only store */
    CLT_JOB_DECODE,   /* generation: one token a run, no data */
    CLT_JOB_DESCRIBE, /* like TRAIN, never run: text that cannot be read is replaced as in SYNTHETIC */
    CLT_JOB_SYNTHETIC /* like TRAIN, but the data is replaced by random bytes of the same shapes (bench step)
                       */
} clt_job_kind;

typedef struct clt_job {
    const clt_config *config; /* borrowed */
    clt_job_kind kind;
    clt_graph *model;     /* as it is before any plan: what the parameters are called, and their shapes */
    ocl_device_desc desc; /* from clt_job_plan on */
    clt_source *train_source, *eval_source; /* eval_source NULL: no evaluation data */
    bool borrowed;                          /* the sources belong to the caller */
    const clt_data_facts *facts;            /* EVAL: what the training data told, in its place; or NULL */
    bool on_train;                          /* EVAL: of the training data */
    char data_missing[512];                 /* DESCRIBE: why the data was replaced, or "" */
    int64_t micro_batch, global_batch, steps;
    int32_t accumulation, ranks;
    uint64_t seed;
    clt_schedule schedule;
    clt_update_spec update;
    clt_update_order order; /* for the plans' update */
    clt_recompute recompute;
    clt_dtype storage;      /* of activations: f32, or what half precision stores */
    float loss_scale;       /* at the start, with job->update.scaling */
    clt_plan *train, *eval; /* eval exists when there is evaluation data, or when only evaluation is wanted */
    int64_t context;        /* DECODE: most places */
    int32_t prediction;     /* tensor of the eval plan's graph: input 0 of the first loss */
    bool predicts;          /* it stays readable after a run */
    int32_t correct_losses; /* losses that count correct predictions */
} clt_job;

/* What a job is about, where the config does not say it. All of it is borrowed. */
typedef struct clt_job_data {
    clt_source *source; /* for training and evaluation; NULL: the config's */
    const clt_data_facts
        *facts; /* EVAL: what the training data told, so that it need not be there; or NULL */
    bool
        on_train; /* EVAL: evaluate the training data; else the evaluation data, which the config must name */
    bool predicts; /* the evaluation plan's prediction can be read after a run; without it a large one never
                      exists as a whole */
} clt_job_data;
/* clt_job_open: everything that needs no device: data, batch, schedule, model. Whatever is wrong with them is
 * found here, before a device is asked or a kernel built. */
clt_status clt_job_open(const clt_config *config, const clt_job_data *data, int ranks, clt_job_kind kind,
                        clt_job **out);
/* Then, once: the plans for a device. order: what ranks agreed on for the update. On failure the job is only
 * good for clt_job_destroy. */
clt_status clt_job_plan(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order);
/* Both, over the config's own data and without an agreement. */
clt_status clt_job_create(const clt_config *config, const ocl_device_desc *desc, int ranks, clt_job_kind kind,
                          clt_job **out);
void clt_job_destroy(clt_job *job);
/* The same job on the same sources, planned again for a description with other tuning records or fewer
 * capabilities and variants. */
clt_status clt_job_replan(clt_job *job, const ocl_device_desc *desc);
/* CLT_EDEVMEM before anything is allocated when the plans need more than the device can give; names the
 * largest part and the largest data.micro_batch that fits. */
clt_status clt_job_check_memory(const clt_job *job);
/* Whether the same job with these batches, accumulation following from them, fits in desc.usable_bytes. */
clt_status clt_job_fits(const clt_job *job, int64_t micro_batch, int64_t global_batch, bool *fits);
/* Activation bytes of the training and evaluation plans with another train.recompute. */
clt_status clt_job_activations(const clt_job *job, clt_recompute tier, uint64_t *bytes);
/* Largest micro-batch (dividing global_batch/ranks) whose plan fits in desc.usable_bytes; 0: none. */
clt_status clt_job_largest_micro_batch(const clt_job *job, int64_t *out);

/* Length of a training over so many samples, and its schedule of learning rates. */
clt_status clt_job_steps(const clt_config *config, int64_t samples, int64_t global_batch, int64_t *steps);
clt_schedule clt_job_schedule(const clt_config *config, int64_t steps);
/* What the device looks up: 4 floats for each of job->steps updates, the learning rate and the optimizer's
 * corrections. */
void clt_job_table(const clt_job *job, float *table);

/* Builds the graph of the config's model for the fields of a source. */
clt_status clt_job_graph(const clt_config *config, const clt_source *source, int64_t micro_batch,
                         clt_graph **graph, int32_t *prediction);

#endif
