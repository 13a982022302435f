/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for backends that only multiply. They decide whether a GEMM's epilogue can be a separate pass
 * over C, and emit that pass. */
#ifndef CL_GEMM_GEMM_EPILOGUE_H
#define CL_GEMM_GEMM_EPILOGUE_H

#include "cl/gemm/gemm.h"

bool ocl_gemm_has_epilogue(const ocl_gemm *gemm);
/* The reason why the epilogue cannot be a separate pass after the product, or NULL. */
const char *ocl_gemm_epilogue_refusal(const ocl_gemm *gemm);
/* Emits the epilogue for a C that already holds alpha * op(A) op(B) + beta * C. */
void ocl_gemm_emit_epilogue(ocl_emitter *emitter, const ocl_gemm *gemm);

#endif
