/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in functions of OpenCL C, which clang's NVPTX target lacks. This small library is linked into
 * every program before the program is optimised, so that calls become the instructions that a driver's
 * compiler would choose. Functions that a device computes with its own library (exp, log and others) become
 * an instruction `library.*`, which only the executor knows. A call of a function that is missing here
 * remains a call, which the executor refuses to run. The file has one small function per line. */
/* clang-format off */
#define OVERLOAD __attribute__((overloadable, always_inline))

/* --- work-items --- */

#define SREG(name, d)                                                                                        \
    ((size_t)((d) == 0   ? __nvvm_read_ptx_sreg_##name##_x()                                                 \
              : (d) == 1 ? __nvvm_read_ptx_sreg_##name##_y()                                                 \
                         : __nvvm_read_ptx_sreg_##name##_z()))
size_t OVERLOAD get_local_id(uint d)
{
    return SREG(tid, d);
}
size_t OVERLOAD get_group_id(uint d)
{
    return SREG(ctaid, d);
}
size_t OVERLOAD get_local_size(uint d)
{
    return SREG(ntid, d);
}
size_t OVERLOAD get_num_groups(uint d)
{
    return SREG(nctaid, d);
}
size_t OVERLOAD get_global_id(uint d)
{
    return SREG(ctaid, d) * SREG(ntid, d) + SREG(tid, d);
}
size_t OVERLOAD get_global_size(uint d)
{
    return SREG(nctaid, d) * SREG(ntid, d);
}
void OVERLOAD __attribute__((convergent)) barrier(uint flags)
{
    (void)flags;
    __syncthreads();
}
void OVERLOAD mem_fence(uint flags)
{
    (void)flags;
    __nvvm_membar_gl();
}

/* --- scalars and vectors, element by element --- */

#define EACH(n, statement)                                                                                   \
    _Pragma("unroll") for (int i = 0; i < n; i++) {                                                                            \
        statement;                                                                                           \
    }
#define MAP1(name, to, from)                                                                                 \
    to##2 OVERLOAD name(from##2 a) { to##2 r; EACH(2, r[i] = name(a[i])) return r; }                         \
    to##4 OVERLOAD name(from##4 a) { to##4 r; EACH(4, r[i] = name(a[i])) return r; }                         \
    to##8 OVERLOAD name(from##8 a) { to##8 r; EACH(8, r[i] = name(a[i])) return r; }                         \
    to##16 OVERLOAD name(from##16 a) { to##16 r; EACH(16, r[i] = name(a[i])) return r; }
#define MAP2(name, type)                                                                                     \
    type##2 OVERLOAD name(type##2 a, type##2 b) { EACH(2, a[i] = name(a[i], b[i])) return a; }               \
    type##4 OVERLOAD name(type##4 a, type##4 b) { EACH(4, a[i] = name(a[i], b[i])) return a; }               \
    type##8 OVERLOAD name(type##8 a, type##8 b) { EACH(8, a[i] = name(a[i], b[i])) return a; }               \
    type##16 OVERLOAD name(type##16 a, type##16 b) { EACH(16, a[i] = name(a[i], b[i])) return a; }
#define MAP3(name, type)                                                                                     \
    type##2 OVERLOAD name(type##2 a, type##2 b, type##2 c) { EACH(2, a[i] = name(a[i], b[i], c[i])) return a; } \
    type##4 OVERLOAD name(type##4 a, type##4 b, type##4 c) { EACH(4, a[i] = name(a[i], b[i], c[i])) return a; } \
    type##8 OVERLOAD name(type##8 a, type##8 b, type##8 c) { EACH(8, a[i] = name(a[i], b[i], c[i])) return a; } \
    type##16 OVERLOAD name(type##16 a, type##16 b, type##16 c) { EACH(16, a[i] = name(a[i], b[i], c[i])) return a; }

#define UNARY(name, expression)                                                                              \
    float OVERLOAD name(float a) { return expression; }                                                      \
    MAP1(name, float, float)
#define BINARY(name, expression)                                                                             \
    float OVERLOAD name(float a, float b) { return expression; }                                             \
    MAP2(name, float)
UNARY(fabs, __builtin_fabsf(a))
UNARY(sqrt, __nvvm_sqrt_rn_f(a))
UNARY(rsqrt, __nvvm_rsqrt_approx_f(a))
UNARY(ceil, __builtin_ceilf(a))
UNARY(floor, __builtin_floorf(a))
UNARY(rint, __builtin_rintf(a))
UNARY(trunc, __builtin_truncf(a))
BINARY(fmin, __builtin_fminf(a, b))
BINARY(fmax, __builtin_fmaxf(a, b))
BINARY(copysign, __builtin_copysignf(a, b))
float OVERLOAD fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
MAP3(fma, float)
float OVERLOAD mad(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
MAP3(mad, float)
double OVERLOAD fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

#define LIBRARY(name)                                                                                        \
    float OVERLOAD name(float a)                                                                             \
    {                                                                                                        \
        float r;                                                                                             \
        __asm("library." #name ".f32 %0, %1;" : "=f"(r) : "f"(a));                                           \
        return r;                                                                                            \
    }                                                                                                        \
    MAP1(name, float, float)
LIBRARY(exp)
LIBRARY(exp2)
LIBRARY(log)
LIBRARY(log2)
LIBRARY(tanh)
LIBRARY(sinpi)
LIBRARY(cospi)
#define NATIVE(name, instruction)                                                                            \
    float OVERLOAD name(float a)                                                                             \
    {                                                                                                        \
        float r;                                                                                             \
        __asm(instruction ".f32 %0, %1;" : "=f"(r) : "f"(a));                                                \
        return r;                                                                                            \
    }
NATIVE(native_exp2, "ex2.approx")
NATIVE(native_log2, "lg2.approx")
NATIVE(native_recip, "rcp.approx")
NATIVE(native_rsqrt, "rsqrt.approx")
NATIVE(native_sqrt, "sqrt.approx")
float OVERLOAD native_exp(float a)
{
    return native_exp2(a * 1.44269504f);
}
float OVERLOAD native_divide(float a, float b)
{
    float r;
    __asm("div.approx.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

/* --- integers --- */

#define INTEGER(type)                                                                                        \
    type OVERLOAD min(type a, type b) { return a < b ? a : b; }                                              \
    type OVERLOAD max(type a, type b) { return a > b ? a : b; }                                              \
    type OVERLOAD clamp(type a, type low, type high) { return a < low ? low : a > high ? high : a; }
INTEGER(char) INTEGER(uchar) INTEGER(short) INTEGER(ushort) INTEGER(int) INTEGER(uint) INTEGER(long) INTEGER(ulong)
#define INTEGER_VECTORS(type) MAP2(min, type) MAP2(max, type) MAP3(clamp, type)
INTEGER_VECTORS(int) INTEGER_VECTORS(uint) INTEGER_VECTORS(ushort)
float OVERLOAD min(float a, float b) { return b < a ? b : a; }
float OVERLOAD max(float a, float b) { return a < b ? b : a; }
float OVERLOAD clamp(float a, float low, float high) { return __builtin_fminf(__builtin_fmaxf(a, low), high); }
MAP2(min, float) MAP2(max, float) MAP3(clamp, float)
uint OVERLOAD mul_hi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }
MAP2(mul_hi, uint)
ulong OVERLOAD mul_hi(ulong a, ulong b) { return (ulong)(((unsigned __int128)a * b) >> 64); }
uint OVERLOAD popcount(uint a) { return (uint)__builtin_popcount(a); }
uint OVERLOAD clz(uint a) { return a ? (uint)__builtin_clz(a) : 32; }

/* --- comparisons and choices --- */

int OVERLOAD isnan(float a) { return a != a; }
int OVERLOAD isinf(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
int OVERLOAD isfinite(float a) { return __builtin_fabsf(a) < __builtin_inff(); }
#define COMPARE(name, symbol)                                                                                \
    int OVERLOAD name(float a, float b) { return a symbol b; }                                               \
    int2 OVERLOAD name(float2 a, float2 b) { return a symbol b; }                                            \
    int4 OVERLOAD name(float4 a, float4 b) { return a symbol b; }                                            \
    int8 OVERLOAD name(float8 a, float8 b) { return a symbol b; }                                            \
    int16 OVERLOAD name(float16 a, float16 b) { return a symbol b; }
COMPARE(isequal, ==) COMPARE(isgreater, >) COMPARE(isgreaterequal, >=) COMPARE(isless, <) COMPARE(islessequal, <=)
#define SELECT(type, by)                                                                                     \
    type OVERLOAD select(type a, type b, by c) { return c ? b : a; }
#define SELECT_VECTOR(type, by, n)                                                                           \
    type##n OVERLOAD select(type##n a, type##n b, by##n c) { EACH(n, a[i] = c[i] < 0 ? b[i] : a[i]) return a; }
#define SELECT_VECTORS(type, by) SELECT_VECTOR(type, by, 2) SELECT_VECTOR(type, by, 4) SELECT_VECTOR(type, by, 8) SELECT_VECTOR(type, by, 16)
SELECT(float, int) SELECT(int, int) SELECT(uint, int) SELECT(float, uint) SELECT(int, uint) SELECT(uint, uint) SELECT(ulong, long)
SELECT_VECTORS(float, int) SELECT_VECTORS(int, int) SELECT_VECTORS(uint, int) SELECT_VECTORS(ushort, short)
int OVERLOAD any(int a) { return a < 0; }
#define ANY(n) int OVERLOAD any(int##n a) { int r = 0; EACH(n, r |= a[i]) return r < 0; }
ANY(2) ANY(4) ANY(8) ANY(16)
#define ALL(n) int OVERLOAD all(int##n a) { int r = -1; EACH(n, r &= a[i]) return r < 0; }
ALL(2) ALL(4) ALL(8) ALL(16)

#define SHUFFLE(type, by, n)                                                                                 \
    type##n OVERLOAD shuffle(type##n a, by##n pick) { type##n r; EACH(n, r[i] = a[pick[i] & (n - 1)]) return r; }
#define SHUFFLE2(type, by, n)                                                                                \
    type##n OVERLOAD shuffle2(type##n a, type##n b, by##n pick)                                              \
    { type##n r; EACH(n, r[i] = (pick[i] & n) ? b[pick[i] & (n - 1)] : a[pick[i] & (n - 1)]) return r; }
SHUFFLE2(ulong, ulong, 8) SHUFFLE2(uint, uint, 8) SHUFFLE2(float, uint, 8)
SHUFFLE(float, uint, 16) SHUFFLE(uint, uint, 16) SHUFFLE(ushort, ushort, 16)

/* --- conversions --- */

#define CONVERT(to, from)                                                                                    \
    to OVERLOAD convert_##to(from a) { return (to)a; }                                                       \
    to##2 OVERLOAD convert_##to##2(from##2 a) { return __builtin_convertvector(a, to##2); }                  \
    to##4 OVERLOAD convert_##to##4(from##4 a) { return __builtin_convertvector(a, to##4); }                  \
    to##8 OVERLOAD convert_##to##8(from##8 a) { return __builtin_convertvector(a, to##8); }                  \
    to##16 OVERLOAD convert_##to##16(from##16 a) { return __builtin_convertvector(a, to##16); }
#define CONVERT_TO(to) CONVERT(to, uchar) CONVERT(to, ushort) CONVERT(to, short) CONVERT(to, int) CONVERT(to, uint) CONVERT(to, ulong) CONVERT(to, float)
CONVERT_TO(float) CONVERT_TO(uint) CONVERT_TO(int) CONVERT_TO(ushort) CONVERT_TO(uchar) CONVERT_TO(ulong)

/* --- memory --- */

/* Vectors in memory have only the alignment of their elements. */
#define VECTOR(type, n, space)                                                                               \
    type##n OVERLOAD vload##n(size_t k, const space type *p) { type##n r; EACH(n, r[i] = p[k * n + i]) return r; } \
    void OVERLOAD vstore##n(type##n v, size_t k, space type *p) { EACH(n, p[k * n + i] = v[i]) }
#define VECTOR_SPACES(type, n) VECTOR(type, n, __global) VECTOR(type, n, __local) VECTOR(type, n, __private)
#define VECTORS(type) VECTOR_SPACES(type, 2) VECTOR_SPACES(type, 4) VECTOR_SPACES(type, 8) VECTOR_SPACES(type, 16)
VECTORS(float) VECTORS(uint) VECTORS(int) VECTORS(ushort) VECTORS(short) VECTORS(uchar) VECTORS(ulong) VECTORS(char)

float half_value(ushort h)
{
    float f;
    __asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
ushort half_bits(float f)
{
    ushort h;
    __asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
/* Values of type half are only accessed through pointers; each has two bytes. */
#define HALF(space)                                                                                          \
    float OVERLOAD vload_half(size_t k, const space half *p) { return half_value(((const space ushort *)p)[k]); } \
    void OVERLOAD vstore_half(float v, size_t k, space half *p) { ((space ushort *)p)[k] = half_bits(v); }   \
    void OVERLOAD vstore_half_rte(float v, size_t k, space half *p) { ((space ushort *)p)[k] = half_bits(v); }
HALF(__global) HALF(__local) HALF(__private)
#define HALF_VECTOR(n, space)                                                                                \
    float##n OVERLOAD vload_half##n(size_t k, const space half *p)                                           \
    { float##n r; EACH(n, r[i] = half_value(((const space ushort *)p)[k * n + i])) return r; }               \
    void OVERLOAD vstore_half##n##_rte(float##n v, size_t k, space half *p)                                  \
    { EACH(n, ((space ushort *)p)[k * n + i] = half_bits(v[i])) }                                            \
    void OVERLOAD vstore_half##n(float##n v, size_t k, space half *p)                                        \
    { EACH(n, ((space ushort *)p)[k * n + i] = half_bits(v[i])) }
#define HALF_VECTORS(n) HALF_VECTOR(n, __global) HALF_VECTOR(n, __local) HALF_VECTOR(n, __private)
HALF_VECTORS(2) HALF_VECTORS(4) HALF_VECTORS(8) HALF_VECTORS(16)

/* --- atomic operations --- */

#define ATOMIC(name, type, word, space, instruction)                                                         \
    type OVERLOAD name(volatile space type *p, type v)                                                       \
    {                                                                                                        \
        type r;                                                                                              \
        __asm volatile(instruction " %0, [%1], %2;" : "=" word(r) : "l"(p), word(v) : "memory");             \
        return r;                                                                                            \
    }
#define ATOMICS(type, name, space, place)                                                                    \
    ATOMIC(atomic_add, type, "r", space, "atom." place ".add." name)                                         \
    ATOMIC(atomic_xchg, type, "r", space, "atom." place ".exch.b32")                                         \
    ATOMIC(atomic_max, type, "r", space, "atom." place ".max." name)                                         \
    ATOMIC(atomic_min, type, "r", space, "atom." place ".min." name)                                         \
    ATOMIC(atomic_or, type, "r", space, "atom." place ".or.b32")                                             \
    type OVERLOAD atomic_inc(volatile space type *p) { return atomic_add(p, (type)1); }                      \
    type OVERLOAD atomic_dec(volatile space type *p) { return atomic_add(p, (type)-1); }
ATOMICS(int, "s32", __global, "global")
ATOMICS(uint, "u32", __global, "global")
ATOMICS(int, "s32", __local, "shared")
ATOMICS(uint, "u32", __local, "shared")
ATOMIC(atom_add, ulong, "l", __global, "atom.global.add.u64")
ATOMIC(atom_add, long, "l", __global, "atom.global.add.u64")
