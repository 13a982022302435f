/* SPDX-License-Identifier: Apache-2.0
 *
 * The epilogue of a GEMM as a separate kernel after a library's call, so that a backend that only multiplies
 * accepts fused problems too. This file must not know the library. */
#include "cl/gemm/gemm_epilogue.h"

#include <stdio.h>

bool ocl_gemm_has_epilogue(const ocl_gemm *g)
{
    return ocl_given(g->bias) || ocl_given(g->residual) || g->activation != OCL_ACT_NONE;
}

static bool is_c(const ocl_gemm *g, ocl_tensor_ref ref)
{
    return ocl_given(ref) && ref.tensor == g->c.tensor && ref.offset == g->c.offset;
}

const char *ocl_gemm_epilogue_refusal(const ocl_gemm *g)
{
    if (is_c(g, g->residual) || is_c(g, g->dact))
        return "an operand of the epilogue lies in C, which the product overwrites";
    if (ocl_given(g->dact) && g->beta != 0.0f)
        return "the derivative must be applied before the old C is added, which a later pass cannot do";
    if (ocl_gemm_has_epilogue(g) && g->type_c != CLT_F32)
        return "the epilogue would start from a sum rounded to 16 bits";
    return NULL;
}

void ocl_gemm_emit_epilogue(ocl_emitter *e, const ocl_gemm *g)
{
    bool lane = ocl_prefers_lanes(e->device);
    uint64_t rows = (uint64_t)g->m * (uint64_t)g->batch, elements = rows * (uint64_t)g->n;
    ocl_kernel_begin(e, "gemm_epilogue", lane ? "gemm_epilogue_fwd_row" : "gemm_epilogue_fwd_flat");
    ocl_gemm_epilogue_defines(e, g);
    ocl_kernel_needs(e, lane ? OCL_CAP_WIDE_VECTORS : 0);
    ocl_arg_tensor(e, OCL_READ_WRITE, g->c, g->type_c, elements);
    ocl_gemm_epilogue_args(e, g);
    ocl_arg_u32(e, (uint32_t)g->m);
    ocl_arg_u32(e, (uint32_t)g->n);
    ocl_arg_u64(e, (uint64_t)g->ldc);
    ocl_arg_u32(e, (uint32_t)g->batch);
    ocl_arg_u64(e, (uint64_t)g->stride_c);
    ocl_kernel_end_items(e, lane ? rows : elements, lane ? 1 : 0, 0.0);
}
