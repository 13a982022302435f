/* SPDX-License-Identifier: Apache-2.0
 *
 * Cards that can be rented, by the figures of their data sheets: what a training would do on one is planned
 * without it, before it is paid for. No time in here was measured: engine/train/inspect/describe.h plans with
 * the card's description, and clt_card_step adds up the least times of the plan's commands. */
#ifndef ENGINE_TRAIN_INSPECT_CARDS_H
#define ENGINE_TRAIN_INSPECT_CARDS_H

#include "engine/train/inspect/describe.h"

typedef struct clt_card {
    const char *name;
    /* NVIDIA: compute capability, major*10 + minor; 0: another vendor, whose matrix units the engine does not
     * use */
    int generation;
    int compute_units;
    double memory_gib; /* as the driver reports it */
    double gbs;        /* bandwidth of its memory, GB/s */
    double f32_tflops; /* without matrix units */
    /* of its matrix units, without sparsity and with sums in f32; 0: it has none for the type */
    double tf32_tflops, half_tflops;
} clt_card;

/* Ends with a NULL name. */
extern const clt_card clt_cards[];
/* Whether the table has a card of this name, whatever the case of the letters. */
bool clt_card_is_known(const char *name);
/* The same, and which. CLT_EUSAGE: there is none; the message lists all. */
clt_status clt_card_find(const char *name, size_t length, const clt_card **out);
/* The description that a plan is made for. Of the memory, a twentieth is left to the driver. */
ocl_device_desc clt_card_device(const clt_card *card);

/* Planned seconds of a step of the description's training plan on the card: for each command the longer one
 * of arithmetic and memory traffic at the share `reach` (0 to 1) of the card's limits, and at least a launch.
 * Sums over ranks, evaluations and checkpoints are not in it. */
double clt_card_step(const clt_card *card, const clt_description *description, double reach);

#endif
