/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of segmentations whose data is read as windows (engine/data/volumes/volumes.h): beside the loss over windows, the
 * Dice of whole volumes, whose maps are put together from the windows' predictions (sliding.h). Ranks take whole
 * volumes in turn. */
#ifndef ENGINE_TRAIN_EVAL_VOLUMES_H
#define ENGINE_TRAIN_EVAL_VOLUMES_H

#include "engine/train/run/run.h"

typedef struct clt_eval_volumes clt_eval_volumes;

/* *out NULL: the run's evaluation data is not read as windows, or the model predicts no classes of voxels. batches > 0: only
 * volumes whose windows are among so many micro-batches, at least one. */
clt_status clt_eval_volumes_begin(clt_run *run, int64_t batches, clt_eval_volumes **out);
/* The windows of this rank; it may have none. */
clt_source *clt_eval_volumes_source(const clt_eval_volumes *e);
/* Reads the prediction of the micro-batch that was computed last, of which `valid` windows count; and, while the device
 * computes the next one, adds it to the volumes. Both do nothing before the first one. */
clt_status clt_eval_volumes_read(clt_eval_volumes *e, int64_t valid);
clt_status clt_eval_volumes_add(clt_eval_volumes *e);
/* Adds up the figures of all ranks and fills in volumes, volume_dice and the like. */
clt_status clt_eval_volumes_end(clt_eval_volumes *e, clt_eval_metrics *metrics);
void clt_eval_volumes_free(clt_eval_volumes *e); /* NULL is fine */

#endif
