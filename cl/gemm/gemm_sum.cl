/* SPDX-License-Identifier: Apache-2.0
 *
 * The second kernel of products whose sums over k were computed in parts, by split-K or stream-k
 * (gemm_tiles.clh), of the backends `tile`, `mma` and `wgmma`. It adds the parts of each element in a fixed
 * order, so that every run gives the same bits, and applies the epilogue; with LINE_SUMS it also adds the
 * parts of the sums of A's lines. Host side: cl/gemm/gemm_forms.c. Must not know how the parts were
 * computed.
 *
 * An item finishes VC neighbours of a row, because memory limits the kernel's speed, and finding the parts
 * takes divisions. */
#include "common.clh"
#include "lanes.clh"

#include "gemm_epilogue.clh"
#include "gemm_operands.clh"
#include "gemm_packed.clh"

#pragma option BM 64 /* STREAM: size of the tiles of C, and of the steps of k */
#pragma option BN 64
#pragma option BK 64
#include "gemm_tiles.clh"

#if VC == 8
#define ADD_PART(sums, from)                                                                                 \
    do {                                                                                                     \
        float4 low_ = *(__global const float4 *)(from), high_ = *(__global const float4 *)((from) + 4);      \
        vstore4(vload4(0, sums) + low_, 0, sums);                                                            \
        vstore4(vload4(1, sums) + high_, 1, sums);                                                           \
    } while (0)
#elif VC == 4
#define ADD_PART(sums, from) vstore4(vload4(0, sums) + *(__global const float4 *)(from), 0, sums)
#else
#define ADD_PART(sums, from) (sums)[0] += *(from)
#endif
#if VC > 1
#define FINISH_SUMS(i, j, sums) FINISH_VECTOR(i, j, sums)
#else
#define FINISH_SUMS(i, j, sums) FINISH(i, j, (sums)[0])
#endif

/* Where parts of line sums are: in `line_parts` rows of m floats or, with STREAM, in the slots of a row of
 * tiles. */
#if !LINE_SUMS
#define SUM_LINES
#elif STREAM
#define SUM_LINES TILES_LINE_SUMS, __global const float *line_part, ulong line_part_at
#else
#define SUM_LINES TILES_LINE_SUMS, __global const float *line_part, ulong line_part_at, uint line_parts
#endif
#if STREAM
#define SUM_PARTS uint k, STREAM_PARAMS
#else
#define SUM_PARTS uint splits
#endif

/* gemm_sum_tile: one item for each VC elements of a row of C and, after them, one for each line of A
 * (LINE_SUMS). If VC is above 1, n must be a multiple of VC. */
__kernel void gemm_sum_tile(__global STORAGE(DTC) * c, ulong c_at, __global const float *part,
                            ulong part_at EPILOGUE_PARAMS, uint m, uint n, ulong ldc, ulong stride_c,
                            uint batch, float alpha, float beta, SUM_PARTS SUM_LINES)
{
    uint columns = n / VC;
    ulong place = get_global_id(0), size = (ulong)m * columns;
#if STREAM
    gemm_row row;
    gemm_row_of_others(&row, m, n, k, batch, own_parts, part_steps, others);
    gemm_slots slots;
#endif
    if (place >= size * batch) {
#if LINE_SUMS
        if (place < size + m) {
            uint line = (uint)(place - size);
            float all = 0.0f;
#if STREAM
            line_part += line_part_at + line % BM;
            for (uint tj = 0; tj < (n + BN - 1) / BN; tj++) {
                gemm_slots_of(&slots, &row, m, n, line / BM, tj, 0, own_parts);
                for (uint s = 0; s < slots.own; s++)
                    all += line_part[(ulong)(slots.own_first + s) * BM];
                for (uint s = 0; s < slots.others; s++)
                    all += line_part[(ulong)(slots.others_first + s) * BM];
            }
#else
            for (uint s = 0; s < line_parts; s++)
                all += line_part[line_part_at + (ulong)s * m + line];
#endif
            __global float *to = line_sum + line_sum_at + line;
            *to = add_line_sums ? *to + all : all;
        }
#endif
        return;
    }
    uint z = (uint)(place / size);
    ulong in_item = place - z * size;
    uint i = (uint)(in_item / columns), j = (uint)(in_item - (ulong)i * columns) * VC;
    float sums[VC];
    UNROLL_FOR (uint q = 0; q < VC; q++)
        sums[q] = 0.0f;
#if STREAM
    gemm_slots_of(&slots, &row, m, n, i / BM, j / BN, z, own_parts);
    part += part_at + i % BM * BN + j % BN;
    for (uint s = 0; s < slots.own; s++)
        ADD_PART(sums, part + (ulong)(slots.own_first + s) * (BM * BN));
    for (uint s = 0; s < slots.others; s++)
        ADD_PART(sums, part + (ulong)(slots.others_first + s) * (BM * BN));
#else
    part += part_at + (ulong)z * splits * m * n + (ulong)i * n + j;
    for (uint s = 0; s < splits; s++)
        ADD_PART(sums, part + s * ((ulong)m * n));
#endif
    FINISH_SUMS(i, j, sums);
}
