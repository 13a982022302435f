/* SPDX-License-Identifier: Apache-2.0
 *
 * The step block and the state block as structs of the host, made from the words in step_block.clh. */
#ifndef ENGINE_GRAPH_STEP_BLOCK_H
#define ENGINE_GRAPH_STEP_BLOCK_H

#include <stdint.h>

#include "engine/graph/step_block.clh"

#define CLT_BLOCK_WORD(type, name, NAME) type name;
#define CLT_BLOCK_WORDS(type, name, NAME, n) type name[n];
typedef struct clt_step_block {
    CLT_STEP_BLOCK_MAP(CLT_BLOCK_WORD, CLT_BLOCK_WORDS)
} clt_step_block;
typedef struct clt_state_block {
    CLT_STATE_BLOCK_MAP(CLT_BLOCK_WORD, CLT_BLOCK_WORDS)
} clt_state_block;
#undef CLT_BLOCK_WORD
#undef CLT_BLOCK_WORDS

/* The members by which spikes are judged, as X(member). */
#define CLT_SPIKE_STATISTICS(X) X(loss_mean) X(loss_variance) X(norm_mean) X(norm_variance)

_Static_assert(sizeof(clt_step_block) == SB_WORDS * 4 && SB_WORDS == 32, "the step block has 32 words");
_Static_assert(sizeof(clt_state_block) == ST_WORDS * 4 && ST_WORDS == 32, "the state block has 32 words");

#endif
