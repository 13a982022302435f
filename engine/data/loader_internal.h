/* SPDX-License-Identifier: Apache-2.0
 *
 * Types that the source files of the loader share: slots, workers, and the losses whose targets are
 * counted. */
#ifndef ENGINE_DATA_LOADER_INTERNAL_H
#define ENGINE_DATA_LOADER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/thread.h"
#include "engine/data/data.h"

enum { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_LENT };

/* How the targets of one loss are counted, as found in the graph. */
typedef struct counted_loss {
    int source_field;
    bool has_ignore;
    int64_t ignore;
    int64_t per_sample;
    float *weights; /* weights of its classes, owned; NULL: targets are counted */
    int64_t n_weights;
    uint64_t offset; /* offset of its targets in a slot, in bytes */
} counted_loss;

/* Cache of the normalisers of recent steps, since all micro-batches of a step need the same ones. `counting`:
 * a worker reads the targets of this step, and others wait for its result. */
#define NORMALISER_CACHE 16
typedef struct step_normaliser {
    bool known, counting;
    int64_t step;
    double value[CLT_MAX_LOSSES];
} step_normaliser;

typedef struct loader_worker {
    struct clt_loader *loader;
    clt_thread *thread;
    void *scratch; /* memory for one sample of the largest counted field */
    /* The worker's work on one slot since `begin`, which is recorded as one span; `ticket` -1: none. */
    int64_t ticket, step;
    double begin, end;
} loader_worker;

typedef struct loader_slot {
    clt_slot slot; /* must be the first member: a pointer to it is converted back to its loader_slot */
    int state;
    int64_t ticket;
    /* While FILLING. `taken`: samples that workers have taken. `failed`: the first sample of the piece whose
     * error is in slot.error (INT64_MAX: no sample has failed). `filling`: workers that are filling
     * pieces. */
    int64_t taken, failed;
    int filling;
} loader_slot;

/* Samples [first, last) of a slot, which a worker fills without the lock. Filling them takes about
 * PIECE_SECONDS, so that the time for the lock is negligible. */
#define PIECE_SECONDS 1e-3
typedef struct loader_piece {
    loader_slot *slot;
    int64_t first, last;
} loader_piece;

struct clt_loader {
    clt_loader_options options;
    uint64_t field_bytes[CLT_MAX_FIELDS]; /* bytes of one sample */
    int n_losses;
    counted_loss losses[CLT_MAX_LOSSES];
    /* targets must be read and counted, since a loss has an ignore_index or class weights */
    bool counts_values;
    int64_t tickets; /* number of micro-batches of this rank */
    loader_slot *slots;
    loader_worker *workers;

    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t has_work, has_ready, has_counted, is_idle;
    int64_t next_ticket, next_delivery;
    loader_slot *open;     /* the slot that has samples left to take; NULL: the next one must be begun */
    double sample_seconds; /* time that a worker needs for a sample, averaged over recent ones; 0: unknown */
    bool failed;           /* a worker failed: no more samples are taken */
    bool delivered_failure;
    clt_error failure;
    int consumers; /* threads inside clt_loader_next */
    double waited;
    step_normaliser cache[NORMALISER_CACHE];

    atomic_int closing; /* not 0: the loader stops; workers that fill read it without the lock */
};

CLT_SCOPED_POINTER(clt_loader, clt_loader_destroy)

/* Checks the requested batch. Defined in loader_options.c, like the next function. */
clt_status clt_loader_check(const clt_loader_options *options);
/* Finds fields, losses and the number of tickets. *scratch_bytes: one sample of the largest counted field. */
clt_status clt_loader_resolve(clt_loader *loader, size_t *scratch_bytes);
static inline bool clt_loader_reads_targets(const counted_loss *loss)
{
    return loss->has_ignore || loss->weights;
}

#endif
