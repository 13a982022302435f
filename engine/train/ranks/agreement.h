/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks must agree on before they plan. Features that the driver refused in earlier runs on a device
 * (cl/command/fallback.h) are removed from the device description on all ranks with that device. And since
 * parameters must stay bitwise equal on all ranks, the update adds up in the same order on all of them,
 * whatever their devices. */
#ifndef ENGINE_TRAIN_RANKS_AGREEMENT_H
#define ENGINE_TRAIN_RANKS_AGREEMENT_H

#include "engine/train/run/run.h"

/* Called before the run plans. A resumed run does without the features that the run of its checkpoint did
 * without, and only those; if the checkpoint does not say, and in new runs, without the features that the
 * driver refused to earlier runs. clt_tuned_open has agreed on them with the other ranks. */
void clt_recall_unsupported(clt_run *run);
/* Saves on disk what run->tuned->desc has given up since it had `caps` and `first` given-up variants. */
void clt_note_unsupported(clt_run *run, uint32_t caps, int first);
/* Sets run->order, the order of the update on all ranks, and takes the smallest limit of a buffer. *changed:
 * the order differs from the previous one. Collective. */
clt_status clt_agree_on_update(clt_run *run, bool *changed);

#endif
