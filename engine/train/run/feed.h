/* SPDX-License-Identifier: Apache-2.0
 *
 * The feed: moves micro-batches from the loader's pinned slots to a plan's input tensors. An upload on the
 * copy queue goes to a staging ring on the device, then a device copy on the compute queue goes to the
 * inputs. The host waits for neither. */
#ifndef ENGINE_TRAIN_RUN_FEED_H
#define ENGINE_TRAIN_RUN_FEED_H

#include "engine/data/data.h"
#include "engine/plan/realize.h"

typedef struct clt_feed_options {
    clt_realized *realized;
    clt_source *source; /* borrowed */
    int64_t global_batch;
    int64_t first_micro; /* see clt_loader_options */
    int32_t accumulation, rank, ranks;
    uint64_t seed;
    bool shuffle, evaluation;
    int64_t first_step, last_step;
    int workers, prefetch;
} clt_feed_options;

/* Finds the field of the source for each batch field of the graph: sets n_fields and source_field.
 * CLT_EDATA: one does not fit. */
clt_status clt_feed_fields(const clt_graph *graph, const clt_source *source, clt_loader_options *out);

typedef struct clt_feed clt_feed;
clt_status clt_feed_create(const clt_feed_options *options, clt_feed **out);
void clt_feed_destroy(clt_feed *feed);
CLT_SCOPED_POINTER(clt_feed, clt_feed_destroy)

typedef struct clt_fed {
    int64_t step, valid_samples;
    int64_t left_out; /* evaluation: bad samples of this micro-batch, which are not among valid_samples */
    int32_t micro;
    bool end; /* evaluation: there are no more micro-batches */
    /* Evaluation: for losses with class weights, the sum of the weights of the micro-batch's targets. */
    double class_weights[CLT_MAX_LOSSES];
} clt_fed;
/* Enqueues upload and copy of the next micro-batch. Blocks only while the loader has none ready. */
clt_status clt_feed_next(clt_feed *feed, clt_fed *fed);
double clt_feed_wait_seconds(const clt_feed *feed);
/* Mean time that a loader thread has spent on a micro-batch so far; number of threads; how many
 * micro-batches they may be ahead. */
double clt_feed_load_seconds(const clt_feed *feed);
int clt_feed_workers(const clt_feed *feed);
int clt_feed_slots(const clt_feed *feed);

#endif
