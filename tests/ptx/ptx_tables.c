/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic instructions by exact name, 32 lanes at a time, according to the PTX ISA. Functions that a
 * device only approximates (ex2.approx and others) are computed as exactly as the host's library does.
 * 16-bit values and predicates are zero-extended to 32 bits. Each name and type has an entry; a kernel with
 * a name that has none is an error. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_machine.h"
#include "tests/ptx/ptx_numbers.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef uint16_t u16;
typedef int16_t s16;
typedef float f32;
typedef double f64;
typedef uint8_t u8;
typedef int8_t s8;
typedef u16 b16;
typedef u32 b32;
typedef u64 b64;

/* --- functions that are longer than an expression --- */

static inline u32 permute(u32 a, u32 b, u32 selector)
{
    u64 both = (u64)b << 32 | a;
    u32 r = 0;
    for (int i = 0; i < 4; i++) {
        u32 pick = selector >> (4 * i) & 15, byte = (u32)(both >> (8 * (pick & 7))) & 255;
        if (pick & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}
static inline u32 extract(u32 a, u32 first, u32 count)
{
    first &= 255;
    count &= 255;
    if (first > 31 || count == 0)
        return 0;
    return a >> first & (count > 31 ? ~0u : (1u << count) - 1);
}
static inline u64 bits_from(u32 first, u32 count)
{
    first &= 255;
    count &= 255;
    return first > 63 ? 0 : (count > 63 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << first;
}
static inline u64 extract64(u64 a, u32 first, u32 count)
{
    first &= 255;
    count &= 255;
    if (first > 63 || count == 0)
        return 0;
    return a >> first & (count > 63 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1);
}
/* Rounds to 10 bits of mantissa, ties away from zero. */
static inline u32 to_tf32(f32 f)
{
    u32 bits = ptx_bits(f);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}
/* Rounds to 10 bits of mantissa, ties to even. */
static inline u32 to_tf32_even(f32 f)
{
    u32 bits = ptx_bits(f);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
}
/* x * y + z rounded down: the nearest value, corrected by the sign of the rounding error. */
static inline f32 fma_down(f32 x, f32 y, f32 z)
{
    f32 near = fmaf(x, y, z);
    f64 product = (f64)x * y, sum = product + z, back = sum - product;
    f64 lost = (product - (sum - back)) + (z - back), left = (sum - near) + lost;
    return left < 0.0 && !isinf(near) ? nextafterf(near, -INFINITY) : near;
}
/* sin(pi x), exactly 0 for every whole number x, however large. */
static inline f64 sine_of_turns(f64 x)
{
    f64 r = remainder(x, 2.0); /* from -1 to 1 */
    r = r > 0.5 ? 1.0 - r : r < -0.5 ? -1.0 - r : r;
    return sin(r * 3.141592653589793);
}

static inline f32 flush(f32 f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}
static inline f32 least(f32 a, f32 b)
{
    return isnan(a) ? b : isnan(b) ? a : a < b ? a : b;
}
static inline f32 most(f32 a, f32 b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b ? a : b;
}
static inline u32 float_to_u32(f32 f)
{
    return isnan(f) || f <= 0.0f ? 0 : f >= 4294967296.0f ? ~0u : (u32)f;
}
static inline s32 float_to_s32(f32 f)
{
    return isnan(f) ? 0 : f <= -2147483648.0f ? INT32_MIN : f >= 2147483648.0f ? INT32_MAX : (s32)f;
}
static inline u64 float_to_u64(f32 f)
{
    return isnan(f) || f <= 0.0f ? 0 : f >= 0x1p64f ? ~UINT64_C(0) : (u64)f;
}
static inline s64 float_to_s64(f32 f)
{
    return isnan(f) ? 0 : f <= -0x1p63f ? INT64_MIN : f >= 0x1p63f ? INT64_MAX : (s64)f;
}

/* --- the list --- */

/* X(id, name, type of the result's register, types of the operands' registers, result): x, y, z are the
 * operands. */
#define UNARY(X)                                                                                             \
    X(mov_u16, "mov.u16", u32, u32, x)                                                                       \
    X(mov_b16, "mov.b16", u32, u32, x)                                                                       \
    X(mov_u32, "mov.u32", u32, u32, x)                                                                       \
    X(mov_b32, "mov.b32", u32, u32, x)                                                                       \
    X(mov_f32, "mov.f32", u32, u32, x)                                                                       \
    X(mov_pred, "mov.pred", u32, u32, x != 0)                                                                \
    X(mov_u64, "mov.u64", u64, u64, x)                                                                       \
    X(mov_b64, "mov.b64", u64, u64, x)                                                                       \
    X(mov_f64, "mov.f64", u64, u64, x)                                                                       \
    X(mov_low32, "mov.b32.low", u32, u32, x & 0xffffu)                                                       \
    X(mov_high32, "mov.b32.high", u32, u32, x >> 16)                                                         \
    X(mov_low64, "mov.b64.low", u32, u64, (u32)x)                                                            \
    X(mov_high64, "mov.b64.high", u32, u64, (u32)(x >> 32))                                                  \
    X(cvta_g, "cvta.global.u64", u64, u64, x)                                                                \
    X(cvta_s, "cvta.shared.u64", u64, u64, x)                                                                \
    X(cvta_l, "cvta.local.u64", u64, u64, x)                                                                 \
    X(cvta_tg, "cvta.to.global.u64", u64, u64, x)                                                            \
    X(cvta_ts, "cvta.to.shared.u64", u64, u64, x)                                                            \
    X(cvta_tl, "cvta.to.local.u64", u64, u64, x)                                                             \
    X(not_pred, "not.pred", u32, u32, !x)                                                                    \
    X(not_b16, "not.b16", u32, u32, (u16)~x)                                                                 \
    X(not_b32, "not.b32", u32, u32, ~x)                                                                      \
    X(not_b64, "not.b64", u64, u64, ~x)                                                                      \
    X(neg_s16, "neg.s16", u32, u32, (u16)-x)                                                                 \
    X(neg_s32, "neg.s32", u32, u32, -x)                                                                      \
    X(neg_s64, "neg.s64", u64, u64, -x)                                                                      \
    X(neg_f32, "neg.f32", f32, f32, -x)                                                                      \
    X(neg_f64, "neg.f64", f64, f64, -x)                                                                      \
    X(abs_s32, "abs.s32", u32, s32, x < 0 ? -(u32)x : (u32)x)                                                \
    X(abs_f32, "abs.f32", f32, f32, fabsf(x))                                                                \
    X(abs_f64, "abs.f64", f64, f64, fabs(x))                                                                 \
    X(clz_b32, "clz.b32", u32, u32, x ? (u32)__builtin_clz(x) : 32)                                          \
    X(clz_b64, "clz.b64", u32, u64, x ? (u32)__builtin_clzll(x) : 64)                                        \
    X(popc_b32, "popc.b32", u32, u32, (u32)__builtin_popcount(x))                                            \
    X(popc_b64, "popc.b64", u32, u64, (u32)__builtin_popcountll(x))                                          \
    X(rcp_f32, "rcp.rn.f32", f32, f32, 1.0f / x)                                                             \
    X(rcp_approx, "rcp.approx.f32", f32, f32, 1.0f / x)                                                      \
    X(rcp_ftz, "rcp.approx.ftz.f32", f32, f32, flush(1.0f / flush(x)))                                       \
    X(sqrt_f32, "sqrt.rn.f32", f32, f32, sqrtf(x))                                                           \
    X(sqrt_approx, "sqrt.approx.f32", f32, f32, sqrtf(x))                                                    \
    X(rsqrt_approx, "rsqrt.approx.f32", f32, f32, 1.0f / sqrtf(x))                                           \
    X(sqrt_f64, "sqrt.rn.f64", f64, f64, sqrt(x))                                                            \
    X(rcp_f64, "rcp.rn.f64", f64, f64, 1.0 / x)                                                              \
    X(ex2, "ex2.approx.f32", f32, f32, exp2f(x))                                                             \
    X(ex2_ftz, "ex2.approx.ftz.f32", f32, f32, flush(exp2f(flush(x))))                                       \
    X(lg2, "lg2.approx.f32", f32, f32, log2f(x))                                                             \
    X(lg2_ftz, "lg2.approx.ftz.f32", f32, f32, log2f(flush(x)))                                              \
    X(tanh_approx, "tanh.approx.f32", f32, f32, tanhf(x))                                                    \
    X(library_exp, "library.exp.f32", f32, f32, expf(x))                                                     \
    X(library_exp2, "library.exp2.f32", f32, f32, exp2f(x))                                                  \
    X(library_log, "library.log.f32", f32, f32, logf(x))                                                     \
    X(library_log2, "library.log2.f32", f32, f32, log2f(x))                                                  \
    X(library_tanh, "library.tanh.f32", f32, f32, tanhf(x))                                                  \
    X(library_sinpi, "library.sinpi.f32", f32, f32, (f32)sine_of_turns((f64)x))                              \
    X(library_cospi, "library.cospi.f32", f32, f32, (f32)sine_of_turns(0.5 - fabs(remainder((f64)x, 2.0))))  \
    X(cvt_f32_f16, "cvt.f32.f16", f32, u32, ptx_from_f16(x))                                                 \
    X(cvt_f16_f32, "cvt.rn.f16.f32", u32, f32, ptx_to_f16(x))                                                \
    X(cvt_bf16_f32, "cvt.rn.bf16.f32", u32, f32, ptx_to_bf16(x))                                             \
    X(cvt_tf32, "cvt.rna.tf32.f32", u32, f32, to_tf32(x))                                                    \
    X(cvt_tf32_even, "cvt.rn.tf32.f32", u32, f32, to_tf32_even(x))                                           \
    X(cvt_f64_f32, "cvt.f64.f32", f64, f32, (f64)x)                                                          \
    X(cvt_f32_f64, "cvt.rn.f32.f64", f32, f64, (f32)x)                                                       \
    X(cvt_floor, "cvt.rmi.f32.f32", f32, f32, floorf(x))                                                     \
    X(cvt_ceil, "cvt.rpi.f32.f32", f32, f32, ceilf(x))                                                       \
    X(cvt_rint, "cvt.rni.f32.f32", f32, f32, rintf(x))                                                       \
    X(cvt_trunc, "cvt.rzi.f32.f32", f32, f32, truncf(x))                                                     \
    X(cvt_sat, "cvt.sat.f32.f32", f32, f32, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)                         \
    X(cvt_f_u16, "cvt.rn.f32.u16", f32, u32, (f32)(u16)x)                                                    \
    X(cvt_f_s16, "cvt.rn.f32.s16", f32, u32, (f32)(s16)x)                                                    \
    X(cvt_f_u8, "cvt.rn.f32.u8", f32, u32, (f32)(uint8_t)x)                                                  \
    X(cvt_f_u32, "cvt.rn.f32.u32", f32, u32, (f32)x)                                                         \
    X(cvt_f_s32, "cvt.rn.f32.s32", f32, s32, (f32)x)                                                         \
    X(cvt_f_u64, "cvt.rn.f32.u64", f32, u64, (f32)x)                                                         \
    X(cvt_f_s64, "cvt.rn.f32.s64", f32, s64, (f32)x)                                                         \
    X(cvt_d_u32, "cvt.rn.f64.u32", f64, u32, (f64)x)                                                         \
    X(cvt_d_s32, "cvt.rn.f64.s32", f64, s32, (f64)x)                                                         \
    X(cvt_d_u64, "cvt.rn.f64.u64", f64, u64, (f64)x)                                                         \
    X(cvt_u16_f, "cvt.rzi.u16.f32", u32, f32, (u16)float_to_u32(x))                                          \
    X(cvt_u32_f, "cvt.rzi.u32.f32", u32, f32, float_to_u32(x))                                               \
    X(cvt_s32_f, "cvt.rzi.s32.f32", u32, f32, (u32)float_to_s32(x))                                          \
    X(cvt_s32_ni, "cvt.rni.s32.f32", u32, f32, (u32)float_to_s32(rintf(x)))                                  \
    X(cvt_u64_f, "cvt.rzi.u64.f32", u64, f32, float_to_u64(x))                                               \
    X(cvt_s64_f, "cvt.rzi.s64.f32", u64, f32, (u64)float_to_s64(x))

/* cvt between integers: the result's type, its register's type and its value; the operand's type and its
 * register's. */
#define TO_INTEGER(X, from, place)                                                                           \
    X(u8, u32, uint8_t, from, place)                                                                         \
    X(s8, u32, int8_t, from, place)                                                                          \
    X(u16, u32, u16, from, place)                                                                            \
    X(s16, u32, s16, from, place)                                                                            \
    X(u32, u32, u32, from, place)                                                                            \
    X(s32, u32, s32, from, place)                                                                            \
    X(u64, u64, u64, from, place)                                                                            \
    X(s64, u64, s64, from, place)
#define INTEGERS(X)                                                                                          \
    TO_INTEGER(X, u8, u32)                                                                                   \
    TO_INTEGER(X, s8, u32)                                                                                   \
    TO_INTEGER(X, u16, u32)                                                                                  \
    TO_INTEGER(X, s16, u32)                                                                                  \
    TO_INTEGER(X, u32, u32)                                                                                  \
    TO_INTEGER(X, s32, u32)                                                                                  \
    TO_INTEGER(X, u64, u64)                                                                                  \
    TO_INTEGER(X, s64, u64)

/* Type, its register's type, unsigned type to compute in. */
#define INTEGER_TYPES(X)                                                                                     \
    X(u16, u32, u16)                                                                                         \
    X(s16, u32, u16)                                                                                         \
    X(u32, u32, u32)                                                                                         \
    X(s32, u32, u32)                                                                                         \
    X(u64, u64, u64)                                                                                         \
    X(s64, u64, u64)

#define BINARY(X)                                                                                            \
    X(pack32, "mov.b32.pack", u32, u32, u32, (x & 0xffffu) | y << 16)                                        \
    X(bfi_mask, "bfi.b32.mask", u32, u32, u32, (u32)bits_from(x, y))                                         \
    X(bfi_mask64, "bfi.b64.mask", u64, u32, u32, bits_from(x, y))                                            \
    X(pack64, "mov.b64.pack", u64, u32, u32, x | (u64)y << 32)                                               \
    X(and_pred, "and.pred", u32, u32, u32, x &&y)                                                            \
    X(or_pred, "or.pred", u32, u32, u32, x || y)                                                             \
    X(xor_pred, "xor.pred", u32, u32, u32, !x != !y)                                                         \
    X(and_b16, "and.b16", u32, u32, u32, (u16)(x & y))                                                       \
    X(or_b16, "or.b16", u32, u32, u32, (u16)(x | y))                                                         \
    X(xor_b16, "xor.b16", u32, u32, u32, (u16)(x ^ y))                                                       \
    X(and_b32, "and.b32", u32, u32, u32, x &y)                                                               \
    X(or_b32, "or.b32", u32, u32, u32, x | y)                                                                \
    X(xor_b32, "xor.b32", u32, u32, u32, x ^ y)                                                              \
    X(and_b64, "and.b64", u64, u64, u64, x &y)                                                               \
    X(or_b64, "or.b64", u64, u64, u64, x | y)                                                                \
    X(xor_b64, "xor.b64", u64, u64, u64, x ^ y)                                                              \
    X(shl_b16, "shl.b16", u32, u32, u32, y > 15 ? 0 : (u16)(x << y))                                         \
    X(shl_b32, "shl.b32", u32, u32, u32, y > 31 ? 0 : x << y)                                                \
    X(shl_b64, "shl.b64", u64, u64, u32, y > 63 ? 0 : x << y)                                                \
    X(shr_b16, "shr.b16", u32, u32, u32, y > 15 ? 0 : (u16)x >> y)                                           \
    X(shr_b32, "shr.b32", u32, u32, u32, y > 31 ? 0 : x >> y)                                                \
    X(shr_b64, "shr.b64", u64, u64, u32, y > 63 ? 0 : x >> y)                                                \
    X(shr_u16, "shr.u16", u32, u32, u32, y > 15 ? 0 : (u16)x >> y)                                           \
    X(shr_u32, "shr.u32", u32, u32, u32, y > 31 ? 0 : x >> y)                                                \
    X(shr_u64, "shr.u64", u64, u64, u32, y > 63 ? 0 : x >> y)                                                \
    X(shr_s16, "shr.s16", u32, u32, u32, (u16)((s16)x >> (y > 15 ? 15 : y)))                                 \
    X(shr_s32, "shr.s32", u32, s32, u32, (u32)(x >> (y > 31 ? 31 : y)))                                      \
    X(shr_s64, "shr.s64", u64, s64, u32, (u64)(x >> (y > 63 ? 63 : y)))                                      \
    X(mul_wide_u16, "mul.wide.u16", u32, u32, u32, (u32)(u16)x *(u16)y)                                      \
    X(mul_wide_s16, "mul.wide.s16", u32, u32, u32, (u32)((s32)(s16)x * (s16)y))                              \
    X(mul_wide_u32, "mul.wide.u32", u64, u32, u32, (u64)x *y)                                                \
    X(mul_wide_s32, "mul.wide.s32", u64, s32, s32, (u64)((s64)x * y))                                        \
    X(mul_hi_u16, "mul.hi.u16", u32, u32, u32, ((u32)(u16)x * (u16)y) >> 16)                                 \
    X(mul_hi_u32, "mul.hi.u32", u32, u32, u32, (u32)((u64)x * y >> 32))                                      \
    X(mul_hi_s32, "mul.hi.s32", u32, s32, s32, (u32)((u64)((s64)x * y) >> 32))                               \
    X(mul_hi_u64, "mul.hi.u64", u64, u64, u64, (u64)((unsigned __int128)x * y >> 64))                        \
    X(mul_hi_s64, "mul.hi.s64", u64, s64, s64, (u64)((unsigned __int128)((__int128)x * y) >> 64))            \
    X(add_f32, "add.rn.f32", f32, f32, f32, x + y)                                                           \
    X(add_f32_, "add.f32", f32, f32, f32, x + y)                                                             \
    X(sub_f32, "sub.rn.f32", f32, f32, f32, x - y)                                                           \
    X(sub_f32_, "sub.f32", f32, f32, f32, x - y)                                                             \
    X(mul_f32, "mul.rn.f32", f32, f32, f32, x *y)                                                            \
    X(mul_f32_, "mul.f32", f32, f32, f32, x *y)                                                              \
    X(div_f32, "div.rn.f32", f32, f32, f32, x / y)                                                           \
    X(div_full, "div.full.f32", f32, f32, f32, x / y)                                                        \
    X(div_approx, "div.approx.f32", f32, f32, f32, x / y)                                                    \
    X(min_f32, "min.f32", f32, f32, f32, least(x, y))                                                        \
    X(max_f32, "max.f32", f32, f32, f32, most(x, y))                                                         \
    X(min_nan_f32, "min.NaN.f32", f32, f32, f32, isnan(x) || isnan(y) ? NAN : least(x, y))                   \
    X(max_nan_f32, "max.NaN.f32", f32, f32, f32, isnan(x) || isnan(y) ? NAN : most(x, y))                    \
    X(copysign_f32, "copysign.f32", f32, f32, f32, copysignf(y, x))                                          \
    X(add_f64, "add.rn.f64", f64, f64, f64, x + y)                                                           \
    X(sub_f64, "sub.rn.f64", f64, f64, f64, x - y)                                                           \
    X(mul_f64, "mul.rn.f64", f64, f64, f64, x *y)                                                            \
    X(div_f64, "div.rn.f64", f64, f64, f64, x / y)                                                           \
    X(add_f16, "add.rn.f16", u32, u32, u32, ptx_to_f16(ptx_from_f16(x) + ptx_from_f16(y)))                   \
    X(sub_f16, "sub.rn.f16", u32, u32, u32, ptx_to_f16(ptx_from_f16(x) - ptx_from_f16(y)))                   \
    X(mul_f16, "mul.rn.f16", u32, u32, u32, ptx_to_f16(ptx_from_f16(x) * ptx_from_f16(y)))                   \
    X(cvt_f16x2, "cvt.rn.f16x2.f32", u32, f32, f32, ptx_to_f16(x) << 16 | ptx_to_f16(y))                     \
    X(cvt_bf16x2, "cvt.rn.bf16x2.f32", u32, f32, f32, ptx_to_bf16(x) << 16 | ptx_to_bf16(y))

#define TERNARY(X)                                                                                           \
    X(fma_f32, "fma.rn.f32", f32, f32, f32, f32, fmaf(x, y, z))                                              \
    X(fma_rm_f32, "fma.rm.f32", f32, f32, f32, f32, fma_down(x, y, z))                                       \
    X(fma_f64, "fma.rn.f64", f64, f64, f64, f64, fma(x, y, z))                                               \
    X(fma_f16, "fma.rn.f16", u32, u32, u32, u32,                                                             \
      ptx_to_f16((f32)((f64)ptx_from_f16(x) * ptx_from_f16(y) + ptx_from_f16(z))))                           \
    X(mad_lo_u16, "mad.lo.u16", u32, u32, u32, u32, (u16)(x * y + z))                                        \
    X(mad_lo_s16, "mad.lo.s16", u32, u32, u32, u32, (u16)(x * y + z))                                        \
    X(mad_lo_u32, "mad.lo.u32", u32, u32, u32, u32, x *y + z)                                                \
    X(mad_lo_s32, "mad.lo.s32", u32, u32, u32, u32, x *y + z)                                                \
    X(mad_lo_u64, "mad.lo.u64", u64, u64, u64, u64, x *y + z)                                                \
    X(mad_lo_s64, "mad.lo.s64", u64, u64, u64, u64, x *y + z)                                                \
    X(mad_wide_u16, "mad.wide.u16", u32, u32, u32, u32, (u32)(u16)x *(u16)y + z)                             \
    X(mad_wide_u32, "mad.wide.u32", u64, u32, u32, u64, (u64)x *y + z)                                       \
    X(mad_wide_s32, "mad.wide.s32", u64, s32, s32, u64, (u64)((s64)x * y) + z)                               \
    X(selp_b16, "selp.b16", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_u16, "selp.u16", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_s16, "selp.s16", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_b32, "selp.b32", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_u32, "selp.u32", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_s32, "selp.s32", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_f32, "selp.f32", u32, u32, u32, u32, z ? x : y)                                                   \
    X(selp_b64, "selp.b64", u64, u64, u64, u32, z ? x : y)                                                   \
    X(selp_u64, "selp.u64", u64, u64, u64, u32, z ? x : y)                                                   \
    X(selp_s64, "selp.s64", u64, u64, u64, u32, z ? x : y)                                                   \
    X(selp_f64, "selp.f64", u64, u64, u64, u32, z ? x : y)                                                   \
    X(bfe_u32, "bfe.u32", u32, u32, u32, u32, extract(x, y, z))                                              \
    X(bfi_join, "bfi.b32.join", u32, u32, u32, u32, (x & z) | (y & ~z))                                      \
    X(bfi_join64, "bfi.b64.join", u64, u64, u64, u64, (x & z) | (y & ~z))                                    \
    X(bfe_u64, "bfe.u64", u64, u64, u32, u32, extract64(x, y, z))                                            \
    X(prmt, "prmt.b32", u32, u32, u32, u32, permute(x, y, z))                                                \
    X(shf_wrap, "shf.l.wrap.b32", u32, u32, u32, u32, (u32)(((u64)y << 32 | x) << (z & 31) >> 32))           \
    X(shf_right, "shf.r.wrap.b32", u32, u32, u32, u32, (u32)(((u64)y << 32 | x) >> (z & 31)))

/* setp: id, symbol; signed and unsigned names of the same comparison. */
#define COMPARISONS(X, type, place)                                                                          \
    X(eq, ==, type, place)                                                                                   \
    X(ne, !=, type, place)                                                                                   \
    X(lt, <, type, place)                                                                                    \
    X(le, <=, type, place)                                                                                   \
    X(gt, >, type, place)                                                                                    \
    X(ge, >=, type, place)
#define INTEGER_COMPARISONS(X)                                                                               \
    COMPARISONS(X, u16, u32)                                                                                 \
    COMPARISONS(X, s16, u32)                                                                                 \
    COMPARISONS(X, u32, u32)                                                                                 \
    COMPARISONS(X, s32, u32)                                                                                 \
    COMPARISONS(X, u64, u64)                                                                                 \
    COMPARISONS(X, s64, u64)                                                                                 \
    X(eq, ==, b16, u32)                                                                                      \
    X(ne, !=, b16, u32)                                                                                      \
    X(eq, ==, b32, u32)                                                                                      \
    X(ne, !=, b32, u32)                                                                                      \
    X(eq, ==, b64, u64)                                                                                      \
    X(ne, !=, b64, u64)
/* Comparisons of floats. If an operand is NaN the result is false, or true if the name ends in u. */
#define FLOAT_COMPARISONS(X)                                                                                 \
    X(eq, x == y)                                                                                            \
    X(ne, x<y || x> y)                                                                                       \
    X(lt, x < y)                                                                                             \
    X(le, x <= y)                                                                                            \
    X(gt, x > y)                                                                                             \
    X(ge, x >= y)                                                                                            \
    X(equ, x == y || isnan(x) || isnan(y))                                                                   \
    X(neu, !(x == y))                                                                                        \
    X(ltu, !(x >= y))                                                                                        \
    X(leu, !(x > y))                                                                                         \
    X(gtu, !(x <= y))                                                                                        \
    X(geu, !(x < y))                                                                                         \
    X(num, !isnan(x) && !isnan(y))                                                                           \
    X(nan, isnan(x) || isnan(y))

/* --- functions --- */

#define EACH(statement)                                                                                      \
    do {                                                                                                     \
        for (int l = 0; l < PTX_LANES; l++) {                                                                \
            statement;                                                                                       \
        }                                                                                                    \
    } while (0)
#define HEAD(id) static void id(void *out, const void *a, const void *b, const void *c)

#define UNARY_FUNCTION(id, name, to, tx, result)                                                             \
    HEAD(id)                                                                                                 \
    {                                                                                                        \
        to *d = out;                                                                                         \
        const tx *xs = a;                                                                                    \
        (void)b, (void)c;                                                                                    \
        EACH(tx x = xs[l]; d[l] = (to)(result));                                                             \
    }
#define BINARY_FUNCTION(id, name, to, tx, ty, result)                                                        \
    HEAD(id)                                                                                                 \
    {                                                                                                        \
        to *d = out;                                                                                         \
        const tx *xs = a;                                                                                    \
        const ty *ys = b;                                                                                    \
        (void)c;                                                                                             \
        EACH(tx x = xs[l]; ty y = ys[l]; d[l] = (to)(result));                                               \
    }
#define TERNARY_FUNCTION(id, name, to, tx, ty, tz, result)                                                   \
    HEAD(id)                                                                                                 \
    {                                                                                                        \
        to *d = out;                                                                                         \
        const tx *xs = a;                                                                                    \
        const ty *ys = b;                                                                                    \
        const tz *zs = c;                                                                                    \
        EACH(tx x = xs[l]; ty y = ys[l]; tz z = zs[l]; d[l] = (to)(result));                                 \
    }
/* A value with fewer bits than its register is zero-extended, also a negative one. */
#define CONVERT_FUNCTION(to, place_to, value, from, place)                                                   \
    UNARY_FUNCTION(cvt_##to##_##from, , place_to, place, bits_##to((to)(from)x))
#define bits_u8(v) (u8)(v)
#define bits_s8(v) (u16)(v) /* a result of 8 bits fills a register of 16 */
#define bits_u16(v) (u16)(v)
#define bits_s16(v) (u16)(v)
#define bits_u32(v) (u32)(v)
#define bits_s32(v) (u32)(v)
#define bits_u64(v) (u64)(v)
#define bits_s64(v) (u64)(v)
#define INTEGER_FUNCTIONS(type, place, whole)                                                                \
    BINARY_FUNCTION(add_##type, , place, place, place, (whole)(x + y))                                       \
    BINARY_FUNCTION(sub_##type, , place, place, place, (whole)(x - y))                                       \
    BINARY_FUNCTION(mul_##type, , place, place, place, (whole)(x * y))                                       \
    BINARY_FUNCTION(div_##type, , place, place, place, (whole)divide_##type((type)x, (type)y))               \
    BINARY_FUNCTION(rem_##type, , place, place, place, (whole)remainder_##type((type)x, (type)y))            \
    BINARY_FUNCTION(min_##type, , place, place, place, (whole)((type)x < (type)y ? x : y))                   \
    BINARY_FUNCTION(max_##type, , place, place, place, (whole)((type)x > (type)y ? x : y))
/* Lanes that do not take part may have any divisor, also 0. */
#define DIVISIONS(type, place, whole)                                                                        \
    static inline type divide_##type(type x, type y)                                                         \
    {                                                                                                        \
        return (type)(y == 0 || (y == (type)-1 && (type)-1 < (type)1) ? (type)(0 - (whole)x)                 \
                                                                      : (type)(x / y));                      \
    }                                                                                                        \
    static inline type remainder_##type(type x, type y)                                                      \
    {                                                                                                        \
        return (type)(y == 0 || (y == (type)-1 && (type)-1 < (type)1) ? (type)0 : (type)(x % y));            \
    }
#define COMPARE_FUNCTION(id, symbol, type, place)                                                            \
    BINARY_FUNCTION(setp_##id##_##type, , u32, place, place, (type)x symbol(type) y)
#define COMPARE_F32_FUNCTION(id, result) BINARY_FUNCTION(setp_##id##_f32, , u32, f32, f32, result)
#define COMPARE_F64_FUNCTION(id, result) BINARY_FUNCTION(setp_##id##_f64, , u32, f64, f64, result)

UNARY(UNARY_FUNCTION)
BINARY(BINARY_FUNCTION)
TERNARY(TERNARY_FUNCTION)
INTEGERS(CONVERT_FUNCTION)
INTEGER_TYPES(DIVISIONS)
INTEGER_TYPES(INTEGER_FUNCTIONS)
INTEGER_COMPARISONS(COMPARE_FUNCTION)
FLOAT_COMPARISONS(COMPARE_F32_FUNCTION)
FLOAT_COMPARISONS(COMPARE_F64_FUNCTION)

/* --- table --- */

#define W(type) (sizeof(type) == 8 ? '2' : '1')
#define UNARY_ENTRY(id, name, to, tx, result) {name, id, {W(to), W(tx)}},
#define BINARY_ENTRY(id, name, to, tx, ty, result) {name, id, {W(to), W(tx), W(ty)}},
#define TERNARY_ENTRY(id, name, to, tx, ty, tz, result) {name, id, {W(to), W(tx), W(ty), W(tz)}},
#define CONVERT_ENTRY(to, place_to, value, from, place)                                                      \
    {"cvt." #to "." #from, cvt_##to##_##from, {W(place_to), W(place)}},
#define INTEGER_ENTRIES(type, place, whole)                                                                  \
    {"add." #type, add_##type, {W(place), W(place), W(place)}},                                              \
        {"sub." #type, sub_##type, {W(place), W(place), W(place)}},                                          \
        {"mul.lo." #type, mul_##type, {W(place), W(place), W(place)}},                                       \
        {"div." #type, div_##type, {W(place), W(place), W(place)}},                                          \
        {"rem." #type, rem_##type, {W(place), W(place), W(place)}},                                          \
        {"min." #type, min_##type, {W(place), W(place), W(place)}},                                          \
        {"max." #type, max_##type, {W(place), W(place), W(place)}},
#define COMPARE_ENTRY(id, symbol, type, place)                                                               \
    {"setp." #id "." #type, setp_##id##_##type, {'1', W(place), W(place)}},
#define COMPARE_F32_ENTRY(id, result) {"setp." #id ".f32", setp_##id##_f32, "111"},
#define COMPARE_F64_ENTRY(id, result) {"setp." #id ".f64", setp_##id##_f64, "122"},

static const ptx_entry entries[] = {
    UNARY(UNARY_ENTRY) BINARY(BINARY_ENTRY) TERNARY(TERNARY_ENTRY) INTEGERS(CONVERT_ENTRY)
        INTEGER_TYPES(INTEGER_ENTRIES) INTEGER_COMPARISONS(COMPARE_ENTRY) FLOAT_COMPARISONS(COMPARE_F32_ENTRY)
            FLOAT_COMPARISONS(COMPARE_F64_ENTRY)};

const ptx_entry *ptx_alu_find(const char *name)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}
