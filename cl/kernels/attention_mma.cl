/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the form for GPUs with matrix units: 16-bit storage, f32 sums, scores and probabilities that
 * never leave registers. A work-group holds ROWS rows of one side (queries for y and dq, keys for dk and dv),
 * each of its warps PIECES pieces of 16 rows as operands A, and takes the other side COLS rows at a time
 * through two slots of local memory: while one is multiplied, copies fill the other. Sums of scores are, once
 * packed, the operand A of the next product (mma_registers.clh), in backward over keys too, because there
 * scores are computed transposed. Tiles that no query of the block sees are never brought; a tile that all of
 * them see entirely is not masked. Sums run in a fixed order without atomics.
 * Same results as attention.cl up to rounding, its probabilities and their slopes being rounded to the
 * storage type on their way into a product, as the matrix units want them. Defines: attention.clh and below.
 *
 * Local memory. A row has HEAD elements, HEAD_SIZE filled up with zeros to a multiple of 16, and lies PITCH =
 * HEAD + 8 apart: an odd number of 16-byte words, so that the eight rows which a fragment load or eight
 * copies reach at once lie in different banks, for every head size and without an exchange of addresses.
 * Four tiles of COLS rows are 36 KiB with 64 rows of 64 elements, 34 KiB with 32 of 128, of 48 for a group.
 *
 * Why these forms. A warp reads a streamed tile once for its 16 PIECES rows: 8 PIECES multiply-adds for each
 * byte, where an SM of Ampere needs 8 and one of Hopper 10 (gemm_mma.cl). Two pieces fit the registers up to
 * HEAD 64, one up to 128; what is larger goes to attention_group.cl. engine/ops/attention_mma.c chooses.
 *
 * Occupancy: 128 items a group, registers by ptxas for sm_80 to sm_120 (tests/e2e/test_attention_ptx.sh), all
 * without spills. Forward 163 to 174 with heads of 64 (232 with dropout and lengths on sm_90): three groups,
 * twelve warps on an SM; dq, dk and dv up to 255: two groups, eight warps. Above 128 registers because two
 * thirds of them are operands and sums that would otherwise be read from local memory, whose bandwidth is the
 * limit here: each warp has 4 PIECES independent products under way, which hide the latency of one another,
 * and the other group of the SM fills the time of the exponentials. */
#ifndef DT
#define DT f16
#endif
#include "common.clh"
#include "attention.clh"
#include "mma.clh"
#include "mma_registers.clh"

#ifndef WARPS
#define WARPS 4
#endif
#ifndef PIECES /* of 16 rows each, of a warp */
#define PIECES 1
#endif
#ifndef COLS /* rows of the other side in a tile: a multiple of 16; ROWS / 4 or more, for dq ROWS / 2 */
#define COLS 32
#endif
#ifndef KERNEL /* 1: forward, 2: dq, 3: dk and dv; 0: all, to be looked at */
#define KERNEL 0
#endif

#define ITEMS (32 * WARPS)
#define ROWS (16 * PIECES * WARPS)
#define HEAD ((HEAD_SIZE + 15) / 16 * 16)
#define PITCH (HEAD + 8)
#define STEPS (HEAD / 16)  /* products over a head */
#define CHUNKS (HEAD / 8)  /* 16 bytes each; as many columns of sums */
#define SLOT (2 * COLS * PITCH) /* elements: a tile of either operand */
#define WHOLE (HEAD_SIZE % 8 == 0) /* all chunks of a head are there and begin at multiples of 16 bytes */
#define LOG2E 1.44269504088896340736f
#define LN2 0.69314718055994530942f
#define GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

/* `rows` rows besides two slots; at the end 16 rows of f32 sums of every warp, which are no more. */
#define MEMORY(rows) __local uint4 memory[(2 * SLOT + (rows)*PITCH) / 8] __attribute__((aligned(128)))
#if MMA_SCRATCH
#define SCRATCH                                                                                              \
    __local uint scratches[WARPS * MMA_SCRATCH];                                                             \
    __local uint *scratch = scratches + (uint)get_local_id(0) / 32 * MMA_SCRATCH
#else
#define SCRATCH __local uint *scratch = (__local uint *)memory /* nobody looks */
#endif

/* --- rows between memories --- */

/* Eight elements of a row, of which `have` exist. */
static inline uint4 chunk_16(__global const ushort *from, int have)
{
    uint word[4];
    if (WHOLE && have > 0)
        return *(__global const uint4 *)from;
    MMA_UNROLL for (int i = 0; i < 4; i++)
    {
        word[i] = 0;
        if (2 * i < have)
            word[i] = from[2 * i];
        if (2 * i + 1 < have)
            word[i] |= (uint)from[2 * i + 1] << 16;
    }
    return (uint4)(word[0], word[1], word[2], word[3]);
}
static inline uint4 chunk_f32(__global const float *from, int have)
{
    uint word[4];
    MMA_UNROLL for (int i = 0; i < 4; i++)
    {
        float low = 0.0f, high = 0.0f;
        if (2 * i < have)
            low = from[2 * i];
        if (2 * i + 1 < have)
            high = from[2 * i + 1];
        word[i] = MMA_PACK(low, high);
    }
    return (uint4)(word[0], word[1], word[2], word[3]);
}
#define chunk_f16 chunk_16
#define chunk_bf16 chunk_16
#define COPIES_f16 (WHOLE && MMA_ASYNCHRONOUS)
#define COPIES_bf16 COPIES_f16
#define COPIES_f32 0

/* DEFINE_BRING(dt) defines bring_DT(to, from, ld, rows, tile_rows): `rows` rows of a head, and zeros up to
 * tile_rows, into local memory, by copies that end some time later where they can. */
#define DEFINE_BRING(dt)                                                                                     \
    static inline void CLT_CAT(bring_, dt)(__local ushort * to, __global const STORAGE(dt) * from, uint ld,  \
                                           uint rows, uint tile_rows)                                        \
    {                                                                                                        \
        _Pragma("unroll 1") for (uint i = 0; i < (tile_rows * CHUNKS + ITEMS - 1) / ITEMS; i++)              \
        {                                                                                                    \
            uint v = (uint)get_local_id(0) + i * ITEMS;                                                      \
            if (tile_rows * CHUNKS % ITEMS != 0 && v >= tile_rows * CHUNKS)                                  \
                break;                                                                                       \
            uint row = v / CHUNKS, chunk = v - row * CHUNKS;                                                 \
            int have = row < rows ? clamp(HEAD_SIZE - 8 * (int)chunk, 0, 8) : 0;                             \
            __global const STORAGE(dt) *at = have > 0 ? from + (ulong)row * ld + 8 * chunk : from;           \
            if (CLT_CAT(COPIES_, dt))                                                                        \
                MMA_COPY(to, row *PITCH + 8 * chunk, (__global const ushort *)at, 2 * (uint)have);           \
            else                                                                                             \
                *(__local uint4 *)(to + row * PITCH + 8 * chunk) = CLT_CAT(chunk_, dt)(at, have);            \
        }                                                                                                    \
    }
DEFINE_BRING(f32)
DEFINE_BRING(f16)
DEFINE_BRING(bf16)
#define BRING(dt, ...) CLT_CAT(bring_, dt)(__VA_ARGS__)

/* Eight sums to a row of which `have` elements exist. */
static inline void put_f32(__global float *to, const float *sum, int have, int accumulate)
{
    MMA_UNROLL for (int i = 0; i < 8; i++)
        if (WHOLE || i < have)
            to[i] = accumulate ? to[i] + sum[i] : sum[i];
}
#define DEFINE_PUT(dt)                                                                                       \
    static inline void CLT_CAT(put_, dt)(__global ushort * to, float *sum, int have, int accumulate)         \
    {                                                                                                        \
        MMA_UNROLL for (int i = 0; i < 8; i++)                                                               \
        {                                                                                                    \
            if (accumulate && (WHOLE || i < have))                                                           \
                sum[i] += LOAD(dt, to, i);                                                                   \
            if (!WHOLE && i < have)                                                                          \
                STORE(dt, to, i, sum[i]);                                                                    \
        }                                                                                                    \
        if (WHOLE)                                                                                           \
            *(__global uint4 *)to = (uint4)(MMA_PACK(sum[0], sum[1]), MMA_PACK(sum[2], sum[3]),              \
                                            MMA_PACK(sum[4], sum[5]), MMA_PACK(sum[6], sum[7]));             \
    }
DEFINE_PUT(f16)
DEFINE_PUT(bf16)

#define PUT_CHUNK(dt, ...) CLT_CAT(put_, dt)(__VA_ARGS__)

/* Sums of piece i of each warp, times `factor` of the item's upper and lower row, into local memory; nobody
 * may still use what lies there. */
static inline void line_up(__local float *lines, const float4 sum[CHUNKS], float2 factor)
{
    uint lane = MMA_LANE, warp = (uint)get_local_id(0) / 32;
    __local float *to = lines + (warp * 16 + (lane >> 2)) * PITCH + 2 * (lane & 3);
    MMA_UNROLL for (uint n = 0; n < CHUNKS; n++)
    {
        to[8 * n] = sum[n].x * factor.x;
        to[8 * n + 1] = sum[n].y * factor.x;
        to[8 * (PITCH + n)] = sum[n].z * factor.y;
        to[8 * (PITCH + n) + 1] = sum[n].w * factor.y;
    }
}

/* The block's rows (+)= sum * factor, of which `rows` exist; by way of local memory every row is written by
 * neighbouring items. */
#define PUT(dt, to, ld, sum, factor, rows, accumulate)                                                       \
    MMA_UNROLL for (uint i_ = 0; i_ < PIECES; i_++)                                                          \
    {                                                                                                        \
        __local float *lines_ = (__local float *)memory;                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        line_up(lines_, (sum)[i_], factor);                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        _Pragma("unroll 1") for (uint e_ = (uint)get_local_id(0); e_ < 16 * WARPS * CHUNKS; e_ += ITEMS)     \
        {                                                                                                    \
            uint line_ = e_ / CHUNKS, d_ = 8 * (e_ - line_ * CHUNKS);                                        \
            uint row_ = (line_ / 16 * PIECES + i_) * 16 + (line_ & 15);                                      \
            float sum_[8];                                                                                   \
            MMA_UNROLL for (uint k_ = 0; k_ < 8; k_++)                                                       \
                sum_[k_] = lines_[line_ * PITCH + d_ + k_];                                                  \
            if (row_ < (rows) && d_ < HEAD_SIZE)                                                             \
                PUT_CHUNK(dt, (to) + (ulong)row_ * (ld) + d_, sum_, HEAD_SIZE - (int)d_, accumulate);        \
        }                                                                                                    \
    }

/* --- products --- */

/* Where this item's row of the four 8 x 8 matrices of a fragment load starts: of A, and of B stored by steps;
 * of B stored by columns. */
static inline uint place_steps(void)
{
    return (MMA_LANE & 15) * PITCH + 8 * (MMA_LANE >> 4);
}
static inline uint place_columns(void)
{
    return (8 * (MMA_LANE >> 4) + (MMA_LANE & 7)) * PITCH + (MMA_LANE & 8);
}

/* The warp's rows of a block in local memory, as operands. */
static inline void hold(uint4 held[PIECES][STEPS], __local const ushort *block, __local uint *scratch)
{
    uint at = (uint)get_local_id(0) / 32 * (16 * PIECES) * PITCH + place_steps();
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
    {
        MMA_UNROLL for (uint s = 0; s < STEPS; s++)
            held[i][s] = MMA_LOAD(block, at + 16 * i * PITCH + 16 * s, scratch);
    }
}

/* The operand B of eight columns, of two that a fragment load brings. */
static inline uint2 half_of(uint4 both, uint e)
{
    uint pick = -e;
    return (uint2)(both.x ^ ((both.x ^ both.z) & pick), both.y ^ ((both.y ^ both.w) & pick));
}

/* tile[i][.] = rows held . the 16 rows of a tile from `at` (place_columns() of the first) on. */
static inline void dots(float4 tile[PIECES][2], const uint4 held[PIECES][STEPS], __local const ushort *rows,
                        uint at, __local uint *scratch)
{
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        tile[i][0] = tile[i][1] = (float4)(0.0f);
    MMA_UNROLL for (uint s = 0; s < STEPS; s++)
    {
        uint4 both = MMA_LOAD(rows, at + 16 * s, scratch);
        MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        {
            MMA_UNROLL for (uint e = 0; e < 2; e++)
            {
                uint2 right = half_of(both, e);
                MMA_MULTIPLY(tile[i][e], held[i][s], right, scratch);
            }
        }
    }
}

/* sum[i] += weights[i] times the 16 rows of a tile from `at` (place_steps() of the first) on. */
static inline void mix(float4 sum[PIECES][CHUNKS], const uint4 weights[PIECES], __local const ushort *rows,
                       uint at, __local uint *scratch)
{
    MMA_UNROLL for (uint n = 0; n < CHUNKS; n += 2)
    {
        uint4 both = MMA_LOAD_T(rows, at + 8 * n, scratch);
        MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        {
            MMA_UNROLL for (uint e = 0; e < 2; e++)
            {
                uint2 right = half_of(both, e);
                MMA_MULTIPLY(sum[i][n + e], weights[i], right, scratch);
            }
        }
    }
}

/* A tile of 16 x 16 sums as an operand. */
static inline uint4 operand(float4 left, float4 right)
{
    return (uint4)(MMA_PACK(left.x, left.y), MMA_PACK(left.z, left.w), MMA_PACK(right.x, right.y),
                   MMA_PACK(right.z, right.w));
}

#define NOTHING(sum)                                                                                         \
    MMA_UNROLL for (uint i_ = 0; i_ < PIECES; i_++)                                                          \
    {                                                                                                        \
        MMA_UNROLL for (uint n_ = 0; n_ < CHUNKS; n_++)                                                      \
            (sum)[i_][n_] = (float4)(0.0f);                                                                  \
    }

/* --- what queries see, and dropout --- */

/* Keys below it are seen by query i; at most 0: none. */
static inline int seen_by(uint i, uint tq, uint keys)
{
#if CAUSAL
    return (int)i + (int)keys - (int)tq + 1;
#else
    return (int)keys;
#endif
}

/* Factors of probabilities `number` and number + step, step 1 or more. */
static inline float2 keep_pair(__global const uint *sb, uint op, ulong number, uint step, float p_drop,
                               float keep_scale)
{
#if DROPOUT
    uint4 block = clt_rng_block(sb, RNG_DROPOUT, op, number / 4);
    uint first = attention_word(block, (uint)number & 3);
    if ((number ^ (number + step)) > 3)
        block = clt_rng_block(sb, RNG_DROPOUT, op, (number + step) / 4);
    uint second = attention_word(block, (uint)(number + step) & 3);
    return (float2)(clt_uniform(first) >= p_drop ? keep_scale : 0.0f,
                    clt_uniform(second) >= p_drop ? keep_scale : 0.0f);
#else
    return (float2)(1.0f);
#endif
}

/* The scores of keys j0.. that the query of a row does not see go. */
static inline float4 hide(float4 score, int column, int seen_up, int seen_low)
{
    return (float4)(column < seen_up ? score.x : -INFINITY, column + 1 < seen_up ? score.y : -INFINITY,
                    column < seen_low ? score.z : -INFINITY, column + 1 < seen_low ? score.w : -INFINITY);
}

/* What a group over a block of queries works on: `rows` queries from i0 on, of head h in sample n; the keys up to `visible`
 * are seen by some of them, those below `clear` by all. The item's first query is `mine`, its columns begin at `pair`. */
#define BLOCK_OF_QUERIES                                                                                     \
    uint blocks = (tq + ROWS - 1) / ROWS, lane = MMA_LANE, pair = 2 * (lane & 3);                            \
    ulong item = get_group_id(0), head = item / blocks;                                                      \
    uint i0 = (blocks - 1 - (uint)(item - head * blocks)) * ROWS;                                            \
    uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS), keys = KEYS_OF(n);                   \
    uint rows = min(tq - i0, (uint)ROWS), visible = attention_visible(i0 + rows - 1, tq, keys);              \
    int clear = seen_by(i0, tq, keys);                                                                       \
    uint mine = i0 + (uint)get_local_id(0) / 32 * (16 * PIECES) + (lane >> 2);                               \
    float unit = scale * LOG2E

#if KERNEL == 0 || KERNEL == 1

/* --- forward --- */

static inline float row_max(float before, float4 score[COLS / 16][PIECES][2], uint i, bool lower,
                            __local uint *scratch)
{
    MMA_UNROLL for (uint c = 0; c < COLS / 8; c++)
    {
        float4 s = score[c / 2][i][c & 1];
        before = lower ? fmax(before, fmax(s.z, s.w)) : fmax(before, fmax(s.x, s.y));
    }
    before = fmax(before, MMA_SHUFFLE_XOR(before, 1, scratch));
    return fmax(before, MMA_SHUFFLE_XOR(before, 2, scratch));
}

/* Softmax on line of the item's two rows of piece i: scores become exponentials, `top` and `total` (the
 * item's own part of it) go on; returns the factors by which earlier sums shrink. */
static inline float2 soften(float4 score[COLS / 16][PIECES][2], uint i, float unit, float2 *top,
                            float2 *total, __local uint *scratch)
{
    float up = row_max(top->x, score, i, false, scratch), low = row_max(top->y, score, i, true, scratch);
    float from_up = up > -INFINITY ? up * unit : 0.0f, from_low = low > -INFINITY ? low * unit : 0.0f;
    float2 shrink = (float2)(MMA_EXP2(fma(top->x, unit, -from_up)), MMA_EXP2(fma(top->y, unit, -from_low)));
    float sum_up = 0.0f, sum_low = 0.0f;
    MMA_UNROLL for (uint c = 0; c < COLS / 8; c++)
    {
        float4 s = score[c / 2][i][c & 1];
        s.x = MMA_EXP2(fma(s.x, unit, -from_up));
        s.y = MMA_EXP2(fma(s.y, unit, -from_up));
        s.z = MMA_EXP2(fma(s.z, unit, -from_low));
        s.w = MMA_EXP2(fma(s.w, unit, -from_low));
        sum_up += s.x + s.y;
        sum_low += s.z + s.w;
        score[c / 2][i][c & 1] = s;
    }
    *top = (float2)(up, low);
    *total = (float2)(fma(total->x, shrink.x, sum_up), fma(total->y, shrink.y, sum_low));
    return shrink;
}

#if DROPOUT
/* Bit e of digit c: element e of the item's fragment of columns 8 c.. of a tile stays; `number` is that of
 * its first element. */
static inline uint keep_tile(__global const uint *sb, uint op, ulong number, uint tk, float p_drop)
{
    uint bits = 0;
#pragma unroll 1
    for (uint c = 0; c < COLS / 8; c++) {
        float2 up = keep_pair(sb, op, number + 8 * c, 1, p_drop, 1.0f);
        float2 low = keep_pair(sb, op, number + 8 * (ulong)tk + 8 * c, 1, p_drop, 1.0f);
        uint digit = (up.x > 0.0f) | (up.y > 0.0f) << 1 | (low.x > 0.0f) << 2 | (low.y > 0.0f) << 3;
        bits |= digit << 4 * c;
    }
    return bits;
}

static inline float4 thin(float4 p, uint bits, float keep_scale)
{
    return (float4)(bits & 1 ? p.x * keep_scale : 0.0f, bits & 2 ? p.y * keep_scale : 0.0f,
                    bits & 4 ? p.z * keep_scale : 0.0f, bits & 8 ? p.w * keep_scale : 0.0f);
}
#endif

/* y and lse; one group per block of queries of a head, the last block, which sees most keys, first. */
GROUP void attention_fwd_mma(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                             ATTENTION_INPUTS, ATTENTION_SIZES)
{
    MEMORY(0);
    SCRATCH;
    __local ushort *slots = (__local ushort *)memory;
    BLOCK_OF_QUERIES;
    uint4 query[PIECES][STEPS];
    float4 sum[PIECES][CHUNKS];
    float2 top[PIECES], total[PIECES];
    NOTHING(sum)
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
    {
        top[i] = (float2)(-INFINITY);
        total[i] = (float2)(0.0f);
    }
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    __local ushort *block = ROWS > 2 * COLS ? slots : slots + SLOT; /* beside the first tile, or before it */
    BRING(DT, block, q + q0 + ((ulong)n * tq + i0) * ldq + h * HEAD_SIZE, ldq, rows, ROWS);
    if (ROWS > 2 * COLS) {
        MMA_COPIES_END();
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        hold(query, block, scratch);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    BRING(DT, slots, k, ldk, min(visible, (uint)COLS), COLS);
    BRING(DT, slots + COLS * PITCH, v, ldv, min(visible, (uint)COLS), COLS);
    MMA_COPIES_END();
    if (ROWS <= 2 * COLS) {
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        hold(query, block, scratch);
    }
    uint now = 0, columns = place_columns(), steps = COLS * PITCH + place_steps();
#pragma unroll 1
    for (uint j0 = 0; j0 < visible; j0 += COLS) {
        __local ushort *slot = slots + now, *other = slots + (SLOT - now);
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE); /* the tile is there, and nobody reads the other slot any more */
        k += (ulong)COLS * ldk;
        v += (ulong)COLS * ldv;
        if (j0 + COLS < visible) {
            BRING(DT, other, k, ldk, min(visible - j0 - COLS, (uint)COLS), COLS);
            BRING(DT, other + COLS * PITCH, v, ldv, min(visible - j0 - COLS, (uint)COLS), COLS);
        }
        MMA_COPIES_END();
#if DROPOUT
        uint kept[PIECES]; /* ahead of the scores, which take the registers */
        MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        {
            ulong number = attention_number(sb + sb0, n, h, mine + 16 * i, tq, tk) + j0 + pair;
            kept[i] = keep_tile(sb + sb0, op, number, tk, p_drop);
        }
#endif
        float4 score[COLS / 16][PIECES][2];
        MMA_UNROLL for (uint c = 0; c < COLS / 16; c++)
            dots(score[c], query, slot, columns + 16 * c * PITCH, scratch);
        if ((int)(j0 + COLS) > clear) {
            MMA_UNROLL for (uint i = 0; i < PIECES; i++)
            {
                int seen_up = seen_by(mine + 16 * i, tq, keys);
                int seen_low = seen_by(mine + 16 * i + 8, tq, keys);
                MMA_UNROLL for (uint c = 0; c < COLS / 8; c++)
                    score[c / 2][i][c & 1] =
                        hide(score[c / 2][i][c & 1], (int)(j0 + 8 * c + pair), seen_up, seen_low);
            }
        }
        MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        {
            float2 shrink = soften(score, i, unit, &top[i], &total[i], scratch);
            MMA_UNROLL for (uint c = 0; c < CHUNKS; c++)
            {
                sum[i][c].x *= shrink.x;
                sum[i][c].y *= shrink.x;
                sum[i][c].z *= shrink.y;
                sum[i][c].w *= shrink.y;
            }
#if DROPOUT
            MMA_UNROLL for (uint c = 0; c < COLS / 8; c++)
                score[c / 2][i][c & 1] = thin(score[c / 2][i][c & 1], kept[i] >> 4 * c, keep_scale);
#endif
        }
        MMA_UNROLL for (uint c = 0; c < COLS / 16; c++)
        {
            uint4 weights[PIECES];
            MMA_UNROLL for (uint i = 0; i < PIECES; i++)
                weights[i] = operand(score[c][i][0], score[c][i][1]);
            mix(sum, weights, slot, steps + 16 * c * PITCH, scratch);
        }
        now = SLOT - now;
    }
    MMA_COPIES_WAIT(0);
    y += y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE;
    lse += lse0 + head * tq;
    float2 norm[PIECES];
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
    {
        float up = total[i].x + MMA_SHUFFLE_XOR(total[i].x, 1, scratch);
        float low = total[i].y + MMA_SHUFFLE_XOR(total[i].y, 1, scratch);
        up += MMA_SHUFFLE_XOR(up, 2, scratch);
        low += MMA_SHUFFLE_XOR(low, 2, scratch);
        norm[i] = (float2)(up == 0.0f ? 0.0f : 1.0f / up, low == 0.0f ? 0.0f : 1.0f / low);
        uint row = mine + 16 * i;
        /* as the exponentials were taken: relative to top * unit */
        if (pair == 0 && row < tq)
            lse[row] = up == 0.0f ? 0.0f : (top[i].x * unit + log2(up)) * LN2;
        if (pair == 0 && row + 8 < tq)
            lse[row + 8] = low == 0.0f ? 0.0f : (top[i].y * unit + log2(low)) * LN2;
    }
    PUT(DT, y, HEADS * HEAD_SIZE, sum, norm[i_], rows, 0)
}

#endif

/* --- backward --- */

/* Scores and slopes become keep * P and dS; norm (in units of log 2) and mean are those of each element's
 * query. */
static inline void weigh(float4 *score, float4 *slope, float unit, float4 norm, float4 mean, float4 keep)
{
    float4 p = (float4)(MMA_EXP2(fma(score->x, unit, -norm.x)), MMA_EXP2(fma(score->y, unit, -norm.y)),
                        MMA_EXP2(fma(score->z, unit, -norm.z)), MMA_EXP2(fma(score->w, unit, -norm.w)));
    *slope = p * (*slope * keep - mean);
    *score = p * keep;
}

#if KERNEL == 0 || KERNEL == 2

/* dq; one group per block of queries of a head, as in forward. */
GROUP void attention_bwd_q_mma(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                               __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                               ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                               ATTENTION_SIZES)
{
    MEMORY(0);
    SCRATCH;
    __local ushort *slots = (__local ushort *)memory;
    BLOCK_OF_QUERIES;
    uint4 query[PIECES][STEPS], given[PIECES][STEPS];
    float4 sum[PIECES][CHUNKS], norm[PIECES], mean[PIECES];
    NOTHING(sum)
    lse += lse0 + head * tq;
    delta += delta0 + head * tq;
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
    {
        uint up = min(mine + 16 * i, tq - 1), low = min(mine + 16 * i + 8, tq - 1);
        norm[i] = (float4)(lse[up], lse[up], lse[low], lse[low]) * LOG2E;
        mean[i] = (float4)(delta[up], delta[up], delta[low], delta[low]);
    }
    ulong line = (ulong)n * tq + i0;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    BRING(DT, slots, q + q0 + line * ldq + h * HEAD_SIZE, ldq, rows, ROWS);
    dy += dy0 + (line * HEADS + h) * HEAD_SIZE;
    BRING(DYT, slots + ROWS * PITCH, dy, HEADS * HEAD_SIZE, rows, ROWS);
    MMA_COPIES_END();
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    hold(query, slots, scratch);
    hold(given, slots + ROWS * PITCH, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    BRING(DT, slots, k, ldk, min(visible, (uint)COLS), COLS);
    BRING(DT, slots + COLS * PITCH, v, ldv, min(visible, (uint)COLS), COLS);
    MMA_COPIES_END();
    uint now = 0, columns = place_columns(), steps = place_steps();
#pragma unroll 1
    for (uint j0 = 0; j0 < visible; j0 += COLS) {
        __local ushort *slot = slots + now, *other = slots + (SLOT - now);
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        k += (ulong)COLS * ldk;
        v += (ulong)COLS * ldv;
        if (j0 + COLS < visible) {
            BRING(DT, other, k, ldk, min(visible - j0 - COLS, (uint)COLS), COLS);
            BRING(DT, other + COLS * PITCH, v, ldv, min(visible - j0 - COLS, (uint)COLS), COLS);
        }
        MMA_COPIES_END();
        bool masked = (int)(j0 + COLS) > clear;
#pragma unroll 1
        for (uint c = 0; c < COLS; c += 16) {
            float4 score[PIECES][2], slope[PIECES][2];
            uint4 changes[PIECES];
            dots(score, query, slot, columns + c * PITCH, scratch);
            dots(slope, given, slot + COLS * PITCH, columns + c * PITCH, scratch);
            MMA_UNROLL for (uint i = 0; i < PIECES; i++)
            {
                MMA_UNROLL for (uint e = 0; e < 2; e++)
                {
                    uint j = j0 + c + 8 * e + pair;
                    float4 keep = (float4)(1.0f);
                    if (masked)
                        score[i][e] = hide(score[i][e], (int)j, seen_by(mine + 16 * i, tq, keys),
                                           seen_by(mine + 16 * i + 8, tq, keys));
#if DROPOUT
                    ulong number = attention_number(sb + sb0, n, h, mine + 16 * i, tq, tk) + j;
                    float2 up = keep_pair(sb + sb0, op, number, 1, p_drop, keep_scale);
                    float2 low = keep_pair(sb + sb0, op, number + 8 * (ulong)tk, 1, p_drop, keep_scale);
                    keep = (float4)(up.x, up.y, low.x, low.y);
#endif
                    weigh(&score[i][e], &slope[i][e], unit, norm[i], mean[i], keep);
                }
                changes[i] = operand(slope[i][0], slope[i][1]);
            }
            mix(sum, changes, slot, steps + c * PITCH, scratch);
        }
        now = SLOT - now;
    }
    MMA_COPIES_WAIT(0);
    dq += dq0 + line * lddq + h * HEAD_SIZE;
    PUT(GT, dq, lddq, sum, (float2)(scale), rows, accumulate)
}

#endif
#if KERNEL == 0 || KERNEL == 3

/* The warp's rows of a block in local memory times the 16 rows of a tile from `at` on, as dots(). */
static inline void dots_again(float4 tile[PIECES][2], __local const ushort *block, __local const ushort *rows,
                              uint at, __local uint *scratch)
{
    uint mine = (uint)get_local_id(0) / 32 * (16 * PIECES) * PITCH + place_steps();
    MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        tile[i][0] = tile[i][1] = (float4)(0.0f);
    MMA_UNROLL for (uint s = 0; s < STEPS; s++)
    {
        uint4 both = MMA_LOAD(rows, at + 16 * s, scratch);
        MMA_UNROLL for (uint i = 0; i < PIECES; i++)
        {
            uint4 held = MMA_LOAD(block, mine + 16 * i * PITCH + 16 * s, scratch);
            MMA_UNROLL for (uint e = 0; e < 2; e++)
            {
                uint2 right = half_of(both, e);
                MMA_MULTIPLY(tile[i][e], held, right, scratch);
            }
        }
    }
}

/* dk and dv; one group per block of keys of a key head. Scores stand transposed: rows are keys. Two sums and
 * the keys fill the registers, so that the block's values stay in local memory. */
GROUP void attention_bwd_kv_mma(__global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                ATTENTION_SIZES)
{
    MEMORY(ROWS);
    SCRATCH;
    __local float facts[4 * COLS]; /* of each slot's queries: lse in units of log 2, delta */
    __local ushort *slots = (__local ushort *)memory;
    uint blocks = (tk + ROWS - 1) / ROWS, lid = (uint)get_local_id(0), lane = MMA_LANE, pair = 2 * (lane & 3);
    ulong item = get_group_id(0), head = item / blocks;
    uint j0 = (uint)(item - head * blocks) * ROWS;
    uint n = (uint)(head / KV_HEADS), g = (uint)(head - (ulong)n * KV_HEADS), keys = KEYS_OF(n);
    uint have = min(tk - j0, (uint)ROWS), held = min(attention_beyond(keys, j0), (uint)ROWS);
    uint first = attention_first_query(j0, tq, keys) / COLS * COLS;
    uint mine = j0 + lid / 32 * (16 * PIECES) + (lane >> 2); /* first key of the item */
    uint tiles = held > 0 && first < tq ? SHARING * ((tq - first + COLS - 1) / COLS) : 0;
    float unit = scale * LOG2E;
    uint4 key[PIECES][STEPS];
    __local ushort *value = slots + 2 * SLOT;
    float4 sum_k[PIECES][CHUNKS], sum_v[PIECES][CHUNKS];
    NOTHING(sum_k)
    NOTHING(sum_v)
    ulong row = (ulong)n * tk + j0;
    BRING(DT, slots, k + k0 + row * ldk + g * HEAD_SIZE, ldk, held, ROWS);
    BRING(DT, value, v + v0 + row * ldv + g * HEAD_SIZE, ldv, held, ROWS);
    MMA_COPIES_END();
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    hold(key, slots, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    q += q0 + (ulong)n * tq * ldq;
    dy += dy0 + (ulong)n * tq * (HEADS * HEAD_SIZE);
    lse += lse0 + (ulong)n * HEADS * tq;
    delta += delta0 + (ulong)n * HEADS * tq;
    uint now = 0, columns = place_columns(), steps = place_steps();
    uint i0 = first, h = g * SHARING, next_i0 = first, next_h = h; /* of the tile at hand and of the next */
#pragma unroll 1
    for (uint tile = 0; tile <= tiles; tile++) { /* multiplies from the second turn on */
        __local ushort *slot = slots + (SLOT - now), *other = slots + now;
        __local float *fact = facts + (now ? 0 : 2 * COLS), *next_fact = facts + (now ? 2 * COLS : 0);
        float norm_next = INFINITY, mean_next = 0.0f; /* queries that do not exist: their P is 0 */
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (tile < tiles) {
            uint rows = min(tq - next_i0, (uint)COLS);
            BRING(DT, other, q + (ulong)next_i0 * ldq + next_h * HEAD_SIZE, ldq, rows, COLS);
            BRING(DYT, other + COLS * PITCH, dy + ((ulong)next_i0 * HEADS + next_h) * HEAD_SIZE,
                  HEADS * HEAD_SIZE, rows, COLS);
            if (lid < rows) {
                norm_next = lse[(ulong)next_h * tq + next_i0 + lid] * LOG2E;
                mean_next = delta[(ulong)next_h * tq + next_i0 + lid];
            }
        }
        MMA_COPIES_END();
        bool masked = held < ROWS || CAUSAL * (int)(j0 + ROWS) > seen_by(i0, tq, keys);
#pragma unroll 1
        for (uint c = tile > 0 ? 0 : COLS; c < COLS; c += 16) {
            float4 score[PIECES][2], slope[PIECES][2];
            uint4 weights[PIECES], changes[PIECES];
            dots(score, key, slot, columns + c * PITCH, scratch);
            dots_again(slope, value, slot + COLS * PITCH, columns + c * PITCH, scratch);
            MMA_UNROLL for (uint i = 0; i < PIECES; i++)
            {
                MMA_UNROLL for (uint e = 0; e < 2; e++)
                {
                    uint at = c + 8 * e + pair, j = mine + 16 * i;
                    float2 norm = *(__local const float2 *)(fact + at);
                    float2 mean = *(__local const float2 *)(fact + COLS + at);
                    float4 keep = (float4)(1.0f);
                    if (masked) {
                        int seen = seen_by(i0 + at, tq, keys), step = CAUSAL;
                        score[i][e] = (float4)((int)j < seen ? score[i][e].x : -INFINITY,
                                               (int)j < seen + step ? score[i][e].y : -INFINITY,
                                               (int)j + 8 < seen ? score[i][e].z : -INFINITY,
                                               (int)j + 8 < seen + step ? score[i][e].w : -INFINITY);
                    }
#if DROPOUT
                    ulong number = attention_number(sb + sb0, n, h, i0 + at, tq, tk) + j;
                    float2 up = keep_pair(sb + sb0, op, number, tk, p_drop, keep_scale);
                    float2 low = keep_pair(sb + sb0, op, number + 8, tk, p_drop, keep_scale);
                    keep = (float4)(up.x, up.y, low.x, low.y);
#endif
                    weigh(&score[i][e], &slope[i][e], unit, (float4)(norm.x, norm.y, norm.x, norm.y),
                          (float4)(mean.x, mean.y, mean.x, mean.y), keep);
                }
                weights[i] = operand(score[i][0], score[i][1]);
                changes[i] = operand(slope[i][0], slope[i][1]);
            }
            mix(sum_v, weights, slot + COLS * PITCH, steps + c * PITCH, scratch);
            mix(sum_k, changes, slot, steps + c * PITCH, scratch);
        }
        if (lid < COLS) {
            next_fact[lid] = norm_next;
            next_fact[COLS + lid] = mean_next;
        }
        i0 = next_i0;
        h = next_h;
        next_i0 += COLS;
        if (next_i0 >= tq) {
            next_i0 = first;
            next_h++;
        }
        now = SLOT - now;
    }
    MMA_COPIES_WAIT(0);
    dk += dk0 + row * lddk + g * HEAD_SIZE;
    dv += dv0 + row * lddv + g * HEAD_SIZE;
    PUT(GT, dk, lddk, sum_k, (float2)(scale), have, accumulate_k)
    PUT(GT, dv, lddv, sum_v, (float2)(1.0f), have, accumulate_v)
}
#endif
