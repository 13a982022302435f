/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks must have in common before they plan. What the driver refused in earlier runs on a device
 * (cl/command/fallback.h) is taken out of the description that plans are made with, on all ranks with that
 * device. And parameters must stay equal bit by bit on all ranks, so the update computes in the same order on
 * all of them, whatever their devices are. */
#ifndef ENGINE_TRAIN_AGREEMENT_H
#define ENGINE_TRAIN_AGREEMENT_H

#include "engine/train/run/run.h"

/* Before the run plans: what the run of its checkpoint went without, which a resumed run does, too, and
 * nothing else; without a checkpoint that says it, what the driver refused to earlier runs. Collective. */
clt_status clt_recall_denials(clt_run *run);
/* Remembers what run->tuned->desc has given up since it had these caps and had given up `first` forms. */
void clt_note_denials(clt_run *run, uint32_t caps, int first);
/* The order of the update on all ranks, which becomes run->order. *changed: it is another one than before.
 * Collective. */
clt_status clt_agree_on_update(clt_run *run, bool *changed);

#endif
