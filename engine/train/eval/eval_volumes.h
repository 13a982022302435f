/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of segmentations whose data is read as windows (engine/data/volumes/volumes.h): computes the
 * Dice of whole volumes in addition to the loss over windows. The class map of a volume is put together from
 * the predictions of its windows (sliding.h). Volumes are dealt to the ranks in turn. */
#ifndef ENGINE_TRAIN_EVAL_EVAL_VOLUMES_H
#define ENGINE_TRAIN_EVAL_EVAL_VOLUMES_H

#include "engine/train/run/run.h"

typedef struct clt_eval_volumes clt_eval_volumes;

/* *out: NULL if the evaluation data is not read as windows, or the model predicts no classes of voxels.
 * batches > 0: takes only volumes whose windows all lie in the first `batches` micro-batches, but at least
 * one. */
clt_status clt_eval_volumes_begin(clt_run *run, int64_t batches, clt_eval_volumes **out);
/* The windows of this rank's volumes; there may be none. */
clt_source *clt_eval_volumes_source(const clt_eval_volumes *e);
/* read: reads the prediction of the micro-batch that was computed last; its first `valid` windows count.
 * add: adds that prediction to the volumes, while the device computes the next micro-batch. Both do nothing
 * if valid is 0, as before the first micro-batch. */
clt_status clt_eval_volumes_read(clt_eval_volumes *e, int64_t valid);
clt_status clt_eval_volumes_add(clt_eval_volumes *e);
/* Adds up the figures of all ranks and fills in the metrics whose names begin with `volume`. */
clt_status clt_eval_volumes_end(clt_eval_volumes *e, clt_eval_metrics *metrics);
void clt_eval_volumes_free(clt_eval_volumes *e); /* NULL is fine */
CLT_SCOPED_POINTER(clt_eval_volumes, clt_eval_volumes_free)

#endif
