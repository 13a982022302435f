/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of one case of the update's check, which the steps (verify_update.c) and the comparison of
 * parameters with the reference (verify_update_slots.c) share. */
#ifndef ENGINE_VERIFY_CASES_VERIFY_UPDATE_RUN_H
#define ENGINE_VERIFY_CASES_VERIFY_UPDATE_RUN_H

#include "engine/verify/cases/verify_update_cases.h"
#include "engine/verify/verify_internal.h"

enum { CLT_IMAGE_PARAM, CLT_IMAGE_GRAD, CLT_IMAGE_MOMENT1, CLT_IMAGE_MOMENT2, CLT_IMAGE_AVERAGE, CLT_IMAGES };
#define CLT_IMAGE_NARROW CLT_IMAGES /* the image of 16-bit copies, after the images of floats */

/* A case on the device, and copies of all its arenas before and after a step on the host. */
typedef struct clt_update_run {
    const clt_update_case *c;
    const char *variant;
    clt_verify_outcome *outcome;
    uint64_t seed;
    clt_verify_bench *bench;
    const clt_store_layout *layout;
    clt_verify_image image[CLT_MAX_STORE_SLABS][CLT_IMAGES + 1];
    /* the content of the images */
    float *before[CLT_IMAGES][CLT_MAX_STORE_SLABS], *after[CLT_IMAGES][CLT_MAX_STORE_SLABS];
    uint16_t *narrow_before[CLT_MAX_STORE_SLABS], *narrow_after[CLT_MAX_STORE_SLABS];
    clt_state_block state, found; /* the expected and the actual state block */
    float schedule[ENTRIES][4];
    double loss; /* of the step */
    char what[64];
} clt_update_run;

/* Compares a trained parameter, its states and its average with the reference, after a step that was not
 * skipped. f: the factors common to its elements, except the trust ratio. */
clt_status clt_verify_slot(clt_update_run *run, const clt_store_slot *slot, clt_update_factors f);

#endif
