/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads checkpoints, metrics and the log of a run to object storage (checkpoint.upload). During the
 * training a thread uploads the newest complete checkpoint, and the ones that stay in the bucket for good.
 * The training waits for it only at its end, when another thread uploads the final texts. trainer_fetch.c
 * fetches checkpoints and texts at the start. Only rank 0 of a run with a folder does any of this. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/remote.h"
#include "engine/config/choices.h"
#include "engine/data/storage_config.h"
#include "engine/files/fileio.h"
#include "engine/train/loop/trainer_loop.h"
#include "engine/train/saved/upload_queue.h"

#define FETCH_DEADLINE 86400.0 /* seconds that other ranks wait while rank 0 fetches a checkpoint */
#define FIRST_PAUSE 1.0        /* seconds until failed uploads are retried; doubled each time */
#define MOST_PAUSE 60.0
#define TEXTS_SHARE 0.25   /* share of the wait at the end of the run that is kept for the final texts */
#define TEXTS_SECONDS 60.0 /* limit of that share, in seconds */

/* A checkpoint that is complete in the bucket and has not been reported yet. */
typedef struct arrival {
    int64_t step;
    double seconds;
    uint64_t bytes;
} arrival;

struct clt_uploader {
    clt_remote *remote;
    clt_remote *texts_client; /* for the final texts while `remote` may be busy or ended; NULL: `remote` */
    char folder[1024];        /* the run folder */
    double limit;             /* seconds that the end of the run waits; 0: as long as it takes */
    double ending;            /* when that wait began; 0: it has not begun */
    uint64_t mark;            /* identifies the run in the bucket (clt_run_mark) */
    bool wait_over;           /* it took too long, or was interrupted: requests have been ended */
    bool gave_up; /* no further checkpoint begins, because one took too long; the final texts are sent */
    bool wrote_metrics;        /* used by the thread only: this run's metrics.jsonl is in the bucket */
    bool taken;                /* used by the thread only: another run's is there */
    clt_thread *thread, *last; /* last: sends the final texts */
    pthread_mutex_t lock;      /* guards the members below */
    pthread_cond_t changed;
    /* rules of the bucket; keep 0: nothing is deleted; best: the newest best checkpoint complete there */
    clt_retention retention;
    /* warnings given: older checkpoints stay; a manifest stays while files are replaced; texts are missing */
    bool warned_stays, warned_covers, warned_lacks;
    clt_upload_queue queue;
    int64_t uploading;      /* the step whose files are read now; 0: none */
    double retry_at, pause; /* clt_now() at which failed uploads are retried; seconds of the next pause */
    bool ends;              /* no more checkpoints will be queued */
    bool sending;           /* the thread is sending texts, though not the final ones */
    bool settled, over; /* settled: the thread has ended; over: the thread for the final texts has ended */
    clt_error failure;  /* error of the newest failed upload; CLT_OK if no failed upload waits */
    clt_error texts;    /* error of the newest attempt to send the final texts */
    arrival *arrived;
    size_t n_arrived, capacity;
    clt_str warned; /* a warning that has not been reported yet */
};

/* --- the thread --- */

/* Reports this thread's error, but only the first of several failures in a row. *told: the last attempt
 * failed. */
static void warn_once(clt_uploader *u, bool *told, clt_status status, const char *what)
{
    CLT_LOCKED(&u->lock);
    if (status != CLT_OK && status != CLT_EINTERRUPTED && !*told && !u->wait_over)
        clt_str_printf(&u->warned, "%s%s: %s", u->warned.text ? "; " : "", what, clt_error_text());
    *told = status != CLT_OK;
    clt_error_clear();
}

/* Deletes the manifest of a step in the bucket before its files are replaced, if that is allowed, so that
 * nobody takes a mixture of two uploads for a checkpoint. */
static clt_status withdraw(clt_uploader *u, int64_t step)
{
    bool refused;
    clt_status status = clt_remote_withdraw(u->remote, step, &refused);
    if (!refused)
        return status;
    warn_once(u, &u->warned_covers, status,
              "the files of an uploaded checkpoint are replaced while its manifest is there");
    return CLT_OK;
}

/* Sends the texts as they are now. CLT_EINTERRUPTED: they must not be sent any more, because the final ones
 * are sent by another client, and older texts that arrive after them would replace them. */
static clt_status put_texts(clt_uploader *u)
{
    pthread_mutex_lock(&u->lock);
    u->sending = !u->gave_up;
    const bool sends = u->sending;
    pthread_mutex_unlock(&u->lock);
    if (!sends)
        CLT_FAIL(CLT_EINTERRUPTED, "the time for the uploads of checkpoints is over");
    clt_status status = clt_remote_put_texts(u->remote, u->folder, &u->wrote_metrics);
    pthread_mutex_lock(&u->lock);
    u->sending = false;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return status;
}

/* Uploads the texts. If that fails, a warning says so, and the next upload includes them. */
static void send_texts(clt_uploader *u)
{
    clt_status status = clt_remote_check_mine(u->remote, u->wrote_metrics, u->mark, &u->taken);
    if (status == CLT_OK)
        status = put_texts(u);
    warn_once(u, &u->warned_lacks, status,
              "metrics.jsonl, log.txt and config.resolved.json could not all be uploaded; they are uploaded "
              "again with the next checkpoint and at the end of the run");
}

/* If another client sends the final texts, waits for them. CLT_EINTERRUPTED: they were not sent. */
static clt_status await_final_texts(clt_uploader *u)
{
    CLT_LOCKED(&u->lock);
    while (u->gave_up && !u->over && !u->wait_over)
        pthread_cond_wait(&u->changed, &u->lock);
    if (u->gave_up && (!u->over || u->texts.status != CLT_OK))
        CLT_FAIL(CLT_EINTERRUPTED, "the time for uploads is over");
    return CLT_OK;
}

/* The texts come before the manifest: if this machine is lost in between, the next one finds no checkpoint
 * whose lines of metrics.jsonl are missing, only lines after its checkpoint, which it removes. */
static clt_status upload_step(clt_uploader *u, int64_t step, const char *folder, uint64_t *bytes)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(u->wrote_metrics ? clt_remote_check_mine(u->remote, true, u->mark, &u->taken) : put_texts(u));
    CLT_TRY(clt_folder_names(folder, &names));
    CLT_TRY(withdraw(u, step));
    CLT_TRY(clt_remote_put_step(u->remote, step, folder, &names, bytes));
    send_texts(u);
    CLT_TRY(await_final_texts(u));
    if (u->taken) /* another run's texts are there: no manifest beside them */
        CLT_TRY(clt_remote_check_mine(u->remote, u->wrote_metrics, u->mark, &u->taken));
    return clt_remote_put_manifest(u->remote, step, folder, bytes);
}

/* Queues a step for upload. Called with the lock held. */
static void add_due(clt_uploader *u, const clt_due_upload *due)
{
    clt_status status = clt_upload_queue_add(&u->queue, due);
    if (status != CLT_OK)
        clt_error_take(status, &u->failure);
}

/* Sets the time of the next attempt after failed uploads. */
static void pause_uploads(double *retry_at, double *pause)
{
    *retry_at = clt_now() + *pause;
    *pause = *pause * 2 < MOST_PAUSE ? *pause * 2 : MOST_PAUSE;
}

/* Lets the next upload begin immediately. Called with the lock held. */
static void end_pause(clt_uploader *u)
{
    u->retry_at = 0;
    u->pause = FIRST_PAUSE;
}

/* Forgets the failure when no upload that has failed waits any longer. Called with the lock held. */
static void forget_failure(clt_uploader *u)
{
    if (!clt_upload_queue_told(&u->queue))
        u->failure = (clt_error){.status = CLT_OK};
}

/* Notes that a checkpoint is completely uploaded. best: it was the best one when its upload began. Called
 * with the lock held. */
static void note_arrival(clt_uploader *u, const arrival *a, bool best)
{
    clt_upload_queue_arrived(&u->queue, a->step);
    forget_failure(u);
    if (best)
        u->retention.best = a->step;
    end_pause(u);
    if (clt_grow(&u->arrived, &u->capacity, u->n_arrived + 1, sizeof *u->arrived, "uploads") == CLT_OK)
        u->arrived[u->n_arrived++] = *a;
    clt_error_clear();
}

/* Notes that an upload has failed with this thread's error. It is retried after the others that wait, or not
 * at all if a newer one replaces it. If the local checkpoint is gone, because a newer or better one exists,
 * that is no failure. Called with the lock held. */
static void note_failure(clt_uploader *u, clt_due_upload *due, const char *path, clt_status status)
{
    clt_error error;
    clt_error_take(status, &error);
    if (!clt_is_directory(path))
        forget_failure(u);
    if (u->wait_over || !clt_is_directory(path))
        return;
    if (status != CLT_EINTERRUPTED) { /* otherwise the end of the run has cancelled it */
        if (u->failure.status == CLT_OK)
            clt_str_printf(&u->warned,
                           "%sthe checkpoint of step %lld could not be uploaded and is retried: %s",
                           u->warned.text ? "; " : "", (long long)due->step, error.text);
        u->failure = error;
        due->tried = due->told = true;
    }
    add_due(u, due);
}

/* Deletes older checkpoints in the bucket (checkpoint.upload_keep). Checkpoints that cannot be deleted stay,
 * and one warning says so. Nothing is deleted while the best one is not in the bucket and the previous best
 * one there is unknown. */
static void retain(clt_uploader *u)
{
    pthread_mutex_lock(&u->lock);
    const clt_retention retention = u->retention;
    const int64_t newest = u->queue.newest;
    const bool unsure = u->queue.best >= 0 && retention.best < 0;
    pthread_mutex_unlock(&u->lock);
    if (retention.keep == 0 || unsure)
        return;
    warn_once(u, &u->warned_stays, clt_remote_retain(u->remote, newest, &retention),
              "checkpoint.upload_keep: older checkpoints stay in the bucket");
}

/* Uploads a checkpoint. Called with the lock held; releases it during the upload. */
static void upload_due(clt_uploader *u, clt_due_upload *due)
{
    char path[sizeof u->folder + 64];
    arrival a = {.step = due->step};
    const bool best = a.step == u->queue.best;
    snprintf(path, sizeof path, "%s/checkpoints/step_%" PRId64, u->folder, a.step);
    u->uploading = a.step;
    pthread_mutex_unlock(&u->lock);
    const double begin = clt_now();
    clt_status status = upload_step(u, a.step, path, &a.bytes);
    a.seconds = clt_now() - begin;
    pthread_mutex_lock(&u->lock);
    u->uploading = 0;
    if (status != CLT_OK) {
        note_failure(u, due, path, status);
        return;
    }
    note_arrival(u, &a, best);
    pthread_mutex_unlock(&u->lock);
    retain(u);
    pthread_mutex_lock(&u->lock);
}

/* Uploads checkpoints until the run has ended and none is left, or until the end of the run has waited too
 * long for them. Called with the lock held. */
static void upload_steps(clt_uploader *u)
{
    clt_due_upload due;
    while (!u->wait_over && !u->gave_up && !(u->taken && u->ends) && (!u->ends || u->queue.count > 0)) {
        const double left = u->retry_at - clt_now();
        if (u->queue.count == 0)
            pthread_cond_wait(&u->changed, &u->lock);
        else if (left > 0)
            (void)clt_cond_wait_for(&u->changed, &u->lock, left);
        else if (clt_upload_queue_take(&u->queue, &due))
            upload_due(u, &due);
        else {
            pause_uploads(&u->retry_at, &u->pause);
            clt_upload_queue_again(&u->queue);
        }
    }
}

static void *upload_all(void *context)
{
    clt_uploader *u = context;
    send_texts(u); /* before the first checkpoint, so that other runs see the address is taken */
    pthread_mutex_lock(&u->lock);
    upload_steps(u);
    u->settled = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* --- the final texts --- */

/* Uploads the final metrics.jsonl, log.txt and config.resolved.json, and retries until that succeeds or the
 * run's end has waited for too long. Runs beside a checkpoint's upload that takes too long. */
static void *upload_last(void *context)
{
    clt_uploader *u = context;
    clt_remote *remote = u->texts_client ? u->texts_client : u->remote;
    clt_error error = {.status = CLT_EINTERRUPTED};
    double retry_at = 0, pause = FIRST_PAUSE;
    bool wrote = u->wrote_metrics, taken = false;
    pthread_mutex_lock(&u->lock);
    while (!u->wait_over && error.status != CLT_OK && !taken) {
        const double left = retry_at - clt_now();
        if (left > 0) {
            (void)clt_cond_wait_for(&u->changed, &u->lock, left);
            continue;
        }
        pthread_mutex_unlock(&u->lock);
        clt_status mine = clt_remote_check_mine(remote, wrote, u->mark, &taken);
        clt_error_take(mine == CLT_OK ? clt_remote_put_texts(remote, u->folder, &wrote) : mine, &error);
        pthread_mutex_lock(&u->lock);
        pause_uploads(&retry_at, &pause);
        if (error.status == CLT_OK || !u->wait_over)
            u->texts = error;
    }
    u->over = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* Starts the thread for the final texts. If checkpoints took too long, it gets its own client. */
static clt_status begin_last(clt_uploader *u, const clt_config *config)
{
    clt_s3_options storage;
    clt_storage_options(config, &storage);
    if (u->gave_up)
        CLT_TRY(
            clt_remote_connect(clt_config_string(config, "checkpoint.upload"), &storage, &u->texts_client));
    return clt_thread_start(&u->last, "upload texts", upload_last, u);
}

/* --- the start and the end of the thread --- */

static clt_status open_first(clt_loop *l, clt_uploader **out)
{
    const clt_run_options *o = l->options;
    const char *address = clt_config_string(o->config, "checkpoint.upload");
    CLT_SCOPED(clt_uploader) *u = NULL;
    clt_s3_options storage;
    int64_t due = -1;
    clt_storage_options(o->config, &storage);
    CLT_TRY(clt_alloc(&u, 1, sizeof *u, "uploads"));
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    u->queue = (clt_upload_queue)CLT_UPLOAD_QUEUE_EMPTY;
    u->retention.best = -1;
    end_pause(u);
    u->limit = clt_config_float(o->config, "checkpoint.upload_seconds");
    snprintf(u->folder, sizeof u->folder, "%s", o->out_dir);
    CLT_TRY(clt_fail_prefix(clt_remote_check_run(address), "checkpoint.upload: "));
    CLT_TRY(clt_fail_prefix(clt_remote_open(address, &storage, &u->remote), "checkpoint.upload: "));
    CLT_TRY(clt_fail_prefix(clt_remote_check_new(u->remote, u->folder, clt_continues(o), address),
                            "checkpoint.upload: "));
    if (clt_continues(o))
        CLT_TRY(clt_fail_prefix(clt_upload_fetch(l, u->remote, &due), "checkpoint.upload: "));
    if (due >= 0)
        add_due(u, &(clt_due_upload){.step = due});
    *out = CLT_TAKE(u);
    return CLT_OK;
}

clt_status clt_uploader_open(clt_loop *l)
{
    const clt_run_options *o = l->options;
    int64_t ready = 1;
    if (!clt_config_string(o->config, "checkpoint.upload")[0] || !o->out_dir)
        return CLT_OK;
    if (o->comm) { /* the run's own deadline begins with clt_run_create */
        comm_set_deadline(o->comm, FETCH_DEADLINE);
        comm_set_phase(o->comm, "fetching the checkpoint to resume from");
    }
    if (clt_first_rank(o))
        CLT_TRY(open_first(l, &l->uploader));
    /* the others read the checkpoint that rank 0 has fetched */
    return o->comm && comm_describe(o->comm)->ranks > 1 ? comm_broadcast(o->comm, &ready, sizeof ready, 0)
                                                        : CLT_OK;
}

bool clt_upload_has(const clt_loop *l, int64_t step)
{
    const clt_remote_step *there =
        l->uploader && step >= 0 ? clt_remote_find(l->uploader->remote, step) : NULL;
    return there && there->complete;
}

clt_status clt_upload_best_before(const clt_loop *l, int64_t step, clt_best_evaluation *out)
{
    static const char *const words[] = {CLT_BESTS(CLT_CHOICE_WORD)};
    *out = (clt_best_evaluation){.step = -1, .value = NAN};
    return l->uploader ? clt_remote_best_before(l->uploader->remote, step, words[l->keeper.state.best],
                                                &out->step, &out->value)
                       : CLT_OK;
}

/* Tells the uploader of a resumed run which checkpoints stay in the bucket. Queues the ones of them that are
 * only local, because an earlier process ended before it uploaded them. */
static clt_status begin_retention(clt_loop *l, clt_uploader *u)
{
    const clt_config *c = l->options->config;
    const bool keeps_best = clt_config_choice(c, "checkpoint.best") != CLT_BEST_NONE;
    CLT_FREED int64_t *steps = NULL;
    size_t count = 0;
    u->queue.best = keeps_best ? l->keeper.kept.step : -1;
    u->retention.keep = (int)clt_config_int(c, "checkpoint.upload_keep");
    u->queue.major = u->retention.major = clt_config_int(c, "checkpoint.major");
    const clt_remote_step *newest = clt_remote_find(u->remote, -1);
    if (newest && newest->step <= l->run->first_step)
        u->queue.newest = newest->step;
    if (clt_upload_has(l, u->queue.best))
        u->retention.best = u->queue.best;
    CLT_TRY(clt_upload_only_here(l, &steps, &count));
    for (size_t i = 0; i < count; i++)
        if (clt_upload_stays(&u->queue, steps[i]))
            add_due(u, &(clt_due_upload){.step = steps[i]});
    return CLT_OK;
}

/* The step whose files are read now, or are read next; 0: none. Called by the thread that deletes older
 * checkpoints. */
static int64_t needed(void *context)
{
    clt_uploader *u = context;
    CLT_LOCKED(&u->lock);
    const clt_due_upload *next = clt_upload_queue_next(&u->queue);
    return u->uploading ? u->uploading : next ? next->step : 0;
}

/* Called when the run folder is open, so a run that fails at its start uploads nothing. */
clt_status clt_upload_begin(clt_loop *l)
{
    clt_uploader *u = l->uploader;
    if (!u)
        return CLT_OK;
    CLT_TRY(begin_retention(l, u));
    CLT_TRY(clt_run_mark(u->folder, &u->mark));
    if (l->keeper.saver)
        clt_saver_ask(l->keeper.saver, needed, u);
    return clt_thread_start(&u->thread, "upload", upload_all, u);
}

/* --- beside the training --- */

void clt_upload_saved(clt_loop *l, const clt_save_result *result)
{
    clt_uploader *u = l->uploader;
    if (!u)
        return;
    CLT_LOCKED(&u->lock);
    if (clt_config_choice(l->options->config, "checkpoint.best") != CLT_BEST_NONE)
        u->queue.best = l->keeper.kept.step;
    add_due(u, &(clt_due_upload){.step = result->step});
    u->retry_at = 0;
    pthread_cond_broadcast(&u->changed);
}

void clt_upload_look(clt_loop *l)
{
    clt_uploader *u = l->uploader;
    CLT_FREED arrival *arrived = NULL;
    CLT_SCOPED(clt_str) warned = {0};
    if (!u)
        return;
    pthread_mutex_lock(&u->lock);
    size_t count = u->n_arrived;
    arrived = CLT_TAKE(u->arrived);
    warned = u->warned;
    u->n_arrived = u->capacity = 0;
    u->warned = (clt_str){0};
    pthread_mutex_unlock(&u->lock);
    for (size_t i = 0; i < count; i++) {
        clt_meter_note(&l->meter.before.longest.upload_s, arrived[i].seconds);
        clt_tell_uploaded(l, arrived[i].step, arrived[i].seconds, arrived[i].bytes);
    }
    if (warned.text)
        clt_tell_warning(l, warned.text);
}

/* True if a user at the terminal interrupts the wait (SIGINT). Other signals come when the machine or the
 * job is ended, and leave time for this wait. */
static bool interrupted(const clt_loop *l)
{
    return l->options->stop && atomic_load(l->options->stop) == SIGINT && l->stop != SIGINT;
}

/* Cancels requests when the wait takes too long, for checkpoints earlier than for the final texts, so that a
 * checkpoint that hangs or is refused leaves time for the texts. Called with the lock held. */
static void limit_wait(clt_uploader *u, const clt_loop *l)
{
    const double waited = clt_now() - u->ending,
                 share = u->limit * TEXTS_SHARE < TEXTS_SECONDS ? u->limit * TEXTS_SHARE : TEXTS_SECONDS;
    const bool wait_over = (u->limit > 0 && waited > u->limit) || interrupted(l);
    const bool gave_up = !u->settled && u->limit > 0 && waited > u->limit - share;
    if ((wait_over && !u->wait_over) || (gave_up && !u->gave_up && u->sending))
        clt_s3_cancel(u->remote->s3);
    if (wait_over && !u->wait_over && u->texts_client)
        clt_s3_cancel(u->texts_client->s3);
    u->gave_up = u->gave_up || gave_up;
    u->wait_over = u->wait_over || wait_over;
    if (u->wait_over || (u->gave_up && !u->settled))
        pthread_cond_broadcast(&u->changed);
}

/* True if the wait is over. For checkpoints it also ends when only the time for the final texts is left;
 * `last`: waits for checkpoints and final texts. */
static bool is_through(const clt_uploader *u, bool last)
{
    return last ? u->settled && u->over : u->settled || (u->gave_up && !u->sending);
}

/* Waits for the uploads, and meanwhile reports those that fail. If that takes too long, or is interrupted,
 * requests are cancelled, so that the threads end soon. */
static void await_uploads(clt_uploader *u, clt_loop *l, bool last)
{
    if (u->ending <= 0)
        u->ending = clt_now();
    pthread_mutex_lock(&u->lock);
    u->ends = true;
    end_pause(u);
    pthread_cond_broadcast(&u->changed);
    while (!is_through(u, last)) {
        limit_wait(u, l);
        if (!is_through(u, last))
            (void)clt_cond_wait_turn(&u->changed, &u->lock);
        if (u->warned.text) {
            pthread_mutex_unlock(&u->lock);
            clt_upload_look(l);
            pthread_mutex_lock(&u->lock);
        }
    }
    pthread_mutex_unlock(&u->lock);
}

void clt_upload_settle(clt_loop *l)
{
    if (!l->uploader || !l->uploader->thread || l->uploader->ends)
        return;
    CLT_KEEP_ERROR();
    clt_run_progress(l->run, "uploading", 0, 0);
    await_uploads(l->uploader, l, false);
    clt_run_progress(l->run, "uploading", 0, -1);
    clt_upload_look(l);
}

/* Ends the uploads; false: something is missing in the bucket, and `text` says why. */
static bool finish(clt_loop *l, char *text, size_t size)
{
    clt_uploader *u = l->uploader;
    clt_upload_settle(l);
    clt_status begun = begin_last(u, l->options->config);
    if (begun != CLT_OK) { /* there is no thread that sets these members */
        CLT_LOCKED(&u->lock);
        clt_error_take(begun, &u->texts);
        u->over = true;
    }
    await_uploads(u, l, true);
    clt_thread_join(CLT_TAKE(u->thread));
    clt_thread_join(CLT_TAKE(u->last));
    clt_upload_look(l);
    const clt_error *failure = u->failure.status != CLT_OK ? &u->failure : &u->texts;
    const bool failed = failure->status != CLT_OK, late = u->wait_over || (u->gave_up && u->queue.count > 0);
    if (!late && !failed)
        return true;
    char why[64] = "";
    if (u->wait_over && interrupted(l))
        snprintf(why, sizeof why, "the uploads were interrupted");
    else if (late)
        snprintf(why, sizeof why, "checkpoint.upload_seconds (%g) were too few", u->limit);
    snprintf(text, size, "not all that the run has made is in %s: %s%s%s",
             clt_config_string(l->options->config, "checkpoint.upload"), why, why[0] && failed ? "; " : "",
             failed ? failure->text : "");
    return false;
}

clt_status clt_upload_finish(clt_loop *l, clt_status ended)
{
    char text[CLT_ERROR_TEXT_SIZE + 1400];
    if (!l->uploader || !l->uploader->thread)
        return ended;
    if (ended == CLT_OK && finish(l, text, sizeof text))
        return CLT_OK;
    if (ended == CLT_OK)
        CLT_FAIL(CLT_ESTORAGE, "%s", text);
    CLT_KEEP_ERROR();
    if (!finish(l, text, sizeof text))
        clt_tell_warning(l, text);
    return ended;
}

void clt_uploader_close(clt_uploader *u)
{
    if (!u)
        return;
    clt_remote_close(u->remote);
    clt_remote_close(u->texts_client);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    clt_str_free(&u->warned);
    free(u->arrived);
    clt_upload_queue_free(&u->queue);
    free(u);
}
