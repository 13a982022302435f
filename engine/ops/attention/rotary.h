/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices of rotary's attribute `scaling`, shared by the op and its reference. */
#ifndef ENGINE_OPS_ATTENTION_ROTARY_H
#define ENGINE_OPS_ATTENTION_ROTARY_H

typedef enum clt_rotary_scaling {
    CLT_ROTARY_NONE,
    CLT_ROTARY_LINEAR,
    CLT_ROTARY_LLAMA3,
    CLT_ROTARY_YARN,
} clt_rotary_scaling;

#endif
