/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of 16-bit floats over ranks. A rank owns a slice of every piece: it receives that slice of all ranks,
 * adds them up in f32 in the order of the ranks, rounds once, and all slices are gathered. So nothing is
 * rounded on the way, all ranks end with the same bits, and a rank sends as little as with a ring. It knows
 * the transport's exchanges of bytes only. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "engine/base/mem.h"

/* Elements per exchange: what the buffers below hold. */
#define PIECE ((int64_t)1 << 21)

/* f16 to f32 without a branch, so that compilers make vectors of it: the exponent is moved by a product. */
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

#define BLOCK 256

void comm_half_sum(const uint16_t *parts, int ranks, int64_t count, comm_type type, uint16_t *out)
{
    float sum[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int n = (int)(count - at < BLOCK ? count - at : BLOCK);
        for (int r = 0; r < ranks; r++) {
            const uint16_t *part = parts + r * count + at;
            for (int i = 0; i < n; i++) {
                float value = type == COMM_F16 ? f16_value(part[i]) : bf16_value(part[i]);
                sum[i] = r == 0 ? value : sum[i] + value;
            }
        }
        for (int i = 0; i < n; i++)
            out[at + i] = type == COMM_F16 ? clt_f32_to_f16(sum[i]) : clt_f32_to_bf16(sum[i]);
    }
}

static clt_status sum_piece(const comm_transport *transport, const comm_info *info, uint16_t *data,
                            int64_t count, comm_type type, uint16_t *mine, uint16_t *theirs)
{
    int64_t slice = (count + info->ranks - 1) / info->ranks;
    memcpy(mine, data, (size_t)count * sizeof *mine);
    memset(mine + count, 0, (size_t)(slice * info->ranks - count) * sizeof *mine);
    CLT_TRY(transport->all_to_all(mine, theirs, slice * (int64_t)sizeof *mine));
    comm_half_sum(theirs, info->ranks, slice, type, mine + info->rank * slice);
    CLT_TRY(transport->all_gather(mine, slice * (int64_t)sizeof *mine));
    memcpy(data, mine, (size_t)count * sizeof *mine);
    return CLT_OK;
}

clt_status comm_half_all_reduce(const comm_transport *transport, const comm_info *info, uint16_t *data,
                                int64_t count, comm_type type)
{
    int64_t room = (count < PIECE ? count : PIECE) + info->ranks;
    uint16_t *mine = NULL, *theirs = NULL;
    if (info->ranks == 1 || count == 0)
        return CLT_OK;
    clt_status status = clt_alloc(&mine, (size_t)room, sizeof *mine, "gradients of this rank");
    if (status == CLT_OK)
        status = clt_alloc(&theirs, (size_t)room, sizeof *theirs, "gradients of all ranks");
    for (int64_t at = 0; at < count && status == CLT_OK; at += PIECE)
        status = sum_piece(transport, info, data + at, count - at < PIECE ? count - at : PIECE, type, mine,
                           theirs);
    free(mine);
    free(theirs);
    return status;
}
