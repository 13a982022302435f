/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the ranks, beside the backward pass. The plan's host commands call clt_sync_host while a step is
 * enqueued; nothing here waits for the device or for other ranks. For each sum:
 *
 *   compute queue   ... backward | cast   backward of layers before ...        wait, cast | update
 *   queue out                      \-> read into host memory                    |
 *   comm thread                          \-> sum over all ranks                 |
 *   queue in                                \-> write back to the device -------/
 *
 * Where the devices of all ranks are CPUs, the arena that gradients travel in is memory that the ranks of
 * a host share: instead of reads and writes there are map and unmap commands, and the sum happens in
 * place.
 *
 * With divided optimizer state the update posts parameters in the same way, bucket by bucket, and the
 * forward pass of the next step waits for each of them.
 *
 * The communication thread starts a sum when the read has ended, and completes the event that the write
 * waits for. If a sum fails, the event is completed all the same, so that no queue stops for ever; every
 * result from then on counts as spoiled (cl/command/faults.h) and the run ends with the sum's error. */
#ifndef ENGINE_TRAIN_RANKS_SYNC_H
#define ENGINE_TRAIN_RANKS_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "cl/command/command.h"
#include "engine/base/status.h"
#include "engine/state/arenas.h"

struct clt_run;
typedef struct clt_sync clt_sync;

/* Words that each rank's host adds to the first sum of a step, the loss records: counts, which are exact in
 * f32, and an energy. */
#define CLT_SYNC_WORDS 71

/* Figures of a step's sums when they have ended; times in seconds, of this rank. */
typedef struct clt_sync_result {
    double inside; /* time in sums, including the wait for later ranks */
    double waited; /* from when its last data was ready until the last sum ended, plus waits in exchanges */
    float heard[CLT_SYNC_WORDS]; /* the words of all ranks, summed */
} clt_sync_result;

/* The arena that gradients travel in. */
clt_arena_kind clt_sync_arena(const clt_store_layout *layout);
/* If the devices of all ranks compute in host memory, and parallel.shared_memory allows it: makes
 * run->shared_gradients and, if ranks gather parameters, run->shared_parameters. To be called before the
 * store is made. Collective. */
clt_status clt_sync_share(struct clt_run *run);
/* Makes what the sums of the run's training plan need, with host memory for all of them; *out is NULL with
 * one rank. */
clt_status clt_sync_create(struct clt_run *run, clt_sync **out);
/* Waits for the sums that were posted; NULL is fine. */
void clt_sync_drain(clt_sync *sync);
void clt_sync_destroy(clt_sync *sync);
CLT_SCOPED_POINTER(clt_sync, clt_sync_destroy)
/* begin: a step begins; from here on exchanges of micro-batches (exchanges.h) are carried out. last: its
 * last micro-batch begins; from here on sums are carried out, too. end: its update was enqueued; from here
 * on neither is carried out. NULL is fine. */
clt_status clt_sync_begin(clt_sync *sync, int64_t step);
void clt_sync_last(clt_sync *sync, int64_t step);
void clt_sync_end(clt_sync *sync);
/* The host function of the training plan (ocl_host_fn); context: the run. */
clt_status clt_sync_host(void *context, const ocl_command *command);
/* Lets the device wait for all parameters that ranks still gather. Call it before parameters are read in
 * any way but by the next step's forward pass. NULL is fine. */
clt_status clt_sync_settle(clt_sync *sync);
/* Sets the words of this rank for the step that is enqueued next; NULL for `sync` is fine. */
void clt_sync_say(clt_sync *sync, const float words[CLT_SYNC_WORDS]);
/* The sums of a step whose results have arrived; zeros if they are no longer known, or with one rank. */
clt_status clt_sync_take(clt_sync *sync, int64_t step, clt_sync_result *result);
uint64_t clt_sync_bytes(const clt_sync *sync); /* bytes given to sums by this rank per step; 0 for NULL */

#endif
