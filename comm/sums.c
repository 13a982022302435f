/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of collectives. Sums over ranks are binary trees over the ranks' numbers, so that one rank that adds
 * up eight parts and ranks that add in pairs give the same bits, and 16-bit parts are rounded once. */
#include "comm/comm_internal.h"

#include <string.h>

#include "engine/base/dtype.h"

int64_t comm_type_bytes(comm_type type)
{
    switch (type) {
    case COMM_F32:
        return 4;
    case COMM_F64:
    case COMM_I64:
        return 8;
    case COMM_U8:
        return 1;
    case COMM_F16:
    case COMM_BF16:
        return 2;
    }
    return 0;
}

void comm_share(int64_t count, int64_t grain, int ranks, int rank, int64_t *first, int64_t *length)
{
    int64_t grains = (count + grain - 1) / grain, each = (grains + ranks - 1) / ranks * grain;
    *first = each * rank < count ? each * rank : count;
    *length = count - *first < each ? count - *first : each;
}

/* f16 to f32 without a branch, so that compilers vectorise it. The product with 2^112 corrects the exponent's
 * bias, for subnormals too. */
static inline float f16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits |= (h & 0x7c00) == 0x7c00 ? 0x7f800000U : 0U;
    bits |= (uint32_t)(h & 0x8000) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Elements that are added at once: partial sums of every level of the tree stay in the nearest cache. */
#define BLOCK 256
#define LEVELS 32

static void load(const void *part, int64_t at, int n, comm_type type, float *out)
{
    if (type == COMM_F32) {
        memcpy(out, (const float *)part + at, (size_t)n * sizeof *out);
        return;
    }
    const uint16_t *h = (const uint16_t *)part + at;
    if (type == COMM_F16)
        for (int i = 0; i < n; i++)
            out[i] = f16_value(h[i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = bf16_value(h[i]);
}

/* Parts come one after the other; a partial sum of 2^k parts waits on level k for its sibling, as the digits of
 * a binary counter. What is left at the end is added from the smallest to the largest. */
static const float *sum_block(const void *const *part, int parts, int64_t at, int n, comm_type type,
                              float level[LEVELS][BLOCK])
{
    uint32_t waiting = 0;
    for (int p = 0; p < parts; p++) {
        float *sum = level[LEVELS - 1];
        load(part[p], at, n, type, sum);
        int k = 0;
        for (; waiting >> k & 1; k++)
            for (int i = 0; i < n; i++)
                sum[i] = level[k][i] + sum[i];
        waiting = (waiting | ((1U << k) - 1)) ^ ((1U << k) - 1);
        waiting |= 1U << k;
        memcpy(level[k], sum, (size_t)n * sizeof *sum);
    }
    float *sum = NULL;
    for (int k = 0; k < LEVELS - 1; k++) {
        if (!(waiting >> k & 1))
            continue;
        for (int i = 0; sum && i < n; i++)
            level[k][i] += sum[i];
        sum = level[k];
    }
    return sum;
}

void comm_round(const float *values, int64_t count, comm_type type, void *out)
{
    uint16_t *h = out;
    if (type == COMM_F32)
        memmove(out, values, (size_t)count * sizeof *values);
    else if (type == COMM_F16)
        for (int64_t i = 0; i < count; i++)
            h[i] = clt_f32_to_f16(values[i]);
    else
        for (int64_t i = 0; i < count; i++)
            h[i] = clt_f32_to_bf16(values[i]);
}

void comm_sum_parts(const void *const *part, int parts, int64_t count, comm_type type, void *out)
{
    float level[LEVELS][BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        const float *sum = sum_block(part, parts, at, n, type, level);
        comm_round(sum, n, type, (char *)out + at * comm_type_bytes(type));
    }
}

void comm_sum_parts_f32(const void *const *part, int parts, int64_t count, comm_type type, float *out)
{
    float level[LEVELS][BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        memcpy(out + at, sum_block(part, parts, at, n, type, level), (size_t)n * sizeof *out);
    }
}

#define COMBINE(type)                                                                                        \
    do {                                                                                                     \
        type *a = into;                                                                                      \
        const type *b = other;                                                                               \
        for (int64_t i = 0; i < count; i++)                                                                  \
            a[i] = (type)(op == COMM_SUM   ? a[i] + b[i]                                                     \
                          : op == COMM_MAX ? (a[i] < b[i] ? b[i] : a[i])                                     \
                                           : (b[i] < a[i] ? b[i] : a[i]));                                   \
    } while (0)

void comm_combine(void *into, const void *other, int64_t count, comm_type type, comm_op op)
{
    switch (type) {
    case COMM_F32:
        COMBINE(float);
        break;
    case COMM_F64:
        COMBINE(double);
        break;
    case COMM_I64:
        COMBINE(int64_t);
        break;
    case COMM_U8:
        COMBINE(uint8_t);
        break;
    case COMM_F16:
    case COMM_BF16:
        break;
    }
}
