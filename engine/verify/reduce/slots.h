/* SPDX-License-Identifier: Apache-2.0
 *
 * A case of the checker as a list of numbers that can be made smaller: sizes, types, optional parts. */
#ifndef ENGINE_VERIFY_REDUCE_SLOTS_H
#define ENGINE_VERIFY_REDUCE_SLOTS_H

#include "engine/verify/verify_internal.h"

#define CLT_SLOTS 96

typedef struct clt_slot {
    char name[32]; /* without blanks: "x0.dim1" */
    int64_t value, least;
    /* a size, which shrinks together with equal sizes; false: a choice, whose simplest value is 0 */
    bool is_size;
} clt_slot;

typedef struct clt_slots {
    clt_slot slot[CLT_SLOTS];
    int count;
} clt_slots;

/* Lists the numbers of the case. Numbers beyond CLT_SLOTS stay as they are. */
void clt_slots_of(clt_verify_case_kind kind, const void *op_case, clt_slots *out);
/* Sets the numbers of `copy`, a copy of the listed case, to those in `slots`. Its texts are in `arena`.
 * CLT_ESHAPE if no case can have these numbers, CLT_ENOMEM. */
clt_status clt_slots_put(clt_verify_case_kind kind, const clt_slots *slots, clt_arena *arena, void *copy);

#endif
