/* SPDX-License-Identifier: Apache-2.0
 *
 * Probe kernels: each proves one capability by what it computes (cl/probes/probes.c checks the results). All
 * have the same first three parameters. A probe that needs more than OpenCL C 1.2 is compiled only if its
 * PROBE_ macro is set. Other compilers skip code that is for one compiler only; the probe then writes
 * ABSENT, which distinguishes a missing feature from a wrong result. This file must not include anything. */

/* The reason is in warnings.clh. */
#ifdef __has_warning
#if __has_warning("-Wpsabi")
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#endif

#define ABSENT 0x0ab5e17au

/* basic: out[0] = 1 when the compiler is NVIDIA's, out[i] = 3*in[i]+1. */
__kernel void probe_basic(__global const uint *in, __global uint *out, uint n)
{
    uint i = (uint)get_global_id(0);
#ifdef __NV_CL_C_VERSION
    uint nvidia = 1;
#else
    uint nvidia = 0;
#endif
    if (i < n)
        out[i] = i == 0 ? nvidia : 3u * in[i] + 1u;
}

/* local: every group reverses its items through local memory and sums them by a tree; out = 2 values per
 * item. */
__kernel void probe_local(__global const uint *in, __global uint *out, uint n)
{
    __local uint values[256];
    __local uint sums[256];
    uint l = (uint)get_local_id(0), size = (uint)get_local_size(0), i = (uint)get_global_id(0);
    values[l] = i < n ? in[i] : 0u;
    sums[l] = values[l];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = size / 2; half_size > 0; half_size /= 2) {
        if (l < half_size)
            sums[l] += sums[l + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < n) {
        out[2 * i] = values[size - 1 - l];
        out[2 * i + 1] = sums[0];
    }
}

#pragma option PROBE_LANES 0 /* 1: the program of the next two kernels, which the probe of lanes builds */
/* group and lane do the same arithmetic: a float per item, or a float16 per item with a sixteenth of the
 * items. n = number of rounds. */
__kernel void probe_group(__global const float *in, __global float *out, uint n)
{
    uint i = (uint)get_global_id(0);
    float x = in[i], a = x, b = x + 1.0f, c = x + 2.0f, d = x + 3.0f;
    for (uint k = 0; k < n; k++) {
        a = fma(a, 0.5f, x);
        b = fma(b, 0.5f, x);
        c = fma(c, 0.5f, x);
        d = fma(d, 0.5f, x);
    }
    out[i] = (a + b) + (c + d);
}

__kernel void probe_lane(__global const float *in, __global float *out, uint n)
{
    size_t i = get_global_id(0);
    float16 x = vload16(i, in), a = x, b = x + 1.0f, c = x + 2.0f, d = x + 3.0f;
    for (uint k = 0; k < n; k++) {
        a = fma(a, (float16)(0.5f), x);
        b = fma(b, (float16)(0.5f), x);
        c = fma(c, (float16)(0.5f), x);
        d = fma(d, (float16)(0.5f), x);
    }
    vstore16((a + b) + (c + d), i, out);
}

#ifdef PROBE_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
__kernel void probe_fp64(__global const double *in, __global double *out, uint n)
{
    uint i = (uint)get_global_id(0);
    if (i < n)
        out[i] = fma(in[i], in[i], 1.0) / 3.0;
}
#endif

#ifdef PROBE_FP16
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
__kernel void probe_fp16(__global const half *in, __global half *out, uint n)
{
    uint i = (uint)get_global_id(0);
    if (i < n)
        out[i] = in[i] * in[i] + in[i];
}
#endif

#ifdef PROBE_INT64_ATOMICS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
__kernel void probe_int64_atomics(__global const ulong *in, __global ulong *out, uint n)
{
    uint i = (uint)get_global_id(0);
    if (i < n)
        atom_add(&out[i & 1u], in[i]);
}
#endif

/* subgroups: out = 3 values per item: sum of `in` over its sub-group, the sub-group's index, its size. */
#ifdef PROBE_SUBGROUPS
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif
__kernel void probe_subgroups(__global const uint *in, __global uint *out, uint n)
{
    uint i = (uint)get_global_id(0);
    uint value = in[i];
    uint sum = sub_group_reduce_add(value);
    if (i < n) {
        out[3 * i] = sum;
        out[3 * i + 1] = get_sub_group_id();
        out[3 * i + 2] = get_sub_group_size();
    }
}
#endif

/* ptx: each lane reads its neighbour's value from the neighbour's register. */
#ifdef PROBE_PTX
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void probe_ptx(__global const uint *in,
                                                                        __global uint *out, uint n)
{
    uint i = (uint)get_global_id(0);
    uint value = in[i], other = ABSENT;
#ifdef __NV_CL_C_VERSION
    __asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value) : "memory");
#endif
    if (i < n)
        out[i] = other;
}
#endif

/* nontemporal: copies in[0..32n) to out, with non-temporal stores of the two vector types that kernels
 * use. */
#if defined(PROBE_NONTEMPORAL) || defined(PROBE_PREFETCH)
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define HAVE_NONTEMPORAL 1
#endif
#if __has_builtin(__builtin_prefetch)
#define HAVE_PREFETCH 1
#endif
#endif

void write_absent(__global uint *out)
{
    for (uint i = 0; i < 32; i++)
        out[i] = ABSENT;
}
#endif

#ifdef PROBE_NONTEMPORAL
__kernel void probe_nontemporal(__global const uint *in, __global uint *out, uint n)
{
    uint i = (uint)get_global_id(0);
    if (i >= n)
        return;
#ifdef HAVE_NONTEMPORAL
    __global float16 *y = (__global float16 *)(out + 32 * i);
    __global ushort16 *h = (__global ushort16 *)(out + 32 * i + 16);
    __builtin_nontemporal_store(as_float16(vload16(0, in + 32 * i)), y);
    __builtin_nontemporal_store(vload16(0, (const __global ushort *)(in + 32 * i + 16)), h);
    __builtin_nontemporal_store(vload16(1, (const __global ushort *)(in + 32 * i + 16)), h + 1);
#else
    write_absent(out + 32 * i);
#endif
}
#endif

/* prefetch: copies in[0..32n) to out, with prefetches as kernels use them: for reading, for writing, and
 * both beyond the end of the arrays. */
#ifdef PROBE_PREFETCH
__kernel void probe_prefetch(__global const uint *in, __global uint *out, uint n)
{
    uint i = (uint)get_global_id(0);
    if (i >= n)
        return;
#ifdef HAVE_PREFETCH
    __builtin_prefetch((const void *)(size_t)(in + 32 * (i + 1)), 0, 2);
    __builtin_prefetch((const void *)(size_t)(out + 32 * (i + 1)), 1, 3);
    for (uint k = 0; k < 32; k++)
        out[32 * i + k] = in[32 * i + k];
#else
    write_absent(out + 32 * i);
#endif
}
#endif

/* local_memory: uses n words of local memory, a static array. Each item combines words that its neighbour
 * wrote. */
#ifdef PROBE_LOCAL_KIB
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void probe_local_memory(__global const uint *in,
                                                                                 __global uint *out, uint n)
{
    __local uint words[PROBE_LOCAL_KIB * 256];
    uint l = (uint)get_local_id(0), other = (l + 1) % 64, sum = 0;
    for (uint w = l; w < n; w += 64)
        words[w] = in[l] ^ w;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = other; w < n; w += 64)
        sum = sum * 3u + words[w];
    out[l] = sum;
}
#endif

/* local_argument: the same, with n words of local memory that the host passes, in several groups. */
#ifdef PROBE_LOCAL_ARGUMENT
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void probe_local_argument(__global const uint *in,
                                                                                   __global uint *out, uint n,
                                                                                   __local uint *words)
{
    uint l = (uint)get_local_id(0), other = (l + 1) % 64, sum = (uint)get_group_id(0),
         item = (uint)get_global_id(0);
    for (uint w = l; w < n; w += 64)
        words[w] = in[item] ^ w;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = other; w < n; w += 64)
        sum = sum * 3u + words[w];
    out[item] = sum;
}
#endif

/* One m16n8k16 product: in = A (16,16), B (16,8), both 16-bit row-major; out = A B + 1 (16,8) f32.
 * Fragment layout: PTX ISA, "Matrix Fragments for mma.m16n8k16". */
#if defined(PROBE_MMA_F16) || defined(PROBE_MMA_BF16)
#ifdef PROBE_MMA_BF16
#define MMA_TYPE "bf16"
#else
#define MMA_TYPE "f16"
#endif
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void probe_mma(__global const ushort *in,
                                                                        __global float *out, uint n)
{
    uint lane = (uint)get_local_id(0), g = lane >> 2, t = lane & 3u;
    __global const ushort *a = in, *b = in + 256;
    uint a0 = a[g * 16 + 2 * t] | ((uint)a[g * 16 + 2 * t + 1] << 16);
    uint a1 = a[(g + 8) * 16 + 2 * t] | ((uint)a[(g + 8) * 16 + 2 * t + 1] << 16);
    uint a2 = a[g * 16 + 2 * t + 8] | ((uint)a[g * 16 + 2 * t + 9] << 16);
    uint a3 = a[(g + 8) * 16 + 2 * t + 8] | ((uint)a[(g + 8) * 16 + 2 * t + 9] << 16);
    uint b0 = b[(2 * t) * 8 + g] | ((uint)b[(2 * t + 1) * 8 + g] << 16);
    uint b1 = b[(2 * t + 8) * 8 + g] | ((uint)b[(2 * t + 9) * 8 + g] << 16);
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
#ifdef __NV_CL_C_VERSION
    c0 = c1 = c2 = c3 = 1.0f;
    __asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPE "." MMA_TYPE
                   ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                   "{%0,%1,%2,%3};"
                   : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
    if (n >= 128) {
        out[g * 8 + 2 * t] = c0;
        out[g * 8 + 2 * t + 1] = c1;
        out[(g + 8) * 8 + 2 * t] = c2;
        out[(g + 8) * 8 + 2 * t + 1] = c3;
    }
}
#endif

/* The same product of 16-bit f16 by two m16n8k8. */
#ifdef PROBE_MMA_F16_K8
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void probe_mma(__global const ushort *in,
                                                                        __global float *out, uint n)
{
    uint lane = (uint)get_local_id(0), g = lane >> 2, t = lane & 3u;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
#ifdef __NV_CL_C_VERSION
    __global const ushort *a = in, *b = in + 256;
    c0 = c1 = c2 = c3 = 1.0f;
    for (uint k = 0; k < 16; k += 8) {
        uint a0 = a[g * 16 + k + 2 * t] | ((uint)a[g * 16 + k + 2 * t + 1] << 16);
        uint a1 = a[(g + 8) * 16 + k + 2 * t] | ((uint)a[(g + 8) * 16 + k + 2 * t + 1] << 16);
        uint b0 = b[(k + 2 * t) * 8 + g] | ((uint)b[(k + 2 * t + 1) * 8 + g] << 16);
        __asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
            : "r"(a0), "r"(a1), "r"(b0));
    }
#endif
    if (n >= 128) {
        out[g * 8 + 2 * t] = c0;
        out[g * 8 + 2 * t + 1] = c1;
        out[(g + 8) * 8 + 2 * t] = c2;
        out[(g + 8) * 8 + 2 * t + 1] = c3;
    }
}
#endif

/* The same product of f32, rounded to tf32 by the device, by two m16n8k8. */
#ifdef PROBE_MMA_TF32
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void probe_mma(__global const float *in,
                                                                        __global float *out, uint n)
{
    uint lane = (uint)get_local_id(0), g = lane >> 2, t = lane & 3u;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
#ifdef __NV_CL_C_VERSION
    __global const float *a = in, *b = in + 256;
    c0 = c1 = c2 = c3 = 1.0f;
    for (uint k = 0; k < 16; k += 8) {
        uint f[6];
        float e[6] = {a[g * 16 + k + t],           a[(g + 8) * 16 + k + t], a[g * 16 + k + t + 4],
                      a[(g + 8) * 16 + k + t + 4], b[(k + t) * 8 + g],      b[(k + t + 4) * 8 + g]};
        for (int i = 0; i < 6; i++)
            __asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(f[i]) : "f"(e[i]));
        __asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                       "{%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                       : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(f[4]), "r"(f[5]));
    }
#endif
    if (n >= 128) {
        out[g * 8 + 2 * t] = c0;
        out[g * 8 + 2 * t + 1] = c1;
        out[(g + 8) * 8 + 2 * t] = c2;
        out[(g + 8) * 8 + 2 * t + 1] = c3;
    }
}
#endif

/* One wmma m16n16k16 product through local memory: in = A (16,16), B (16,16), both f16 row-major; out = A B
 * + 1 (16,16) f32. */
#ifdef PROBE_WMMA_F16
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void probe_mma(__global const ushort *in,
                                                                        __global float *out, uint n)
{
    __local ushort tiles[512] __attribute__((aligned(128)));
    __local float sums[256] __attribute__((aligned(128)));
    uint lane = (uint)get_local_id(0);
    for (uint i = lane; i < 512; i += 32)
        tiles[i] = in[i];
    for (uint i = lane; i < 256; i += 32)
        sums[i] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
#ifdef __NV_CL_C_VERSION
    uint at_a = (uint)(size_t)tiles, at_b = at_a + 512, at_c = (uint)(size_t)sums;
    uint a[8], b[8];
    float c[8] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    __asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], 16;"
                   : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]), "=r"(a[4]), "=r"(a[5]), "=r"(a[6]),
                     "=r"(a[7])
                   : "r"(at_a)
                   : "memory");
    __asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], 16;"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]), "=r"(b[4]), "=r"(b[5]), "=r"(b[6]),
                     "=r"(b[7])
                   : "r"(at_b)
                   : "memory");
    __asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                   "{%8,%9,%10,%11,%12,%13,%14,%15}, "
                   "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
                     "+f"(c[7])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
                     "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    __asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, 16;"
                   :
                   : "r"(at_c), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), "f"(c[5]), "f"(c[6]),
                     "f"(c[7])
                   : "memory");
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (n >= 256)
        for (uint i = lane; i < 256; i += 32)
            out[i] = sums[i];
}
#endif
