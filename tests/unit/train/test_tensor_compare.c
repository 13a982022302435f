/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Differences of tensors: known distances in units in the last place in each floating type, among them
 * subnormal numbers and types that differ, values that are not finite, integers, unaligned data. */
#include "tests/unit/test.h"

#include <float.h>
#include <math.h>

#include "engine/checkpoint/tensor_compare.h"

static clt_named_tensor tensor(clt_dtype dtype, int64_t count, const void *data)
{
    return (clt_named_tensor){.name = "t", .dtype = dtype, .shape = clt_shape1(count), .data = data};
}

static clt_tensor_difference compare_f32(int64_t count, const float *a, const float *b)
{
    clt_named_tensor x = tensor(CLT_F32, count, a), y = tensor(CLT_F32, count, b);
    return clt_tensor_compare(&x, &y);
}

TEST(equal_tensors_have_the_same_bits)
{
    float a[] = {1, -2, NAN, 0}, b[] = {1, -2, NAN, -0.0f};
    clt_tensor_difference d = compare_f32(3, a, b);
    assert_true(d.same_bits);
    assert_int_equal(d.different, 0);
    assert_true(d.cosine == 1 && d.largest == 0 && d.relative == 0 && d.ulp == 0);
    d = compare_f32(4, a, b); /* 0 and -0 are equal values with different bits */
    assert_false(d.same_bits);
    assert_int_equal(d.different, 0);
    assert_int_equal(d.at, -1);
    assert_true(d.largest == 0 && d.cosine == 1);
}

TEST(the_largest_difference_is_found_with_its_place)
{
    enum { COUNT = 5000 };
    static float a[COUNT], b[COUNT];
    for (int i = 0; i < COUNT; i++)
        a[i] = b[i] = (float)(i % 7) - 3;
    b[17] += 0.25f;
    b[4321] -= 0.5f;
    clt_tensor_difference d = compare_f32(COUNT, a, b);
    assert_int_equal(d.count, COUNT);
    assert_int_equal(d.different, 2);
    assert_int_equal(d.at, 4321);
    assert_true(d.largest == 0.5 && d.a - d.b == 0.5);
    assert_true(d.relative == 0.5 / 3);
    assert_true(d.cosine < 1 && d.cosine > 0.9999);
}

TEST(units_in_the_last_place_of_f32)
{
    static const struct {
        float a, b;
        double ulp;
    } known[] = {{1, 1.00000011920928955f, 1},
                 {1, 0.999999940395355225f, 0.5}, /* below a power of two the numbers are twice as close */
                 {-3, 3, 25165824},               /* 6 over 2^-22 */
                 {FLT_MIN, FLT_MIN / 2, 4194304},
                 {0, FLT_TRUE_MIN, 1},
                 {FLT_TRUE_MIN, -FLT_TRUE_MIN, 2},
                 {FLT_MAX, -FLT_MAX, 33554430}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        clt_tensor_difference d = compare_f32(1, &known[i].a, &known[i].b);
        if (d.ulp != known[i].ulp)
            fail_msg("case %zu: %.17g ULP instead of %.17g", i, d.ulp, known[i].ulp);
    }
}

/* The unit in the last place is that of the type with fewer digits, on whichever side it is. */
TEST(a_rounded_copy_is_within_half_a_unit)
{
    enum { COUNT = 3000 };
    static float exact[COUNT];
    static uint16_t half[COUNT], brain[COUNT];
    for (int i = 0; i < COUNT; i++) {
        exact[i] = (float)sin(i) * (i % 2 ? 1e-3f : 3);
        half[i] = clt_f32_to_f16(exact[i]);
        brain[i] = clt_f32_to_bf16(exact[i]);
    }
    clt_named_tensor f32 = tensor(CLT_F32, COUNT, exact), f16 = tensor(CLT_F16, COUNT, half),
                     bf16 = tensor(CLT_BF16, COUNT, brain);
    clt_tensor_difference h = clt_tensor_compare(&f32, &f16), b = clt_tensor_compare(&bf16, &f32);
    assert_true(h.ulp <= 0.5 && h.ulp > 0.49);
    assert_true(b.ulp <= 0.5 && b.ulp > 0.49);
    brain[1000] ^= 1; /* one value differs by a unit of its type */
    b = clt_tensor_compare(&f32, &bf16);
    assert_true(b.ulp > 0.5 && b.ulp <= 1.5);
    half[0] = 1; /* the smallest subnormal of f16 instead of 0 */
    assert_true(clt_tensor_compare(&f32, &f16).ulp >= 1);
}

TEST(values_that_are_not_finite_are_infinitely_far)
{
    float a[] = {2, NAN, INFINITY, 1}, b[] = {2, 1, INFINITY, 1};
    clt_tensor_difference d = compare_f32(4, a, b);
    assert_int_equal(d.different, 1);
    assert_int_equal(d.at, 1);
    assert_true(isinf(d.largest) && isinf(d.relative) && isinf(d.ulp));
    assert_true(d.cosine == 1); /* only finite values count */
    b[1] = NAN;
    b[2] = -INFINITY;
    d = compare_f32(4, a, b);
    assert_int_equal(d.at, 2);
    assert_true(isinf(d.largest));
}

TEST(zeros_have_known_cosines)
{
    float zero[] = {0, 0}, one[] = {0, 1}, other[] = {1, 0}, minus[] = {0, -2};
    clt_tensor_difference d = compare_f32(2, zero, one);
    assert_true(d.cosine == 0 && isinf(d.relative) && d.largest == 1);
    assert_true(compare_f32(2, one, other).cosine == 0);
    assert_true(compare_f32(2, one, minus).cosine == -1);
    assert_true(compare_f32(0, zero, one).same_bits);
}

TEST(integers_and_unaligned_data)
{
    int64_t a[] = {5, -7}, b[] = {5, 3};
    clt_named_tensor x = tensor(CLT_I64, 2, a), y = tensor(CLT_I64, 2, b);
    clt_tensor_difference d = clt_tensor_compare(&x, &y);
    assert_true(d.ulp == 10 && d.largest == 10 && d.at == 1);
    char bytes[1 + 2 * sizeof(double)];
    double values[] = {1, 2};
    memcpy(bytes + 1, values, sizeof values);
    clt_named_tensor odd = tensor(CLT_F64, 2, bytes + 1), even = tensor(CLT_F64, 2, values);
    assert_true(clt_tensor_compare(&odd, &even).same_bits);
    values[1] = nextafter(2, 3);
    assert_true(clt_tensor_compare(&odd, &even).ulp == 1);
}

TEST(values_are_summed_up)
{
    float a[] = {3, -4, 0, -0.0f, INFINITY, NAN};
    clt_named_tensor t = tensor(CLT_F32, 6, a);
    clt_tensor_values v = clt_tensor_values_of(&t);
    assert_int_equal(v.count, 6);
    assert_int_equal(v.zeros, 2);
    assert_int_equal(v.nonfinite, 2);
    assert_true(v.mean == -0.25 && v.rms == 2.5 && v.largest == 4);
}
