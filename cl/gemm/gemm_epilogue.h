/* SPDX-License-Identifier: Apache-2.0
 *
 * For backends that only multiply: what of a GEMM's epilogue can be done by a pass of its own over C, and
 * that pass. */
#ifndef CL_GEMM_EPILOGUE_H
#define CL_GEMM_EPILOGUE_H

#include "cl/gemm/gemm.h"

bool ocl_gemm_has_epilogue(const ocl_gemm *gemm);
/* Why the epilogue cannot follow the finished product, or NULL. */
const char *ocl_gemm_epilogue_refusal(const ocl_gemm *gemm);
/* C holds alpha * op(A) op(B) + beta * C; emits the rest. */
void ocl_gemm_emit_epilogue(ocl_emitter *emitter, const ocl_gemm *gemm);

#endif
