/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves a checkpoint whose tensors are all in the memory of one process, by the steps that the ranks of a
 * training take together. */
#ifndef TESTS_UNIT_TRAIN_CHECKPOINT_SAVE_H
#define TESTS_UNIT_TRAIN_CHECKPOINT_SAVE_H

#include <stdio.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint.h"

/* Writes every tensor as one piece. */
static inline clt_status write_whole(const char *folder, const char *tag,
                                     const clt_checkpoint_content *content, clt_part *part)
{
    CLT_FREED clt_tensor_piece *pieces = NULL;
    int n = content->n_model + content->n_optimizer;
    CLT_TRY(clt_alloc(&pieces, (size_t)n + 1, sizeof *pieces, "checkpoint"));
    for (int i = 0; i < n; i++) {
        const clt_named_tensor *tensor =
            i < content->n_model ? &content->model[i] : &content->optimizer[i - content->n_model];
        pieces[i] = (clt_tensor_piece){
            .tensor = i, .count = (uint64_t)clt_shape_elements(&tensor->shape), .data = tensor->data};
    }
    return clt_checkpoint_write_part(folder, tag, content, pieces, n, part);
}

/* Saves, verifies, and then deletes the oldest checkpoints beyond `keep`; 0: deletes none. */
static inline clt_status save_checkpoint(const char *folder, const clt_checkpoint_content *content, int keep)
{
    const clt_retention retention = {.keep = keep, .best = -1};
    char tag[32];
    clt_part part;
    (void)snprintf(tag, sizeof tag, "%ld", (long)getpid());
    CLT_TRY(clt_checkpoint_begin(folder, tag, content, &part));
    clt_status status = write_whole(folder, tag, content, &part);
    if (status != CLT_OK)
        clt_checkpoint_discard(folder, tag, content->step);
    CLT_TRY(status);
    CLT_TRY(clt_checkpoint_place(folder, tag, content, &part));
    clt_checkpoint_retain(folder, content->step, &retention, false);
    return CLT_OK;
}

#endif
