/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader: threads fill slots ahead of the consumer. Tickets number the micro-batches. Slots are given
 * to tickets in order, under one lock, so that the lowest undelivered ticket always has a slot. So the
 * consumer, which takes tickets in order, never waits for a ticket that no worker can fill. Workers fill
 * a slot together: each takes its next few samples, and a new slot is begun when all samples of the
 * previous one have been taken. So a few slots keep any number of workers busy, and a micro-batch is
 * ready as early as possible. The content of a micro-batch is a pure function of its ticket: the number
 * of workers changes only the speed. The loader knows nothing of devices. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/data/loader_internal.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

/* number of micro-batches whose remote files are requested ahead of the one being filled */
#define TICKETS_AHEAD 4

static clt_class_sum class_sum_of(const counted_loss *loss)
{
    return (clt_class_sum){loss->weights, loss->n_weights, loss->has_ignore, loss->ignore};
}

int clt_loader_auto_workers(int core_ranks)
{
    int parts = 4 * (core_ranks > 1 ? core_ranks : 1);
    return (clt_cpu_count() * 3 + parts - 1) / parts;
}

/* --- the content of a ticket's micro-batch --- */

static void describe_ticket(const clt_loader *loader, int64_t ticket, clt_slot *slot)
{
    const clt_loader_options *o = &loader->options;
    if (o->evaluation) {
        int64_t micro_batch = ticket * o->ranks + o->rank;
        int64_t left = o->source->samples - micro_batch * o->micro_batch;
        slot->step = micro_batch;
        slot->micro = 0;
        slot->sample_base = (uint64_t)(micro_batch * o->micro_batch);
        slot->valid_samples = left < o->micro_batch ? left : o->micro_batch;
        slot->left_out = 0;
        return;
    }
    slot->step = o->first_step + ticket / o->accumulation;
    slot->micro = (int32_t)(ticket % o->accumulation);
    slot->sample_base = (uint64_t)(o->first_micro + slot->micro) * (uint64_t)o->micro_batch;
    slot->valid_samples = o->micro_batch;
}

/* Index and random draw of the i-th sample of a slot. */
static int64_t sample_of(const clt_loader *loader, const clt_slot *slot, int64_t i, clt_draw *draw)
{
    const clt_loader_options *o = &loader->options;
    *draw = (clt_draw){.seed = o->seed};
    if (o->evaluation)
        return i < slot->valid_samples ? (int64_t)slot->sample_base + i : 0;
    uint64_t position = (uint64_t)slot->step * (uint64_t)o->global_batch + slot->sample_base + (uint64_t)i;
    return clt_source_sample(o->source, position, o->seed, o->shuffle, draw);
}

/* The contribution to a loss's normaliser from the targets of sample i of a filled slot. */
static double count_in_slot(const clt_loader *loader, const counted_loss *loss, const clt_slot *slot,
                            int64_t i)
{
    const clt_source_field *field = &loader->options.source->fields[loss->source_field];
    const void *values =
        (const char *)slot->data + loss->offset + (uint64_t)i * clt_source_field_bytes(field);
    const clt_class_sum classes = class_sum_of(loss);
    int64_t elements = clt_shape_elements(&field->shape);
    return loss->weights ? clt_sum_classes(&classes, values, field->dtype, elements)
                         : (double)clt_count_valid(values, field->dtype, elements, loss->ignore);
}

/* The same for a sample that is not in this slot: its targets are read from the source. */
static clt_status count_in_source(loader_worker *worker, const counted_loss *loss, int64_t index,
                                  clt_draw draw, double *count)
{
    const clt_source *source = worker->loader->options.source;
    const clt_class_sum classes = class_sum_of(loss);
    if (loss->weights)
        return clt_source_sum_classes(source, index, draw, loss->source_field, &classes, worker->scratch,
                                      count);
    int64_t valid = 0;
    CLT_TRY(clt_source_count_valid(source, index, draw, loss->source_field, loss->ignore, worker->scratch,
                                   &valid));
    *count = (double)valid;
    return CLT_OK;
}

/* Adds up the targets of all samples in the step's global batch, including the samples of other ranks. If
 * `slot` holds the whole global batch, nothing is read again. In both cases the samples are added in the same
 * order, so that the sums agree to the last bit. */
static clt_status count_step(loader_worker *worker, const clt_slot *slot, double value[CLT_MAX_LOSSES])
{
    const clt_loader *loader = worker->loader;
    const clt_loader_options *o = &loader->options;
    double total[CLT_MAX_LOSSES] = {0}, count = 0;
    for (int64_t i = 0; loader->counts_values && i < o->global_batch && !atomic_load(&loader->closing); i++) {
        uint64_t position = (uint64_t)slot->step * (uint64_t)o->global_batch + (uint64_t)i;
        clt_draw draw;
        int64_t index = clt_source_sample(o->source, position, o->seed, o->shuffle, &draw);
        for (int k = 0; k < loader->n_losses; k++) {
            if (!clt_loader_reads_targets(&loader->losses[k]))
                continue;
            if (o->micro_batch == o->global_batch)
                count = count_in_slot(loader, &loader->losses[k], slot, i);
            else
                CLT_TRY(count_in_source(worker, &loader->losses[k], index, draw, &count));
            total[k] += count;
        }
    }
    for (int k = 0; k < loader->n_losses; k++)
        value[k] = clt_loader_reads_targets(&loader->losses[k])
                       ? total[k]
                       : (double)o->global_batch * (double)loader->losses[k].per_sample;
    return CLT_OK;
}

/* The normalisers of a step with several micro-batches: one worker counts without the lock, and others wait
 * for the result. */
static clt_status share_count(loader_worker *worker, clt_slot *slot)
{
    clt_loader *loader = worker->loader;
    step_normaliser *entry = &loader->cache[slot->step % NORMALISER_CACHE];
    clt_status status = CLT_OK;
    pthread_mutex_lock(&loader->lock);
    while (entry->counting && !atomic_load(&loader->closing))
        pthread_cond_wait(&loader->has_counted, &loader->lock);
    if (entry->known && entry->step == slot->step)
        memcpy(slot->normaliser, entry->value, sizeof slot->normaliser);
    else if (!atomic_load(&loader->closing)) {
        entry->counting = true;
        entry->known = false;
        pthread_mutex_unlock(&loader->lock);
        status = count_step(worker, slot, slot->normaliser);
        pthread_mutex_lock(&loader->lock);
        entry->counting = false;
        entry->known = status == CLT_OK && !atomic_load(&loader->closing);
        entry->step = slot->step;
        memcpy(entry->value, slot->normaliser, sizeof entry->value);
        pthread_cond_broadcast(&loader->has_counted);
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* Evaluation: moves the good samples of a filled slot to its front, so that the bad ones are counted as
 * padding. */
static void leave_out(const clt_loader *loader, clt_slot *slot)
{
    const clt_loader_options *o = &loader->options;
    int64_t kept = 0;
    if (!o->evaluation || !o->source->type->left_out)
        return;
    for (int64_t i = 0; i < slot->valid_samples; i++) {
        if (o->source->type->left_out(o->source, (int64_t)slot->sample_base + i))
            continue;
        for (int f = 0; f < o->n_fields && kept < i; f++) {
            char *field = (char *)slot->data + o->offset[f];
            uint64_t bytes = loader->field_bytes[f];
            memcpy(field + (uint64_t)kept * bytes, field + (uint64_t)i * bytes, bytes);
        }
        kept++;
    }
    slot->left_out = slot->valid_samples - kept;
    slot->valid_samples = kept;
}

/* Sets the normalisers of a filled slot. In evaluation, which divides at its end, the normalisers are 1, and
 * the sums of class weights are set. */
static clt_status find_normalisers(loader_worker *worker, clt_slot *slot)
{
    const clt_loader *loader = worker->loader;
    for (int k = 0; k < CLT_MAX_LOSSES; k++)
        slot->normaliser[k] = 1.0;
    if (!loader->options.evaluation)
        return loader->counts_values && loader->options.micro_batch < loader->options.global_batch
                   ? share_count(worker, slot)
                   : count_step(worker, slot, slot->normaliser);
    for (int k = 0; k < loader->n_losses; k++) {
        slot->class_weights[k] = 0;
        for (int64_t i = 0; loader->losses[k].weights && i < slot->valid_samples; i++)
            slot->class_weights[k] += count_in_slot(loader, &loader->losses[k], slot, i);
    }
    return CLT_OK;
}

/* Requests the remote data that the micro-batch of a ticket will read. */
static void want_ticket(const clt_loader *loader, int64_t ticket)
{
    const clt_loader_options *o = &loader->options;
    clt_slot slot;
    clt_draw draw;
    if (ticket >= loader->tickets)
        return;
    describe_ticket(loader, ticket, &slot);
    for (int64_t i = 0; i < o->micro_batch && !atomic_load(&loader->closing); i++)
        o->source->type->want(o->source, sample_of(loader, &slot, i, &draw));
}

/* The first piece of a slot requests the remote data of the micro-batch TICKETS_AHEAD later. The first slot
 * requests all micro-batches up to that one. */
static void want_ahead(const clt_loader *loader, const loader_piece *piece)
{
    int64_t ticket = piece->slot->ticket;
    if (!loader->options.source->remote || !loader->options.source->type->want || piece->first != 0)
        return;
    for (int64_t t = ticket == 0 ? 0 : ticket + TICKETS_AHEAD; t <= ticket + TICKETS_AHEAD; t++)
        want_ticket(loader, t);
}

static clt_status fill_piece(const clt_loader *loader, const loader_piece *piece)
{
    const clt_loader_options *o = &loader->options;
    const clt_slot *slot = &piece->slot->slot;
    want_ahead(loader, piece);
    for (int64_t i = piece->first; i < piece->last; i++) {
        if (atomic_load(&loader->closing))
            return CLT_OK; /* the loader is closing: the slot will not be delivered */
        clt_draw draw;
        void *to[CLT_MAX_FIELDS] = {NULL};
        int64_t index = sample_of(loader, slot, i, &draw);
        for (int f = 0; f < o->n_fields; f++)
            to[o->source_field[f]] = (char *)slot->data + o->offset[f] + (uint64_t)i * loader->field_bytes[f];
        clt_status status = o->source->type->read(o->source, index, draw, to);
        clt_map_unpin(); /* the sample is copied: remote bytes that were fetched for it may be released */
        if (status != CLT_OK)
            return clt_fail_prefix(status, "loading %s %lld", o->evaluation ? "evaluation batch" : "batch",
                                   (long long)slot->step);
    }
    return CLT_OK;
}

/* Returns the error of a file that became shorter meanwhile, if there is one, else `status`, the result of
 * reading a piece. */
static clt_status whole_files(clt_status status, const loader_piece *piece)
{
    clt_error error;
    clt_error_take(status, &error);
    clt_status whole = clt_map_check();
    if (whole != CLT_OK)
        return clt_fail_prefix(whole, "loading batch %lld", (long long)piece->slot->slot.step);
    return clt_error_put(&error);
}

/* --- workers --- */

static loader_slot *free_slot(clt_loader *loader)
{
    for (int i = 0; i < loader->options.n_slots; i++)
        if (loader->slots[i].state == SLOT_FREE)
            return &loader->slots[i];
    return NULL;
}

/* Gives the next ticket a free slot; NULL: no slot is free. */
static loader_slot *begin_slot(clt_loader *loader)
{
    loader_slot *slot = free_slot(loader);
    if (!slot)
        return NULL;
    slot->state = SLOT_FILLING;
    slot->ticket = loader->next_ticket++;
    slot->taken = 0;
    slot->filling = 0;
    slot->failed = INT64_MAX;
    slot->slot.error.status = CLT_OK;
    slot->slot.load_seconds = 0;
    describe_ticket(loader, slot->ticket, &slot->slot);
    return slot;
}

/* Number of samples that a worker takes from the `left` samples that nobody has taken. */
static int64_t piece_size(const clt_loader *loader, int64_t left)
{
    if (loader->options.workers == 1)
        return left;
    double most = loader->sample_seconds > 0 ? PIECE_SECONDS / loader->sample_seconds : 1;
    return most >= (double)left ? left : most > 1 ? (int64_t)most : 1;
}

static bool may_begin(const clt_loader *loader)
{
    return !loader->failed && loader->next_ticket < loader->tickets;
}

/* --- spans of workers, for traces --- */

/* Records the span of the worker's work on its slot. */
static void end_span(loader_worker *worker)
{
    const clt_loader *loader = worker->loader;
    if (worker->ticket >= 0)
        clt_spans_add(loader->options.spans, CLT_TRACK_LOADER + (int)(worker - loader->workers), "load",
                      worker->step + 1, worker->begin, worker->end);
    worker->ticket = -1;
}

/* Notes that the worker filled a piece from time `begin` until now. Successive pieces of a slot, and
 * counting its targets, form one span, so that each worker adds at most one span for a slot. */
static void extend_span(loader_worker *worker, const loader_slot *slot, double begin)
{
    if (worker->ticket != slot->ticket) {
        end_span(worker);
        worker->ticket = slot->ticket;
        worker->step = slot->slot.step;
        worker->begin = begin;
    }
    worker->end = clt_now();
}

/* --- workers' loop --- */

/* Waits for samples to fill; false when there is nothing more to do. */
static bool take_work(loader_worker *worker, loader_piece *piece)
{
    clt_loader *loader = worker->loader;
    for (;;) {
        if (atomic_load(&loader->closing) || loader->failed || (!loader->open && !may_begin(loader)))
            return false;
        if (!loader->open)
            loader->open = begin_slot(loader);
        if (loader->open)
            break;
        end_span(worker);
        pthread_cond_wait(&loader->has_work, &loader->lock);
    }
    loader_slot *slot = loader->open;
    int64_t end = loader->options.micro_batch;
    *piece = (loader_piece){slot, slot->taken, slot->taken + piece_size(loader, end - slot->taken)};
    slot->taken = piece->last;
    slot->filling++;
    if (slot->taken == end)
        loader->open = NULL;
    if (loader->open || (may_begin(loader) && free_slot(loader)))
        pthread_cond_signal(&loader->has_work); /* another worker can work, too */
    return true;
}

/* A slot keeps the error of the first piece that failed, in the order of samples: all samples before that
 * piece have been taken. */
static void note_failure(clt_loader *loader, const loader_piece *piece, clt_status status)
{
    clt_error error;
    clt_error_take(status, &error);
    if (piece->first < piece->slot->failed) {
        piece->slot->failed = piece->first;
        piece->slot->slot.error = error;
    }
    loader->failed = true;
    pthread_cond_broadcast(&loader->has_work);
}

/* Counts the time of a piece, which ended with `status`. The last piece of a slot makes the slot ready. */
static void end_piece(loader_worker *worker, const loader_piece *piece, clt_status status, double seconds)
{
    clt_loader *loader = worker->loader;
    loader_slot *slot = piece->slot;
    double each = seconds / (double)(piece->last - piece->first);
    loader->sample_seconds += (each - loader->sample_seconds) * (loader->sample_seconds > 0 ? 0.25 : 1);
    slot->slot.load_seconds += seconds;
    if (status != CLT_OK)
        note_failure(loader, piece, status);
    bool whole = slot->taken == loader->options.micro_batch || slot->failed < INT64_MAX;
    if (--slot->filling > 0 || !whole)
        return;
    if (slot->failed == INT64_MAX) {
        pthread_mutex_unlock(&loader->lock);
        double begin = clt_now();
        leave_out(loader, &slot->slot);
        status = whole_files(find_normalisers(worker, &slot->slot), piece);
        seconds = clt_now() - begin;
        pthread_mutex_lock(&loader->lock);
        slot->slot.load_seconds += seconds;
        if (status != CLT_OK)
            note_failure(loader, piece, status);
    }
    slot->state = SLOT_READY;
    pthread_cond_broadcast(&loader->has_ready);
}

static void *work(void *context)
{
    loader_worker *worker = context;
    clt_loader *loader = worker->loader;
    loader_piece piece;
    clt_remote_wait_until(&loader->closing);
    pthread_mutex_lock(&loader->lock);
    while (take_work(worker, &piece)) {
        pthread_mutex_unlock(&loader->lock);
        double begin = clt_now();
        clt_status status = whole_files(fill_piece(loader, &piece), &piece);
        double seconds = clt_now() - begin;
        pthread_mutex_lock(&loader->lock);
        end_piece(worker, &piece, status, seconds);
        extend_span(worker, piece.slot, begin); /* the lock still keeps the slot from being used again */
        if (loader->open != piece.slot)
            end_span(worker);
    }
    end_span(worker);
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* --- creating and destroying --- */

static clt_status start_workers(clt_loader *loader, size_t scratch_bytes)
{
    for (int i = 0; i < loader->options.workers; i++) {
        loader_worker *worker = &loader->workers[i];
        worker->loader = loader;
        worker->ticket = -1;
        if (scratch_bytes)
            CLT_TRY(clt_alloc(&worker->scratch, 1, scratch_bytes, "a loader thread's sample"));
        CLT_TRY(clt_thread_start(&worker->thread, "clt-loader", work, worker));
    }
    return CLT_OK;
}

static clt_status make_slots(clt_loader *loader)
{
    const clt_loader_options *o = &loader->options;
    CLT_TRY(clt_alloc(&loader->slots, (size_t)o->n_slots, sizeof *loader->slots, "a loader's slots"));
    CLT_TRY(clt_alloc(&loader->workers, (size_t)o->workers, sizeof *loader->workers, "a loader's threads"));
    for (int i = 0; i < o->n_slots; i++) {
        if (!o->slots[i])
            CLT_FAIL(CLT_EINTERNAL, "creating a loader: slot %d has no memory", i);
        loader->slots[i].slot.data = o->slots[i];
        loader->slots[i].slot.index = i;
    }
    return CLT_OK;
}

clt_status clt_loader_create(const clt_loader_options *options, clt_loader **out)
{
    CLT_SCOPED(clt_loader) *loader = NULL;
    size_t scratch_bytes = 0;
    *out = NULL;
    CLT_TRY(clt_loader_check(options));
    CLT_TRY(clt_alloc(&loader, 1, sizeof *loader, "a loader"));
    loader->options = *options;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->has_work, NULL);
    pthread_cond_init(&loader->has_ready, NULL);
    pthread_cond_init(&loader->has_counted, NULL);
    pthread_cond_init(&loader->is_idle, NULL);
    atomic_init(&loader->closing, false);
    CLT_TRY(clt_loader_resolve(loader, &scratch_bytes));
    CLT_TRY(make_slots(loader));
    /* From now on the caller may free its list of slots and the graph. */
    loader->options.slots = NULL;
    loader->options.graph = NULL;
    CLT_TRY(start_workers(loader, scratch_bytes));
    *out = CLT_TAKE(loader);
    return CLT_OK;
}

void clt_loader_stop(clt_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    atomic_store(&loader->closing, true);
    pthread_cond_broadcast(&loader->has_work);
    pthread_cond_broadcast(&loader->has_ready);
    pthread_cond_broadcast(&loader->has_counted);
    while (loader->consumers > 0)
        pthread_cond_wait(&loader->is_idle, &loader->lock);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; loader->workers && i < loader->options.workers; i++) {
        clt_thread_join(loader->workers[i].thread);
        free(loader->workers[i].scratch);
    }
    free(loader->workers);
    loader->workers = NULL;
}

void clt_loader_destroy(clt_loader *loader)
{
    if (!loader)
        return;
    clt_loader_stop(loader);
    pthread_cond_destroy(&loader->is_idle);
    pthread_cond_destroy(&loader->has_counted);
    pthread_cond_destroy(&loader->has_ready);
    pthread_cond_destroy(&loader->has_work);
    pthread_mutex_destroy(&loader->lock);
    for (int k = 0; k < CLT_MAX_LOSSES; k++)
        free(loader->losses[k].weights);
    free(loader->slots);
    free(loader);
}

/* --- consumer --- */

static loader_slot *ready_slot(clt_loader *loader)
{
    for (int i = 0; i < loader->options.n_slots; i++)
        if (loader->slots[i].state == SLOT_READY && loader->slots[i].ticket == loader->next_delivery)
            return &loader->slots[i];
    return NULL;
}

/* Called with the lock held. Every slot that becomes ready wakes all consumers; if another consumer has
 * taken the slot, this one waits for the next ticket, the end or a failure. A failure is kept and returned
 * by every later call, since micro-batches are missing from then on. */
static clt_status next_locked(clt_loader *loader, clt_slot **out)
{
    loader_slot *slot = NULL;
    double begin = clt_now();
    clt_status status = CLT_OK;
    while (status == CLT_OK && !atomic_load(&loader->closing) && !loader->delivered_failure &&
           loader->next_delivery < loader->tickets && !(slot = ready_slot(loader)))
        if (!clt_cond_wait_turn(&loader->has_ready, &loader->lock) && loader->options.check != NULL) {
            pthread_mutex_unlock(&loader->lock); /* callbacks that release slots need the lock */
            status = loader->options.check(loader->options.check_context);
            pthread_mutex_lock(&loader->lock);
        }
    loader->waited += clt_now() - begin;
    CLT_TRY(status);
    if (atomic_load(&loader->closing))
        CLT_FAIL(CLT_EINTERRUPTED, "waiting for the next batch: the loader was closed meanwhile");
    if (loader->delivered_failure)
        return clt_error_put(&loader->failure);
    if (!slot)
        return CLT_OK;
    loader->next_delivery++;
    if (slot->slot.error.status != CLT_OK) {
        loader->delivered_failure = true;
        loader->failure = slot->slot.error;
        slot->state = SLOT_FREE;
        return clt_error_put(&loader->failure);
    }
    slot->state = SLOT_LENT;
    *out = &slot->slot;
    return CLT_OK;
}

clt_status clt_loader_next(clt_loader *loader, clt_slot **slot)
{
    *slot = NULL;
    pthread_mutex_lock(&loader->lock);
    loader->consumers++;
    clt_status status = next_locked(loader, slot);
    loader->consumers--;
    if (loader->consumers == 0)
        pthread_cond_broadcast(&loader->is_idle);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

void clt_loader_release(clt_loader *loader, clt_slot *slot)
{
    if (!slot)
        return;
    loader_slot *lent = (loader_slot *)slot;
    pthread_mutex_lock(&loader->lock);
    if (lent->state == SLOT_LENT) {
        lent->state = SLOT_FREE;
        pthread_cond_signal(&loader->has_work);
    }
    pthread_mutex_unlock(&loader->lock);
}

double clt_loader_wait_seconds(const clt_loader *loader)
{
    clt_loader *open = (clt_loader *)(uintptr_t)loader; /* the cast is needed only to lock the mutex */
    pthread_mutex_lock(&open->lock);
    double waited = open->waited;
    pthread_mutex_unlock(&open->lock);
    return waited;
}
