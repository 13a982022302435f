/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank writes of a checkpoint, and the host memory for it: of what every rank has, an equal share of each arena; of
 * what the ranks divide among themselves, what it has. One rank writes everything. */
#ifndef ENGINE_TRAIN_SAVED_PART_H
#define ENGINE_TRAIN_SAVED_PART_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/run.h"
#include "engine/train/saved/checksum.h"

/* Where the values of a tensor are. */
typedef struct clt_saved_tensor {
    const clt_store_slot *slot;
    clt_arena_kind arena;
    int transposed; /* in files the last dimension stands before so many others */
} clt_saved_tensor;

/* Where a piece of a tensor comes from. */
typedef struct clt_saved_source {
    int rank;           /* whose device has it */
    clt_store_piece in; /* the elements that are read: in files the last ones may be missing */
    float *data;        /* in the order of the device */
    ocl_pinned *pinned; /* memory of `data`; NULL: ordinary memory */
} clt_saved_source;

typedef struct clt_saved_part {
    clt_named_tensor *tensors; /* of the whole checkpoint, without data: those of the model first */
    clt_saved_tensor *of;      /* the same tensors */
    int n_model, n_tensors;
    clt_tensor_piece *pieces;
    clt_saved_source *sources; /* of the pieces */
    size_t n_pieces, capacity[2];
    clt_checksums *sums; /* NULL: the device's are not compared */
} clt_saved_part;

/* The part of writer number `writer`; -1: this rank writes nothing. What every rank has is written by the first
 * `writers` of them. */
clt_status clt_saved_part_make(clt_run *run, int writer, int writers, clt_saved_part *out);
/* Piece `index` of what this rank has and others do not; false: there is no more. */
bool clt_saved_part_own(const clt_run *run, const clt_saved_part *part, int tensor, int64_t index,
                        clt_store_piece *piece);
/* Adds a piece of tensor number `tensor`, which the device of `rank` has. */
clt_status clt_saved_part_add(clt_run *run, clt_saved_part *part, int tensor, int rank,
                              const clt_store_piece *piece);
/* Once, when no piece will be added any more: prepares the device to sum up what is read from it, and all that only this rank
 * has. */
clt_status clt_saved_part_sum(clt_run *run, clt_saved_part *part);
/* Enqueues the reads of this rank's pieces on the compute queue. */
clt_status clt_saved_part_read(const clt_run *run, const clt_saved_part *part);
/* Has the device sum up and waits, before pieces are read that are not in the part. Then compares such elements, from `at`
 * of the tensor's slab, the start of a chunk. */
clt_status clt_saved_part_sum_now(const clt_run *run, const clt_saved_part *part);
clt_status clt_saved_part_compare_own(const clt_saved_part *part, int tensor, uint64_t at, const float *data,
                                      uint64_t count);
/* Compares what has arrived, and the state block, with the device's sums. */
clt_status clt_saved_part_compare(const clt_run *run, const clt_saved_part *part,
                                  const clt_state_block *state);
void clt_saved_part_free(clt_saved_part *part);

#endif
