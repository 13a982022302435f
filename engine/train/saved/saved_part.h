/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a checkpoint that a rank writes, and the host memory for it. Arenas whose tensors every rank
 * has are divided equally among the writers. If a tensor is divided among ranks, each rank saves its own
 * part. A single rank writes everything. */
#ifndef ENGINE_TRAIN_SAVED_SAVED_PART_H
#define ENGINE_TRAIN_SAVED_SAVED_PART_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/run.h"
#include "engine/train/saved/checksum.h"

/* Describes where the values of a tensor are. */
typedef struct clt_saved_tensor {
    const clt_store_slot *slot;
    clt_arena_kind arena;
    int transposed; /* files have the last dimension this many places further forward; 0: it stays last */
} clt_saved_tensor;

/* Where a piece of a tensor comes from. */
typedef struct clt_saved_source {
    int rank;           /* the rank whose device has it */
    clt_store_piece in; /* elements that are read; the last ones may be padding that files lack */
    float *data;        /* values, in the device's order of dimensions */
    ocl_pinned *pinned; /* memory of `data`; NULL: ordinary memory */
} clt_saved_source;

typedef struct clt_saved_part {
    clt_named_tensor *tensors; /* all tensors of the checkpoint, without data; the model's come first */
    clt_saved_tensor *of;      /* where the values of each tensor are */
    int n_model, n_tensors;
    clt_tensor_piece *pieces;
    clt_saved_source *sources; /* where each piece comes from */
    size_t n_pieces, capacity[2];
    clt_checksums *sums; /* NULL: pieces are not compared with the device */
} clt_saved_part;

/* Makes the part of writer number `writer`; -1: this rank writes nothing. Tensors that every rank has are
 * divided among the first `writers` writers. */
clt_status clt_saved_part_make(clt_run *run, int writer, int writers, clt_saved_part *out);
/* Piece number `index` of this rank's elements of a divided tensor; false: there are no more. */
bool clt_saved_part_own(const clt_run *run, const clt_saved_part *part, int tensor, int64_t index,
                        clt_store_piece *piece);
/* Adds a piece of tensor number `tensor`, which the device of `rank` has. */
clt_status clt_saved_part_add(clt_run *run, clt_saved_part *part, int tensor, int rank,
                              const clt_store_piece *piece);
/* To be called once, after the last piece was added: prepares checksums on the device for this rank's pieces
 * and for everything that only this rank has. */
clt_status clt_saved_part_sum(clt_run *run, clt_saved_part *part);
/* Enqueues the reads of this rank's pieces on the compute queue. */
clt_status clt_saved_part_read(const clt_run *run, const clt_saved_part *part);
/* For pieces that are not in the part. sum_now: computes the checksums and waits for them; call it before
 * such pieces are read. compare_own: compares `count` elements with them; they begin at element `at` of the
 * tensor's slab, which must be the start of a chunk. */
clt_status clt_saved_part_sum_now(const clt_run *run, const clt_saved_part *part);
clt_status clt_saved_part_compare_own(const clt_saved_part *part, int tensor, uint64_t at, const float *data,
                                      uint64_t count);
/* Once after each read: compares the pieces that this rank read, and the state block, with the device's
 * checksums, and makes f32 of values of 16 bits. */
clt_status clt_saved_part_take(const clt_run *run, const clt_saved_part *part, const clt_state_block *state);
void clt_saved_part_free(clt_saved_part *part);

#endif
