#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: mma wgmma tile older attention ops
#
# Every tile, layout and type of the kernels for NVIDIA GPUs as PTX on the host (tests/ptx); each part of the list is a test of its
# own. test_ptx_exec.sh is the short list.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"

case ${1:?which part} in
mma) # sm_80: all cases with each type, all forms with tails in all layouts. At edges sums are read one by one.
    count
    verified 350 'gemm.*[mma_*' --mode correct
    counted 'passes over the banks: to local memory' '^gemm_fwd_mma' 'store' 100
    counted 'passes over the banks: from local memory, edges too' '^gemm_fwd_mma' 'load matrix' 105
    count
    verified 3 'gemm.large_batch[mma*' --mode correct
    verified 9 'gemm.windows_large_*[mma_*' --mode correct
    counted 'passes over the banks: whole vectors' '^gemm_fwd_mma' 'load store matrix' 100
    # Layers of ResNet-50. Three channels do not fill a vector: each element is loaded separately.
    count
    verified 18 'gemm.windows_layer*[mma_*' --mode correct
    counted 'sectors and passes of layers' '^gemm_fwd_mma' 'matrix' 100
    for way in nt tn; do
        count
        verified 1 "gemm.windows_first_$way[mma_f16]" --mode correct
        counted 'sectors of the first layer' '^gemm_fwd_mma' 'read' 720
    done
    ;;
wgmma) # sm_90: all cases with both types, all forms in all layouts; those of 48 KiB of local memory, then all
    export CLTRAIN_PTX_SM=90
    verified 150 'gemm.*[wgmma_*' --mode correct
    export CLTRAIN_PTX_LOCAL_90A=232448 CLTRAIN_CACHE_DIR=$work/cache.large # what was asked of the smaller device is remembered
    seed=11 CLTRAIN_PTX_SEED=11 verified 52 'gemm.tails*[wgmma_*' --mode correct
    seed=13 CLTRAIN_PTX_SEED=13 verified 18 'gemm.*_stream*' --mode correct
    seed=12 CLTRAIN_PTX_SEED=12 verified 38 'gemm.windows_forms*[wgmma_*' --mode correct
    count
    verified 6 'gemm.windows_large_*[wgmma_*' --mode correct
    verified 12 'gemm.windows_layer*[wgmma_*' --mode correct
    counted 'sectors of copies and passes over the banks: windows' '^gemm_fwd_wgmma' 'load store matrix' 100
    ;;
tile)
    verified 150 'gemm.*[tile*' --mode correct
    count
    verified 1 'gemm.large_batch[tile]' --mode correct
    counted 'passes over the banks: whole vectors' '^gemm_fwd_tile' 'load store' 100
    ;;
older) # m16n8k8 without asynchronous copies, and wmma: the same list on devices that have nothing else
    export CLTRAIN_PTX_SM=75
    expect_code 0 "$CLTRAIN" devices
    expect_text 'caps .*mma_f16_k8'
    verified 70 'gemm.*[mma_f16*' --mode correct
    export CLTRAIN_PTX_SM=70
    expect_code 0 "$CLTRAIN" devices
    expect_text 'caps .*wmma_f16'
    verified 70 'gemm.*[mma_f16*' --mode correct
    ;;
attention)
    verified 22 'attention*[mma]' --mode correct
    verified 24 'attention*[mma_one]' --mode correct
    verified 24 'attention*[mma_one]' --mode bitwise
    verified 40 'attention*[group]' --mode correct
    seed=11 CLTRAIN_PTX_SEED=11 verified 5 'attention.f16*[mma]' --mode correct
    seed=12 CLTRAIN_PTX_SEED=12 verified 5 'attention.f16*[mma_one]' --mode correct
    count
    verified 1 'attention.f16_tuned[mma*' --mode correct
    counted 'passes over the banks: backward' '^attention_bwd_.*mma' 'load store matrix' 100
    ;;
ops) # every op as a GPU runs it: group and flat forms, and those that move elements
    count
    verified 100 '*[group]' --mode correct
    counted 'sectors of update and norm' '^(update_|layernorm_.*_(group|blocks))' 'read write' 110
    unset CLTRAIN_PTX_COUNTS
    verified 12 '*[blocks]' --mode correct
    verified 100 '*[flat]' --mode correct
    verified 100 '*[row]' --mode correct
    verified 100 '*[group],*[flat],*[blocks]' --small --mode bitwise
    ;;
esac
finish
