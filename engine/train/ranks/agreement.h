/* SPDX-License-Identifier: Apache-2.0
 *
 * The agreement that ranks need before they plan. Features that the driver refused in earlier runs on a
 * device (cl/command/fallback.h) are removed from the device description on all ranks with that device.
 * Parameters must stay bitwise equal on all ranks, so the update adds up in the same order on all of them,
 * whatever their devices. */
#ifndef ENGINE_TRAIN_RANKS_AGREEMENT_H
#define ENGINE_TRAIN_RANKS_AGREEMENT_H

#include "engine/train/run/run.h"

/* Called before the run plans; removes features from the device description. In a resumed run: the features
 * that the checkpoint's run did without. In new runs, and if the checkpoint does not list them: the features
 * that the driver refused to earlier runs. clt_tuned_open has agreed on them with the other ranks. */
void clt_recall_unsupported(clt_run *run);
/* Saves on disk what run->tuned->desc has given up: capabilities of `caps`, variants from index `first`. */
void clt_note_unsupported(clt_run *run, uint32_t caps, int first);
/* Sets run->order, the order of the update on all ranks, and takes the smallest limit of a buffer. *changed:
 * the order differs from the previous one. Collective. */
clt_status clt_agree_on_update(clt_run *run, bool *changed);

#endif
