/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of the device's functions and operators on integers, of 64-bit arithmetic, and of conversions.
 * Every result must be exact. Knows no op. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/verify/device/device_checks.h"

typedef struct integer_function {
    int number;
    const char *name;
    int arguments;
    uint32_t widths;
} integer_function;

#define ROW(id, name, arguments, widths) {id, name, arguments, widths},
static const integer_function functions[] = {BUILTIN_INTEGERS(ROW)};

static const uint64_t edges[] = {0,
                                 1,
                                 2,
                                 3,
                                 5,
                                 7,
                                 10,
                                 31,
                                 32,
                                 63,
                                 127,
                                 128,
                                 255,
                                 256,
                                 32767,
                                 32768,
                                 65535,
                                 65536,
                                 0xffffff,
                                 0x1000000,
                                 0x1000001,
                                 0x1000003,
                                 0x7fffffff,
                                 0x80000000,
                                 0x80000001,
                                 0xcd9e8d57,
                                 0xd2511f53,
                                 0xffffffff,
                                 0x100000000,
                                 0x100000001,
                                 0x20000000000001,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xffffffff00000000,
                                 0xfffffffffffffffe,
                                 0xffffffffffffffff};
#define EDGES (uint32_t)(sizeof edges / sizeof edges[0])
#define COUNT (16u * 640u) /* words of each argument: all pairs of edges, then random ones */
#define LANES 16u

/* Three planes of COUNT words. */
typedef struct words {
    uint64_t a[COUNT], b[COUNT], c[COUNT];
} words;

/* A random word; every other one has fewer bits, and some lie halfway between two numbers of f32. */
static uint64_t random_word(const clt_verify_stream *stream, uint64_t i)
{
    uint64_t low = clt_verify_word(stream, 3 * i), word = low << 32 | clt_verify_word(stream, 3 * i + 1);
    uint32_t how = clt_verify_word(stream, 3 * i + 2), shift = how >> 2 & 63;
    if (how % 4 == 0)
        return ((word | UINT64_C(1) << 63) >> 39 << 39 | UINT64_C(1) << 39) >> (how & 4 ? 0 : shift % 32);
    return how % 4 == 1 ? word : word >> shift;
}

static void fill(uint64_t seed, words *w)
{
    clt_verify_stream stream = clt_verify_stream_make(seed, "builtins.integers", 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        bool edge = i < EDGES * EDGES;
        w->a[i] = edge ? edges[i % EDGES] : random_word(&stream, 3 * (uint64_t)i);
        w->b[i] = edge ? edges[i / EDGES] : random_word(&stream, 3 * (uint64_t)i + 1);
        w->c[i] = i % 3 == 0 ? edges[i / 3 % EDGES] : random_word(&stream, 3 * (uint64_t)i + 2);
    }
}

static bool greater(int which, uint64_t a, uint64_t b)
{
    if (which == BUILTIN_CLAMP_INT)
        return (int32_t)a > (int32_t)b;
    return which == BUILTIN_CLAMP_LONG ? (int64_t)a > (int64_t)b : a > b;
}

/* The bits of a finite float whose integer part fits into the integer type; it may be negative if
 * `is_signed`. */
static uint64_t float_bits(uint64_t a, uint64_t b, bool is_signed)
{
    float f =
        ldexpf((float)(a & 0xffffffu), (int)(b % 39) - 31) * (is_signed && (a >> 24 & 1u) ? -1.0f : 1.0f);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Changes arguments for which the function is not defined. */
static void make_valid(int which, words *w)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t *a = &w->a[i], *b = &w->b[i], *c = &w->c[i];
        if (which >= BUILTIN_DIVIDE_UINT && which <= BUILTIN_MODULO_INT && (uint32_t)*b == 0)
            *b = 3;
        if ((which == BUILTIN_DIVIDE_INT || which == BUILTIN_MODULO_INT) && (uint32_t)*b == UINT32_MAX)
            *b = 7; /* the least number by -1 */
        if ((which == BUILTIN_DIVIDE_ULONG || which == BUILTIN_MODULO_ULONG) && *b == 0)
            *b = 3;
        if (which >= BUILTIN_SHIFT_LEFT_UINT && which <= BUILTIN_SHIFT_RIGHT_INT)
            *b &= 31;
        if (which == BUILTIN_SHIFT_LEFT_ULONG || which == BUILTIN_SHIFT_RIGHT_ULONG)
            *b &= 63;
        if (which >= BUILTIN_CLAMP_INT && which <= BUILTIN_CLAMP_LONG && greater(which, *b, *c)) {
            uint64_t b0 = *b;
            *b = *c;
            *c = b0;
        }
        if (which == BUILTIN_FLOAT_TO_UINT || which == BUILTIN_FLOAT_TO_INT)
            *a = float_bits(*a, *b, which == BUILTIN_FLOAT_TO_INT);
        if (which == BUILTIN_ANY) /* at most one lane of a vector is true */
            *a = i % LANES == (uint32_t)*c % (2 * LANES) ? *a | 0x80000000u : *a & 0x7fffffffu;
    }
}

static uint64_t of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint64_t word)
{
    uint32_t bits = (uint32_t)word;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint64_t expect_product(int which, uint32_t width, uint64_t a, uint64_t b)
{
    const uint32_t a4 = (uint32_t)a, b4 = (uint32_t)b;
    switch (which) {
    case BUILTIN_MUL_HI_UINT:
        return (uint64_t)a4 * b4 >> 32;
    case BUILTIN_MUL_HI_ULONG:
        return (uint64_t)((unsigned __int128)a * b >> 64);
    case BUILTIN_MULTIPLY_UINT:
        return a4 * b4;
    case BUILTIN_MULTIPLY_WIDE:
        return (uint64_t)a4 * b4 >> (width == 1 ? 0 : 32);
    case BUILTIN_DIVIDE_UINT:
        return a4 / b4;
    case BUILTIN_MODULO_UINT:
        return a4 % b4;
    case BUILTIN_DIVIDE_INT:
        return (uint64_t)((int32_t)a4 / (int32_t)b4);
    case BUILTIN_MODULO_INT:
        return (uint64_t)((int32_t)a4 % (int32_t)b4);
    case BUILTIN_DIVIDE_ULONG:
        return a / b;
    case BUILTIN_MODULO_ULONG:
        return a % b;
    default:
        return a * b;
    }
}

static uint64_t expect_order(int which, uint64_t a, uint64_t b, uint64_t c)
{
    const uint32_t a4 = (uint32_t)a, b4 = (uint32_t)b;
    const bool less4 = (int32_t)a4 < (int32_t)b4;
    switch (which) {
    case BUILTIN_LESS_INT:
        return less4;
    case BUILTIN_LESS_ULONG:
        return a < b;
    case BUILTIN_LESS_LONG:
        return (int64_t)a < (int64_t)b;
    case BUILTIN_MIN_UINT:
        return a4 < b4 ? a4 : b4;
    case BUILTIN_MAX_UINT:
        return a4 < b4 ? b4 : a4;
    case BUILTIN_MIN_INT:
        return (uint64_t)(int32_t)(less4 ? a4 : b4);
    case BUILTIN_MAX_INT:
        return (uint64_t)(int32_t)(less4 ? b4 : a4);
    case BUILTIN_MIN_ULONG:
        return a < b ? a : b;
    case BUILTIN_CLAMP_INT:
        return (uint64_t)(int32_t)(less4 ? b4 : greater(which, a, c) ? (uint32_t)c : a4);
    default:
        return greater(which, b, a) ? b : greater(which, a, c) ? c : a;
    }
}

static uint64_t expect_shift(int which, uint64_t a, uint64_t b)
{
    switch (which) {
    case BUILTIN_SHIFT_LEFT_UINT:
        return (uint32_t)((uint32_t)a << b);
    case BUILTIN_SHIFT_RIGHT_UINT:
        return (uint32_t)a >> b;
    case BUILTIN_SHIFT_RIGHT_INT: /* computed without shifting a negative number */
        return (uint64_t)(int32_t)((uint32_t)a >> b | (a >> 31 & 1u ? ~(UINT32_MAX >> b) : 0u));
    case BUILTIN_SHIFT_LEFT_ULONG:
        return a << b;
    default:
        return a >> b;
    }
}

static uint64_t expect_conversion(int which, uint32_t width, uint64_t a)
{
    switch (which) {
    case BUILTIN_UINT_TO_FLOAT:
        return of_float((float)(uint32_t)a);
    case BUILTIN_INT_TO_FLOAT:
        return of_float((float)(int32_t)(uint32_t)a);
    case BUILTIN_USHORT_TO_FLOAT:
        return of_float((float)(uint16_t)a);
    case BUILTIN_UCHAR_TO_FLOAT:
        return of_float((float)(uint8_t)a);
    case BUILTIN_ULONG_TO_FLOAT:
        return of_float((float)a);
    case BUILTIN_LONG_TO_FLOAT:
        return of_float((float)(int64_t)a);
    case BUILTIN_FLOAT_TO_UINT:
        return (uint32_t)float_of(a);
    case BUILTIN_FLOAT_TO_INT:
        return (uint64_t)(int32_t)float_of(a);
    case BUILTIN_USHORT_TO_UINT:
        return (uint64_t)(uint16_t)a << (width == 1 ? 0 : 1);
    case BUILTIN_USHORT_TO_INT:
        return (uint16_t)a - UINT64_C(32768);
    case BUILTIN_UINT_TO_USHORT:
        return (uint16_t)a;
    case BUILTIN_UINT_TO_UCHAR:
        return (uint8_t)a;
    default: /* ulong_to_int */
        return (uint64_t)(uint32_t)a << 1;
    }
}

/* Functions of whole vectors; i: a lane of the vector that begins at w->a[i - lane]. */
static uint64_t expect_vector(int which, const words *w, uint32_t i)
{
    const uint32_t lane = i % LANES, first = i - lane;
    if (which == BUILTIN_SHUFFLE)
        return w->a[first + LANES - 1 - lane];
    if (which == BUILTIN_SHUFFLE2) { /* PAIRS of builtin_integers.cl */
        const uint32_t pair = lane / 2, from = 2 * (pair - pair % 2 + (pair >= 4 ? 1 : 0)) + lane % 2;
        return pair % 2 ? w->b[first + from] : w->a[first + from];
    }
    uint64_t all = 0;
    for (uint32_t k = 0; k < LANES; k++)
        all |= w->a[first + k] & w->b[first + k];
    return all >> 31 & 1u;
}

static uint64_t expect(int which, uint32_t width, const words *w, uint32_t i)
{
    if (which == BUILTIN_SELECT_UINT) /* scalar: c is not 0; vectors: its highest bit is set */
        return (uint32_t)((width == 1 ? (uint32_t)w->c[i] != 0 : (w->c[i] >> 31 & 1u) != 0) ? w->b[i]
                                                                                            : w->a[i]);
    if (which >= BUILTIN_ANY)
        return expect_vector(which, w, i);
    if (which <= BUILTIN_MODULO_ULONG)
        return expect_product(which, width, w->a[i], w->b[i]);
    if (which <= BUILTIN_SHIFT_RIGHT_ULONG)
        return expect_shift(which, w->a[i], w->b[i]);
    if (which <= BUILTIN_CLAMP_LONG)
        return expect_order(which, w->a[i], w->b[i], w->c[i]);
    return expect_conversion(which, width, w->a[i]);
}

static clt_status run(clt_verify_session *session, const integer_function *f, uint32_t width, const void *x,
                      void *y)
{
    const clt_dtype type = width == 1 ? CLT_I64 : CLT_U32;
    const size_t bytes = COUNT * (size_t)clt_dtype_bytes(type);
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_verify_command_begin(session, f->name, &list, &e));
    ocl_kernel_begin(&e, "builtin_integers", "builtin_integers");
    ocl_define(&e, "WIDTH", width);
    ocl_define(&e, "SHUFFLES", (session->desc.quirks & OCL_QUIRK_NO_SHUFFLES) == 0);
    ocl_arg_out(&e, 0, type, COUNT);
    ocl_arg_in(&e, 1, type, 3 * COUNT);
    ocl_arg_u32(&e, COUNT / width);
    ocl_arg_u32(&e, (uint32_t)f->number);
    ocl_kernel_end_items(&e, COUNT / width, 0, 0.0);
    return clt_verify_command_answer(session, &e, x, 3 * bytes, y, bytes);
}

static void judge(const integer_function *f, uint32_t width, const words *w, const void *y,
                  clt_verify_outcome *outcome)
{
    uint32_t wrong = 0, first = 0;
    uint64_t first_got = 0, first_want = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t got = width == 1 ? ((const uint64_t *)y)[i] : ((const uint32_t *)y)[i];
        uint64_t want = expect(f->number, width, w, i);
        if (width != 1)
            want = (uint32_t)want;
        if (got == want)
            continue;
        if (wrong++ == 0) {
            first = i;
            first_got = got;
            first_want = want;
        }
    }
    clt_verify_add_bits(outcome, y, COUNT * (width == 1 ? sizeof(uint64_t) : sizeof(uint32_t)));
    if (wrong > 0)
        clt_verify_set(outcome, CLT_VERIFY_FAIL,
                       "%s of %" PRIx64 ", %" PRIx64 ", %" PRIx64 " (it uses the first %d, as hexadecimal "
                       "words) is %" PRIx64 " and must be %" PRIx64 "; %u of %u values are wrong",
                       f->name, w->a[first], w->b[first], w->c[first], f->arguments, first_got, first_want,
                       wrong, COUNT);
}

/* words of 32 bits for vectors, in place of the three planes of 64 */
static void narrow(const words *w, uint32_t *x)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        x[i] = (uint32_t)w->a[i];
        x[COUNT + i] = (uint32_t)w->b[i];
        x[2 * COUNT + i] = (uint32_t)w->c[i];
    }
}

static clt_status check(clt_verify_session *session, const integer_function *f, uint32_t width,
                        clt_verify_outcome *outcome)
{
    CLT_FREED words *w = NULL;
    CLT_FREED uint32_t *narrowed = NULL;
    CLT_FREED uint64_t *y = NULL;
    if ((f->number == BUILTIN_SHUFFLE || f->number == BUILTIN_SHUFFLE2) &&
        (session->desc.quirks & OCL_QUIRK_NO_SHUFFLES)) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "no kernel uses shuffles on this device");
        return CLT_OK;
    }
    if (!clt_device_has_width(session, width, outcome))
        return CLT_OK;
    CLT_TRY(clt_alloc(&w, 1, sizeof *w, "words for built-in functions"));
    CLT_TRY(clt_alloc(&narrowed, 3 * COUNT, sizeof *narrowed, "words for built-in functions"));
    CLT_TRY(clt_alloc(&y, COUNT, sizeof *y, "results of a built-in function"));
    fill(session->seed, w);
    make_valid(f->number, w);
    narrow(w, narrowed);
    CLT_TRY(run(session, f, width, width == 1 ? (const void *)w : narrowed, y));
    judge(f, width, w, y, outcome);
    return CLT_OK;
}

clt_status clt_verify_integers(clt_verify_session *session)
{
    static const struct {
        const char *name;
        uint32_t width;
    } forms[] = {{"scalar", 1}, {"quads", 4}, {"lanes", 16}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            clt_verify_item item = {"builtins", functions[i].name, forms[k].name, CLT_VERIFY_CORRECT, true,
                                    false};
            clt_verify_outcome outcome;
            if ((functions[i].widths & forms[k].width) && clt_verify_wants(session, &item, &outcome))
                CLT_TRY(clt_verify_finish(session, &outcome,
                                          check(session, &functions[i], forms[k].width, &outcome)));
        }
    return CLT_OK;
}
