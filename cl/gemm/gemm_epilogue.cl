/* SPDX-License-Identifier: Apache-2.0
 *
 * The epilogue of a GEMM as a separate pass over C, for library backends that only multiply. It rounds as
 * this project's own backends do, because it has the same code. Knows rows and columns, no GEMM.
 *
 * -D: the defines of gemm_epilogue.clh  -DLANE=1: one item per row of C, sixteen columns at a time */
#include "common.clh"
#include "lanes.clh"
#include "gemm_epilogue.clh"

/* C (batch,m,n) = epilogue(C); ldc, stride_c in elements. One item per element. */
__kernel void gemm_epilogue_fwd_flat(__global STORAGE(DTC) * c, ulong c_at EPILOGUE_PARAMS, uint m, uint n,
                                     ulong ldc, uint batch, ulong stride_c)
{
    const float alpha = 1.0f, beta = 0.0f; /* 1 and 0, because the library has applied alpha and beta */
    ulong id = get_global_id(0), row = id / n;
    if (row >= (ulong)m * batch)
        return;
    uint z = (uint)(row / m), j = (uint)(id - row * n);
    FINISH((uint)(row - (ulong)z * m), j,
           LOAD(DTC, c, c_at + (ulong)z * stride_c + (row - (ulong)z * m) * ldc + j));
}

/* One item per row. */
__kernel void gemm_epilogue_fwd_row(__global STORAGE(DTC) * c, ulong c_at EPILOGUE_PARAMS, uint m, uint n,
                                    ulong ldc, uint batch, ulong stride_c)
{
    const float alpha = 1.0f, beta = 0.0f;
    ulong row = get_global_id(0);
    if (row >= (ulong)m * batch)
        return;
    uint z = (uint)(row / m), i = (uint)(row - (ulong)z * m), j = 0;
    ulong first = c_at + (ulong)z * stride_c + (ulong)i * ldc;
    for (; j + LANES <= n; j += LANES)
        FINISH16(i, j, LOAD16(DTC, c, first + j));
    for (; j < n; j++)
        FINISH(i, j, LOAD(DTC, c, first + j));
}
