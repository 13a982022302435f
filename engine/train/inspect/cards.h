/* SPDX-License-Identifier: Apache-2.0
 *
 * Cards that can be rented, with the figures of their data sheets, so that a training can be planned for a
 * card before it is paid for. No time in here was measured: engine/train/inspect/describe.h plans with the
 * card's description, and clt_card_step adds up the shortest possible times of the plan's commands. */
#ifndef ENGINE_TRAIN_INSPECT_CARDS_H
#define ENGINE_TRAIN_INSPECT_CARDS_H

#include "engine/train/inspect/describe.h"

typedef struct clt_card {
    const char *name;
    /* NVIDIA: compute capability, major*10 + minor; 0: another vendor, whose matrix units the engine does not
     * use */
    int generation;
    int compute_units;
    double memory_gib; /* memory that the driver reports */
    double gbs;        /* memory bandwidth, GB/s */
    double f32_tflops; /* without matrix units */
    /* with matrix units, without sparsity and with sums in f32; 0: it has no such units for the type */
    double tf32_tflops, half_tflops;
} clt_card;

/* The last entry has a NULL name. */
extern const clt_card clt_cards[];
/* Whether the table has a card of this name; upper and lower case do not matter. */
bool clt_card_is_known(const char *name);
/* Finds the card by the `length` bytes of its name. CLT_EUSAGE: the table has no such card; the message
 * lists all. */
clt_status clt_card_find(const char *name, size_t length, const clt_card **out);
/* The device description to plan for; it leaves a twentieth of the memory to the driver. */
ocl_device_desc clt_card_device(const clt_card *card);

/* Planned seconds of a step of the description's training plan on the card: each command takes the longer of
 * its arithmetic and its memory traffic, at the share `reach` (0 to 1) of the card's limits, and at least
 * the time of a launch. Sums over ranks, evaluations and checkpoints are not included. */
double clt_card_step(const clt_card *card, const clt_description *description, double reach);

#endif
