/* SPDX-License-Identifier: Apache-2.0
 *
 * The saver. The main thread only enqueues reads into the saver's host memory and communicates with other
 * ranks; the writer thread does all work on files. */
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
#include "engine/train/job/tuned.h"
#include "engine/train/saved/saved_part.h"
#include "engine/train/saved/saved_ranks.h"
#include "engine/train/saved/saved_texts.h"

/* State of the writer thread. THROUGH: it has finished its part of a round. */
typedef enum saver_phase { SAVER_IDLE, SAVER_READING, SAVER_WORKING, SAVER_THROUGH, SAVER_STOP } saver_phase;
/* ALL: the whole save, with one rank; the other rounds are described in saver.h. DISCARD: replaces the
 * remaining rounds after one has failed. */
typedef enum saver_round {
    ROUND_ALL,
    ROUND_WRITE,
    ROUND_PLACE,
    ROUND_VERIFY,
    ROUND_RETAIN,
    ROUND_DISCARD
} saver_round;

struct clt_saver {
    clt_run *run;
    clt_saved_ranks ranks;
    clt_saved_part part;
    clt_state_block state;
    clt_saved_state extra;
    clt_retention retention;
    int64_t (*uploading)(void *context); /* clt_saver_ask; NULL: nothing is uploaded */
    void *context;                       /* for it */
    clt_str config;                      /* text of the config, whose digest is in the manifest */
    clt_saved_texts texts;
    clt_thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    saver_phase phase;
    saver_round round;
    bool read_ok;
    uint64_t last_command; /* number of the last read that was enqueued (cl/command/faults.h) */
    clt_error error;       /* error of this rank's part of the round */
    clt_part written, all; /* bytes that this rank wrote or read in this round; bytes that all ranks wrote */
    bool open;             /* ranks have a round to end together; the same value on all of them */
    bool exceeds;          /* on rank 0, after placing a checkpoint: older ones must be deleted */
    bool pending;          /* the save could not begin, and the next poll gives its error */
    clt_save_result result;
};

/* Writes which file the run's initial weights came from. */
static void init_text(const clt_weights_taken *taken, clt_json_writer *w)
{
    char hash[CLT_HASH64_TEXT];
    if (!taken->file[0])
        return;
    clt_jw_kobject(w, "init");
    clt_jw_kstring(w, "file", taken->file);
    clt_jw_kint(w, "tensors", taken->tensors);
    if (taken->kept > 0)
        clt_jw_kint(w, "new_parameters", taken->kept);
    clt_jw_kstring(w, "hash", clt_hash64_text(taken->hash, hash));
    clt_jw_end_object(w);
}

/* Writes the statistics that later steps are compared with to detect spikes. */
static void spikes_text(const clt_saver *s, clt_json_writer *w)
{
    clt_jw_kobject(w, "spikes");
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
    static const char *const best_words[] = {CLT_BESTS(CLT_CHOICE_WORD)};
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
    clt_jw_kint(&w, "micro_batch", s->run->job->micro_batch);
    clt_jw_kint(&w, "seed", (int64_t)s->run->job->seed);
    clt_jw_kint(&w, "ranks", s->run->ranks.ranks);
    if (!isnan(s->extra.best_eval_loss))
        clt_jw_kdouble(&w, "best_eval_loss", s->extra.best_eval_loss);
    if (s->extra.best_step >= 0) {
        clt_jw_kstring(&w, "best_by", best_words[s->extra.best]);
        clt_jw_kdouble(&w, "best_value", s->extra.best_value);
        clt_jw_kint(&w, "best_step", s->extra.best_step);
    }
    if (!isnan(s->extra.stop_value))
        clt_jw_kdouble(&w, "stop_value", s->extra.stop_value);
    if (!isnan(s->extra.stop_value) || s->extra.stop_evals > 0)
        clt_jw_kint(&w, "stop_evals", s->extra.stop_evals);
    if (s->extra.owes)
        clt_jw_kint(&w, "owes_evaluation", 1);
    init_text(&s->run->taken, &w);
    clt_tuned_write(s->run->tuned, &w);
    clt_jw_end_object(&w);
    return clt_str_check(out);
}

/* --- the writer's thread --- */

static clt_checkpoint_content content_of(const clt_saver *s, const char *state)
{
    return (clt_checkpoint_content){.step = s->result.step,
                                    .model = s->part.tensors,
                                    .n_model = s->part.n_model,
                                    .optimizer = s->part.tensors + s->part.n_model,
                                    .n_optimizer = s->part.n_tensors - s->part.n_model,
                                    .state_json = state,
                                    .config_json = s->config.text ? s->config.text : "",
                                    .files = s->texts.files,
                                    .n_files = s->texts.n_files};
}

/* Checks that the reads from the device succeeded and brought the bits that it holds. */
static clt_status check_reads(const clt_saver *s)
{
    CLT_TRY(ocl_commands_check(s->run->device, s->last_command));
    if (!s->read_ok)
        CLT_FAIL(CLT_EDEVLOST, "reading the parameters from the device failed");
    CLT_TRY(clt_error_put(&s->ranks.send_error));
    return clt_saved_part_take(s->run, &s->part, &s->state);
}

static clt_status write_part(clt_saver *s)
{
    const clt_saved_part *p = &s->part;
    clt_checkpoint_content content = content_of(s, "");
    CLT_TRY(clt_fail_prefix(check_reads(s), "saving step %" PRId64 ": ", s->result.step));
    return clt_checkpoint_write_part(s->ranks.folder, s->ranks.tag, &content, p->pieces, (int)p->n_pieces,
                                     &s->written);
}

static void look_for_upload(clt_saver *s)
{
    s->retention.uploading = s->uploading ? s->uploading(s->context) : 0;
}

static void retain(clt_saver *s, bool verified)
{
    look_for_upload(s);
    clt_checkpoint_retain(s->ranks.folder, s->result.step, &s->retention, verified);
}

static clt_status place(clt_saver *s)
{
    CLT_SCOPED(clt_str) state = {0};
    CLT_TRY(state_text(s, &state));
    clt_checkpoint_content content = content_of(s, state.text);
    CLT_TRY(clt_checkpoint_place(s->ranks.folder, s->ranks.tag, &content, &s->all));
    look_for_upload(s);
    s->exceeds = clt_checkpoint_exceeds(s->ranks.folder, s->result.step, &s->retention);
    return CLT_OK;
}

static clt_status write_all(clt_saver *s)
{
    clt_checkpoint_content content = content_of(s, "");
    CLT_TRY(clt_checkpoint_begin(s->ranks.folder, s->ranks.tag, &content, &s->written));
    clt_status status = write_part(s);
    if (status != CLT_OK)
        clt_checkpoint_discard(s->ranks.folder, s->ranks.tag, s->result.step);
    CLT_TRY(status);
    s->all = s->written;
    CLT_TRY(place(s));
    retain(s, false);
    return CLT_OK;
}

static clt_status read_back(clt_saver *s)
{
    clt_checkpoint_content content = content_of(s, "");
    s->written = (clt_part){0};
    if (s->ranks.writer < 0)
        return CLT_OK;
    return clt_checkpoint_read_part(s->ranks.folder, &content, s->ranks.writer, s->ranks.writers,
                                    &s->written);
}

static clt_status work(clt_saver *s)
{
    bool first = s->run->ranks.rank == 0;
    if (s->round == ROUND_ALL || s->round == ROUND_WRITE)
        CLT_TRY(clt_saved_texts_update(&s->texts));
    switch (s->round) {
    case ROUND_ALL:
        return write_all(s);
    case ROUND_WRITE:
        return write_part(s);
    case ROUND_PLACE:
        return first ? place(s) : CLT_OK;
    case ROUND_VERIFY:
        return read_back(s);
    case ROUND_RETAIN:
        retain(s, true);
        return CLT_OK;
    default:
        clt_checkpoint_discard(s->ranks.folder, s->ranks.tag, s->result.step);
        return CLT_OK;
    }
}

static void *writer(void *context)
{
    static const char *const names[] = {"write checkpoint",  "write checkpoint",       "place checkpoint",
                                        "verify checkpoint", "delete old checkpoints", "discard checkpoint"};
    clt_saver *s = context;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->phase != SAVER_WORKING && s->phase != SAVER_STOP)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->phase == SAVER_STOP)
            break;
        pthread_mutex_unlock(&s->lock);
        double begin = clt_now();
        clt_status status = work(s);
        clt_spans_add(s->run->train->spans, CLT_TRACK_SAVER, names[s->round], s->result.step, begin,
                      clt_now());
        clt_error_take(status, &s->error);
        if (s->round <= ROUND_PLACE)
            s->result.seconds = clt_now() - s->result.begun;
        pthread_mutex_lock(&s->lock);
        /* no rank waits for these rounds, which rank 0 does alone */
        s->phase = s->round == ROUND_RETAIN || s->round == ROUND_DISCARD ? SAVER_IDLE : SAVER_THROUGH;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- making and freeing --- */

static void say_share(const clt_saver *s)
{
    const clt_saved_part *p = &s->part;
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->n_pieces; i++)
        bytes += p->pieces[i].count * sizeof(float);
    CLT_DEBUG("rank %d writes %" PRIu64 " of the %" PRIu64 " bytes of the tensors of a checkpoint",
              s->run->ranks.rank, bytes, clt_named_tensors_bytes(p->tensors, p->n_tensors));
}

static clt_status make(clt_saver *s, const char *folder)
{
    clt_run *run = s->run;
    CLT_TRY(clt_saved_ranks_open(run, folder, &s->ranks));
    /* devices of different kinds may differ in the last bits, so one rank writes all replicated tensors */
    CLT_TRY(clt_saved_part_make(run, s->ranks.writer, run->kinds_differ ? 1 : s->ranks.writers, &s->part));
    CLT_TRY(clt_saved_ranks_list(run, &s->ranks, &s->part));
    say_share(s);
    CLT_TRY(clt_saved_part_sum(run, &s->part));
    if (run->ranks.rank == 0) {
        CLT_TRY(clt_config_print(run->options->config, false, &s->config));
        CLT_TRY(clt_saved_texts_make(run, folder, &s->texts));
    }
    return clt_thread_start(&s->thread, "saver", writer, s);
}

clt_status clt_saver_create(clt_run *run, const char *folder, clt_saver **out)
{
    CLT_SCOPED(clt_saver) *s = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "saver"));
    s->run = run;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    CLT_TRY(make(s, folder));
    *out = CLT_TAKE(s);
    return CLT_OK;
}

/* Waits until this rank has nothing to do; the lock must be held. False: a command failed, and reads after
 * it may never end. */
static bool wait_while_busy(clt_saver *s)
{
    bool well = true;
    while (s->phase == SAVER_WORKING || (s->phase == SAVER_READING && well))
        well = ocl_wait_for_callback(s->run->device, &s->changed, &s->lock) || s->phase == SAVER_WORKING;
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
    clt_saved_part_free(&s->part);
    clt_saved_ranks_close(&s->ranks);
    clt_str_free(&s->config);
    clt_saved_texts_free(&s->texts);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- a save --- */

/* Called by a thread of the driver when the last read has ended. */
static void reads_done(void *context, bool ok)
{
    clt_saver *s = context;
    pthread_mutex_lock(&s->lock);
    s->read_ok = s->read_ok && ok;
    s->result.read = clt_now();
    if (s->phase == SAVER_READING) /* otherwise nothing waits for it any more */
        s->phase = SAVER_WORKING;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static clt_status enqueue_reads(clt_saver *s)
{
    const clt_store *store = s->run->store;
    CLT_SCOPED(ocl_event) *done = NULL;
    CLT_TRY(clt_saved_part_read(s->run, &s->part));
    CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, store->slab[CLT_ARENA_STATE][0], 0, &s->state, sizeof s->state,
                           NULL, &done));
    s->last_command = ocl_commands_enqueued(s->run->device);
    return ocl_event_callback(done, reads_done, s);
}

static void set_phase(clt_saver *s, saver_phase phase, saver_round round)
{
    pthread_mutex_lock(&s->lock);
    s->phase = phase;
    s->round = round;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* With several ranks: rank 0 makes the folder, all learn whether it could, and pieces are sent to rank 0. */
static clt_status begin_together(clt_saver *s)
{
    clt_checkpoint_content content = content_of(s, "");
    if (s->run->ranks.rank == 0)
        clt_error_take(clt_checkpoint_begin(s->ranks.folder, s->ranks.tag, &content, &s->written), &s->error);
    CLT_TRY(clt_saved_tell(s->run, &s->error));
    s->pending = s->error.status != CLT_OK;
    s->open = !s->pending;
    return s->pending ? CLT_OK : clt_saved_ranks_send(s->run, &s->ranks, &s->part);
}

void clt_saver_ask(clt_saver *s, int64_t (*uploading)(void *context), void *context)
{
    s->uploading = uploading;
    s->context = context;
}

clt_status clt_saver_begin(clt_saver *s, int64_t step, const clt_saved_state *state,
                           const clt_retention *retention)
{
    bool alone = s->run->ranks.ranks == 1;
    pthread_mutex_lock(&s->lock);
    bool ended = wait_while_busy(s), idle = s->phase == SAVER_IDLE;
    pthread_mutex_unlock(&s->lock);
    if (!ended)
        return lost(s);
    if (!idle)
        CLT_FAIL(CLT_EINTERNAL, "a checkpoint is begun while the one before it is still being saved");
    s->result.begun = s->result.read = clt_now();
    s->result.step = step;
    s->extra = *state;
    s->retention = *retention;
    s->written = s->all = (clt_part){0};
    s->error = (clt_error){.status = CLT_OK};
    s->read_ok = true;
    s->exceeds = false;
    if (!alone)
        CLT_TRY(begin_together(s));
    if (s->pending)
        return CLT_OK;
    set_phase(s, SAVER_READING, alone ? ROUND_ALL : ROUND_WRITE);
    clt_status status = enqueue_reads(s);
    if (status == CLT_OK)
        return ocl_flush(s->run->device, OCL_QUEUE_COMPUTE);
    CLT_KEEP_ERROR();
    ocl_finish(s->run->device, OCL_QUEUE_COMPUTE); /* reads that were enqueued still write into this memory */
    set_phase(s, SAVER_IDLE, ROUND_ALL);
    return status;
}

bool clt_saver_waits(clt_saver *s)
{
    pthread_mutex_lock(&s->lock);
    bool waits = s->open && s->phase == SAVER_THROUGH;
    pthread_mutex_unlock(&s->lock);
    return waits;
}

/* Hands out the result of a save that has ended, with this error or successfully. */
static void take_result(clt_saver *s, const clt_error *error, clt_save_result *result, bool *have)
{
    s->result.error = *error;
    snprintf(s->result.path, sizeof s->result.path, "%.900s/step_%" PRId64, s->ranks.folder, s->result.step);
    *result = s->result;
    *have = true;
}

/* Ends the common rounds; rank 0 does the round `rest` alone (ROUND_ALL: there is none). */
static void close_rounds(clt_saver *s, saver_round rest)
{
    s->open = false;
    set_phase(s, s->run->ranks.rank == 0 && rest != ROUND_ALL ? SAVER_WORKING : SAVER_IDLE, rest);
}

/* All ranks have read the new checkpoint: older ones are deleted if it has the bytes that were written. */
static void end_verification(clt_saver *s, const clt_error *error, const clt_part *read)
{
    bool same = error->status == CLT_OK && memcmp(read, &s->all, sizeof *read) == 0;
    if (!same && s->run->ranks.rank == 0)
        CLT_WARN("older checkpoints are kept, because the checkpoint of step %" PRId64 " does not verify: %s",
                 s->result.step,
                 error->status != CLT_OK ? error->text : "it has other bytes than were written");
    close_rounds(s, same ? ROUND_RETAIN : ROUND_ALL);
}

/* Ends a round together with all other ranks and begins the next one, if any. */
static clt_status meet(clt_saver *s, clt_save_result *result, bool *have)
{
    clt_error error = s->error;
    clt_part part = s->written;
    bool exceeds = s->exceeds;
    CLT_TRY(clt_saved_collect(s->run, &error, &part, &exceeds));
    if (s->round == ROUND_VERIFY) {
        end_verification(s, &error, &part);
        return CLT_OK;
    }
    if (s->round == ROUND_WRITE && error.status == CLT_OK) {
        s->all = part;
        set_phase(s, SAVER_WORKING, ROUND_PLACE);
        return CLT_OK;
    }
    take_result(s, &error, result, have);
    if (error.status == CLT_OK && exceeds)
        set_phase(s, SAVER_WORKING, ROUND_VERIFY);
    else
        close_rounds(s, error.status == CLT_OK ? ROUND_ALL : ROUND_DISCARD);
    return CLT_OK;
}

/* Waits until this rank has nothing to do and returns its phase; *ended: see wait_while_busy. */
static saver_phase settle(clt_saver *s, bool *ended)
{
    pthread_mutex_lock(&s->lock);
    *ended = wait_while_busy(s);
    saver_phase phase = s->phase;
    pthread_mutex_unlock(&s->lock);
    return phase;
}

static clt_status poll_ranks(clt_saver *s, clt_saver_poll_kind kind, clt_save_result *result, bool *have)
{
    bool ended = true;
    if (kind == CLT_SAVER_MEET && clt_saver_waits(s))
        return meet(s, result, have);
    while (kind == CLT_SAVER_WAIT && s->open && ended) {
        settle(s, &ended);
        if (ended)
            CLT_TRY(meet(s, result, have));
    }
    if (kind == CLT_SAVER_WAIT && ended)
        settle(s, &ended);
    return ended ? CLT_OK : lost(s);
}

clt_status clt_saver_poll(clt_saver *s, clt_saver_poll_kind kind, clt_save_result *result, bool *have)
{
    bool ended = true;
    *have = false;
    if (s->pending) {
        s->pending = false;
        take_result(s, &s->error, result, have);
        return CLT_OK;
    }
    if (s->run->ranks.ranks > 1)
        return poll_ranks(s, kind, result, have);
    pthread_mutex_lock(&s->lock);
    if (kind == CLT_SAVER_WAIT)
        ended = wait_while_busy(s);
    bool through = s->phase == SAVER_THROUGH;
    if (through)
        s->phase = SAVER_IDLE;
    pthread_mutex_unlock(&s->lock);
    if (!ended)
        clt_error_take(lost(s), &s->error);
    if (!ended || through)
        take_result(s, &s->error, result, have);
    return CLT_OK;
}
