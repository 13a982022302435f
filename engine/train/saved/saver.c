/* SPDX-License-Identifier: Apache-2.0
 *
 * The saver. The main thread only enqueues reads into the saver's host memory; the writer's thread does
 * everything with files. */
#include "engine/train/saved/saver.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/train/saved/checksum.h"
#include "engine/train/saved/gather.h"
#include "engine/train/saved/saved_texts.h"
#include "engine/train/run/tuned.h"

typedef enum saver_phase { SAVER_IDLE, SAVER_READING, SAVER_WRITING, SAVER_DONE, SAVER_STOP } saver_phase;

typedef struct saved_tensor {
    const clt_store_slot *slot;
    clt_arena_kind arena;
    bool transposed;    /* in files the last two dimensions are swapped */
    float *data;        /* in the order of the device */
    ocl_pinned *pinned; /* memory of `data`; NULL: ordinary memory */
    float *swapped;     /* in the order of files, if transposed */
} saved_tensor;

struct clt_saver {
    clt_run *run;
    char *folder;
    clt_named_tensor *tensors; /* those of the model first, then the optimizer's */
    saved_tensor *sources;
    int n_model, n_tensors;
    clt_state_block state;
    clt_checksums *sums;
    clt_saved_state extra;
    clt_retention retention;
    clt_str config; /* its digest is in the manifest */
    clt_saved_texts texts;
    clt_thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    saver_phase phase;
    bool read_ok;
    uint64_t last_command; /* number of the last read that was enqueued (cl/command/faults.h) */
    double begun;
    clt_save_result result;
};

/* On some GPU drivers (NVIDIA's) a read into ordinary memory blocks the caller, so pinned memory is used as
 * far as the host has it. A CPU device copies in either case. */
static clt_status host_memory(clt_saver *s, const clt_param *param, saved_tensor *source)
{
    uint64_t bytes = (uint64_t)source->slot->elements * sizeof(float);
    if (!ocl_device_describe(s->run->device)->is_cpu) {
        if (ocl_pinned_create(s->run->device, bytes, param->file_name, &source->pinned) == CLT_OK) {
            source->data = ocl_pinned_data(source->pinned);
            return CLT_OK;
        }
        CLT_DEBUG("a checkpoint's tensor is read into memory that is not pinned: %s", clt_error_text());
        clt_error_clear();
    }
    return clt_alloc(&source->data, source->slot->elements, sizeof(float), "checkpoint");
}

static clt_status add_tensor(clt_saver *s, const clt_param *param, clt_arena_kind arena, const char *suffix)
{
    const clt_store_slot *slot = clt_store_layout_find(s->run->store->layout, param->name);
    saved_tensor *source = &s->sources[s->n_tensors];
    clt_named_tensor *tensor = &s->tensors[s->n_tensors];
    char *name;
    size_t size = strlen(param->file_name) + strlen(suffix) + 1;
    CLT_TRY(clt_alloc(&name, size, 1, "checkpoint"));
    snprintf(name, size, "%s%s", param->file_name, suffix);
    tensor->name = name;
    s->n_tensors++;
    source->slot = slot;
    source->arena = arena;
    source->transposed = param->file_transposed && param->shape.ndim >= 2;
    CLT_TRY(host_memory(s, param, source));
    if (source->transposed)
        CLT_TRY(clt_alloc(&source->swapped, slot->elements, sizeof(float), "checkpoint"));
    tensor->dtype = CLT_F32;
    tensor->shape = clt_param_file_shape(param);
    tensor->data = source->transposed ? source->swapped : source->data;
    return CLT_OK;
}

static clt_status list_tensors(clt_saver *s)
{
    const clt_graph *graph = s->run->job->train->graph;
    size_t most = graph->n_params * CLT_ARENA_COUNT + 1;
    CLT_TRY(clt_alloc(&s->tensors, most, sizeof *s->tensors, "checkpoint"));
    CLT_TRY(clt_alloc(&s->sources, most, sizeof *s->sources, "checkpoint"));
    for (size_t i = 0; i < graph->n_params; i++)
        CLT_TRY(add_tensor(s, &graph->params[i], CLT_ARENA_PARAM, ""));
    s->n_model = s->n_tensors;
    for (size_t i = 0; i < graph->n_params; i++)
        for (int arena = 0; arena < CLT_ARENA_COUNT; arena++)
            if (clt_store_saves(s->run->store, (clt_arena_kind)arena, &graph->params[i]))
                CLT_TRY(add_tensor(s, &graph->params[i], (clt_arena_kind)arena, clt_arenas[arena].suffix));
    return CLT_OK;
}

/* Writes which file the run's initial weights came from. */
static void init_text(const clt_weights_taken *taken, clt_json_writer *w)
{
    char hash[CLT_HASH64_TEXT];
    if (!taken->file[0])
        return;
    clt_jw_key(w, "init");
    clt_jw_object(w);
    clt_jw_kstring(w, "file", taken->file);
    clt_jw_kint(w, "tensors", taken->tensors);
    clt_jw_kstring(w, "hash", clt_hash64_text(taken->hash, hash));
    clt_jw_end_object(w);
}

/* What later steps are compared with. */
static void spikes_text(const clt_saver *s, clt_json_writer *w)
{
    if (s->run->job->update.spike.action == CLT_SPIKE_OFF)
        return;
    clt_jw_key(w, "spikes");
    clt_jw_object(w);
    clt_jw_kint(w, "spikes", s->state.spiked);
    clt_jw_kint(w, "judged", s->state.judged);
#define CLT_PUT(name)                                                                                        \
    clt_jw_key(w, #name);                                                                                    \
    clt_jw_float(w, s->state.name);
    CLT_SPIKE_STATISTICS(CLT_PUT)
#undef CLT_PUT
    clt_jw_end_object(w);
}

static clt_status state_text(const clt_saver *s, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_kint(&w, "step", s->result.step);
    clt_jw_kint(&w, "update", s->state.update);
    clt_jw_kint(&w, "skipped", s->state.skipped);
    clt_jw_kint(&w, "skipped_in_a_row", s->state.skipped_row);
    clt_jw_key(&w, "loss_scale");
    clt_jw_float(&w, s->state.loss_scale);
    clt_jw_kint(&w, "growth", s->state.growth);
    spikes_text(s, &w);
    clt_jw_kstring(&w, "storage", clt_dtype_name(s->run->job->storage));
    clt_jw_kint(&w, "samples", s->result.step * s->run->job->global_batch);
    clt_jw_kint(&w, "seed", (int64_t)s->run->job->seed);
    clt_jw_kint(&w, "ranks", s->run->ranks.ranks);
    if (!isnan(s->extra.best_eval_loss)) {
        clt_jw_kdouble(&w, "best_eval_loss", s->extra.best_eval_loss);
        clt_jw_kint(&w, "best_step", s->extra.best_step);
    }
    init_text(&s->run->taken, &w);
    clt_tuned_write(s->run->tuned, &w);
    clt_jw_end_object(&w);
    return clt_str_check(out);
}

/* The values of a tensor of which this rank's device has only a share; NULL: it has all. */
static const float *gathered_values(const clt_saver *s, const saved_tensor *t)
{
    const float *slab = clt_gathered_slab(s->run->gathered, t->arena, t->slot->slab);
    return slab ? slab + t->slot->offset : NULL;
}

/* Checks that what arrived is what the device holds. */
static clt_status compare_sums(const clt_saver *s)
{
    if (!s->sums)
        return CLT_OK;
    for (int i = 0; i < s->n_tensors; i++) {
        const saved_tensor *t = &s->sources[i];
        if (gathered_values(s, t)) /* other ranks' devices have most of it */
            continue;
        CLT_TRY(clt_checksums_compare(s->sums, t->arena, t->slot->slab, t->slot->offset, t->data,
                                      t->slot->elements, s->tensors[i].name));
    }
    return clt_checksums_compare(s->sums, CLT_ARENA_STATE, 0, 0, &s->state, ST_WORDS, "run state");
}

static clt_status write_snapshot(clt_saver *s)
{
    clt_str state = {0};
    clt_status well = ocl_commands_check(s->run->device, s->last_command);
    if (well == CLT_OK && !s->read_ok)
        well = clt_fail(CLT_EDEVLOST, __FILE__, __LINE__, "reading the parameters from the device failed");
    if (well == CLT_OK)
        well = compare_sums(s);
    CLT_TRY(clt_fail_prefix(well, "saving step %" PRId64 ": ", s->result.step));
    for (int i = 0; i < s->n_tensors; i++)
        if (s->sources[i].transposed)
            clt_transpose_last(&s->sources[i].slot->shape, s->sources[i].data, s->sources[i].swapped);
    clt_status status = state_text(s, &state);
    clt_checkpoint_content content = {.step = s->result.step,
                                      .model = s->tensors,
                                      .n_model = s->n_model,
                                      .optimizer = s->tensors + s->n_model,
                                      .n_optimizer = s->n_tensors - s->n_model,
                                      .state_json = state.text,
                                      .config_json = s->config.text,
                                      .files = s->texts.files,
                                      .n_files = s->texts.n_files};
    if (status == CLT_OK)
        status = clt_checkpoint_save_retaining(s->folder, &content, &s->retention);
    clt_str_free(&state);
    return status;
}

static void *writer(void *context)
{
    clt_saver *s = context;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->phase != SAVER_WRITING && s->phase != SAVER_STOP)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->phase == SAVER_STOP)
            break;
        pthread_mutex_unlock(&s->lock);
        double begin = clt_now();
        clt_status status = write_snapshot(s);
        clt_spans_add(s->run->train->spans, CLT_TRACK_SAVER, "write checkpoint", s->result.step, begin,
                      clt_now());
        clt_error_take(status, &s->result.error);
        s->result.seconds = clt_now() - s->begun;
        snprintf(s->result.path, sizeof s->result.path, "%s/step_%" PRId64, s->folder, s->result.step);
        pthread_mutex_lock(&s->lock);
        s->phase = SAVER_DONE;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

clt_status clt_saver_create(clt_run *run, const char *folder, clt_saver **out)
{
    clt_saver *s;
    *out = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "saver"));
    s->run = run;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->folder = strdup(folder);
    clt_status status =
        s->folder ? list_tensors(s) : clt_fail(CLT_ENOMEM, __FILE__, __LINE__, "saver: out of host memory");
    if (status == CLT_OK)
        status = clt_checksums_create(run->store, &run->tuned->desc, &s->sums);
    if (status == CLT_OK)
        status = clt_config_print(run->options->config, false, &s->config);
    if (status == CLT_OK)
        status = clt_saved_texts_make(run, folder, &s->texts);
    if (status == CLT_OK)
        status = clt_thread_start(&s->thread, "saver", writer, s);
    if (status != CLT_OK) {
        clt_saver_destroy(s);
        return status;
    }
    *out = s;
    return CLT_OK;
}

/* Waits for the save in flight; the lock must be held. False: a command failed, and reads after it may never
 * end. */
static bool wait_while_busy(clt_saver *s)
{
    bool well = true;
    while (s->phase == SAVER_WRITING || (s->phase == SAVER_READING && well))
        well = ocl_wait_for_callback(s->run->device, &s->changed, &s->lock) || s->phase == SAVER_WRITING;
    return s->phase != SAVER_READING;
}

/* The error for a failed command, which it names. */
static clt_status lost(const clt_saver *s)
{
    clt_status status = ocl_commands_check(s->run->device, ocl_commands_enqueued(s->run->device));
    return clt_fail_prefix(status, "saving step %" PRId64 ": ", s->result.step);
}

void clt_saver_destroy(clt_saver *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    bool ended = wait_while_busy(s);
    s->phase = SAVER_STOP;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    clt_thread_join(s->thread);
    if (!ended || ocl_commands_failed(s->run->device)) /* the driver may still write into this memory */
        return;
    for (int i = 0; i < s->n_tensors; i++) {
        free((void *)(uintptr_t)s->tensors[i].name);
        if (s->sources[i].pinned)
            ocl_pinned_destroy(s->sources[i].pinned);
        else
            free(s->sources[i].data);
        free(s->sources[i].swapped);
    }
    clt_checksums_destroy(s->sums);
    free(s->tensors);
    free(s->sources);
    free(s->folder);
    clt_str_free(&s->config);
    clt_saved_texts_free(&s->texts);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Called by a thread of the driver when the last read has ended. */
static void reads_done(void *context, bool ok)
{
    clt_saver *s = context;
    pthread_mutex_lock(&s->lock);
    s->read_ok = s->read_ok && ok;
    if (s->phase == SAVER_READING) /* otherwise nothing waits for it any more */
        s->phase = SAVER_WRITING;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static clt_status enqueue_reads(clt_saver *s)
{
    const clt_store *store = s->run->store;
    ocl_event *done = NULL;
    for (int i = 0; i < s->n_tensors; i++) {
        const saved_tensor *t = &s->sources[i];
        const float *values = gathered_values(s, t);
        if (values) {
            memcpy(t->data, values, t->slot->elements * sizeof(float));
            continue;
        }
        CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, store->slab[t->arena][t->slot->slab],
                               t->slot->offset * sizeof(float), t->data, t->slot->elements * sizeof(float),
                               NULL, NULL));
    }
    if (s->sums)
        CLT_TRY(clt_checksums_enqueue(s->sums));
    CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, store->slab[CLT_ARENA_STATE][0], 0, &s->state, sizeof s->state,
                           NULL, &done));
    s->last_command = ocl_commands_enqueued(s->run->device);
    clt_status status = ocl_event_callback(done, reads_done, s);
    ocl_event_release(done);
    return status;
}

clt_status clt_saver_begin(clt_saver *s, int64_t step, const clt_saved_state *state,
                           const clt_retention *retention)
{
    pthread_mutex_lock(&s->lock);
    bool ended = wait_while_busy(s);
    if (ended) {
        s->phase = SAVER_READING;
        s->read_ok = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (!ended)
        return lost(s);
    s->begun = clt_now();
    s->result.step = step;
    s->extra = *state;
    s->retention = *retention;
    clt_status status = enqueue_reads(s);
    if (status == CLT_OK)
        return ocl_flush(s->run->device, OCL_QUEUE_COMPUTE);
    /* reads that were enqueued still write into this memory */
    clt_error error;
    clt_error_take(status, &error);
    ocl_finish(s->run->device, OCL_QUEUE_COMPUTE);
    pthread_mutex_lock(&s->lock);
    s->phase = SAVER_IDLE;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return clt_error_put(&error);
}

void clt_saver_poll(clt_saver *s, bool wait, clt_save_result *result, bool *have)
{
    pthread_mutex_lock(&s->lock);
    bool ended = !wait || wait_while_busy(s);
    *have = s->phase == SAVER_DONE;
    if (*have) {
        *result = s->result;
        s->phase = SAVER_IDLE;
    }
    pthread_mutex_unlock(&s->lock);
    if (ended)
        return;
    clt_error_take(lost(s), &s->result.error);
    s->result.path[0] = '\0';
    *result = s->result;
    *have = true;
}

clt_status clt_run_save(clt_run *run, const char *folder, int64_t step, char *path, size_t path_size)
{
    clt_saver *saver;
    clt_save_result result = {0};
    clt_saved_state state = {.best_eval_loss = NAN, .best_step = -1};
    clt_retention retention = {.keep = (int)clt_config_int(run->options->config, "checkpoint.keep"),
                               .best = -1};
    bool have = false;
    CLT_TRY(clt_saver_create(run, folder, &saver));
    clt_status status = clt_saver_begin(saver, step, &state, &retention);
    if (status == CLT_OK)
        clt_saver_poll(saver, true, &result, &have);
    clt_saver_destroy(saver);
    CLT_TRY(status);
    snprintf(path, path_size, "%s", result.path);
    return clt_error_put(&result.error);
}
