/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: a job on a device. It owns the device objects. Its functions are in run_create.c (create, destroy),
 * run_objects.c (device objects), step.c (one step), sync.c (gradients over ranks), evaluate.c, diagnose.c
 * (first bad tensor), trainer.c (the loop) and, in engine/train/saved, save.c (parameter files, --init),
 * resume.c and foreign.c. */
#ifndef ENGINE_TRAIN_RUN_RUN_H
#define ENGINE_TRAIN_RUN_RUN_H

#include "engine/base/scope.h"
#include "comm/comm.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"
#include "engine/train/job/continuation.h"
#include "engine/train/job/job.h"
#include "engine/train/job/run_options.h"
#include "engine/train/run/feed.h"
#include "engine/train/run/reporter.h"

/* The weights file that a run started from (--init). A resumed run reads this record from its checkpoint. */
typedef struct clt_weights_taken {
    char file[1024];  /* path of the file as the user gave it; "": none */
    char prefix[100]; /* prefix that was removed from all names, such as "module.", or "" */
    int tensors;
    uint64_t hash;   /* hash of the file or files */
    char notes[400]; /* notes such as "wpe.weight: the first 256 of 1024 rows", or "" */
    int kept;        /* parameters that keep their initial values, because run_options.init_skip names them */
    char kept_names[300]; /* "fc.weight, fc.bias", or as many as fit */
    int adapters;         /* tensors of low-rank adapters that keep initial values: the file has none */
} clt_weights_taken;

typedef struct clt_run {
    const clt_run_options *options;
    clt_job *job;
    ocl_device *device;
    /* style of kernels that the device is opened for; ASKED: the faster one is chosen */
    ocl_style style;
    int on_gpu; /* ranks on the device if it is a GPU, this one included (preflight.h); 0: not known yet */
    struct clt_tuned *tuned; /* tuning records in force, and those that the plans use (tuned.h) */
    clt_slab_pool *pool;
    clt_store *store;
    clt_realized *train, *eval;
    clt_feed *feed;
    clt_reporter *reporter;
    /* ranks > 1 on CPU devices: the memory that gradients travel in, which ranks of a host share; or NULL */
    comm_memory *shared_gradients;
    comm_memory *shared_parameters;           /* the same for parameters, if optimizer state is divided */
    struct clt_sync *sync;                    /* sums over the ranks (sync.h); NULL with one rank */
    struct clt_regression_reader *regression; /* eval_regression.h; NULL: evaluations give no such figures */
    struct clt_answer_reader *answers;        /* eval_answers.h; NULL: the data are not questions */
    struct clt_class_reader *classes; /* eval_metrics.h: evaluations count by class; NULL: they do not */
    double build_seconds;             /* time to realise and prime the plans */
    int64_t first_step;
    int64_t first_micro; /* the micro-batches of a step that this rank computes (clt_job_share) */
    int32_t micro;       /* micro-batches of the step that is being enqueued, so far; 0 between steps */
    int32_t micro_batches;
    clt_resumed from;              /* the checkpoint that the run resumes from */
    clt_continuation continuation; /* differences from the run that is resumed */
    char phase[64];                /* part of the start that the log has noted last */
    comm_info ranks;
    clt_update_order order;       /* agreed on by all ranks */
    bool kinds_differ;            /* the ranks' devices are of different kinds */
    struct clt_safetensors *init; /* open file of initial weights, checked; NULL: none, or they were loaded */
    clt_weights_taken taken;      /* describes that file */
    bool told_complete;           /* it was reported already that the resumed run is complete */
} clt_run;

/* Opens the device, plans, checks memory, realises and primes plans, initialises parameters, schedule,
 * state. */
clt_status clt_run_create(const clt_run_options *options, clt_job_kind kind, clt_run **out);
/* The same for a training whose checkpoint may be open already: `found` as for clt_resumed_open. */
clt_status clt_run_create_training(const clt_run_options *options, struct clt_checkpoint **found,
                                   clt_run **out);
void clt_run_destroy(clt_run *run);
CLT_SCOPED_POINTER(clt_run, clt_run_destroy)
/* Reports progress to the observer, on rank 0. */
void clt_run_progress(clt_run *run, const char *what, int64_t done, int64_t total);
/* Sets the options and the ranks of a run in which all else is 0. */
void clt_run_begin(clt_run *run, const clt_run_options *options);
/* run_objects.c. open_device: opens the run's device, or opens it again, with this rank's share of its
 * memory as soon as run->on_gpu is known. make_objects: creates store, slabs and executors of its plans, and
 * primes them. If the driver refuses a command, the run plans again without what the command needs
 * (cl/command/fallback.h) and warns; it is an error only when no alternative is left. Collective. */
clt_status clt_run_open_device(clt_run *run);
clt_status clt_run_make_objects(clt_run *run);
void clt_run_drop_objects(clt_run *run);
/* With data.micro_batch auto: sets this micro-batch. The run must be planned, or planned again,
 * afterwards. */
clt_status clt_run_set_micro_batch(clt_run *run, int64_t micro_batch);
/* Options of a feed that feeds the batches first_step..last_step - 1 to the training plan. */
clt_feed_options clt_run_feed_options(const clt_run *run, int64_t first_step, int64_t last_step);
/* Enqueues one training step on batch number `step`. */
clt_status clt_step(clt_run *run, int64_t step);

/* evaluate.c: one pass over the evaluation data; batches > 0: over this many micro-batches of all ranks.
 * Blocks. */
clt_status clt_run_evaluate(clt_run *run, int64_t step, int64_t batches, clt_eval_metrics *metrics);
/* save.c. file_shape: a parameter's shape in files. transpose_last: copies a tensor, transposing its last two
 * dimensions. */
clt_shape clt_param_file_shape(const clt_param *param);
/* A transposed parameter as n matrices (n, rows, columns), in memory, or in files, where they are
 * transposed. */
clt_shape clt_param_matrices(const clt_param *param, bool in_file);
void clt_transpose_last(const clt_shape *shape, const float *in, float *out);
/* Writes only the parameters, as one safetensors file. */
clt_status clt_run_save_parameters(clt_run *run, const char *path);
/* Loads the parameters of a file, which another program may have written, or of a run (clt_weights_open). */
clt_status clt_run_load_parameters(clt_run *run, const char *path);
/* Checks that the weights of options->init fit the job's model, and their tokenizer the data. Needs no
 * device. taken as for clt_weights_check. */
clt_status clt_run_check_init(const clt_run_options *options, const clt_job *job, clt_weights_taken *taken);
/* Loads the weights of run->init and closes it; does nothing if there are none. Sets run->taken. */
clt_status clt_run_take_init(clt_run *run);
/* load_tensor: loads one tensor of a file into an arena. load_file: loads every parameter from a file. */
struct clt_named_tensor;
struct clt_safetensors;
struct clt_checkpoint;
clt_status clt_run_load_tensor(clt_run *run, const clt_param *param, clt_arena_kind arena,
                               const struct clt_named_tensor *tensor, const char *path);
clt_status clt_run_load_file(clt_run *run, const struct clt_safetensors *file, const char *path);
/* Loads the parameters of a checkpoint for evaluation: the averaged ones if it has them. */
clt_status clt_run_load_saved(clt_run *run, const struct clt_checkpoint *saved, const char *path);
/* foreign.c. find_tensor: a parameter's tensor in a file. weights_find: the tensor called `name`. Both accept
 * names with the published prefix of the graph's model family ("transformer." for a gpt); NULL: none.
 * short_name: a name without that prefix. */
const struct clt_named_tensor *clt_run_find_tensor(const clt_graph *graph, const struct clt_safetensors *file,
                                                   const clt_param *param);
const struct clt_named_tensor *clt_weights_find(const clt_graph *graph, const struct clt_safetensors *file,
                                                const char *name);
const char *clt_weights_short_name(const clt_graph *graph, const char *name);
/* The published names of the graph's model family; NULL: there are no published weights. */
const struct clt_model_published *clt_weights_published(const clt_graph *graph);
/* True if the tensor has the shape that files of this parameter have; it may be longer where that is
 * allowed. */
bool clt_weights_fit_shape(const clt_param *param, const struct clt_named_tensor *tensor);
/* Removes the prefix that the program which saved the file has put before all names (module., model.,
 * _orig_mod., transformer., or several of them), if every parameter of the graph is found without it and not
 * with it. Sets taken->prefix. */
clt_status clt_weights_take_off_prefix(const clt_graph *graph, struct clt_safetensors *file, const char *skip,
                                       clt_weights_taken *taken);
/* Compares every name, shape and type of a file with the parameters of a graph, in both directions. Needs
 * no device. CLT_ECHECKPOINT lists all tensors that are missing, have another shape, or are unused parts
 * of this model. A warning names other unused tensors; if taken is NULL (files of our own), these are
 * errors, too. Parameters and tensors that match a pattern of `skip` (run_options.init_skip, or NULL) are
 * not compared; CLT_ECONFIG for a pattern that matches none, and when no parameter is left. taken may be
 * NULL; its prefix is kept. */
clt_status clt_weights_check(const clt_graph *graph, const struct clt_safetensors *file, const char *path,
                             const char *skip, clt_weights_taken *taken);
/* True if the parameter keeps its initial values when this file is loaded: `skip` names it, or it belongs to
 * an adapter and the file holds no adapter. Without `skip` (NULL) every parameter must be in the file. */
#define CLT_ADAPTER_MARK ".lora_" /* occurs only in the names of adapters' tensors */
bool clt_weights_keep_initial(const struct clt_safetensors *file, const char *skip, const clt_param *param);
/* resume.c. resumed_name: the folder that options->resume names; "": nothing is resumed. resumed_open:
 * finds, opens and verifies the checkpoint that options->resume names. Collective: rank 0 chooses it, and
 * all ranks read it at the same time. *found (`found` may be NULL): this checkpoint, if rank 0 has opened
 * it already; it is taken, and *found becomes NULL. resumed_close: it need not have been opened. */
const char *clt_resumed_name(const clt_run_options *options);
clt_status clt_resumed_open(const clt_run_options *options, struct clt_checkpoint **found, clt_resumed *out);
void clt_resumed_close(clt_resumed *resumed);
/* Loads parameters, optimizer state and counters of run->from, closes it, and sets first_step. CLT_ECONFIG
 * and CLT_EDATA as for clt_continuation_check; CLT_ECONFIG also for another global batch. */
struct clt_saved_state;
clt_status clt_run_resume(clt_run *run, struct clt_saved_state *extra);
/* diagnose.c: loads batch number `step` again and runs it command by command with its loss scale. *found: a
 * tensor was not finite, and `text` names the first one. Replaces the run's feed by one that is at its
 * end. */
clt_status clt_run_diagnose(clt_run *run, int64_t step, float loss_scale, char *text, size_t size,
                            bool *found);

#endif
