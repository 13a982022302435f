/* SPDX-License-Identifier: Apache-2.0
 *
 * The two small blocks of words that host and device share: the step block (host to device, one per
 * micro-batch, uploaded with the batch) and the state block (device to host, read a step late).
 * cl/kernels/common.clh and update.cl hold the same numbers. */
#ifndef ENGINE_GRAPH_STEP_BLOCK_H
#define ENGINE_GRAPH_STEP_BLOCK_H

#include <stdint.h>

#define CLT_STEP_BLOCK_WORDS 32

/* Written by the host; read by kernels that need randomness, losses' normalisers or the padding of a batch.
 */
typedef struct clt_step_block {
    uint32_t seed_lo, seed_hi;
    uint32_t step;                 /* batch number: keys data and randomness */
    uint32_t micro;                /* micro-batch of this rank's step */
    uint32_t sample_lo, sample_hi; /* place of its first sample inside the global batch */
    uint32_t valid;                /* samples that count */
    uint32_t flags;                /* 0 */
    float norm[16];                /* 1/normaliser of each loss */
    uint32_t reserved[8];
} clt_step_block;

_Static_assert(sizeof(clt_step_block) == CLT_STEP_BLOCK_WORDS * 4, "the step block has 32 words");

#define CLT_STATE_WORDS 32

/* Lives on the device for the whole run. `update` counts applied updates and indexes the schedule's table. */
typedef struct clt_state_block {
    uint32_t update;      /* applied so far */
    uint32_t skipped;     /* updates skipped because something was not finite */
    uint32_t skipped_row; /* ... in a row */
    uint32_t skip;        /* this step's update is skipped */
    float loss_scale;
    uint32_t growth;   /* good steps since the scale last changed */
    float grad_norm;   /* before clipping, of this step */
    float clip;        /* factor on gradients: inverse loss scale times clipping */
    float lr;          /* of this step */
    float correction1; /* 1 - beta1^t */
    float correction2; /* 1 - beta2^t */
    uint32_t reserved[21];
} clt_state_block;

_Static_assert(sizeof(clt_state_block) == CLT_STATE_WORDS * 4, "the state block has 32 words");

#endif
