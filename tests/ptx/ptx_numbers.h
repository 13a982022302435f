/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between floats and their bits, and of 16-bit floats, for the instructions. */
#ifndef TESTS_PTX_PTX_NUMBERS_H
#define TESTS_PTX_PTX_NUMBERS_H

#include <string.h>

#include "engine/base/dtype.h"

static inline float ptx_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t ptx_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline float ptx_from_f16(uint32_t bits)
{
    return clt_f16_to_f32((uint16_t)bits);
}
static inline uint32_t ptx_to_f16(float f)
{
    return clt_f32_to_f16(f);
}
static inline uint32_t ptx_to_bf16(float f)
{
    return clt_f32_to_bf16(f);
}

#endif
