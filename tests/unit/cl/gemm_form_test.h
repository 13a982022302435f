/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the choice of tiles share: descriptions of GPUs of several generations, without a device, and
 * of products. */
#ifndef GEMM_FORM_TEST_H
#define GEMM_FORM_TEST_H

#include "cl/gemm/gemm.h"
#include "tests/unit/cl/cl_test.h"

/* A device as the probes of cl/probes/probes.c would describe a GPU of this generation. */
static inline ocl_device_desc gpu(int generation)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    d.is_gpu = true;
    d.is_cpu = false;
    d.compute_units = 108;
    d.local_bytes = d.local_proven_bytes = 48 << 10;
    d.max_work_group = 1024;
    d.caps = OCL_CAP_LOCAL | OCL_CAP_WG256;
    d.compute_capability = (uint32_t)generation;
    if (generation >= 80)
        d.caps |= OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16 | OCL_CAP_MMA_TF32;
    else if (generation >= 75)
        d.caps |= OCL_CAP_MMA_F16_K8;
    else if (generation >= 70)
        d.caps |= OCL_CAP_WMMA_F16;
    return d;
}

static inline ocl_gemm product(int64_t m, int64_t n, int64_t k, int layout, clt_dtype type)
{
    ocl_gemm g = ocl_gemm_make(m, n, k, layout >> 1, layout & 1);
    g.type_a = g.type_b = type;
    g.tf32 = type == CLT_F32;
    return g;
}

#endif
