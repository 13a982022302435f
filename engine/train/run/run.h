/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: a job on a device. Owns the device objects; its files are run_create.c (create, destroy),
 * run_objects.c (device objects), step.c (one step), sync.c (gradients over ranks), evaluate.c, save.c
 * (checkpoints,
 * --init), diagnose.c (first bad tensor), trainer.c (the loop). */
#ifndef ENGINE_TRAIN_RUN_H
#define ENGINE_TRAIN_RUN_H

#include "comm/comm.h"
#include "engine/plan/realize.h"
#include "engine/train/saved/continuation.h"
#include "engine/train/run/feed.h"
#include "engine/train/run/job.h"
#include "engine/train/run/reporter.h"
#include "engine/state/store.h"
#include "engine/train/run/run_options.h"

/* The weights that a run started from (run->init); a resumed run knows them from its checkpoint. */
typedef struct clt_weights_taken {
    char file[1024]; /* as it was named, "": none */
    int tensors;
    uint64_t hash;   /* of the file or files */
    char notes[400]; /* "wpe.weight: the first 256 of 1024 rows", "" */
} clt_weights_taken;

typedef struct clt_run {
    const clt_run_options *options;
    clt_job *job;
    ocl_device *device;
    ocl_style style;         /* that the device is opened for; ASKED: the faster one */
    struct clt_tuned *tuned; /* tuning records in force, and those the plans use (tuned.h) */
    bool repin;              /* the checkpoint resumed from has other tuning choices than the plans */
    clt_slab_pool *pool;
    clt_store *store;
    clt_realized *train, *eval;
    clt_feed *feed;
    clt_reporter *reporter;
    ocl_pinned *sync_memory; /* ranks > 1: what is summed, on its way */
    double comm_seconds;     /* inside the sums of SYNC so far, waiting for other ranks included */
    double comm_waited;      /* from the device's gradients being there until their sums were */
    uint64_t comm_bytes;     /* given to its sums in each step */
    double build_seconds;    /* realise and prime */
    int64_t first_step;
    char resumed_from[1024];       /* checkpoint folder, "" */
    clt_continuation continuation; /* how it differs from the run that it resumes */
    char phase[64];                /* of the start, as noted in the log */
    comm_info ranks;
    clt_update_order order; /* agreed on by all ranks */
    bool warned_rounding;
    struct clt_safetensors *init; /* weights to start from, checked; NULL: none, or they have been taken */
    clt_weights_taken taken;      /* from them */
} clt_run;

/* Opens the device, plans, checks memory, realises, primes, initialises parameters, schedule and state. */
clt_status clt_run_create(const clt_run_options *options, clt_job_kind kind, clt_run **out);
void clt_run_destroy(clt_run *run);
/* What is under way, to the observer's `progress`; on rank 0. */
void clt_run_progress(clt_run *run, const char *what, int64_t done, int64_t total);
/* run_objects.c: opens the run's device; store, slabs and executors of its plans, primed. A driver's refusal
 * of a command ends in other plans (cl/command/fallback.h) and a warning; it is an error when nothing else is
 * left. Collective. */
clt_status clt_run_open_device(clt_run *run);
clt_status clt_run_make_objects(clt_run *run);
void clt_run_drop_objects(clt_run *run);
/* What feeds the training plan the batches first_step..last_step - 1. */
clt_feed_options clt_run_feed_options(const clt_run *run, int64_t first_step, int64_t last_step);
/* Enqueues one training step: batch number `step`. */
clt_status clt_step(clt_run *run, int64_t step);

/* sync.c: host side of the SYNC phase. */
clt_status clt_sync_host(void *context, const ocl_command *command);
clt_status clt_sync_prepare(clt_run *run);
/* evaluate.c: one pass over the evaluation data (batches > 0: only so many micro-batches per rank). Blocks.
 */
clt_status clt_run_evaluate(clt_run *run, int64_t step, int64_t batches, clt_eval_metrics *metrics);
/* save.c. clt_run_save: one checkpoint, blocking (the trainer uses the saver). */
clt_status clt_run_save(clt_run *run, const char *folder, int64_t step, char *path, size_t path_size);
/* Shape in files, and the copy that swaps the last two dimensions of a tensor of `shape`. */
clt_shape clt_param_file_shape(const clt_param *param);
void clt_transpose_last(const clt_shape *shape, const float *in, float *out);
/* Parameters alone as one safetensors file. */
clt_status clt_run_save_parameters(clt_run *run, const char *path);
clt_status clt_run_load_parameters(clt_run *run, const char *path, bool checkpoint);
/* Whether the weights of options->init fit the job's model, and their tokenizer the data; needs no device. */
clt_status clt_run_check_init(const clt_run_options *options, const clt_job *job);
/* The values of run->init, which is closed then; does nothing when there is none. Sets run->taken. */
clt_status clt_run_take_init(clt_run *run);
/* One tensor of a file into an arena; every parameter from a file. */
struct clt_named_tensor;
struct clt_safetensors;
struct clt_checkpoint;
clt_status clt_run_load_tensor(clt_run *run, const clt_param *param, clt_arena_kind arena,
                               const struct clt_named_tensor *tensor, const char *path);
clt_status clt_run_load_file(clt_run *run, const struct clt_safetensors *file, const char *path);
/* What a checkpoint is evaluated with: averaged parameters where it has them. */
clt_status clt_run_load_saved(clt_run *run, const struct clt_checkpoint *saved, const char *path);
/* foreign.c: the tensor of a file that is this parameter, or has this name, also under GPT-2's other names
 * (NULL: none); a tensor's name without GPT-2's prefix. */
const struct clt_named_tensor *clt_run_find_tensor(const struct clt_safetensors *file,
                                                   const clt_param *param);
const struct clt_named_tensor *clt_weights_find(const struct clt_safetensors *file, const char *name);
const char *clt_weights_short_name(const char *name);
/* The published names of the family that the graph is of; NULL: nobody publishes any. */
const struct clt_model_published *clt_weights_published(const clt_graph *graph);
/* Whether the tensor's shape is the one that files of this parameter have, or longer where that is allowed.
 */
bool clt_weights_fit_shape(const clt_param *param, const struct clt_named_tensor *tensor);
/* Every name, shape and type of a file against the parameters of a graph, in both directions; needs no
 * device. CLT_ECHECKPOINT lists all that is missing, left over or of another shape. taken may be NULL. */
clt_status clt_weights_check(const clt_graph *graph, const struct clt_safetensors *file, const char *path,
                             clt_weights_taken *taken);
/* resume.c: parameters, optimizer state, counters; sets first_step and resumed_from. path: as for
 * clt_checkpoint_open. CLT_ECONFIG, CLT_EDATA: see clt_continuation_check; CLT_ECONFIG: another global batch.
 */
struct clt_saved_state;
/* The folder that options->resume means now, "" when there is nothing to resume. */
void clt_resume_path(const clt_run_options *options, char *path, size_t size);
/* Before a device is opened: whether the run may go on from there. What is wrong with the checkpoint itself,
 * other than that it belongs to another run, is left to clt_run_resume. */
clt_status clt_run_check_resume(clt_run *run);
clt_status clt_run_resume(clt_run *run, const char *path, struct clt_saved_state *extra);
/* diagnose.c: loads batch number `step` again and runs it command by command under its loss scale; *found: a
 * tensor was not finite, and `text` names the first one. The feed is another one afterwards, at its end. */
clt_status clt_run_diagnose(clt_run *run, int64_t step, float loss_scale, char *text, size_t size,
                            bool *found);

#endif
