/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and largest differences of tensors, in one pass over blocks that are copied, since the values of an
 * open file need not be aligned. */
#include "engine/checkpoint/tensor_compare.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Reads up to BLOCK values from index `first` on; returns their number. */
static int read_block(const clt_named_tensor *t, int64_t first, int64_t count, double out[BLOCK])
{
    union {
        double aligned[BLOCK];
        char bytes[BLOCK * sizeof(double)];
    } copy;
    int n = count - first < BLOCK ? (int)(count - first) : BLOCK;
    size_t size = clt_dtype_bytes(t->dtype);
    memcpy(copy.bytes, (const char *)t->data + (size_t)first * size, (size_t)n * size);
    for (int i = 0; i < n; i++)
        out[i] = clt_dtype_load(t->dtype, copy.bytes, (size_t)i);
    return n;
}

clt_tensor_values clt_tensor_values_of(const clt_named_tensor *tensor)
{
    clt_tensor_values v = {.count = clt_shape_elements(&tensor->shape)};
    double sum = 0, squares = 0, block[BLOCK];
    for (int64_t first = 0; first < v.count; first += BLOCK) {
        int n = read_block(tensor, first, v.count, block);
        double block_sum = 0, block_squares = 0;
        for (int i = 0; i < n; i++) {
            double x = block[i];
            v.zeros += x == 0;
            v.nonfinite += !isfinite(x);
            if (!isfinite(x))
                continue;
            block_sum += x;
            block_squares += x * x;
            v.largest = fmax(v.largest, fabs(x));
        }
        sum += block_sum;
        squares += block_squares;
    }
    int64_t finite = v.count - v.nonfinite;
    if (finite > 0) {
        v.mean = sum / (double)finite;
        v.rms = sqrt(squares / (double)finite);
    }
    return v;
}

/* Digits of a floating type's significand, with the hidden one, and the exponent of its smallest normal
 * number; false for integers. */
static bool digits_of(clt_dtype dtype, int *digits, int *least)
{
    static const struct {
        clt_dtype dtype;
        int digits, least;
    } types[] = {{CLT_BF16, 8, -126}, {CLT_F16, 11, -14}, {CLT_F32, 24, -126}, {CLT_F64, 53, -1022}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype) {
            *digits = types[i].digits;
            *least = types[i].least;
            return true;
        }
    return false;
}

/* A unit in the last place, for the one of two types that has fewer digits. */
typedef struct unit {
    bool integer; /* the unit is 1 */
    int digits, least;
} unit;

static unit unit_of(clt_dtype a, clt_dtype b)
{
    int digits[2] = {0, 0}, least[2] = {0, 0};
    bool floats[2] = {digits_of(a, &digits[0], &least[0]), digits_of(b, &digits[1], &least[1])};
    if (!floats[0] && !floats[1])
        return (unit){.integer = true};
    int coarse = !floats[0] || (floats[1] && digits[1] < digits[0]) ? 1 : 0;
    return (unit){.digits = digits[coarse], .least = least[coarse]};
}

static double distance_in(const unit *u, double a, double b, double difference)
{
    if (u->integer || !isfinite(difference))
        return difference;
    int exponent = ilogb(fmax(fabs(a), fabs(b)));
    return ldexp(difference, u->digits - 1 - (exponent < u->least ? u->least : exponent));
}

static void compare_value(const unit *u, int64_t index, double a, double b, clt_tensor_difference *d)
{
    if (a == b || (isnan(a) && isnan(b)))
        return;
    double difference = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
    d->different++;
    d->ulp = fmax(d->ulp, distance_in(u, a, b, difference));
    if (d->at >= 0 && difference <= d->largest)
        return;
    d->at = index;
    d->a = a;
    d->b = b;
    d->largest = difference;
}

clt_tensor_difference clt_tensor_compare(const clt_named_tensor *a, const clt_named_tensor *b)
{
    clt_tensor_difference d = {.count = clt_shape_elements(&a->shape), .at = -1};
    unit u = unit_of(a->dtype, b->dtype);
    size_t bytes = (size_t)d.count * clt_dtype_bytes(a->dtype);
    double aa = 0, bb = 0, ab = 0, scale = 0, x[BLOCK], y[BLOCK];
    d.same_bits = a->dtype == b->dtype && (d.count == 0 || memcmp(a->data, b->data, bytes) == 0);
    d.cosine = 1;
    if (d.same_bits)
        return d;
    for (int64_t first = 0; first < d.count; first += BLOCK) {
        int n = read_block(a, first, d.count, x);
        double block[3] = {0, 0, 0};
        (void)read_block(b, first, d.count, y);
        for (int i = 0; i < n; i++) {
            compare_value(&u, first + i, x[i], y[i], &d);
            if (!isfinite(x[i]) || !isfinite(y[i]))
                continue;
            block[0] += x[i] * x[i];
            block[1] += y[i] * y[i];
            block[2] += x[i] * y[i];
            scale = fmax(scale, fabs(x[i]));
        }
        aa += block[0];
        bb += block[1];
        ab += block[2];
    }
    if (d.largest > 0)
        d.relative = d.largest / scale;
    if (aa > 0 || bb > 0)
        d.cosine = aa > 0 && bb > 0 ? fmax(-1, fmin(1, ab / sqrt(aa) / sqrt(bb))) : 0;
    return d;
}
