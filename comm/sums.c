/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of collectives. Sums over ranks are binary trees over the ranks' numbers, so that one rank
 * that adds eight parts gives the same bits as ranks that add in pairs; sums of 16-bit parts are rounded
 * once. */
#include <string.h>

#include "comm/comm_internal.h"
#include "comm/kernels.h"

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
    int64_t grains = (count + grain - 1) / grain;
    int64_t begin = (grains * rank + ranks - 1) / ranks * grain;
    int64_t end = (grains * (rank + 1) + ranks - 1) / ranks * grain;
    *first = begin < count ? begin : count;
    *length = (end < count ? end : count) - *first;
}

/* Elements that are added together: few enough that inputs and sum stay in the nearest caches. */
#define BLOCK 1024
/* Levels of the tree above sums of COMM_MOST_ADDED parts. */
#define LEVELS 16

typedef struct summing {
    const comm_kernels *kernels;
    const void *const *part;
    int parts;
    comm_type type;
    float level[LEVELS][BLOCK], wide[COMM_MOST_ADDED][BLOCK];
} summing;

/* Adds up n elements, from index `at`, of the parts `from` to `from` + `parts` - 1. */
static void sum_few(summing *s, int from, int parts, int64_t at, int n, float *out)
{
    const float *part[COMM_MOST_ADDED];
    for (int k = 0; k < parts; k++) {
        const char *data = (const char *)s->part[from + k] + at * comm_type_bytes(s->type);
        if (s->type == COMM_F32) {
            part[k] = (const float *)(const void *)data;
            continue;
        }
        s->kernels->widen((const uint16_t *)(const void *)data, n, s->type, s->wide[k]);
        part[k] = s->wide[k];
    }
    s->kernels->add(part, parts, n, out);
}

/* Adds COMM_MOST_ADDED parts at a time. A sum of 2^k times COMM_MOST_ADDED parts waits on level k for its
 * sibling, like the digits of a binary counter (`waiting`); the sums that still wait at the end are added
 * from the smallest to the largest. */
static void sum_block(summing *s, int64_t at, int n, float *out)
{
    uint32_t waiting = 0;
    for (int p = 0; p < s->parts; p += COMM_MOST_ADDED) {
        int few = s->parts - p < COMM_MOST_ADDED ? s->parts - p : COMM_MOST_ADDED, k = 0;
        sum_few(s, p, few, at, n, out);
        for (; waiting >> k & 1; k++)
            for (int i = 0; i < n; i++)
                out[i] = s->level[k][i] + out[i];
        if (p + few == s->parts) {
            for (; k < LEVELS; k++)
                for (int i = 0; (waiting >> k & 1) && i < n; i++)
                    out[i] = s->level[k][i] + out[i];
            return;
        }
        waiting += 1;
        memcpy(s->level[k], out, (size_t)n * sizeof *out);
    }
}

static void start(summing *s, const void *const *part, int parts, comm_type type)
{
    s->kernels = comm_kernels_at(0);
    s->part = part;
    s->parts = parts;
    s->type = type;
}

void comm_round(const float *values, int64_t count, comm_type type, void *out)
{
    if (type == COMM_F32)
        memmove(out, values, (size_t)count * sizeof *values);
    else
        comm_kernels_at(0)->narrow(values, count, type, out);
}

void comm_sum_parts(const void *const *part, int parts, int64_t count, comm_type type, void *const *out,
                    int outs)
{
    summing s;
    float sum[BLOCK];
    uint16_t half[BLOCK];
    int64_t size = comm_type_bytes(type);
    start(&s, part, parts, type);
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        sum_block(&s, at, n, sum);
        if (type != COMM_F32)
            s.kernels->narrow(sum, n, type, half);
        for (int k = 0; k < outs; k++)
            memcpy((char *)out[k] + at * size, type == COMM_F32 ? (void *)sum : half, (size_t)(n * size));
    }
}

void comm_sum_parts_f32(const void *const *part, int parts, int64_t count, comm_type type, float *out)
{
    summing s;
    float sum[BLOCK];
    start(&s, part, parts, type);
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        sum_block(&s, at, n, sum);
        memcpy(out + at, sum, (size_t)n * sizeof *out);
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
