/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks must have in common before they plan. What the driver refused in earlier runs on a device
 * (cl/command/fallback.h) is taken out of the description that plans are made with, on all ranks with that
 * device. And parameters must stay equal bit by bit on all ranks, so the update computes in the same order on
 * all of them, whatever their devices are. */
#ifndef ENGINE_TRAIN_AGREEMENT_H
#define ENGINE_TRAIN_AGREEMENT_H

#include "cl/device/answers.h"
#include "engine/train/run/run.h"

/* A device as one rank names it to the others. */
typedef struct clt_told_device {
    char platform[OCL_NAME_SIZE], device[OCL_NAME_SIZE], driver[OCL_NAME_SIZE];
} clt_told_device;
void clt_tell_device(const ocl_device_desc *desc, clt_told_device *out);
bool clt_is_told_device(const clt_told_device *told, const ocl_device_desc *desc);

/* Before the run plans: what the run of its checkpoint went without, which a resumed run does, too, and
 * nothing else; without a checkpoint that says it, what the driver refused to earlier runs. Collective. */
clt_status clt_recall_denials(clt_run *run);
/* Remembers what run->tuned->desc has given up since it had these caps and had given up `first` forms. */
void clt_note_denials(clt_run *run, uint32_t caps, int first);
/* What the description goes without: of caps, and forms from number `first` on. */
void clt_denials_of(const ocl_device_desc *desc, uint32_t caps, int first, ocl_denials *out);
/* The description without what is denied; names of variants that this program does not have are passed over.
 */
void clt_apply_denials(const ocl_denials *denials, ocl_device_desc *desc);

/* The order of the update on all ranks, which becomes run->order. *changed: it is another one than before.
 * Collective. */
clt_status clt_agree_on_update(clt_run *run, bool *changed);

#endif
