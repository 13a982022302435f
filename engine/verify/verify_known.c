/* SPDX-License-Identifier: Apache-2.0
 *
 * Known answers on the device: Philox4x32-10 (the published vectors of Random123, and random counters
 * compared with the host), conversions of 16-bit types (all 65536 patterns, and floats around every rounding
 * boundary), the checksums of checkpoints, fills, and the sums of micro-batches as a binary tree. Knows no
 * op. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl/backends/gemm_mma.h"
#include "engine/base/rng.h"
#include "engine/plan/combine.h"
#include "engine/verify/verify_internal.h"

/* A check of this file. */
typedef struct known {
    const char *name;
    clt_status (*check)(clt_verify_session *session, const struct known *known, clt_verify_outcome *outcome);
    clt_dtype dt;
    uint32_t width; /* elements per work-item */
    bool other;     /* a kernel's second form: work-groups, rounding to even, or lanes */
} known;

#define FRAGMENT 2 /* 16-bit elements in a word of a fragment of matrix units */

enum { ROUND_EPILOGUE = 1, ROUND_OPERAND };

/* A kernel of known.cl, with its storage type and the elements per work-item. */
typedef struct known_kernel {
    const char *name;
    clt_dtype dt;
    uint32_t width;
    int rounding; /* ROUNDING of known.cl */
    bool even;    /* tf32: ties are rounded to even, not away from zero */
} known_kernel;

/* Reports the wrong value: element `at` of y, of type `dtype`. */
static void wrong_at(clt_verify_outcome *outcome, clt_dtype dtype, size_t at, double got, double want)
{
    clt_verify_from(outcome, (clt_verify_source){.dtype = dtype});
    clt_verify_report_wrong_value(outcome, at, got, want, 0.0);
}

/* Reports a wrong f32. Its bits must be right, unless a NaN is expected. */
static void wrong_float(clt_verify_outcome *outcome, size_t at, float got, float want)
{
    uint32_t bits[2];
    memcpy(bits, (float[]){got, want}, sizeof bits);
    if (isnan(want))
        wrong_at(outcome, CLT_F32, at, (double)got, (double)want);
    else
        wrong_at(outcome, CLT_U32, at, bits[0], bits[1]);
}

/* Computes y = kernel(x) for n elements; sizes in bytes. */
static clt_status run_kernel(clt_verify_session *session, known_kernel kernel, const void *x, size_t x_bytes,
                             void *y, size_t y_bytes, uint32_t n)
{
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_verify_command_begin(session, kernel.name, &list, &e));
    ocl_kernel_begin(&e, "known", kernel.name);
    ocl_define_text(&e, "DT", clt_dtype_name(kernel.dt));
    ocl_define(&e, "WIDTH", kernel.width);
    if (kernel.rounding)
        ocl_define(&e, "ROUNDING", kernel.rounding);
    if (kernel.width == FRAGMENT || kernel.rounding == ROUND_OPERAND) {
        int sm = ocl_mma_generation(kernel.dt, &session->desc);
        ocl_define(&e, "MMA_SM", sm ? sm : 80);
        ocl_define(&e, "MMA_BF16", kernel.dt == CLT_BF16);
        ocl_define(&e, "MMA_TF32", kernel.dt == CLT_F32);
        ocl_define(&e, "MMA_ROUND_EVEN", kernel.even);
    }
    n /= kernel.width;
    ocl_arg_out(&e, 0, CLT_U8, y_bytes);
    ocl_arg_in(&e, 1, CLT_U8, x_bytes);
    ocl_arg_u32(&e, n);
    ocl_kernel_end_items(&e, n, 0, 0.0);
    return clt_verify_command_answer(session, &e, x, x_bytes, y, y_bytes);
}

/* --- Philox --- */

#define PHILOX_KNOWN 3
#define PHILOX_RANDOM 253
#define PHILOX_ALL (PHILOX_KNOWN + PHILOX_RANDOM)

static clt_status check_philox(clt_verify_session *session, const known *unused, clt_verify_outcome *outcome)
{
    (void)unused;
    static const uint32_t known_in[PHILOX_KNOWN][6] = {
        {0, 0, 0, 0, 0, 0},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
    };
    static const uint32_t known_out[PHILOX_KNOWN][4] = {
        {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    uint32_t in[PHILOX_ALL][6], out[PHILOX_ALL][4] = {{0}}, want[4];
    clt_verify_stream stream = clt_verify_stream_make(session->seed, "known.philox", 0);
    memcpy(in, known_in, sizeof known_in);
    for (uint64_t i = 0; i < (uint64_t)PHILOX_RANDOM * 6; i++)
        in[PHILOX_KNOWN + i / 6][i % 6] = clt_verify_word(&stream, i);
    CLT_TRY(run_kernel(session, (known_kernel){.name = "known_philox", .dt = CLT_F16, .width = 1}, in,
                       sizeof in, out, sizeof out, PHILOX_ALL));
    for (int i = 0; i < PHILOX_ALL; i++) {
        clt_philox4x32(in[i], in[i] + 4, want);
        const uint32_t *answer = i < PHILOX_KNOWN ? known_out[i] : want;
        if (memcmp(out[i], answer, sizeof want) != 0) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "block %d is %08x %08x %08x %08x and must be %08x %08x %08x %08x", i, out[i][0],
                           out[i][1], out[i][2], out[i][3], answer[0], answer[1], answer[2], answer[3]);
            for (size_t w = 0; w < 4; w++)
                if (out[i][w] != answer[w])
                    wrong_at(outcome, CLT_U32, 4 * (size_t)i + w, out[i][w], answer[w]);
        }
    }
    return CLT_OK;
}

/* --- 16-bit storage --- */

#define HALVES 65536u
#define AROUND 4u /* floats per pattern: its value, and three around the midpoint to its neighbour */

static float widen(clt_dtype dt, uint32_t h)
{
    return dt == CLT_F16 ? clt_f16_to_f32((uint16_t)h) : clt_bf16_to_f32((uint16_t)h);
}

static uint16_t narrow(clt_dtype dt, float f)
{
    return dt == CLT_F16 ? clt_f32_to_f16(f) : clt_f32_to_bf16(f);
}

static float neighbour(float f, int32_t by)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits += (uint32_t)by;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static clt_status check_widen(clt_verify_session *session, clt_dtype dt, uint32_t width, uint16_t *half,
                              float *wide, clt_verify_outcome *outcome)
{
    for (uint32_t h = 0; h < HALVES; h++)
        half[h] = (uint16_t)h;
    CLT_TRY(run_kernel(session, (known_kernel){.name = "known_widen", .dt = dt, .width = width}, half,
                       HALVES * sizeof *half, wide, HALVES * sizeof *wide, HALVES));
    for (uint32_t h = 0; h < HALVES; h++)
        if (!same_float(wide[h], widen(dt, h))) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "%s pattern %04x is read as %.9g (%u at a time) and must be %.9g",
                           clt_dtype_name(dt), h, (double)wide[h], width, (double)widen(dt, h));
            wrong_float(outcome, h, wide[h], widen(dt, h));
        }
    return CLT_OK;
}

/* Makes floats around every rounding boundary of a 16-bit type, AROUND for each pattern. */
static void fill_around(clt_dtype dt, float *wide)
{
    for (uint32_t h = 0; h < HALVES; h++) {
        float here = widen(dt, h),
              middle = 0.5f * here + 0.5f * widen(dt, (h & 0x8000u) | ((h + 1) & 0x7fffu));
        wide[AROUND * h] = here;
        wide[AROUND * h + 1] = neighbour(middle, -1);
        wide[AROUND * h + 2] = middle;
        wide[AROUND * h + 3] = neighbour(middle, 1);
    }
    /* between the largest number and infinity */
    const uint32_t top = dt == CLT_F16 ? 0x7bffu : 0x7f7fu;
    const float last = dt == CLT_F16 ? 65520.0f : 0x1.ffp+127f;
    for (int i = 0; i < 3; i++) {
        wide[AROUND * top + 1 + (uint32_t)i] = neighbour(last, i - 1);
        wide[AROUND * (top | 0x8000u) + 1 + (uint32_t)i] = neighbour(-last, i - 1);
    }
    /* a NaN whose payload lies only in the bits that are cut off */
    wide[AROUND * 0x7c00u + 1] = neighbour(INFINITY, 1);
    wide[AROUND * 0xfc00u + 1] = neighbour(-INFINITY, 1);
}

static clt_status check_narrow(clt_verify_session *session, clt_dtype dt, uint32_t width, uint16_t *half,
                               float *wide, clt_verify_outcome *outcome)
{
    fill_around(dt, wide);
    uint32_t n = AROUND * HALVES;
    CLT_TRY(run_kernel(session, (known_kernel){.name = "known_narrow", .dt = dt, .width = width}, wide,
                       n * sizeof *wide, half, n * sizeof *half, n));
    for (uint32_t i = 0; i < n; i++) {
        uint16_t want = narrow(dt, wide[i]);
        if (half[i] == want || (isnan(wide[i]) && isnan(widen(dt, half[i]))))
            continue;
        clt_verify_set(outcome, CLT_VERIFY_FAIL, "%.9g is stored as %s %04x (%u at a time) and must be %04x",
                       (double)wide[i], clt_dtype_name(dt), half[i], width, want);
        wrong_at(outcome, CLT_U16, i, half[i], want);
    }
    return CLT_OK;
}

static bool may_use_lanes(const clt_verify_session *session, const char *what, bool lanes,
                          clt_verify_outcome *outcome)
{
    return clt_verify_offers(session, what, lanes ? OCL_CAP_WIDE_VECTORS : 0, outcome);
}

/* True if instructions of matrix units convert to fragments; false if the conversion is emulated. */
static bool makes_fragments(const clt_verify_session *session, clt_dtype dt)
{
    return session->desc.compute_capability == 0 || ocl_mma_generation(dt, &session->desc) >= 75;
}

static clt_status check_storage(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    CLT_FREED uint16_t *half = NULL;
    CLT_FREED float *wide = NULL;
    if (k->width == FRAGMENT && !makes_fragments(session, k->dt))
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device's matrix units have no known fragments");
    else
        (void)may_use_lanes(session, "conversions", k->width == 16, outcome);
    if (clt_verify_bad(outcome))
        return CLT_OK;
    CLT_TRY(clt_alloc(&half, AROUND * HALVES, sizeof *half, "known answers"));
    CLT_TRY(clt_alloc(&wide, AROUND * HALVES, sizeof *wide, "known answers"));
    if (k->width != FRAGMENT)
        CLT_TRY(check_widen(session, k->dt, k->width, half, wide, outcome));
    return clt_verify_bad(outcome) ? CLT_OK : check_narrow(session, k->dt, k->width, half, wide, outcome);
}

/* Checks an epilogue's rounding to a 16-bit type whose result is stored as f32. */
static clt_status check_epilogue(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    const uint32_t n = AROUND * HALVES;
    const clt_dtype dt = k->dt;
    CLT_FREED float *wide = NULL;
    if (!may_use_lanes(session, "epilogues", k->width == 16, outcome))
        return CLT_OK;
    CLT_TRY(clt_alloc(&wide, 2 * n, sizeof *wide, "known answers"));
    float *rounded = wide + n;
    fill_around(dt, wide);
    known_kernel kernel = {.name = "known_round", .dt = dt, .width = k->width, .rounding = ROUND_EPILOGUE};
    CLT_TRY(run_kernel(session, kernel, wide, n * sizeof *wide, rounded, n * sizeof *wide, n));
    for (uint32_t i = 0; i < n; i++) {
        float want = widen(dt, narrow(dt, wide[i]));
        if (!same_float(rounded[i], want)) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL, "%.9g becomes %.9g as %s and must be %.9g",
                           (double)wide[i], (double)rounded[i], clt_dtype_name(dt), (double)want);
            wrong_float(outcome, i, rounded[i], want);
        }
    }
    return CLT_OK;
}

/* Number of values that check the rounding of f32 to the 10 bits of mantissa that matrix units use. */
#define OPERANDS 4096u

static clt_status check_operand(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    const bool even = k->other;
    const uint32_t capability = session->desc.compute_capability;
    static const uint32_t cut[4] = {0x0fffu, 0x1000u, 0x1001u, 0x0u}; /* below, at, above the middle */
    uint32_t in[OPERANDS], out[OPERANDS] = {0};
    /* on NVIDIA: the instructions, not their emulation */
    if (capability != 0 && (!makes_fragments(session, CLT_F32) || (even && capability < 90))) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device does not round in this way");
        return CLT_OK;
    }
    clt_verify_stream stream = clt_verify_stream_make(session->seed, "known.tf32", 0);
    for (uint32_t i = 0; i < OPERANDS; i++) {
        uint32_t word = (clt_verify_word(&stream, i) & 0xbfffffffu) | 0x20000000u; /* finite, not tiny */
        in[i] = i % 5 < 4 ? (word & ~0x1fffu) | cut[i % 5] : word;
    }
    known_kernel kernel = {
        .name = "known_round", .dt = CLT_F32, .width = 1, .rounding = ROUND_OPERAND, .even = even};
    CLT_TRY(run_kernel(session, kernel, in, sizeof in, out, sizeof out, OPERANDS));
    for (uint32_t i = 0; i < OPERANDS; i++) {
        uint32_t middle = even ? 0x0fffu + (in[i] >> 13 & 1u) : 0x1000u, want = (in[i] + middle) & ~0x1fffu;
        if (out[i] != want) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL, "%08x becomes %08x as tf32 and must be %08x", in[i],
                           out[i], want);
            wrong_at(outcome, CLT_U32, i, out[i], want);
        }
    }
    return CLT_OK;
}

/* --- checksums of what is saved --- */

#define SUM_CHUNK 256u
#define SUM_WORDS (3 * SUM_CHUNK + 41) /* the last chunk is incomplete and not a multiple of a vector */
#define SUM_CHUNKS 4
#define SUM_ITEMS 64u

static clt_status check_checksum(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    const bool group = k->other;
    uint32_t words[SUM_WORDS], sums[SUM_CHUNKS][2] = {{0}};
    clt_verify_stream stream = clt_verify_stream_make(session->seed, "known.checksum", 0);
    ocl_command_list list;
    ocl_emitter e;
    if (group && !(session->desc.caps & OCL_CAP_LOCAL)) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device lacks local");
        return CLT_OK;
    }
    if (!may_use_lanes(session, "checksum_lane", !group, outcome))
        return CLT_OK;
    for (uint32_t i = 0; i < SUM_WORDS; i++)
        words[i] = clt_verify_word(&stream, i);
    CLT_TRY(clt_verify_command_begin(session, "checksum", &list, &e));
    ocl_kernel_begin(&e, "checksum", group ? "checksum_group" : "checksum_lane");
    ocl_define(&e, "CHUNK", SUM_CHUNK);
    ocl_define(&e, "ITEMS", SUM_ITEMS);
    ocl_arg_in(&e, 1, CLT_U32, SUM_WORDS);
    ocl_arg_out(&e, 0, CLT_U32, 2 * SUM_CHUNKS);
    ocl_arg_u64(&e, SUM_WORDS);
    ocl_kernel_end_1d(&e, group ? SUM_CHUNKS * SUM_ITEMS : SUM_CHUNKS, group ? SUM_ITEMS : 1, 0.0);
    CLT_TRY(clt_verify_command_answer(session, &e, words, sizeof words, sums, sizeof sums));
    for (uint32_t c = 0; c < SUM_CHUNKS; c++) {
        uint32_t sum = 0, weighted = 0;
        for (uint32_t i = c * SUM_CHUNK; i < SUM_WORDS && i < (c + 1) * SUM_CHUNK; i++) {
            sum += words[i];
            weighted += words[i] * (i - c * SUM_CHUNK + 1);
        }
        if (sums[c][0] != sum || sums[c][1] != weighted) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "the sums of chunk %u are %08x %08x and must be %08x %08x", c, sums[c][0],
                           sums[c][1], sum, weighted);
            for (size_t w = 0; w < 2; w++)
                if (sums[c][w] != (w ? weighted : sum))
                    wrong_at(outcome, CLT_U32, 2 * (size_t)c + w, sums[c][w], w ? weighted : sum);
        }
    }
    return CLT_OK;
}

/* --- fills by a kernel, for devices with an untrusted fill command --- */

#define FILL_BYTES 1024u
#define FILL_FIRST 5u   /* elements */
#define FILL_COUNT 201u /* more than the work-items of a work-group, and not a multiple of them */
#define FILL_ITEMS 64u
#define FILL_PATTERN 0x9e3779b1u

static clt_status check_fill(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    const clt_dtype type = k->dt;
    uint8_t bytes[FILL_BYTES], want[FILL_BYTES];
    uint32_t pattern = FILL_PATTERN, unit = (uint32_t)clt_dtype_bytes(type);
    ocl_command_list list;
    ocl_emitter e;
    for (uint32_t i = 0; i < FILL_BYTES; i++)
        want[i] = bytes[i] = (uint8_t)(37u * i + 11u);
    for (uint32_t i = 0; i < FILL_COUNT; i++)
        memcpy(want + unit * (FILL_FIRST + i), &pattern, unit);
    CLT_TRY(clt_verify_command_begin(session, "fill", &list, &e));
    ocl_kernel_begin(&e, "fill", type == CLT_U8 ? "fill_u8" : "fill_u32");
    ocl_arg_tensor(&e, OCL_WRITE, (ocl_tensor_ref){0, FILL_FIRST * unit}, type, FILL_COUNT);
    ocl_arg_u64(&e, FILL_COUNT);
    ocl_arg_u32(&e, FILL_PATTERN);
    ocl_kernel_end_1d(&e, FILL_ITEMS, ocl_group_items(&session->desc, FILL_ITEMS), 0.0);
    CLT_TRY(clt_verify_command_answer(session, &e, want, sizeof want, bytes, sizeof bytes));
    for (uint32_t i = 0; i < FILL_BYTES; i++)
        if (bytes[i] != want[i]) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "byte %u is %02x and must be %02x; elements %u to %u of %u bytes are filled", i,
                           bytes[i], want[i], FILL_FIRST, FILL_FIRST + FILL_COUNT - 1, unit);
            wrong_at(outcome, CLT_U8, i, bytes[i], want[i]);
        }
    return CLT_OK;
}

/* --- sums of micro-batches as a binary tree --- */

#define TREE_LEVELS 3
#define TREE_MICRO (1u << TREE_LEVELS)
#define TREE_COUNT 4133u /* more than a group handles in either style, and not a multiple of a vector */
#define TREE_ARRAYS (TREE_LEVELS + 2)
enum { TREE_VALUE, TREE_LEVEL, TREE_START = TREE_ARRAYS - 1 }; /* numbers of the arrays */
#define TREE_FACTOR 0.3f
#define TREE_ALIGNED (TREE_COUNT + 3) /* elements between the starts of arrays, aligned to 16 bytes */

typedef struct tree_case {
    clt_style style;
    uint32_t pitch, micro;
    float got[TREE_ARRAYS * (TREE_ALIGNED + 1)], want[TREE_ARRAYS * (TREE_ALIGNED + 1)];
} tree_case;

static ocl_tensor_ref tree_array(const tree_case *t, uint32_t number)
{
    return (ocl_tensor_ref){0, (uint64_t)number * t->pitch * sizeof(float)};
}

/* Runs one of the two kernels on t->got. */
static clt_status run_tree(clt_verify_session *session, tree_case *t, bool start)
{
    uint32_t step[SB_WORDS] = {0};
    ocl_tensor_ref level[TREE_LEVELS];
    ocl_command_list list;
    ocl_emitter e;
    step[SB_MICRO] = t->micro;
    for (uint32_t n = 0; n < TREE_LEVELS; n++)
        level[n] = tree_array(t, TREE_LEVEL + n);
    clt_tree_sums sums = {tree_array(t, TREE_VALUE), ocl_ref(1), level, TREE_LEVELS, TREE_COUNT};
    CLT_TRY(clt_verify_command_begin(session, "combine", &list, &e));
    if (start)
        clt_tree_emit_start(&e, &sums, tree_array(t, TREE_START), t->style);
    else
        clt_tree_emit_sums(&e, &sums, TREE_FACTOR, t->style);
    return clt_verify_command_answer(session, &e, step, sizeof step, t->got, sizeof t->got);
}

/* Computes in t->want the result that the kernel must give. */
static void expect_tree(tree_case *t, bool start)
{
    float *value = t->want + TREE_VALUE * t->pitch, *first = t->want + TREE_START * t->pitch;
    uint32_t ones = 0;
    while (t->micro >> ones & 1u)
        ones++;
    for (uint32_t i = 0; i < TREE_COUNT; i++) {
        float sum = value[i];
        if (start) {
            *(t->micro == 0 ? first + i : value + i) = t->micro == 0 ? sum : first[i];
            continue;
        }
        for (uint32_t n = 0; n < ones; n++)
            sum = t->want[(TREE_LEVEL + n) * t->pitch + i] + sum;
        if (ones == TREE_LEVELS)
            value[i] = sum * TREE_FACTOR;
        else
            t->want[(TREE_LEVEL + ones) * t->pitch + i] = sum;
    }
}

static clt_status check_tree_step(clt_verify_session *session, tree_case *t, bool start,
                                  clt_verify_outcome *outcome)
{
    memcpy(t->got, t->want, sizeof t->got);
    CLT_TRY(run_tree(session, t, start));
    expect_tree(t, start);
    for (uint32_t i = 0; i < TREE_ARRAYS * (TREE_ALIGNED + 1); i++)
        if (!same_float(t->got[i], t->want[i])) {
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "%s, micro-batch %u: element %u of array %u (0: the value, 1 to %d: the levels, "
                           "%d: the values at the start) is %.9g and must be %.9g",
                           start ? "start" : "sum", t->micro, i % t->pitch, i / t->pitch, TREE_LEVELS,
                           TREE_START, (double)t->got[i], (double)t->want[i]);
            wrong_float(outcome, i, t->got[i], t->want[i]);
        }
    return CLT_OK;
}

/* Checks all micro-batches of a step, one after the other, with arrays that are aligned to vectors and with
 * unaligned ones. */
static clt_status check_tree(clt_verify_session *session, const known *k, clt_verify_outcome *outcome)
{
    const clt_style style = k->other ? CLT_STYLE_LANE : CLT_STYLE_FLAT;
    CLT_FREED tree_case *t = NULL;
    clt_verify_stream stream = clt_verify_stream_make(session->seed, "known.combine", 0);
    if (session->options->own_forms && style != clt_style_of(&session->desc))
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "no training on this device uses this style");
    else
        (void)may_use_lanes(session, k->name, k->other, outcome);
    if (clt_verify_bad(outcome))
        return CLT_OK;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "known answers"));
    t->style = style;
    for (t->pitch = TREE_ALIGNED; t->pitch <= TREE_ALIGNED + 1; t->pitch++) {
        for (uint32_t i = 0; i < TREE_ARRAYS * (TREE_ALIGNED + 1); i++)
            t->want[i] = (float)(int32_t)clt_verify_word(&stream, i) * 0x1p-31f;
        for (t->micro = 0; t->micro < TREE_MICRO && !clt_verify_bad(outcome); t->micro++) {
            CLT_TRY(check_tree_step(session, t, true, outcome));
            for (uint32_t i = 0; i < TREE_COUNT; i++)
                t->want[TREE_VALUE * t->pitch + i] =
                    (float)(int32_t)clt_verify_word(&stream, (t->micro + 8) * TREE_COUNT + i) * 0x1p-31f;
            if (!clt_verify_bad(outcome))
                CLT_TRY(check_tree_step(session, t, false, outcome));
        }
    }
    return CLT_OK;
}

/* --- all of them --- */

static const known all[] = {{"philox", check_philox, CLT_F16, 1, false},
                            {"f16", check_storage, CLT_F16, 1, false},
                            {"f16_by_4", check_storage, CLT_F16, 4, false},
                            {"f16_by_8", check_storage, CLT_F16, 8, false},
                            {"f16_by_16", check_storage, CLT_F16, 16, false},
                            {"bf16", check_storage, CLT_BF16, 1, false},
                            {"bf16_by_4", check_storage, CLT_BF16, 4, false},
                            {"bf16_by_8", check_storage, CLT_BF16, 8, false},
                            {"bf16_by_16", check_storage, CLT_BF16, 16, false},
                            {"f16_fragment", check_storage, CLT_F16, FRAGMENT, false},
                            {"bf16_fragment", check_storage, CLT_BF16, FRAGMENT, false},
                            {"checksum", check_checksum, CLT_U32, 1, false},
                            {"checksum_group", check_checksum, CLT_U32, 1, true},
                            {"f16_epilogue", check_epilogue, CLT_F16, 1, false},
                            {"f16_epilogue_by_16", check_epilogue, CLT_F16, 16, false},
                            {"bf16_epilogue", check_epilogue, CLT_BF16, 1, false},
                            {"bf16_epilogue_by_16", check_epilogue, CLT_BF16, 16, false},
                            {"tf32_away", check_operand, CLT_F32, 1, false},
                            {"tf32_even", check_operand, CLT_F32, 1, true},
                            {"combine_flat", check_tree, CLT_F32, 1, false},
                            {"combine_lane", check_tree, CLT_F32, 1, true},
                            {"fill_u32", check_fill, CLT_U32, 1, false},
                            {"fill_u8", check_fill, CLT_U8, 1, false}};

clt_status clt_verify_known(clt_verify_session *session)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        clt_verify_item item = {"known", all[i].name, NULL, CLT_VERIFY_CORRECT, true, false};
        clt_verify_outcome outcome;
        if (clt_verify_wants(session, &item, &outcome))
            CLT_TRY(clt_verify_finish(session, &outcome, all[i].check(session, &all[i], &outcome)));
    }
    return CLT_OK;
}
