/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that write checkpoints together: which of them see the folder, what the others send to rank 0, and how all of them
 * learn what became of their parts. The functions are collective; with one rank they do nothing. */
#ifndef ENGINE_TRAIN_SAVED_RANKS_H
#define ENGINE_TRAIN_SAVED_RANKS_H

#include <limits.h>

#include "engine/train/saved/saved_part.h"

#define CLT_SAVED_TAG 48

typedef struct clt_saved_ranks {
    char folder[PATH_MAX];   /* for checkpoints, as this rank opens it */
    char tag[CLT_SAVED_TAG]; /* see clt_checkpoint_begin */
    int writer,
        writers; /* number of this rank among those that see the folder and may write there; -1: it does not */
    comm *apart;           /* rank 0 and those that do not, where these keep something that others have not */
    struct clt_sent *sent; /* what these send, a piece each */
    size_t n_sent, capacity;
    float *block;         /* on its way */
    clt_error send_error; /* of the last send: what this rank sent is not what its device has */
} clt_saved_ranks;

/* folder: of rank 0; others may give NULL. Rank 0 writes a file beside the folder and the others look for it. */
clt_status clt_saved_ranks_open(clt_run *run, const char *folder, clt_saved_ranks *out);
/* Adds what ranks that do not see the folder will send to the part of rank 0. */
clt_status clt_saved_ranks_list(clt_run *run, clt_saved_ranks *ranks, clt_saved_part *part);
/* Sends it, and waits for the device. Sets send_error. */
clt_status clt_saved_ranks_send(clt_run *run, clt_saved_ranks *ranks, const clt_saved_part *part);
void clt_saved_ranks_close(clt_saved_ranks *ranks);

/* *error of rank 0 becomes that of all ranks. */
clt_status clt_saved_tell(const clt_run *run, clt_error *error);
/* *error becomes the first one that a rank has, with the name of that rank, *part the sum of all parts, and
 * *exceeds that of rank 0: older checkpoints are to be deleted. */
clt_status clt_saved_collect(const clt_run *run, clt_error *error, clt_part *part, bool *exceeds);

#endif
