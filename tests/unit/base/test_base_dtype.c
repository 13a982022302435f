/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions compared with an independent method: a half is its mantissa times a power of two, and the
 * rounded value of a number is the nearest entry in the sorted table of all halves. Knows only engine/base.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/dtype.h"
#include "engine/base/rng.h"

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A 16-bit format: mantissa bits, exponent bias. */
typedef struct narrow_format {
    int mantissa_bits, bias;
    float (*widen)(uint16_t h);
    uint16_t (*narrow)(float f);
} narrow_format;

static const narrow_format f16 = {10, 15, clt_f16_to_f32, clt_f32_to_f16};
static const narrow_format bf16 = {7, 127, clt_bf16_to_f32, clt_f32_to_bf16};

/* Exact value of a finite or infinite pattern without its sign bit; an infinity counts as the next power of
 * two. */
static double value_of(const narrow_format *format, unsigned magnitude)
{
    unsigned exponent = magnitude >> format->mantissa_bits;
    unsigned mantissa = magnitude & ((1u << format->mantissa_bits) - 1);
    int scale = 1 - format->bias - format->mantissa_bits;
    if (exponent > 0) {
        mantissa |= 1u << format->mantissa_bits;
        scale += (int)exponent - 1;
    }
    return ldexp((double)mantissa, scale);
}

static unsigned infinity_of(const narrow_format *format)
{
    return 0x8000u - (1u << format->mantissa_bits);
}

static void check_widen_all(const narrow_format *format)
{
    unsigned infinity = infinity_of(format);
    for (unsigned h = 0; h <= 0xffff; h++) {
        float got = format->widen((uint16_t)h);
        unsigned magnitude = h & 0x7fff;
        bool negative = h >> 15;
        assert_int_equal(signbit(got) != 0, negative);
        if (magnitude > infinity) {
            assert_true(isnan(got));
            /* quiet, payload kept in the upper bits */
            uint32_t payload = (magnitude - infinity) << (23 - format->mantissa_bits);
            assert_int_equal(bits_of(got) & 0x7fffff, payload | 0x400000);
        } else if (magnitude == infinity) {
            assert_true(isinf(got));
        } else {
            double expected = value_of(format, magnitude);
            assert_true((double)fabsf(got) == expected);
            assert_int_equal(format->narrow(got), h);
        }
    }
}

/* Nearest table entry by bisection in double; ties to the even pattern. */
static uint16_t nearest(const narrow_format *format, float f)
{
    unsigned sign = signbit(f) ? 0x8000u : 0;
    unsigned low = 0, high = infinity_of(format);
    double x = fabs((double)f);
    if (isinf(f) || x >= value_of(format, high))
        return (uint16_t)(sign | high);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (value_of(format, middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double below = x - value_of(format, low), above = value_of(format, high) - x;
    unsigned pick = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint16_t)(sign | pick);
}

static void check_narrow(const narrow_format *format, float f)
{
    if (isnan(f)) {
        uint16_t h = format->narrow(f);
        assert_true((h & 0x7fff) > infinity_of(format));
        assert_int_equal(h >> 15, bits_of(f) >> 31);
        assert_true(h & (1u << (format->mantissa_bits - 1)));
        return;
    }
    uint16_t got = format->narrow(f), expected = nearest(format, f);
    if (got != expected)
        print_error("%a gives 0x%04x, expected 0x%04x\n", (double)f, got, expected);
    assert_int_equal(got, expected);
}

/* Every pattern, every midpoint to its neighbour, and the floats next to both. */
static void check_narrow_all(const narrow_format *format)
{
    for (unsigned magnitude = 0; magnitude < infinity_of(format); magnitude++) {
        float value = (float)value_of(format, magnitude);
        float middle = (float)((value_of(format, magnitude) + value_of(format, magnitude + 1)) / 2);
        for (int step = -1; step <= 1; step++) {
            float near_value = float_of((uint32_t)((int64_t)bits_of(value) + (value > 0 ? step : abs(step))));
            float near_middle = float_of((uint32_t)((int64_t)bits_of(middle) + step));
            check_narrow(format, near_value);
            check_narrow(format, -near_value);
            check_narrow(format, near_middle);
            check_narrow(format, -near_middle);
        }
    }
    for (uint64_t i = 0; i < 300000; i++)
        check_narrow(format, float_of(clt_rng_u32(1, CLT_RNG_VERIFY, 0, 0, i)));
    check_narrow(format, INFINITY);
    check_narrow(format, -INFINITY);
    check_narrow(format, float_of(0x7f7fffff));
    check_narrow(format, float_of(0x7f800001)); /* a signalling NaN whose payload would be lost */
    check_narrow(format, float_of(0xffffffff));
    check_narrow(format, float_of(1));
}

TEST(test_f16_widen)
{
    check_widen_all(&f16);
}

TEST(test_f16_narrow)
{
    check_narrow_all(&f16);
    assert_int_equal(clt_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(clt_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(clt_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(clt_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(clt_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(clt_f32_to_f16(1.0f), 0x3c00);
}

TEST(test_bf16_widen)
{
    check_widen_all(&bf16);
}

TEST(test_bf16_narrow)
{
    check_narrow_all(&bf16);
    assert_int_equal(clt_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(clt_f32_to_bf16(float_of(0x7f7fffff)), 0x7f80);
}

TEST(test_table)
{
    static const size_t bytes[] = {4, 2, 2, 4, 4, 2, 1, 8, 8};
    for (int i = 0; i < (int)CLT_DTYPE_COUNT; i++) {
        clt_dtype dtype = (clt_dtype)i, back = CLT_DTYPE_COUNT;
        assert_int_equal(clt_dtype_bytes(dtype), bytes[i]);
        assert_true(clt_dtype_from_name(clt_dtype_name(dtype), &back));
        assert_int_equal(back, dtype);
        back = CLT_DTYPE_COUNT;
        assert_true(clt_dtype_from_safetensors(clt_dtype_safetensors(dtype), &back));
        assert_int_equal(back, dtype);
    }
    clt_dtype dtype = CLT_I64;
    assert_false(clt_dtype_from_name("F32", &dtype));
    assert_false(clt_dtype_from_name("", &dtype));
    assert_false(clt_dtype_from_name(NULL, &dtype));
    assert_false(clt_dtype_from_safetensors("f32", &dtype));
    assert_int_equal(dtype, CLT_I64);
    assert_string_equal(clt_dtype_name(CLT_DTYPE_COUNT), "?");
    assert_int_equal(clt_dtype_bytes(CLT_DTYPE_COUNT), 0);
    assert_true(clt_dtype_is_float(CLT_F64) && clt_dtype_is_float(CLT_BF16));
    assert_false(clt_dtype_is_float(CLT_U16) || clt_dtype_is_float(CLT_I32));
}

TEST(test_shape)
{
    char text[CLT_SHAPE_TEXT];
    clt_shape scalar = clt_shape_make(0, NULL), one = clt_shape1(5), two = clt_shape2(2, 3);
    clt_shape three = clt_shape3(2, 0, 4), four = clt_shape4(2, 3, 4, 5);
    assert_int_equal(clt_shape_elements(&scalar), 1);
    assert_int_equal(clt_shape_rows(&scalar), 1);
    assert_int_equal(clt_shape_last(&scalar), 1);
    assert_int_equal(clt_shape_elements(&one), 5);
    assert_int_equal(clt_shape_rows(&one), 1);
    assert_int_equal(clt_shape_last(&one), 5);
    assert_int_equal(clt_shape_elements(&three), 0);
    assert_int_equal(clt_shape_elements(&four), 120);
    assert_int_equal(clt_shape_rows(&four), 24);
    assert_int_equal(clt_shape_last(&four), 5);
    assert_string_equal(clt_shape_text(&scalar, text, sizeof text), "()");
    clt_shape many = clt_shape_make(CLT_MAX_DIMS + 1, (int64_t[CLT_MAX_DIMS + 1]){1, 1});
    assert_string_equal(clt_shape_text(&many, text, sizeof text), "(more than 6 dimensions)");
    assert_string_equal(clt_shape_text(&one, text, sizeof text), "(5)");
    assert_string_equal(clt_shape_text(&four, text, sizeof text), "(2,3,4,5)");
    assert_string_equal(clt_shape_text(&four, text, 4), "(2,");
    assert_true(clt_shape_equal(&two, &(clt_shape){.ndim = 2, .dim = {2, 3, 99}}));
    assert_false(clt_shape_equal(&two, &one));
    assert_false(clt_shape_equal(&two, &(clt_shape){.ndim = 2, .dim = {3, 2}}));
    clt_shape huge = clt_shape3(INT64_C(1) << 32, INT64_C(1) << 32, 2);
    assert_true(clt_shape_elements(&huge) == INT64_MAX);
    huge.dim[2] = 0;
    assert_int_equal(clt_shape_elements(&huge), 0);
    int64_t dims[CLT_MAX_DIMS + 1] = {1, 1, 1, 1, 1, 1, 1};
    clt_shape wide = clt_shape_make(CLT_MAX_DIMS + 1, dims), most = clt_shape_make(CLT_MAX_DIMS, dims);
    assert_int_equal(wide.ndim, -1);
    assert_int_equal(clt_shape_elements(&wide), 0);
    assert_int_equal(clt_shape_elements(&most), 1);
    /* The longest text fits the buffer size that callers use. */
    for (int i = 0; i < CLT_MAX_DIMS; i++)
        most.dim[i] = INT64_MIN;
    clt_shape_text(&most, text, sizeof text);
    assert_int_equal(text[strlen(text) - 1], ')');
}
