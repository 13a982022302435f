/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of sums, compiled for several instruction sets; the program chooses at run time. They are
 * plain C that compilers vectorise, and x86's f16 conversions (F16C) where the CPU has them. All give the
 * same bits, except the payload of NaNs. Nothing here knows of ranks. */
#include "comm/kernels.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX2 1
#include <cpuid.h>
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

INLINE uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* --- one element, without branches --- */

/* Multiplying by 2^112 corrects the exponent's bias, for subnormals too. */
INLINE float f16_value(uint16_t h)
{
    uint32_t bits = bits_of(float_of((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
    bits |= (h & 0x7c00) == 0x7c00 ? 0x7f800000U : 0U;
    return float_of(bits | (uint32_t)(h & 0x8000) << 16);
}

/* A subnormal f16 is a multiple of 2^-24, the distance between f32 numbers at 0.5, so adding 0.5 rounds to
 * one. Every other f16 loses 13 bits of the f32 mantissa. */
INLINE uint16_t f16_rounded(float f)
{
    uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffffU;
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000U;
    uint32_t normal = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
    half = magnitude >= 0x477ff000U ? 0x7c00U : half; /* 65520 and more */
    half = magnitude > 0x7f800000U ? 0x7e00U | (magnitude >> 13 & 0x3ffU) : half;
    return (uint16_t)(half | (bits >> 16 & 0x8000U));
}

INLINE float bf16_value(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

INLINE uint16_t bf16_rounded(float f)
{
    uint32_t bits = bits_of(f);
    uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    return (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? (bits >> 16) | 0x40U : rounded);
}

/* --- loops; `parts` is a constant in every place where this is inlined --- */

INLINE void add_parts(const float *const *part, int parts, int64_t count, float *restrict out)
{
    const float *p[COMM_MOST_ADDED];
    for (int k = 0; k < COMM_MOST_ADDED; k++)
        p[k] = part[k < parts ? k : 0];
    for (int64_t i = 0; i < count; i++) {
        float low = p[0][i] + p[1][i], high = 0;
        if (parts == 3)
            low += p[2][i];
        if (parts > 3)
            low += p[2][i] + p[3][i];
        if (parts > 4)
            high = p[4][i];
        if (parts > 5)
            high += p[5][i];
        if (parts == 7)
            high += p[6][i];
        if (parts > 7)
            high += p[6][i] + p[7][i];
        out[i] = parts > 4 ? low + high : low;
    }
}

INLINE void add(const float *const *part, int parts, int64_t count, float *restrict out)
{
    switch (parts) {
    case 1:
        memcpy(out, part[0], (size_t)count * sizeof *out);
        break;
    case 2:
        add_parts(part, 2, count, out);
        break;
    case 3:
        add_parts(part, 3, count, out);
        break;
    case 4:
        add_parts(part, 4, count, out);
        break;
    case 5:
        add_parts(part, 5, count, out);
        break;
    case 6:
        add_parts(part, 6, count, out);
        break;
    case 7:
        add_parts(part, 7, count, out);
        break;
    default:
        add_parts(part, COMM_MOST_ADDED, count, out);
    }
}

INLINE void widen_f16(const uint16_t *restrict half, int64_t count, float *restrict out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = f16_value(half[i]);
}

INLINE void narrow_f16(const float *restrict values, int64_t count, uint16_t *restrict out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = f16_rounded(values[i]);
}

INLINE void widen_bf16(const uint16_t *restrict half, int64_t count, float *restrict out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = bf16_value(half[i]);
}

INLINE void narrow_bf16(const float *restrict values, int64_t count, uint16_t *restrict out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = bf16_rounded(values[i]);
}

/* --- for the CPUs --- */

#define KERNELS(suffix, target, widen_half, narrow_half)                                                     \
    target static void add_##suffix(const float *const *part, int parts, int64_t count, float *restrict out) \
    {                                                                                                        \
        add(part, parts, count, out);                                                                        \
    }                                                                                                        \
    target static void widen_##suffix(const uint16_t *half, int64_t count, comm_type type, float *out)       \
    {                                                                                                        \
        if (type == COMM_F16)                                                                                \
            widen_half(half, count, out);                                                                    \
        else                                                                                                 \
            widen_bf16(half, count, out);                                                                    \
    }                                                                                                        \
    target static void narrow_##suffix(const float *values, int64_t count, comm_type type, uint16_t *out)    \
    {                                                                                                        \
        if (type == COMM_F16)                                                                                \
            narrow_half(values, count, out);                                                                 \
        else                                                                                                 \
            narrow_bf16(values, count, out);                                                                 \
    }                                                                                                        \
    static const comm_kernels kernels_##suffix = {#suffix, add_##suffix, widen_##suffix, narrow_##suffix};

KERNELS(portable, , widen_f16, narrow_f16)

#ifdef HAVE_AVX2
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 static void widen_f16c(const uint16_t *half, int64_t count, float *out)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(half + i))));
    widen_f16(half + i, count - i, out + i);
}

AVX2 static void narrow_f16c(const float *values, int64_t count, uint16_t *out)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i_u *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
    narrow_f16(values + i, count - i, out + i);
}

KERNELS(avx2, AVX2, widen_f16c, narrow_f16c)

static bool has_f16c(void) /* clang 14's __builtin_cpu_supports does not know f16c */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

const comm_kernels *comm_kernels_at(size_t index)
{
    const comm_kernels *all[] = {
#ifdef HAVE_AVX2
        __builtin_cpu_supports("avx2") && has_f16c() ? &kernels_avx2 : NULL,
#endif
        &kernels_portable,
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] && index-- == 0)
            return all[i];
    return NULL;
}
