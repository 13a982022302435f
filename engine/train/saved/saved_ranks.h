/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that write checkpoints together: finds out which of them see the folder, sends pieces of the others
 * to rank 0, and tells all ranks whether their parts were written. The functions are collective; with one
 * rank nothing is communicated. */
#ifndef ENGINE_TRAIN_SAVED_SAVED_RANKS_H
#define ENGINE_TRAIN_SAVED_SAVED_RANKS_H

#include <limits.h>

#include "engine/train/saved/saved_part.h"

#define CLT_SAVED_TAG 64

typedef struct clt_saved_ranks {
    char folder[PATH_MAX];   /* path of the checkpoints folder on this rank */
    char tag[CLT_SAVED_TAG]; /* see clt_checkpoint_begin */
    /* number of this rank among the ranks that can write there, -1: it cannot; how many ranks can */
    int writer, writers;
    comm *senders;         /* group of rank 0 and the ranks that must send it pieces; NULL if not in it */
    struct clt_sent *sent; /* the pieces that are sent, the same list on all members of the group */
    size_t n_sent, capacity;
    float *block;         /* buffer for the elements being sent */
    clt_error send_error; /* error of the last send: this rank sent bits that differ from its device's */
} clt_saved_ranks;

/* folder: the checkpoints folder on rank 0; others may pass NULL. Rank 0 writes a file beside the folder,
 * and the others look for it. */
clt_status clt_saved_ranks_open(clt_run *run, const char *folder, clt_saved_ranks *out);
/* Lists the pieces that ranks without access to the folder will send, and adds them to rank 0's part. */
clt_status clt_saved_ranks_list(clt_run *run, clt_saved_ranks *ranks, clt_saved_part *part);
/* Sends these pieces, waiting for the device. Sets send_error. */
clt_status clt_saved_ranks_send(clt_run *run, clt_saved_ranks *ranks, const clt_saved_part *part);
void clt_saved_ranks_close(clt_saved_ranks *ranks);

/* Broadcasts rank 0's *error to all ranks. */
clt_status clt_saved_tell(const clt_run *run, clt_error *error);
/* *error becomes the error of the lowest rank that failed, with its rank and host. *part becomes the sum
 * over ranks. *exceeds becomes rank 0's value, which says whether rank 0 will delete older checkpoints. */
clt_status clt_saved_collect(const clt_run *run, clt_error *error, clt_part *part, bool *exceeds);

#endif
