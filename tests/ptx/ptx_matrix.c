/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions of a whole warp, according to the PTX ISA: matrices in fragments, shuffles, votes. Sums are
 * computed in double and rounded once, so that an exact result stays exact. Every device may choose the
 * layout of wmma's fragments; this file uses its own. */
#include <string.h>

#include "tests/ptx/ptx_machine.h"
#include "tests/ptx/ptx_numbers.h"

typedef enum { TYPE_F16, TYPE_BF16, TYPE_TF32 } matrix_type;

static float element(matrix_type type, uint32_t word, int upper)
{
    uint32_t bits = upper ? word >> 16 : word & 0xffffu;
    return type == TYPE_F16 ? ptx_from_f16(bits) : ptx_float(bits << 16);
}

/* Fails if a tf32 operand has lower bits, which a device would drop or misread: the kernel must round. */
static float rounded(ptx_warp *w, const ptx_instruction *i, int lane, uint32_t word, const char *which)
{
    if ((word & 0x1fffu) && (word & 0x7f800000u) != 0x7f800000u)
        ptx_fail(w, i, lane, "operand %s is not rounded to tf32: 0x%08x", which, word);
    return ptx_float(word);
}

/* --- mma --- */

/* mode: type and depth. Operands: four registers of D, then A (depth words of 16 rows), B, four of C. */
enum { MODE_F16_K16 = 0, MODE_BF16_K16 = 1, MODE_TF32_K8 = 2, MODE_F16_K8 = 3 };

static void gather(ptx_warp *w, const ptx_instruction *i, int n_a, int n_b, float a[16][16], float b[16][8])
{
    matrix_type type = i->mode == MODE_F16_K8 ? TYPE_F16 : (matrix_type)i->mode;
    for (int l = 0; l < PTX_LANES; l++) {
        int g = l >> 2, t = l & 3;
        for (int r = 0; r < n_a; r++) {
            uint32_t word = ptx_words(w, i, 4 + r)[l];
            int row = g + 8 * (r & 1), late = r >> 1;
            if (type == TYPE_TF32) {
                a[row][t + 4 * late] = rounded(w, i, l, word, "A");
                continue;
            }
            for (int u = 0; u < 2; u++)
                a[row][2 * t + u + 8 * late] = element(type, word, u);
        }
        for (int r = 0; r < n_b; r++) {
            uint32_t word = ptx_words(w, i, 4 + n_a + r)[l];
            if (type == TYPE_TF32) {
                b[t + 4 * r][g] = rounded(w, i, l, word, "B");
                continue;
            }
            for (int u = 0; u < 2; u++)
                b[2 * t + u + 8 * r][g] = element(type, word, u);
        }
    }
}

static void mma(ptx_warp *w, ptx_instruction *i)
{
    int n_a = i->mode == MODE_F16_K8 ? 2 : 4, n_b = n_a / 2;
    int depth = i->mode == MODE_F16_K16 || i->mode == MODE_BF16_K16 ? 16 : 8;
    float a[16][16], b[16][8], sums[4][PTX_LANES];
    gather(w, i, n_a, n_b, a, b);
    for (int c = 0; c < 4; c++) {
        const float *before = ptx_floats(w, i, 4 + n_a + n_b + c);
        for (int l = 0; l < PTX_LANES; l++) {
            int row = (l >> 2) + 8 * (c >> 1), column = 2 * (l & 3) + (c & 1);
            double sum = (double)before[l];
            for (int k = 0; k < depth; k++)
                sum += (double)a[row][k] * (double)b[k][column];
            sums[c][l] = (float)sum;
        }
    }
    for (int c = 0; c < 4; c++)
        memcpy(ptx_floats(w, i, c), sums[c], sizeof sums[c]);
}

/* --- ldmatrix --- */

/* mode 1: transposed. Lane l gives the address of row l & 7 of matrix l >> 3. */
static void ldmatrix(ptx_warp *w, ptx_instruction *i)
{
    int n = i->n_args - 1;
    const uint8_t *row[PTX_LANES];
    uint64_t address[PTX_LANES];
    uint32_t mask = n == 4 ? PTX_ALL : n == 2 ? 0xffffu : 0xffu;
    for (int l = 0; l < 8 * n; l++) {
        address[l] = ptx_value(w, i->args[n], l);
        row[l] = ptx_shared_read(w, i, l, address[l], 16, 16);
    }
    for (int m = 0; m < n; m++) {
        uint32_t *out = ptx_words(w, i, m);
        for (int l = 0; l < PTX_LANES; l++) {
            uint16_t low, high;
            int line = l >> 2, pair = 2 * (l & 3);
            memcpy(&low, i->mode ? row[8 * m + pair] + 2 * line : row[8 * m + line] + 2 * pair, 2);
            memcpy(&high, i->mode ? row[8 * m + pair + 1] + 2 * line : row[8 * m + line] + 2 * pair + 2, 2);
            out[l] = low | (uint32_t)high << 16;
        }
    }
    if (w->machine->launch->count)
        ptx_count_banks(i, address, mask, 16);
}

/* --- wmma: lane l has eight elements of line l / 2, from element 8 (l & 1) on --- */

#define MARK 0xabc00000u /* stored, with operand and layout, in word 4 of a loaded fragment */

static void same_everywhere(ptx_warp *w, const ptx_instruction *i, int arg)
{
    for (int l = 1; l < PTX_LANES; l++)
        if (ptx_value(w, i->args[arg], l) != ptx_value(w, i->args[arg], 0))
            ptx_fail(w, i, l, "the lanes give different addresses or rows");
}

/* mode: bits 2 for B (otherwise A), 1 for a layout by columns. Operands: eight words, address, length of a
 * row. */
static void wmma_load(ptx_warp *w, ptx_instruction *i)
{
    uint64_t at = ptx_value(w, i->args[8], 0), row = ptx_value(w, i->args[9], 0);
    same_everywhere(w, i, 8);
    same_everywhere(w, i, 9);
    if (at % 32 || row % 8)
        ptx_fail(w, i, 0, "address %llu, rows of %llu", (unsigned long long)at, (unsigned long long)row);
    bool by_line = ((i->mode & 2) != 0) == ((i->mode & 1) != 0); /* `row` elements from line to line */
    for (int l = 0; l < PTX_LANES; l++) {
        uint32_t word[8] = {0, 0, 0, 0, MARK | i->mode};
        for (uint64_t k = 0; k < 8; k++) {
            uint64_t line = (uint64_t)l / 2, step = 8 * ((uint64_t)l & 1) + k;
            uint16_t value;
            memcpy(&value,
                   ptx_shared_read(w, i, l, at + 2 * (by_line ? line * row + step : step * row + line), 2, 2),
                   2);
            word[k / 2] |= (uint32_t)value << (16 * (k & 1));
        }
        for (int v = 0; v < 8; v++)
            ptx_words(w, i, v)[l] = word[v];
    }
}

/* mode: bits for A (2) and B (1), set if its layout is by columns. Operands: eight registers each of D, A, B
 * and C. */
static void wmma_mma(ptx_warp *w, ptx_instruction *i)
{
    float a[16][16], b[16][16], sums[8][PTX_LANES];
    for (int l = 0; l < PTX_LANES; l++) {
        if (ptx_words(w, i, 12)[l] != (MARK | (i->mode >> 1)))
            ptx_fail(w, i, l, "A was loaded in another layout");
        if (ptx_words(w, i, 20)[l] != (MARK | 2 | (i->mode & 1)))
            ptx_fail(w, i, l, "B was loaded in another layout");
        for (int k = 0; k < 8; k++) {
            a[l / 2][8 * (l & 1) + k] = element(TYPE_F16, ptx_words(w, i, 8 + k / 2)[l], k & 1);
            b[8 * (l & 1) + k][l / 2] = element(TYPE_F16, ptx_words(w, i, 16 + k / 2)[l], k & 1);
        }
    }
    for (int c = 0; c < 8; c++)
        for (int l = 0; l < PTX_LANES; l++) {
            double sum = (double)ptx_floats(w, i, 24 + c)[l];
            for (int k = 0; k < 16; k++)
                sum += (double)a[l / 2][k] * (double)b[k][8 * (l & 1) + c];
            sums[c][l] = (float)sum;
        }
    for (int c = 0; c < 8; c++)
        memcpy(ptx_floats(w, i, c), sums[c], sizeof sums[c]);
}

/* Operands: address, eight words, length of a row. */
static void wmma_store(ptx_warp *w, ptx_instruction *i)
{
    uint64_t at = ptx_value(w, i->args[0], 0), row = ptx_value(w, i->args[9], 0);
    same_everywhere(w, i, 0);
    same_everywhere(w, i, 9);
    if (at % 32 || row % 4)
        ptx_fail(w, i, 0, "address %llu, rows of %llu", (unsigned long long)at, (unsigned long long)row);
    for (int l = 0; l < PTX_LANES; l++)
        for (uint64_t c = 0; c < 8; c++) {
            uint64_t to = at + 4 * ((uint64_t)(l / 2) * row + 8 * ((uint64_t)l & 1) + c);
            memcpy(ptx_shared_write(w, i, l, to, 4, 4), &ptx_floats(w, i, 1 + (int)c)[l], 4);
        }
}

/* --- shuffles and votes --- */

enum { SHUFFLE_XOR, SHUFFLE_DOWN, SHUFFLE_UP, SHUFFLE_INDEX };

/* Operands: result, value, lane or mask, clamp, members. */
static void shuffle(ptx_warp *w, ptx_instruction *i)
{
    uint32_t out[PTX_LANES];
    for (int l = 0; l < PTX_LANES; l++) {
        uint32_t b = ptx_words(w, i, 2)[l] & 31, c = ptx_words(w, i, 3)[l], part = c >> 8 & 31,
                 clamp = c & 31;
        uint32_t lane = (uint32_t)l, low = lane & part, high = low | (clamp & ~part), from;
        if (ptx_words(w, i, 4)[l] != PTX_ALL)
            ptx_fail(w, i, l, "only members 0xffffffff are known here");
        switch (i->mode) {
        case SHUFFLE_XOR:
            from = lane ^ b;
            break;
        case SHUFFLE_DOWN:
            from = lane + b;
            break;
        case SHUFFLE_UP:
            from = lane - b;
            break;
        default:
            from = low | (b & ~part);
        }
        bool inside = i->mode == SHUFFLE_UP ? (int32_t)from >= (int32_t)high : from <= high;
        out[l] = ptx_words(w, i, 1)[inside ? from & 31 : lane];
    }
    memcpy(ptx_words(w, i, 0), out, sizeof out);
}

enum { VOTE_BALLOT, VOTE_ANY, VOTE_ALL };

/* Operands: result, predicate, members. */
static void vote(ptx_warp *w, ptx_instruction *i)
{
    uint32_t ballot = 0;
    for (int l = 0; l < PTX_LANES; l++) {
        if (ptx_words(w, i, 2)[l] != PTX_ALL)
            ptx_fail(w, i, l, "only members 0xffffffff are known here");
        ballot |= (uint32_t)(ptx_words(w, i, 1)[l] != 0) << l;
    }
    for (int l = 0; l < PTX_LANES; l++)
        ptx_words(w, i, 0)[l] = i->mode == VOTE_BALLOT ? ballot
                                : i->mode == VOTE_ANY  ? ballot != 0
                                                       : ballot == PTX_ALL;
}

/* The lanes meet and see what the others did before. The check of races treats this as a barrier of the
 * warp. */
static void meet(ptx_warp *w, ptx_instruction *i)
{
    (void)w;
    (void)i;
}

/* --- table --- */

#define MMA "mma.sync.aligned."
#define WMMA_LOAD(operand, layout, mode)                                                                     \
    {                                                                                                        \
        "wmma.load." operand ".sync.aligned." layout ".m16n16k16.shared.f16", wmma_load, mode, "1111111101"  \
    }
#define WMMA_MMA(a, b, mode)                                                                                 \
    {                                                                                                        \
        "wmma.mma.sync.aligned." a "." b ".m16n16k16.f32.f32", wmma_mma, mode,                               \
            "11111111111111111111111111111111"                                                               \
    }
#define SHUFFLE(word, mode)                                                                                  \
    {                                                                                                        \
        "shfl.sync." word ".b32", shuffle, mode, "11111"                                                     \
    }

static const ptx_warp_entry entries[] = {
    {MMA "m16n8k16.row.col.f32.f16.f16.f32", mma, MODE_F16_K16, "11111111111111"},
    {MMA "m16n8k16.row.col.f32.bf16.bf16.f32", mma, MODE_BF16_K16, "11111111111111"},
    {MMA "m16n8k8.row.col.f32.tf32.tf32.f32", mma, MODE_TF32_K8, "11111111111111"},
    {MMA "m16n8k8.row.col.f32.f16.f16.f32", mma, MODE_F16_K8, "11111111111"},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", ldmatrix, 0, "11110"},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", ldmatrix, 1, "11110"},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", ldmatrix, 0, "110"},
    {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", ldmatrix, 1, "110"},
    WMMA_LOAD("a", "row", 0),
    WMMA_LOAD("a", "col", 1),
    WMMA_LOAD("b", "row", 2),
    WMMA_LOAD("b", "col", 3),
    WMMA_MMA("row", "row", 0),
    WMMA_MMA("row", "col", 1),
    WMMA_MMA("col", "row", 2),
    WMMA_MMA("col", "col", 3),
    {"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", wmma_store, 0, "0111111111"},
    SHUFFLE("bfly", SHUFFLE_XOR),
    SHUFFLE("down", SHUFFLE_DOWN),
    SHUFFLE("up", SHUFFLE_UP),
    SHUFFLE("idx", SHUFFLE_INDEX),
    {"vote.sync.ballot.b32", vote, VOTE_BALLOT, "111"},
    {"vote.sync.any.pred", vote, VOTE_ANY, "111"},
    {"vote.sync.all.pred", vote, VOTE_ALL, "111"},
    {"bar.warp.sync", meet, 0, "1"},
};

const ptx_warp_entry *ptx_warp_find(const char *name)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}
