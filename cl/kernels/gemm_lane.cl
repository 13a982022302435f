/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `lane`, for CPU devices: one work-item per work-group owns a block of C and works as a blocked
 * matrix product does on one core. It walks k in blocks of kc; per block it packs, sliver by sliver, NR columns of
 * op(B) into local memory (SLIVERS of them at a time, converted to f32, transposed where the layout asks for it), and multiplies the sliver,
 * now in the first cache level, with all its rows of A, MR at a time, in MR x NV accumulators of sixteen lanes. f32
 * rows of A that lie along k are read where they are; others are packed once per block of k.
 *
 * Every sum runs over k in order with fma, whatever the blocks are: no choice of MR, NV, kc, mt or nt changes a bit,
 * and backend `simple` gives the same bits in the layouts NN, TN and TT. Host side: cl/gemm_lane.c.
 *
 * Local memory: panel_b SLIVERS*kc*NR floats; panel_a mt*kc*MRP (PACK_A); sums mt*nt tiles of MR*NR when k > kc, else one.
 * Offsets inside blocks are 32-bit, bases 64-bit. */
#include "common.clh"
#include "lanes.clh"

#include "gemm_epilogue.clh"

#ifndef MR /* rows of a tile */
#define MR 6
#endif
#ifndef NV /* float16 vectors along a tile's columns */
#define NV 1
#endif
#ifndef TA
#define TA 0
#endif
#ifndef TB
#define TB 0
#endif
#ifndef PACK_A /* needed when TA, when A is not f32, and when m < MR */
#define PACK_A (TA)
#endif
#ifndef SHUFFLES /* 0: transpose without vector shuffles, for interpreters that cannot follow them */
#define SHUFFLES 1
#endif
#ifndef PREFETCH /* 1: lines of B are asked for before they are packed, where the compiler can say so */
#define PREFETCH 0
#endif
#ifndef DTA
#define DTA f32
#endif
#ifndef DTB
#define DTB f32
#endif

#ifndef SLIVERS /* of B that are packed together, a power of two */
#define SLIVERS 4
#endif

#define NR (LANES * NV) /* columns of a tile */
#define MRP ((MR + 7) / 8 * 8) /* floats between the columns of a packed tile of A */

#define LOAD8_f32(p) vload8(0, p)
#define LOAD8_f16(p) vload_half8(0, (const __global half *)(p))
#define LOAD8_bf16(p) as_float8(convert_uint8(vload8(0, p)) << 16)
#define LOAD8(dt, p) CLT_CAT(LOAD8_, dt)(p)

/* Pairs of two, of pairs and of halves: the three rounds of an 8 x 8 transposition. */
#define LOW1(a, b) (float8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define HIGH1(a, b) (float8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define LOW2(a, b) (float8)(a.s0, a.s1, b.s0, b.s1, a.s4, a.s5, b.s4, b.s5)
#define HIGH2(a, b) (float8)(a.s2, a.s3, b.s2, b.s3, a.s6, a.s7, b.s6, b.s7)
#define LOW4(a, b) (float8)(a.s0, a.s1, a.s2, a.s3, b.s0, b.s1, b.s2, b.s3)
#define HIGH4(a, b) (float8)(a.s4, a.s5, a.s6, a.s7, b.s4, b.s5, b.s6, b.s7)

/* TRANSPOSE8(dt, source, row, out, step): out[q*step + r] = source[row(r) + q] for r, q in 0..7; `row` is a macro. */
#if SHUFFLES
#define TRANSPOSE8(dt, source, row, out, step)                                                               \
    do {                                                                                                     \
        float8 r0_ = LOAD8(dt, source + row(0)), r1_ = LOAD8(dt, source + row(1));                           \
        float8 r2_ = LOAD8(dt, source + row(2)), r3_ = LOAD8(dt, source + row(3));                           \
        float8 r4_ = LOAD8(dt, source + row(4)), r5_ = LOAD8(dt, source + row(5));                           \
        float8 r6_ = LOAD8(dt, source + row(6)), r7_ = LOAD8(dt, source + row(7));                           \
        float8 a0_ = LOW1(r0_, r1_), a1_ = HIGH1(r0_, r1_), a2_ = LOW1(r2_, r3_), a3_ = HIGH1(r2_, r3_);     \
        float8 a4_ = LOW1(r4_, r5_), a5_ = HIGH1(r4_, r5_), a6_ = LOW1(r6_, r7_), a7_ = HIGH1(r6_, r7_);     \
        float8 b0_ = LOW2(a0_, a2_), b1_ = HIGH2(a0_, a2_), b2_ = LOW2(a1_, a3_), b3_ = HIGH2(a1_, a3_);     \
        float8 b4_ = LOW2(a4_, a6_), b5_ = HIGH2(a4_, a6_), b6_ = LOW2(a5_, a7_), b7_ = HIGH2(a5_, a7_);     \
        vstore8(LOW4(b0_, b4_), 0, out);                                                                     \
        vstore8(LOW4(b1_, b5_), 0, out + (step));                                                            \
        vstore8(LOW4(b2_, b6_), 0, out + 2 * (step));                                                        \
        vstore8(LOW4(b3_, b7_), 0, out + 3 * (step));                                                        \
        vstore8(HIGH4(b0_, b4_), 0, out + 4 * (step));                                                       \
        vstore8(HIGH4(b1_, b5_), 0, out + 5 * (step));                                                       \
        vstore8(HIGH4(b2_, b6_), 0, out + 6 * (step));                                                       \
        vstore8(HIGH4(b3_, b7_), 0, out + 7 * (step));                                                       \
    } while (0)
#else
#define TRANSPOSE8(dt, source, row, out, step)                                                               \
    do {                                                                                                     \
        const ulong rows_[8] = {row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)};             \
        for (uint r_ = 0; r_ < 8; r_++)                                                                      \
            for (uint q_ = 0; q_ < 8; q_++)                                                                  \
                (out)[q_ * (step) + r_] = LOAD(dt, source, rows_[r_] + q_);                                  \
    } while (0)
#endif

/* `count` slivers of op(B) from column j0 on, rows k0..k0+kn-1, into panel[(sliver*kn + k)*NR + j]. Columns behind n
 * repeat the last one; their sums are not stored. */
static inline void pack_b(__global const STORAGE(DTB) * b, ulong ldb, uint n, ulong k0, uint kn, uint j0,
                          uint count, __local float *panel)
{
#if TB
#define ROW_B(r) (ulong) min(j + (r), n - 1) * ldb
    for (uint sliver = 0; sliver < count; sliver++) {
        for (uint v = 0; v < NR; v += 8) {
            uint k = 0, j = j0 + sliver * NR + v;
            __local float *out = panel + sliver * kn * NR + v;
            for (; k + 8 <= kn; k += 8) {
                __global const STORAGE(DTB) *source = b + k0 + k;
                TRANSPOSE8(DTB, source, ROW_B, out, NR);
                out += 8 * NR;
            }
            for (; k < kn; k++) {
                for (uint r = 0; r < 8; r++)
                    out[r] = LOAD(DTB, b, ROW_B(r) + k0 + k);
                out += NR;
            }
        }
    }
#else
    /* several slivers at a time: long pieces of B's rows, which may lie a page apart each */
    __global const STORAGE(DTB) *row = b + k0 * ldb;
    bool inside = n - j0 >= count * NR;
    for (uint k = 0; k < kn; k++) {
        uint j = j0;
        for (uint sliver = 0; sliver < count; sliver++) {
            __local float *out = panel + (sliver * kn + k) * NR;
            if (inside) {
#pragma unroll
                for (uint v = 0; v < NR; v += LANES)
                    vstore16(LOAD16(DTB, row, j + v), 0, out + v);
            } else {
                for (uint v = 0; v < NR; v++)
                    out[v] = LOAD(DTB, row, min(j + v, n - 1));
            }
            j += NR;
        }
        row += ldb;
    }
#endif
}

/* Lines of memory that the next packing will read, brought into the cache a few at a time while the present slivers are
 * multiplied: packing is short, so its reads from memory would otherwise stand in a row. */
typedef struct clt_ahead {
    __global const STORAGE(DTB) * row;
    ulong step;                        /* elements between rows */
    uint rows, lines;                  /* rows left; lines of a row */
    uint line;                         /* next one in the row */
    uint share;                        /* lines per call */
} clt_ahead;

#define LINE_ELEMENTS (64 / sizeof(STORAGE(DTB)))
#if PREFETCH && defined(__clang__)
#define FETCH_LINE(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#else
#define FETCH_LINE(p)
#endif

static inline void fetch_ahead(clt_ahead *ahead)
{
    for (uint i = 0; i < ahead->share && ahead->rows > 0; i++) {
        FETCH_LINE(ahead->row + ahead->line * LINE_ELEMENTS);
        if (++ahead->line == ahead->lines) {
            ahead->line = 0;
            ahead->row += ahead->step;
            ahead->rows--;
        }
    }
}

/* The source of `count` slivers from column j0 on, spread over `calls` calls. */
static inline clt_ahead plan_ahead(__global const STORAGE(DTB) * b, ulong ldb, uint n, ulong k0, uint kn,
                                   uint j0, uint count, uint calls)
{
    clt_ahead ahead;
    uint columns = min(count * NR, n - j0);
#if TB
    ahead.row = b + j0 * ldb + k0;
    ahead.rows = columns;
    ahead.lines = (kn + LINE_ELEMENTS - 1) / LINE_ELEMENTS;
#else
    ahead.row = b + k0 * ldb + j0;
    ahead.rows = kn;
    ahead.lines = (columns + LINE_ELEMENTS - 1) / LINE_ELEMENTS;
#endif
    ahead.step = ldb;
    ahead.line = 0;
    ahead.share = (ahead.rows * ahead.lines + calls - 1) / calls;
    return ahead;
}

#if PACK_A
/* Rows i0.. of op(A), `tiles` tiles of MR, columns k0..k0+kn-1, into panel[(tile*kn + k)*MRP + i]. Rows behind m repeat
 * the last one. */
static inline void pack_a(__global const STORAGE(DTA) * a, ulong lda, uint m, ulong k0, uint kn, uint i0,
                          uint tiles, __local float *panel)
{
#if TA
    /* eight tiles at a time: whole cache lines of A's rows, few enough streams to write */
    for (uint first = 0; first < tiles; first += 8) {
        uint count = min(tiles - first, 8u);
        bool inside = i0 + (first + count - 1) * MR + MRP <= m;
        __global const STORAGE(DTA) *column = a + k0 * lda;
        for (uint k = 0; k < kn; k++) {
            __local float *out = panel + (first * kn + k) * MRP;
            uint i = i0 + first * MR;
            for (uint tile = 0; tile < count; tile++) {
                if (inside) {
#pragma unroll
                    for (uint v = 0; v < MRP; v += 8)
                        vstore8(LOAD8(DTA, column + i + v), 0, out + v);
                } else {
                    for (uint v = 0; v < MRP; v++)
                        out[v] = LOAD(DTA, column, min(i + v, m - 1));
                }
                i += MR;
                out += kn * MRP;
            }
            column += lda;
        }
    }
#else
    for (uint tile = 0; tile < tiles; tile++) {
        for (uint v = 0; v < MRP; v += 8) {
            uint i = i0 + tile * MR + v, k = 0;
            __local float *out = panel + tile * kn * MRP + v;
#define ROW_A(r) (ulong) min(i + (r), m - 1) * lda
            for (; k + 8 <= kn; k += 8) {
                __global const STORAGE(DTA) *source = a + k0 + k;
                TRANSPOSE8(DTA, source, ROW_A, out, MRP);
                out += 8 * MRP;
            }
            for (; k < kn; k++) {
                for (uint r = 0; r < 8; r++)
                    out[r] = LOAD(DTA, a, ROW_A(r) + k0 + k);
                out += MRP;
            }
        }
    }
#endif
}
#define A_SPACE __local const float
#define A_COLUMN MRP /* between neighbours along k */
#else
#define A_SPACE __global const float
#define A_COLUMN 1
#endif

/* sums[r*NR + j] (+)= a tile of A times the packed sliver; `fresh`: the sums start at zero. */
static inline void multiply(A_SPACE *a, ulong a_row, __local const float *panel, uint kn, bool fresh,
                            __local float *sums)
{
    float16 acc[MR][NV];
#pragma unroll
    for (uint r = 0; r < MR; r++)
#pragma unroll
        for (uint v = 0; v < NV; v++)
            acc[r][v] = fresh ? (float16)(0.0f) : vload16(0, sums + r * NR + v * LANES);
    for (uint k = 0; k < kn; k++) {
        float16 w[NV];
#pragma unroll
        for (uint v = 0; v < NV; v++)
            w[v] = vload16(v, panel);
#pragma unroll
        for (uint r = 0; r < MR; r++) {
            float16 s = (float16)(a[r * a_row]);
#pragma unroll
            for (uint v = 0; v < NV; v++)
                acc[r][v] = fma(s, w[v], acc[r][v]);
        }
        a += A_COLUMN;
        panel += NR;
    }
#pragma unroll
    for (uint r = 0; r < MR; r++)
#pragma unroll
        for (uint v = 0; v < NV; v++)
            vstore16(acc[r][v], 0, sums + r * NR + v * LANES);
}

/* gemm_fwd_lane: groups count blocks of mt x nt tiles, the rows' blocks fastest, then columns, then batch items. */
__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void
gemm_fwd_lane(__global STORAGE(DTC) * c, ulong c_at, __global const STORAGE(DTA) * a, ulong a_at,
              __global const STORAGE(DTB) * b, ulong b_at EPILOGUE_PARAMS, uint m, uint n, uint k, ulong lda,
              ulong ldb, ulong ldc, ulong stride_a, ulong stride_b, ulong stride_c, float alpha, float beta,
              uint mt, uint nt, uint kc, __local float *panel_b,
#if PACK_A
              __local float *panel_a,
#endif
              __local float *block_sums)
{
    uint row_tiles = (m + MR - 1) / MR, column_tiles = (n + NR - 1) / NR;
    uint row_blocks = (row_tiles + mt - 1) / mt, column_blocks = (column_tiles + nt - 1) / nt;
    ulong per_item = (ulong)row_blocks * column_blocks, group = get_group_id(0);
    uint z = (uint)(group / per_item);
    ulong in_item = group - z * per_item;
    uint column_block = (uint)(in_item / row_blocks);
    uint row_block = (uint)(in_item - (ulong)column_block * row_blocks);
    uint i0 = row_block * mt * MR, j0 = column_block * nt * NR;
    uint rows = min(mt, row_tiles - row_block * mt), columns = min(nt, column_tiles - column_block * nt);
    a += a_at + z * stride_a;
    b += b_at + z * stride_b;
    ulong k0 = 0;
    clt_ahead ahead;
    do {
        uint kn = (uint)min((ulong)kc, k - k0);
        bool last = k0 + kn == k;
#if PACK_A
        pack_a(a, lda, m, k0, kn, i0, rows, panel_a);
#endif
        for (uint jt = 0; jt < columns; jt++) {
            uint j = j0 + jt * NR, width = min(n - j, (uint)NR), sliver = jt & (SLIVERS - 1);
            __local const float *panel = panel_b + sliver * kn * NR;
            if (sliver == 0) {
                uint count = min(columns - jt, (uint)SLIVERS), next = jt + count;
                pack_b(b, ldb, n, k0, kn, j, count, panel_b);
                if (next < columns)
                    ahead = plan_ahead(b, ldb, n, k0, kn, j0 + next * NR, min(columns - next, (uint)SLIVERS),
                                       rows * count);
                else /* the next block of k, or nothing */
                    ahead = plan_ahead(b, ldb, n, k0 + kn, (uint)min((ulong)kc, k - k0 - kn), j0,
                                       min(columns, (uint)SLIVERS), rows * count);
            }
            for (uint it = 0; it < rows; it++) {
                fetch_ahead(&ahead);
                __local float *sums = block_sums + (k > kc ? (jt * rows + it) * (MR * NR) : 0);
                uint i = i0 + it * MR, skip = 0, height = min(m - i, (uint)MR);
#if PACK_A
                multiply(panel_a + it * kn * MRP, 1, panel, kn, k0 == 0, sums);
#else
                /* the last rows of C: a full tile that ends there, of which only the new rows are stored */
                skip = MR - height;
                i -= skip;
                height = MR;
                multiply(a + i * lda + k0, lda, panel, kn, k0 == 0, sums);
#endif
                if (!last)
                    continue;
                for (uint r = skip; r < height; r++) {
                    __local const float *row = sums + r * NR;
                    uint q = 0;
                    for (; q + LANES <= width; q += LANES)
                        FINISH16(i + r, j + q, vload16(0, row + q));
                    for (; q < width; q++)
                        FINISH(i + r, j + q, row[q]);
                }
            }
        }
        k0 += kn;
    } while (k0 < k);
}
