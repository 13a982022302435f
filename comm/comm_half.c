/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce (sum) of 16-bit floats, made of an all-to-all and an all-gather. Each rank owns one slice of
 * the data: it receives that slice from all ranks, adds them up in f32 in the order of the ranks and
 * rounds once; then the slices are gathered. So no partial sum is ever rounded to 16 bits, all ranks end
 * with the same bits, and each rank sends as many bytes as in a ring all-reduce. The transport only has to
 * exchange bytes. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "engine/base/mem.h"

/* Elements of one exchange; longer arrays take several. It bounds the two buffers of comm_half_all_reduce. */
#define PIECE ((int64_t)1 << 21)

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
